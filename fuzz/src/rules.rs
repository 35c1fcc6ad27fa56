//! What a user writes about classes of clients: `[classes]` and the file that class_file names.
//!
//! Asserts that a file is refused with an error that names one of its lines, or means the same when its rules are written
//! down again; that of a rule that is said never to decide this is true, whoever comes: of all the names in the file, with
//! and without it.
//!
//! ```text
//!   lines of [classes] 0x1e lines of class_file
//! ```

use std::fmt::Write as _;
use std::io;

use config::{Config, Problem, Severity};
use queueing::classes::{Classes, Pattern, Rule, Subject, TagPattern};
use sql::CommentTag;

const NEXT_FILE: u8 = 0x1e;
const INI: &str = "weir.ini";
const RULES: &str = "classes.conf";
/// Names tried for each field of a client.
const NAMES_MAX: usize = 12;

/// One run of the target.
pub fn run(bytes: &[u8]) {
    let mut parts = bytes.splitn(2, |byte| *byte == NEXT_FILE);
    let classes = parts.next().unwrap_or_default();
    let rules = parts.next().unwrap_or_default();
    let lines = rules.split(|byte| *byte == b'\n').count();
    match load(classes, rules) {
        Ok(config) => {
            check(&config.warnings, lines);
            let read = &config.pooling.classes;
            let written = load(classes, written(read).as_bytes()).expect("what was read can be written down");
            assert_eq!(written.pooling.classes, *read, "what was written down means the same");
            check_idle(&config, rules);
            assert!(!config::explain(&config).contains(|c: char| c.is_control() && c != '\n'));
        }
        Err(problems) => {
            assert!(problems.iter().any(|problem| problem.severity == Severity::Error), "refused without a reason");
            check(&problems, lines);
        }
    }
}

/// No database and no user is a stranger here.
fn load(classes: &[u8], rules: &[u8]) -> Result<Config, Vec<Problem>> {
    let mut ini =
        b"[pgbouncer]\nclass_file = classes.conf\nauth_type = any\n[databases]\n* = host=::1\n[classes]\n".to_vec();
    // What follows another section is none of this target's business.
    ini.extend(classes.iter().filter(|byte| !b"[%".contains(byte)));
    config::load_with(INI, 1, config::Built::default(), &|name: &str| match name {
        INI => Ok(ini.clone()),
        RULES => Ok(rules.to_vec()),
        _ => Err(io::ErrorKind::NotFound.into()),
    })
}

fn check(problems: &[Problem], lines: usize) {
    for problem in problems {
        let words = problem.to_string();
        assert!(!words.contains(|c: char| c.is_control()), "{words:?}");
        assert!(problem.file == INI || problem.file == RULES, "{words}");
        if problem.file == RULES {
            assert!(
                usize::try_from(problem.line).is_ok_and(|line| (1..=lines).contains(&line)),
                "{lines} lines: {words}"
            );
        }
    }
}

/// The rules as a file has them, all names in quotes.
fn written(classes: &Classes) -> String {
    let mut text = String::new();
    for rule in &classes.rules {
        for field in [&rule.databases, &rule.users, &rule.applications] {
            let names: Vec<String> = field.iter().map(pattern).collect();
            let _ = write!(text, "{} ", names.join(","));
        }
        let tag = |tag: &TagPattern| match &tag.value {
            Pattern::All => format!("{}:*", String::from_utf8_lossy(&tag.key)),
            value => format!("{}:{}", String::from_utf8_lossy(&tag.key), pattern(value)),
        };
        let tags: Vec<String> = rule.tags.iter().map(tag).collect();
        let tags = if tags.is_empty() { "all".to_owned() } else { tags.join(",") };
        let _ = writeln!(text, "{tags} \"{}\" # {}", classes.class(rule.class).name, rule.class.0);
    }
    text
}

fn pattern(pattern: &Pattern) -> String {
    let quoted = |name: &[u8]| format!("\"{}\"", String::from_utf8_lossy(name).replace('"', "\"\""));
    match pattern {
        Pattern::All => "all".to_owned(),
        Pattern::Exactly(name) => quoted(name),
        Pattern::BeginsWith(name) => format!("{}*", quoted(name)),
    }
}

/// A rule that is said never to decide may be left out.
fn check_idle(config: &Config, text: &[u8]) {
    let Some(idle) = config.warnings.iter().find(|problem| problem.found.contains("never decides")) else { return };
    let line = usize::try_from(idle.line).expect("a line of the file");
    let text = std::str::from_utf8(text).expect("the file was read without an error");
    // Of a file without a mistake every line that says something is a rule.
    let says_something = |line: &&str| !line.trim_start().is_empty() && !line.trim_start().starts_with('#');
    let index = text.split('\n').take(line - 1).filter(says_something).count();
    let classes = &config.pooling.classes;
    let rule = &classes.rules[index];
    let without: Vec<Rule> =
        classes.rules.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, rule)| rule.clone()).collect();
    let without = Classes { rules: without, ..Classes::clone(classes) };
    for database in names(&rule.databases) {
        for user in names(&rule.users) {
            for application in names(&rule.applications) {
                let subject = Subject { database: &database, user: &user, application: &application };
                tried(classes, &without, &subject, &rule.tags);
            }
        }
    }
}

fn tried(classes: &Classes, without: &Classes, subject: &Subject<'_>, tags: &[TagPattern]) {
    assert_eq!(classes.of(subject, &[]), without.of(subject, &[]), "{subject:?} without tags");
    for tag in tags.iter().take(NAMES_MAX) {
        for value in names(std::slice::from_ref(&tag.value)) {
            let tags = [CommentTag { key: &tag.key, value: value.into() }];
            assert_eq!(classes.of(subject, &tags), without.of(subject, &tags), "{subject:?}, {tags:?}");
        }
    }
}

/// Names that fit, as odd as they can be.
fn names(patterns: &[Pattern]) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    for pattern in patterns.iter().take(NAMES_MAX) {
        match pattern {
            Pattern::All => names.extend([b"".to_vec(), b"all".to_vec(), b"\xff".to_vec()]),
            Pattern::Exactly(name) => names.push(name.to_vec()),
            Pattern::BeginsWith(start) => names.extend([start.to_vec(), [&**start, b"~"].concat()]),
        }
    }
    names
}
