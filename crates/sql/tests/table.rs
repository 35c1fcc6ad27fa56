//! A row for every class of statement and every alias of the grammar: `tests/table.txt` holds texts and what they mean.
//!
//! `UPDATE=1 cargo test -p sql --test table` writes the answers anew; read the difference before you keep it.

#![expect(clippy::disallowed_methods, reason = "the table is a file, and its update is asked for by the environment")]

use std::collections::BTreeSet;

use sql::{Assignment, Discarded, Kind, Marks, Rules, Scope, SetConfig, Text, Value, Which};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/table.txt");
const COMMANDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/commands.txt");

/// A line `> text` asks; the lines below it answer, one a statement. Other lines are headings.
#[test]
fn every_row_means_what_it_says() {
    let table = std::fs::read_to_string(PATH).expect("the table is there");
    let mut answered = String::new();
    let mut rows = 0;
    for line in table.lines().filter(|line| !line.starts_with("    ")) {
        answered += &format!("{line}\n");
        let Some(text) = line.strip_prefix("> ") else { continue };
        rows += 1;
        answer(&text.replace("\\n", "\n"), &mut answered);
    }
    assert!(rows > 200, "only {rows} rows were read");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(PATH, &answered).expect("the table can be written");
    }
    for (number, (is, should)) in answered.lines().zip(table.lines()).enumerate() {
        assert_eq!(is, should, "line {}", number + 1);
    }
    assert_eq!(answered.lines().count(), table.lines().count());
}

#[test]
fn every_class_of_statement_and_every_mark_has_its_row() {
    let table = std::fs::read_to_string(PATH).expect("the table is there");
    let (mut classes, mut marks) = (BTreeSet::new(), Marks::NONE);
    for text in table.lines().filter_map(|line| line.strip_prefix("> ")) {
        for statement in Text::new(text.as_bytes(), Rules::default()).statements() {
            classes.insert(class(&statement.kind));
            marks |= statement.marks;
        }
    }
    assert_eq!(marks, Marks::ALL, "without {:?}", Marks::ALL.without(marks));
    let missing: Vec<u32> = (0..CLASSES).filter(|class| !classes.contains(class)).collect();
    assert!(missing.is_empty(), "classes {missing:?} have no row");
}

/// `tests/commands.txt` is the list of SQL commands in PostgreSQL's manual (version 15, as psql's `\\h` prints it).
//= pg18 sql-commands
#[test]
fn every_command_of_the_manual_has_its_row_and_is_known() {
    let table = std::fs::read_to_string(PATH).expect("the table is there");
    let commands = std::fs::read_to_string(COMMANDS).expect("the list is there");
    let rows: Vec<Vec<String>> = table.lines().filter_map(|line| line.strip_prefix("> ")).filter_map(known).collect();
    let missing: Vec<&str> = commands.lines().filter(|command| !rows.iter().any(|row| is_of(row, command))).collect();
    assert!(commands.lines().count() > 180 && missing.is_empty(), "no row for {missing:?}");
}

