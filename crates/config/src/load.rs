//! From a file's name to a `Config`, or to everything that is wrong with it.
//!
//! Promises PgBouncer's order of things: the last assignment wins, `[pgbouncer]` begins anew from the defaults each
//! time it appears, an entry of `[databases]` replaces an earlier one of that name, relative paths start at the working
//! directory, and an auth_file that cannot be read is a warning. A class_file that is wrong somewhere, or cannot be read, is
//! an error: whose work goes first is not left to what half of it says, so a reload keeps all that was.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

use auth::Secret;
use connections::databases::Database;
use machine::Settings;
use queueing::classes::{CLASSES_MAX, Classes};

use crate::built::Built;
use crate::config::{Config, assemble};
use crate::entry::Entry;
use crate::ini::{self, FILE_BYTES_MAX, Item, Read, Reader};
use crate::problem::{PROBLEMS_MAX, Place, Problem, Severity, quoted};
use crate::settings::{self, Values};
use crate::{access, databases, hints, reach, rules, sense, support, userlist, users};
use ::settings::value::{Kind, Value};
use ::settings::{Key, TABLE, table};

const SECTIONS: [&str; 5] = ["pgbouncer", "databases", "users", "peers", "classes"];

/// Reads a file and what it names. `cores` is what `workers = 0` stands for; what it asks for that this program was not `built`
/// with is a mistake. The error is all that is wrong with it, warnings too, in the order of the file.
pub fn load(path: &Path, cores: u16, built: Built) -> Result<Config, Vec<Problem>> {
    let name = path.to_string_lossy();
    load_with(&name, cores, built, &read_file)
}

/// The same from a reader of one's own, which gets every file's name as it is written.
pub fn load_with(name: &str, cores: u16, built: Built, read: &Read) -> Result<Config, Vec<Problem>> {
    finish(parse(name, built, read), cores, read, None)
}

/// Reads a file that may have mistakes. Returns the configuration without them, and all problems. An entry with a mistake is left out; a setting with a
/// mistake has its default. `None`: the file has no section `[pgbouncer]`.
pub fn load_without_mistakes(path: &Path, cores: u16, built: Built) -> (Option<Config>, Vec<Problem>) {
    let draft = parse(&path.to_string_lossy(), built, &read_file);
    let has_main_section = draft.has_main_section;
    let (config, problems) = compile(draft, cores, &read_file, None);
    (has_main_section.then_some(config), problems)
}

impl Config {
    /// Reads the file again, as RELOAD does: what cannot change while the process runs stays as it is, with a warning
    /// for each setting that the file has changed, and so do the users if auth_file cannot be read. A `SET` is undone.
    pub fn reload(&self) -> Result<Config, Vec<Problem>> {
        self.reload_with(&read_file)
    }

    /// The same from a reader of one's own.
    pub fn reload_with(&self, read: &Read) -> Result<Config, Vec<Problem>> {
        self.reloaded(parse(&self.pooling.global.listening.conffile, self.values.built, read), read)
    }

    /// What comes after this configuration in a process that runs: what cannot change stays.
    pub(crate) fn reloaded(&self, mut draft: Draft, read: &Read) -> Result<Config, Vec<Problem>> {
        for setting in TABLE.iter().filter(|setting| !setting.reloadable) {
            let (running, wanted) = (self.values.get(setting.key), draft.values.get(setting.key));
            if running == wanted {
                continue;
            }
            let place = draft.values.place(setting.key).cloned().unwrap_or_else(|| self.whole_file());
            let found = quoted(&wanted.show());
            let expected = format!("{} until the next restart", quoted(&running.show()));
            draft.problems.push(Problem::warning(&place, setting.name, found, expected));
            draft.values.set(setting.key, running.clone(), Some(place));
        }
        let mut config = finish(draft, self.pooling.workers, read, Some(&self.pooling))?;
        config.pooling.auto_pool_size_start = self.pooling.auto_pool_size_start;
        Ok(config)
    }

    /// The configuration with one setting changed, as SET does. What cannot change while the process runs is accepted
    /// and stays as it is. If it names a file, that one is read. Its warnings are those of this change.
    pub fn set(&self, name: &str, text: &str) -> Result<Config, Problem> {
        self.set_with(name, text, &read_file)
    }

