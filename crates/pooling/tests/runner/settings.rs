//! The lines at a transcript's head that say how the pooler is set up: `pool default_pool_size=1 pool_mode=transaction`.
//!
//! Names and values are those of the configuration file: times are seconds, 0 switches off, flags are 0 or 1. There are
//! besides: `auto_pool_size_start`, `reads_catalogue` and `reads_base`, which no file sets; a port behind each host of a list; and the
//! rules of classes, see `classes.rs`.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ::settings::table;
use auth::Secret;
use connections::databases::{Address, Database, Host, LoadBalanceHosts, TargetSessionAttrs};
use machine::Settings;
use machine::peering::{PeerEntry, PeerId};
use queueing::classes::{Class, ClassId, Classes, Pattern, Rule};
use queueing::limit_words::LimitWords;
use settings::{AuthType, DatabaseSettings, Fidelity, Over, SslMode, UserSettings};

use super::classes::Described;
use super::words::Words;

/// What every transcript starts from: PgBouncer's defaults (and so `pool_fidelity=classic`: the statements of most are
/// made up), one database `db`, three users who need no password.
pub(crate) fn initial() -> Settings {
    let mut settings = Settings { reads_catalogue: false, reads_base: false, ..Settings::default() };
    settings.global.login.auth_type = AuthType::Trust;
    settings.global.tls.server_tls_sslmode = SslMode::Disable;
    settings.global.pools.pool_fidelity = Fidelity::Classic;
    settings.databases.insert("db".to_owned(), Arc::new(database("db")));
    for user in ["u", "v", "w"] {
        settings.secrets.insert(user.to_owned(), Secret::parse("secret"));
    }
    // The default takes a noticeable time by design.
    settings.global.login.scram_iterations = 2;
    settings
}

fn database(name: &str) -> Database {
    Database::new(name, vec![address("127.0.0.1:5432").expect("it is one")])
}

pub(crate) fn address(text: &str) -> Result<Address, String> {
    let (host, port) = text.rsplit_once(':').unwrap_or((text, "5432"));
    let port = number(port)?;
    let host = match host.parse::<IpAddr>() {
        Ok(ip) => Host::Ip(ip),
        Err(_) if host.starts_with('/') => Host::Unix(host.to_owned()),
        Err(_) => Host::Name(host.to_owned()),
    };
    Ok(Address { host, port })
}

/// Reads one line of settings. False: it is none.
pub(crate) fn apply(settings: &mut Settings, mut words: Words<'_>) -> Result<bool, String> {
    if words.eat("pool") || words.eat("settings") {
        for_each_pair(words, |key, value| set(settings, key, value))?;
    } else if words.eat("database") {
        let name = words.bare("the database's name")?;
        let known = if name == "*" { settings.fallback.as_ref() } else { settings.databases.get(name) };
        let mut entry = known.map_or_else(|| database(name), |known| Database::clone(known));
        for_each_pair(words, |key, value| set_database(&mut entry, key, value))?;
        if name == "*" {
            settings.fallback = Some(Arc::new(entry));
        } else {
            settings.databases.insert(name.to_owned(), Arc::new(entry));
        }
    } else if words.eat("class") {
        let mut class = Described::new(settings, words.bare("the class's name")?);
        for_each_pair(words, |key, value| class.set(key, value))?;
        class.add_to(settings)?;
    } else if words.eat("no classes") {
        settings.classes = Arc::default();
    } else if words.eat("limits") {
        let name = words.bare("the class's name")?;
        let mut classes = Classes::clone(&settings.classes);
        for_each_pair(words, |key, value| set_class(&mut classes, name, key, value))?;
        settings.classes = Arc::new(classes);
    } else if words.eat("no database") {
        settings.databases.remove(words.bare("the database's name")?);
    } else if words.eat("user") {
        let entry = settings.users.entry(words.bare("the user's name")?.to_owned()).or_default();
        for_each_pair(words, |key, value| set_user(entry, key, value))?;
    } else if words.eat("secret") {
        let user = words.bare("the user's name")?;
        settings.secrets.insert(user.to_owned(), Secret::parse(&words.string("the secret")?));
    } else if words.eat("hba") {
        settings.hba = Arc::new(read_file(&mut words, |read| hba::read_rules("hba.conf", &[], read))?);
        settings.join_rules_and_provider();
    } else if words.eat("ident") {
        settings.ident = Arc::new(read_file(&mut words, |read| hba::read_maps("ident.conf", read))?);
    } else if words.eat("ldap") {
        let read = hba::read_directory(&words.string("the options")?);
        settings.vouchers.ldap = Some(Arc::new(read.map_err(|(found, _)| found)?));
    } else if words.eat("oauth") {
        let read = hba::read_provider(&words.string("the options")?);
        settings.vouchers.provider = Some(Arc::new(read.map_err(|(found, _)| found)?));
        settings.join_rules_and_provider();
    } else if words.eat("peer") {
        let id = PeerId(number(words.bare("the peer's number")?)?);
        let (mut port, mut pool_size) = (6432, 20);
        for_each_pair(words, |key, value| match key {
            "port" => number(value).map(|value| port = value),
            "pool_size" => number(value).map(|value| pool_size = value),
            other => Err(format!("'{other}' is nothing that a peer has")),
        })?;
        let address = Arc::new(address(&format!("10.0.0.9:{port}"))?);
        settings.peers.insert(id, PeerEntry { address, pool_size });
    } else if words.eat("no peer") {
        settings.peers.remove(&PeerId(number(words.bare("the peer's number")?)?));
    } else if words.eat("no secret") {
        settings.secrets.remove(words.bare("the user's name")?);
    } else {
        return Ok(false);
    }
    Ok(true)
}

