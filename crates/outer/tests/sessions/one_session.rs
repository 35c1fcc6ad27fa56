//! Runs the program of one session twice, directly and through a pooler where every transaction has another server, and compares what the
//! session is sent: rows, tags, errors and notices; of programs in files the reported parameters, too.
//!
//! A program is a list of lines. A line is a simple query, unless it begins with one of these words; programs in files are run by the extended
//! protocol, too, by unnamed and by named statements.
//!
//! ```text
//!   unseen: SQL               a simple query whose answer is not compared
//!   superuser: SQL            run by another session, past the pooler
//!   stranger: SQL             run by another client on each of the pooler's servers; the client leaves after it
//!   parse NAME: SQL           Parse, Sync
//!   bind NAME: A | B          Bind with these values, Execute, Sync
//!   close NAME:               Close of a statement, Sync
//!   run: SQL | A | B          Parse, Bind, Execute, Sync of the unnamed statement
//!   batch: SQL ;; SQL         Parse, Bind, Execute for each, one Sync
//!   pipe: SQL ;; SQL          simple queries that are sent together
//! ```
//!
//! A `bind` within a batch is written `=NAME`. The direct session is in a database of its own, so that neither waits for a lock of the other, or
//! finds its tables. `{me}` is `pooled` or `direct`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::SocketAddr;

use outer::{Client, Gone, Message, Stage, Wishes, frontend};

pub(crate) type Startup = (&'static str, &'static str);

pub(crate) struct Program {
    pub(crate) what: &'static str,
    /// Startup parameters.
    begins: Cow<'static, [Startup]>,
    lines: Cow<'static, [&'static str]>,
    /// Whether reported parameters are compared.
    reports: bool,
}

pub(crate) const fn program(what: &'static str, begins: &'static [Startup], lines: &'static [&'static str]) -> Program {
    Program { what, begins: Cow::Borrowed(begins), lines: Cow::Borrowed(lines), reports: false }
}

/// The programs of a file. A line with `# ` begins a program and names it; `begin: NAME=VALUE` is a startup parameter of it. Lines before the
/// first program prepare the database by the pooler. Empty lines are skipped.
pub(crate) fn read(file: &'static str) -> (Vec<&'static str>, Vec<Program>) {
    let (mut first, mut programs) = (Vec::new(), Vec::<Program>::new());
    for line in file.lines().filter(|line| !line.is_empty()) {
        match (line.strip_prefix("# "), programs.last_mut()) {
            (Some(what), _) => programs.push(Program { reports: true, ..program(what, &[], &[]) }),
            (None, None) => first.push(line),
            (None, Some(program)) => match line.strip_prefix("begin: ") {
                Some(parameter) => {
                    program.begins.to_mut().push(parameter.split_once('=').expect("a startup parameter has a value"));
                }
                None => program.lines.to_mut().push(line),
            },
        }
    }
    (first, programs)
}

const SERVERS: u32 = 2;
/// The pooler does not report a session's rights where its next server begins with other rights.
const NOT_COMPARED: [&str; 2] = ["is_superuser", "session_authorization"];
/// The database of the direct session.
const DIRECT: &str = "direct";

pub(crate) fn stage() -> Stage {
    let settings = [("min_pool_size", "2"), ("chaos_rotate", "1"), ("chaos_check", "1")];
    let settings = settings.map(|(name, value)| (name, value.to_owned())).to_vec();
    let mut stage = Stage::set(&Wishes { pool: SERVERS, workers: 1, settings, ..Wishes::default() });
    drop(stage.direct(
        "do $$ begin execute format('copy (values (''local all all trust''), (''host all all 127.0.0.1/32 trust'')) to %L',
                                    current_setting('hba_file')); end $$; select pg_reload_conf()",
    ));
    drop(stage.direct(&format!("create database {DIRECT}")));
    outer::eventually("all servers", || stage.backends() >= SERVERS as usize);
    stage.assert_healthy();
    stage
}

/// How a simple query of a program is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Simple,
    /// Parse, Bind, Execute, Sync of the unnamed statement.
    Unnamed,
    /// As a named statement, which is parsed before its first use.
    Named,
}

/// A client that runs a program, and the parameters that were reported to it.
struct Runner {
    client: Client,
    name: &'static str,
    way: Way,
    /// The texts that were parsed under a name, which is their place here.
    parsed: Vec<String>,
    reported: BTreeMap<String, String>,
}