    /// The same with a reader of one's own.
    pub fn set_with(&self, name: &str, text: &str, read: &Read) -> Result<Config, Problem> {
        let mut draft = Draft { values: self.values.clone(), ..Draft::default() };
        draft.setting(Place::default(), name, text);
        draft.problems.extend(support::judge(&draft.values, None));
        let errors = |problem: &Problem| problem.severity == Severity::Error;
        if let Some(problem) = draft.problems.into_iter().find(errors) {
            return Err(problem);
        }
        if table::find(name).is_some_and(|setting| !setting.reloadable) {
            return Ok(self.clone());
        }
        let mut pooling = settings::pooling(&draft.values, self.pooling.workers);
        // It follows from the cores, which are what they were.
        pooling.auto_pool_size_start = self.pooling.auto_pool_size_start;
        pooling.databases = self.pooling.databases.clone();
        pooling.fallback = self.pooling.fallback.clone();
        pooling.users = self.pooling.users.clone();
        pooling.secrets = self.pooling.secrets.clone();
        pooling.peers = self.pooling.peers.clone();
        pooling.hba = Arc::clone(&self.pooling.hba);
        pooling.ident = Arc::clone(&self.pooling.ident);
        let mut problems = Vec::new();
        let key = table::find(name).map(|setting| setting.key);
        if key == Some(Key::auth_file)
            && let Some(users) = auth_file(&draft.values, read, &mut problems)
        {
            pooling.secrets = users;
            pooling.secrets.extend(draft.values.url_users.clone());
        }
        if matches!(key, Some(Key::auth_hba_file | Key::auth_ident_file)) {
            access::read(&mut pooling, &draft.values, Some(&self.pooling), read, &mut problems);
        } else {
            problems.extend(access::outside(&mut pooling, &draft.values));
            problems.extend(access::without_rules(&pooling, &draft.values));
        }
        if let Some(at) = problems.iter().position(errors) {
            return Err(problems.swap_remove(at));
        }
        let classes = Classes::clone(&self.pooling.classes);
        pooling.classes = Arc::new(Classes { ageing: settings::ageing(&pooling.global), ..classes });
        let first_database = self.first_database.clone();
        Ok(Config { first_database, ..assemble(draft.values, pooling, problems) })
    }
}

/// The words of the file, before they are taken together.
fn parse(name: &str, built: Built, read: &Read) -> Draft {
    let mut reader = Reader::new(read);
    let whole_file = Place { file: String::new(), line: 0 };
    reader.file(name, &whole_file, 0);
    let mut draft = Draft { problems: std::mem::take(&mut reader.problems), ..Draft::default() };
    for (place, item) in reader.items {
        draft.take(place, item);
        let is_error = |problem: &Problem| problem.severity == Severity::Error;
        if draft.problems.len() >= PROBLEMS_MAX && draft.problems.iter().any(is_error) {
            break;
        }
    }
    if draft.problems.is_empty() && !draft.has_main_section {
        let place = Place { file: name.to_owned(), line: 0 };
        let found = "no such section".to_owned();
        let expected = "a section [pgbouncer], if only an empty one".to_owned();
        draft.problems.push(Problem::error(&place, "[pgbouncer]", found, expected));
    }
    draft.values.built = built;
    draft.values.set(Key::conffile, Value::Text(name.to_owned()), None);
    draft
}