/// `hba "local all all peer; host all all 10.0.0.0/8 md5"`: a file, with semicolons between its lines.
fn read_file<T>(
    words: &mut Words<'_>,
    read: impl FnOnce(&hba::Read) -> Result<T, Vec<hba::Mistake>>,
) -> Result<T, String> {
    let text = words.string("the file's lines")?.replace(';', "\n");
    read(&|_| Ok(text.clone().into_bytes())).map_err(|mistakes| mistakes[0].to_string())
}

fn for_each_pair(mut words: Words<'_>, mut set: impl FnMut(&str, &str) -> Result<(), String>) -> Result<(), String> {
    while let Some(word) = words.any() {
        let text = String::from_utf8_lossy(&word.text);
        let (key, value) = text.split_once('=').ok_or_else(|| format!("'{text}' is no key=value"))?;
        set(key, value)?;
    }
    Ok(())
}

fn number<T: std::str::FromStr>(value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("'{value}' is no number"))
}

/// How long a verb takes: `5s`, `20ms`, `3us`.
pub(crate) fn span(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let count: u64 = number(digits)?;
    Ok(match &text[digits.len()..] {
        "us" => Duration::from_micros(count),
        "ms" => Duration::from_millis(count),
        "s" => Duration::from_secs(count),
        other => return Err(format!("'{other}' is no unit of time: us, ms or s")),
    })
}

/// Seconds, with a fraction if wanted.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    number(text).map(Duration::from_secs_f64)
}

fn names(text: &str) -> impl Iterator<Item = String> {
    text.split(',').filter(|name| !name.is_empty()).map(str::to_owned)
}

fn set(settings: &mut Settings, key: &str, value: &str) -> Result<(), String> {
    match key {
        "workers" => settings.workers = number(value)?,
        "auto_pool_size_start" => settings.auto_pool_size_start = number(value)?,
        "reads_base" => settings.reads_base = value == "1",
        "reads_catalogue" => settings.reads_catalogue = value == "1",
        // The file has whole seconds, which would be long in a transcript.
        "query_wait_notify" => {
            settings.global.waiting.query_wait_notify = Some(seconds(value)?).filter(|time| !time.is_zero());
        }
        name => {
            let setting = table::find(name).ok_or_else(|| format!("'{name}' is no setting"))?;
            settings.global.set(setting.key, &setting.read(value)?);
        }
    }
    Ok(())
}

fn set_database(entry: &mut Database, key: &str, value: &str) -> Result<(), String> {
    match key {
        "host" => entry.hosts = value.split(',').map(address).collect::<Result<_, _>>()?,
        "port" => {
            let port = number(value)?;
            entry.hosts.iter_mut().for_each(|address| address.port = port);
        }
        "load_balance_hosts" if value == "disable" => entry.load_balance_hosts = LoadBalanceHosts::Disable,
        "target_session_attrs" => {
            let attrs = TargetSessionAttrs::parse(value);
            entry.target_session_attrs = attrs.ok_or_else(|| format!("'{value}' is none of libpq's values"))?;
        }
        "dbname" => entry.dbname = Some(value.to_owned()),
        "user" => entry.forced_user = Some(value.to_owned()),
        "password" => entry.password = Some(Secret::parse(value)),
        "auth_user" => entry.auth_user = Some(value.to_owned()),
        "auth_query" => entry.auth_query = Some(value.to_owned()),
        "auth_dbname" => entry.auth_dbname = Some(value.to_owned()),
        "connect_query" => entry.connect_query = Some(value.to_owned()),
        "client_encoding" | "datestyle" | "timezone" => entry.startup.push((key.to_owned(), value.to_owned())),
        other => {
            let key = DatabaseSettings::key(other).ok_or_else(|| format!("'{other}' is no setting of a database"))?;
            entry.settings.set(key, Some(&key.setting().read(value)?));
        }
    }
    Ok(())
}

/// `applications` and `users` make the rules.
fn set_class(classes: &mut Classes, name: &str, key: &str, value: &str) -> Result<(), String> {
    let known = classes.all.iter().position(|class| &*class.name == name);
    let place = known.unwrap_or_else(|| {
        classes.all.push(Class::new(name));
        classes.all.len() - 1
    });
    let limits = &mut classes.all[place].limits;
    match key {
        limit if LimitWords::bounds(limit).is_some() => {
            let mut words = LimitWords::of(limits);
            words.set(limit, number(value)?);
            words.apply(limits);
        }
        "over" => limits.over = Over::named(value).ok_or_else(|| format!("'{value}' is no way to limit"))?,
        "applications" | "users" => {
            for name in names(value) {
                let of = |wanted: &str| match key == wanted {
                    true => vec![Pattern::Exactly(name.clone().into_bytes().into())],
                    false => vec![Pattern::All],
                };
                classes.rules.push(Rule {
                    databases: vec![Pattern::All],
                    users: of("users"),
                    applications: of("applications"),
                    tags: Vec::new(),
                    class: ClassId(place as u8),
                });
            }
        }
        other => return Err(format!("'{other}' is no setting of a class")),
    }
    Ok(())
}

fn set_user(entry: &mut UserSettings, name: &str, value: &str) -> Result<(), String> {
    let key = UserSettings::key(name).ok_or_else(|| format!("'{name}' is no setting of a user"))?;
    entry.set(key, Some(&key.setting().read(value)?));
    Ok(())
}