/// The words of a text that is one statement and understood.
fn known(text: &str) -> Option<Vec<String>> {
    let of = Text::new(text.as_bytes(), Rules::default());
    let is_known = !of.statements().any(|statement| statement.kind == Kind::Unknown);
    let words = text.split(|byte: char| !byte.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    is_known.then(|| words.map(str::to_ascii_lowercase).collect())
}

/// A row is of a command if it begins with its first word, and the others follow in order among the next few.
fn is_of(row: &[String], command: &str) -> bool {
    let mut words = command.split(' ').map(str::to_ascii_lowercase);
    let mut rest = row.iter().take(6);
    rest.next() == words.next().as_ref() && words.all(|word| rest.any(|found| *found == word))
}

/// How many there are; the compiler tells when there is another.
const CLASSES: u32 = 45;

fn class(kind: &Kind<'_>) -> u32 {
    match kind {
        Kind::Plain => 0,
        Kind::Begin(_) => 1,
        Kind::Commit { chain } => 2 + u32::from(*chain),
        Kind::Rollback { chain } => 4 + u32::from(*chain),
        Kind::Savepoint(_) => 6,
        Kind::Release(_) => 7,
        Kind::RollbackTo(_) => 8,
        Kind::PrepareTransaction => 9,
        Kind::CommitPrepared => 10,
        Kind::RollbackPrepared => 11,
        Kind::Set(Assignment { scope, value, .. }) => {
            let first = if *scope == Scope::Local { 12 } else { 15 };
            first
                + match value {
                    Value::Given(_) => 0,
                    Value::Default => 1,
                    Value::Current => 2,
                }
        }
        Kind::SetCharacteristics { scope, .. } => {
            if *scope == Scope::Local {
                18
            } else {
                19
            }
        }
        Kind::SetTransaction => 20,
        Kind::Reset(which) => 21 + of_which(which),
        Kind::Discard(Discarded::All) => 23,
        Kind::Discard(Discarded::Plans) => 24,
        Kind::Discard(Discarded::Sequences) => 25,
        Kind::Discard(Discarded::Temporary) => 26,
        Kind::Prepare { .. } => 27,
        Kind::Execute(_) => 28,
        Kind::Deallocate(which) => 29 + of_which(which),
        Kind::Declare { hold, .. } => 31 + u32::from(*hold),
        Kind::Close(which) => 33 + of_which(which),
        Kind::Fetch => 35,
        Kind::Listen(_) => 36,
        Kind::Unlisten(which) => 37 + of_which(which),
        Kind::Notify(_) => 39,
        Kind::Load { .. } => 40,
        Kind::Copy => 41,
        Kind::Do => 42,
        Kind::Call => 43,
        Kind::Unknown => 44,
    }
}

fn of_which(which: &Which<'_>) -> u32 {
    u32::from(*which == Which::All)
}

fn answer(text: &str, to: &mut String) {
    let (text, rules) = match text.strip_prefix("[backslashes] ") {
        Some(text) => (text, Rules { standard_strings: false, ..Rules::default() }),
        None => (text, Rules::default()),
    };
    let text = Text::new(text.as_bytes(), rules);
    for statement in text.statements() {
        let more = statement.marks.without(statement.kind.marks());
        let more = if more.is_empty() { String::new() } else { format!(" {more:?}") };
        *to += &format!("    {}{more}\n", shown(&statement.kind));
        for call in statement.set_config_calls(&text) {
            *to += &shown_call(&call, statement.only_sets_config(&text));
        }
    }
}

fn shown_call(call: &SetConfig<'_>, is_alone: bool) -> String {
    let written =
        |part: Option<&[u8]>| part.map_or_else(|| "?".to_owned(), |part| String::from_utf8_lossy(part).into_owned());
    let scope = call.local.map_or("?", |local| if local { "Local" } else { "Session" });
    let alone = if is_alone { "; nothing else" } else { "" };
    let name = call.name_parameter.map_or_else(|| written(call.name), |number| format!("${number}"));
    format!("        set_config {scope} [{name}] = [{}]{alone}\n", written(call.value))
}

fn shown(kind: &Kind<'_>) -> String {
    let plain = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match kind {
        Kind::Set(Assignment { scope, name, value, clause }) => {
            let value = match value {
                Value::Given(value) => format!("[{}]", plain(value)),
                value => format!("{value:?}"),
            };
            let name: Vec<u8> = name.lowercase().collect();
            format!("Set {scope:?} {} = {value}; clause [{}]", plain(&name), plain(clause))
        }
        Kind::SetCharacteristics { scope, modes, clause } => {
            format!("SetCharacteristics {scope:?} {modes:?}; clause [{}]", plain(clause))
        }
        Kind::Prepare { name, body } => format!("Prepare {name:?} [{}]", plain(body)),
        Kind::Load { file } => format!("Load [{}]", plain(file)),
        kind => format!("{kind:?}"),
    }
}