/// How [`load`] reads: at most a little more than may be read, so that `ini` can tell. A name that ends in a slash is a folder: what
/// is in it, a name a line.
///
/// # Errors
/// The system's.
pub fn read_file(name: &str) -> io::Result<Vec<u8>> {
    if name.ends_with('/') {
        let names: io::Result<Vec<_>> = fs::read_dir(name)?.map(|entry| Ok(entry?.file_name())).collect();
        return Ok(names?.iter().flat_map(|name| [name.as_encoded_bytes(), b"\n"].concat()).collect());
    }
    let limit = u64::try_from(FILE_BYTES_MAX).expect("the limit is small") + 1;
    let mut bytes = Vec::new();
    File::open(name)?.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// What has been read so far.
#[derive(Default)]
pub(crate) struct Draft {
    section: Option<&'static str>,
    /// Inside an unknown section: its lines would only repeat the message.
    is_skipping: bool,
    has_main_section: bool,
    pub(crate) values: Values,
    databases: BTreeMap<String, Entry>,
    /// Databases that URLs name.
    pub(crate) url_databases: Vec<Database>,
    users: BTreeMap<String, Entry>,
    peers: BTreeMap<String, Entry>,
    /// In the order of the file.
    classes: Vec<Entry>,
    pub(crate) problems: Vec<Problem>,
}

impl Draft {
    fn take(&mut self, place: Place, item: Item) {
        match item {
            Item::Section(name) => self.begin(&place, &name),
            Item::Assignment { key, value } => self.assign(place, key, value),
        }
    }

    fn begin(&mut self, place: &Place, name: &str) {
        self.section = SECTIONS.iter().find(|section| **section == name).copied();
        self.is_skipping = self.section.is_none();
        if self.is_skipping {
            let key = format!("[{name}]");
            let known = SECTIONS.map(|section| format!("[{section}]"));
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            let what = "[pgbouncer], [databases], [users], [peers] or [classes]";
            self.problems.push(Problem::unknown(place, &key, what, &known));
        }
        if self.section == Some("pgbouncer") {
            self.has_main_section = true;
            self.restart(place);
        }
    }

    fn restart(&mut self, place: &Place) {
        let lost = self.values.restart();
        if lost.is_empty() {
            return;
        }
        let expected =
            format!("one only: as in PgBouncer it starts from the defaults, so these are lost: {}", lost.join(", "));
        let found = "this section again".to_owned();
        self.problems.push(Problem::warning(place, "[pgbouncer]", found, expected));
    }

    fn assign(&mut self, place: Place, key: String, value: String) {
        let entry = |section, name, text| Entry { place: place.clone(), section, name, text };
        match self.section {
            Some("databases") => self.replace(entry("databases", key, value), |draft| &mut draft.databases),
            Some("users") => self.replace(entry("users", key, value), |draft| &mut draft.users),
            Some("peers") => self.replace(entry("peers", key, value), |draft| &mut draft.peers),
            Some("classes") => {
                let before = self.classes.iter().find(|class| class.name == key);
                if let Some((before, name)) = before.map(|class| (class.place.clone(), class.key(""))) {
                    self.twice(&before, &place, &name);
                }
                self.classes.retain(|class| class.name != key);
                // One too many suffices for the report.
                if self.classes.len() <= CLASSES_MAX {
                    self.classes.push(entry("classes", key, value));
                }
            }
            Some(_) => self.setting(place, &key, &value),
            None if self.is_skipping => {}
            None => {
                let found = "a setting before any section".to_owned();
                self.problems.push(Problem::error(&place, &key, found, "[pgbouncer] above it".to_owned()));
            }
        }
    }

    /// The same name once more: as in PgBouncer the last one counts. One file may change what another one says.
    fn twice(&mut self, before: &Place, place: &Place, key: &str) {
        // Warnings alone never end the reading.
        if before.file == place.file && !place.file.is_empty() && self.problems.len() < PROBLEMS_MAX {
            let expected = format!("one: the last one counts, and line {} has no effect", before.line);
            self.problems.push(Problem::warning(place, key, "a second one".to_owned(), expected));
        }
    }

    fn replace(&mut self, entry: Entry, entries: impl Fn(&mut Draft) -> &mut BTreeMap<String, Entry>) {
        let (key, place) = (entry.key(""), entry.place.clone());
        if let Some(before) = entries(self).insert(entry.name.clone(), entry) {
            self.twice(&before.place, &place, &key);
        }
    }

    pub(crate) fn setting(&mut self, place: Place, name: &str, text: &str) {
        let Some(setting) = table::find(name) else {
            let what = "a setting of [pgbouncer]";
            let problem = match hints::of_name(name) {
                Some(hint) => Problem::error(&place, name, "an unknown name".to_owned(), format!("{what}; {hint}")),
                None => Problem::unknown(&place, name, what, &table::known_names()),
            };
            return self.problems.push(problem);
        };
        if text.is_empty() && !setting.kind.takes_empty() {
            return self.values.set(setting.key, setting.default_value(), None);
        }
        if let Some(before) = self.values.place(setting.key).cloned() {
            self.twice(&before, &place, name);
        }
        match setting.kind.read(text) {
            Ok(value) => self.values.set(setting.key, value, Some(place)),
            Err(expected) => {
                let hint = hints::of_value(setting.kind, text).map(|hint| format!("; {hint}"));
                let expected = expected + &hint.unwrap_or_default();
                let found = match setting.kind {
                    // A header may hold an API key.
                    Kind::HttpHeaders => "something else".to_owned(),
                    _ => quoted(text),
                };
                self.problems.push(Problem::error(&place, name, found, expected));
            }
        }
    }
}

/// `old` are the settings so far: users and rules of files that cannot be read stay.
pub(crate) fn finish(draft: Draft, cores: u16, read: &Read, old: Option<&Settings>) -> Result<Config, Vec<Problem>> {
    let (config, problems) = compile(draft, cores, read, old);
    if problems.iter().any(|problem| problem.severity == Severity::Error) {
        return Err(problems);
    }
    Ok(Config { warnings: problems, ..config })
}

/// Makes the configuration from a draft. Returns it without the mistakes, and all problems in the order of the file.
fn compile(mut draft: Draft, cores: u16, read: &Read, old: Option<&Settings>) -> (Config, Vec<Problem>) {
    let values = &draft.values;
    let problems = &mut draft.problems;
    let own_peer = values.get(Key::peer_id).show();
    let mut others = draft.peers.values().filter(|peer| peer.name != own_peer);
    problems.extend(support::judge(values, others.next().map(|peer| &peer.place)));
    let mut settings = settings::pooling(values, cores);
    let pools = &settings.global.pools;
    let by_default = pools.default_pool_size.most(pools).max(1);
    settings.peers = draft.peers.values().filter_map(|peer| users::read_peer(peer, by_default, problems)).collect();
    let of_file = draft.databases.values();
    let of_file = of_file.filter_map(|entry| databases::read(entry, values.text(Key::unix_socket_dir), read, problems));
    let of_file: Vec<Database> = of_file.collect();
    for database in of_file.into_iter().chain(draft.url_databases.drain(..)) {
        if database.name == "*" {
            settings.fallback = Some(Arc::new(database));
        } else {
            settings.databases.insert(database.name.clone(), Arc::new(database));
        }
    }
    for entry in draft.users.values() {
        settings.users.insert(entry.name.clone(), users::read(entry, problems));
    }
    let users = auth_file(values, read, problems);
    let has_users = users.is_some();
    settings.secrets = users.unwrap_or_else(|| old.map(|old| old.secrets.clone()).unwrap_or_default());
    settings.secrets.extend(values.url_users.clone());
    access::read(&mut settings, values, old, read, problems);
    settings.classes = classes(&draft.classes, values, &settings, read, problems);
    // Beside what is wrong, much else seems to have no sense.
    if problems.iter().all(|problem| problem.severity == Severity::Warning) {
        let entries = sense::Entries { databases: &draft.databases, users: &draft.users };
        problems.extend(sense::judge(&settings, values, &entries, has_users));
    }
    let main_file = values.text(Key::conffile);
    // The main file's come first, each file's in the order of its lines.
    draft.problems.sort_by(|a, b| {
        let order = |problem: &Problem| (problem.file != main_file, problem.file.clone(), problem.line);
        order(a).cmp(&order(b))
    });
    let place = |entry: &&Entry| (entry.place.file != main_file, entry.place.line);
    let first_database = draft.databases.values().min_by_key(place).map(|entry| entry.name.clone());
    (Config { first_database, ..assemble(draft.values, settings, Vec::new()) }, draft.problems)
}

/// The users of auth_file, none if it is not set; `None` if it cannot be read, which PgBouncer too lives with.
fn auth_file(values: &Values, read: &Read, problems: &mut Vec<Problem>) -> Option<BTreeMap<String, Secret>> {
    let file = values.text(Key::auth_file);
    let place = values.place(Key::auth_file).cloned().unwrap_or_default();
    if file.is_empty() {
        return Some(BTreeMap::new());
    }
    match read(file) {
        Ok(bytes) if bytes.len() <= FILE_BYTES_MAX => {
            let (users, warnings) = userlist::parse(file, &bytes);
            problems.extend(warnings);
            Some(users)
        }
        Ok(_) => {
            let expected = format!("a file of at most {FILE_BYTES_MAX} bytes");
            problems.push(Problem::error(&place, "auth_file", quoted(file), expected));
            None
        }
        Err(error) => {
            let found = format!("{}: {}", quoted(file), ini::words(&error));
            let expected = "a readable file; until there is one the users stay as they were".to_owned();
            problems.push(Problem::warning(&place, "auth_file", found, expected));
            None
        }
    }
}

/// All classes, and the rules of class_file. What is wrong is an error.
fn classes(
    entries: &[Entry],
    values: &Values,
    settings: &Settings,
    read: &Read,
    problems: &mut Vec<Problem>,
) -> Arc<Classes> {
    let mut classes = Classes {
        all: crate::classes::read(entries, problems),
        ageing: settings::ageing(&settings.global),
        ..Classes::default()
    };
    let file = values.text(Key::class_file);
    let mut lines = Vec::new();
    match if file.is_empty() { Ok(Vec::new()) } else { read(file) } {
        Ok(bytes) => lines = rules::parse(file, &bytes, &classes.all, problems),
        Err(error) => {
            let place = values.place(Key::class_file).cloned().unwrap_or_default();
            let found = format!("{}: {}", quoted(file), ini::words(&error));
            problems.push(Problem::error(&place, Key::class_file.name(), found, "a readable file".to_owned()));
        }
    }
    classes.rules = lines.iter().map(|line| line.rule.clone()).collect();
    // While half of a file is missing, much of the other half seems to be of no use.
    if problems.iter().all(|problem| problem.severity == Severity::Warning) {
        problems.extend(reach::judge(settings, &classes, entries, file, &lines));
    }
    Arc::new(classes)
}