impl Runner {
    fn pooled(stage: &Stage, begins: &[(&str, &str)]) -> Runner {
        Runner::login(stage.pooler.address(), "postgres", "pooled", begins)
    }

    fn direct(stage: &Stage, begins: &[(&str, &str)]) -> Runner {
        Runner::login(SocketAddr::from(([127, 0, 0, 1], stage.cluster.port())), DIRECT, DIRECT, begins)
    }

    fn login(address: SocketAddr, database: &str, name: &'static str, begins: &[(&str, &str)]) -> Runner {
        let client = Client::connect(address).expect("somebody listens");
        let mut runner = Runner { client, name, way: Way::Simple, parsed: Vec::new(), reported: BTreeMap::new() };
        let startup: Vec<(&str, &str)> =
            [("user", "postgres"), ("database", database)].into_iter().chain(begins.iter().copied()).collect();
        runner.client.send(&frontend::startup(&startup)).expect("it is taken");
        runner.answers(1).expect("let in");
        runner
    }

    /// Runs one line; the messages that a program can see, as one text.
    fn run(&mut self, line: &str) -> String {
        let line = &*line.replace("{me}", self.name);
        let (word, rest) = line.split_once(": ").or_else(|| Some((line.strip_suffix(':')?, ""))).unwrap_or(("", line));
        let values = |rest: &str| -> Vec<String> { rest.split(" | ").map(str::to_owned).collect() };
        let (bytes, answers) = match word.split_once(' ').unwrap_or((word, "")) {
            ("unseen", _) => (frontend::query(rest), 1),
            ("parse", name) => ([frontend::parse(name, rest), frontend::sync()].concat(), 1),
            ("bind", name) => {
                let values = if rest.is_empty() { Vec::new() } else { values(rest) };
                let values: Vec<&str> = values.iter().map(String::as_str).collect();
                ([frontend::bind(name, &values), frontend::execute(), frontend::sync()].concat(), 1)
            }
            ("close", name) => ([frontend::close_statement(name), frontend::sync()].concat(), 1),
            ("run", "") => {
                let values = values(rest);
                let values: Vec<&str> = values.iter().map(String::as_str).collect();
                let bound = frontend::bind("", &values[1..]);
                ([frontend::parse("", values[0]), bound, frontend::execute(), frontend::sync()].concat(), 1)
            }
            ("batch", "") => {
                let one = |sql: &str| match sql.strip_prefix('=') {
                    Some(name) => [frontend::bind(name, &[]), frontend::execute()].concat(),
                    None => [frontend::parse("", sql), frontend::bind("", &[]), frontend::execute()].concat(),
                };
                let batch: Vec<Vec<u8>> = rest.split(" ;; ").map(one).collect();
                ([batch.concat(), frontend::sync()].concat(), 1)
            }
            ("pipe", "") => {
                let queries: Vec<Vec<u8>> = rest.split(" ;; ").map(frontend::query).collect();
                (queries.concat(), queries.len())
            }
            _ => (self.written(line), 1),
        };
        match self.client.send(&bytes).and_then(|()| self.answers(answers)) {
            Ok(seen) => seen,
            Err(gone) => format!("gone: {gone}"),
        }
    }

    fn written(&mut self, query: &str) -> Vec<u8> {
        let used = |name: &str| [frontend::bind(name, &[]), frontend::execute(), frontend::sync()].concat();
        let name = |place: usize| format!("statement {place}");
        match self.way {
            Way::Simple => frontend::query(query),
            Way::Unnamed => [frontend::parse("", query), used("")].concat(),
            Way::Named => match self.parsed.iter().position(|parsed| parsed == query) {
                Some(place) => used(&name(place)),
                None => {
                    let name = name(self.parsed.len());
                    self.parsed.push(query.to_owned());
                    [frontend::parse(&name, query), used(&name)].concat()
                }
            },
        }
    }

    /// The parameters that were reported to this client with another value than to the other one.
    fn reported_unlike(&self, other: &Runner) -> String {
        let is_unlike = |(name, value): &(&String, &String)| {
            !NOT_COMPARED.contains(&name.as_str()) && other.reported.get(*name) != Some(*value)
        };
        self.reported.iter().filter(is_unlike).map(|(name, value)| format!(" {name}={value}")).collect()
    }

    /// Reads up to this many ReadyForQuery.
    fn answers(&mut self, mut count: usize) -> Result<String, Gone> {
        let mut seen = String::new();
        while count > 0 {
            let message = self.client.receive()?;
            match message.tag {
                b'D' => seen += &format!("{:?} ", message.columns()?),
                b'C' => seen += &format!("[{}] ", text(&message)),
                b'E' | b'N' => {
                    seen += &format!("{} {} {}; ", message.field(b'S'), message.field(b'C'), message.field(b'M'));
                }
                b'S' => {
                    let mut parts = message.body.split(|byte| *byte == 0).map(String::from_utf8_lossy);
                    let (name, value) = parts.next().zip(parts.next()).expect("a name and a value");
                    self.reported.insert(name.into_owned(), value.into_owned());
                }
                b'Z' => {
                    seen.push(message.body.first().map_or('?', |status| char::from(*status)));
                    count -= 1;
                }
                _ => {}
            }
        }
        Ok(seen)
    }
}

fn text(message: &Message) -> String {
    String::from_utf8_lossy(&message.body).trim_end_matches('\0').to_owned()
}

/// Clients that have each a server at the same time run this, and leave.
pub(crate) fn strangers(pooler: SocketAddr, line: &str) {
    let login = || Client::login(pooler, "postgres", "postgres").expect("let in");
    let mut all: Vec<Client> = (0..SERVERS).map(|_| login()).collect();
    for stranger in &mut all {
        stranger.query("begin").expect("connected");
    }
    for stranger in &mut all {
        let answer = stranger.query(line).expect("connected");
        assert!(answer.errors.is_empty(), "{line}: {answer:?}");
        stranger.query("commit").expect("connected");
    }
}

pub(crate) fn run(stage: &Stage, programs: &[Program]) {
    run_by(stage, programs, Way::Simple);
}

fn run_by(stage: &Stage, programs: &[Program], way: Way) {
    let wanted = std::env::var("PROGRAM").unwrap_or_default();
    let mut wrong = Vec::new();
    for program in programs.iter().filter(|program| program.what.contains(&wanted)) {
        wrong.extend(first_difference(stage, program, way));
    }
    assert!(wrong.is_empty(), "{way:?}:\n{}", wrong.join("\n"));
    assert!(stage.pooler.log().lines().all(|line| !line.contains(" FATAL ")), "{}", stage.pooler.log());
}

fn first_difference(stage: &Stage, program: &Program, way: Way) -> Option<String> {
    let (mut pooled, mut direct) = (Runner::pooled(stage, &program.begins), Runner::direct(stage, &program.begins));
    (pooled.way, direct.way) = (way, way);
    let mut difference = None;
    for (number, line) in program.lines.iter().enumerate() {
        if let Some(line) = line.strip_prefix("superuser: ") {
            // Behind a difference, too: the next program finds the roles as it expects them.
            drop(stage.direct(line));
        } else if difference.is_some() {
            // Nothing behind a difference can be compared.
        } else if let Some(line) = line.strip_prefix("stranger: ") {
            strangers(stage.pooler.address(), line);
        } else {
            let (found, expected) = (pooled.run(line), direct.run(line));
            let (mut ours, mut theirs) = (String::new(), String::new());
            if program.reports {
                (ours, theirs) = (pooled.reported_unlike(&direct), direct.reported_unlike(&pooled));
            }
            let is_same = found == expected && ours == theirs;
            if !is_same && !line.starts_with("unseen: ") {
                let what = program.what;
                difference =
                    Some(format!("{what}, line {number}, {line}:\n    {found}{ours}\n    {expected}{theirs} directly"));
            }
        }
    }
    difference
}

/// Defines something in both databases.
pub(crate) fn define(stage: &Stage, definition: &str) {
    for mut runner in [Runner::pooled(stage, &[]), Runner::direct(stage, &[])] {
        let seen = runner.run(definition);
        assert!(seen.ends_with("] I"), "{definition}: {seen}");
    }
}

/// Runs the programs of a file on a stage of their own.
pub(crate) fn run_file(file: &'static str) {
    let stage = stage();
    let (first, programs) = read(file);
    for line in first {
        match line.strip_prefix("superuser: ") {
            Some(line) => drop(stage.direct(line)),
            None => define(&stage, line),
        }
    }
    for way in [Way::Simple, Way::Unnamed, Way::Named] {
        run_by(&stage, &programs, way);
    }
}
