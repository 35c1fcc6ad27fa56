//! Every SHOW as a client reads it, from hand-made snapshots: column names, type ids, rows. Each SHOW has a file in
//! `tests/golden/`; `UPDATE=1 cargo test -p control` writes them anew.

mod world;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use control::admin::shown::Shown;
use control::console::Answer;
use control::{Command, Show};
use wire::{HEADER_LEN, Header, backend};

/// The answer's messages as lines of text.
fn read(mut bytes: &[u8]) -> String {
    let mut text = String::new();
    while let Some(header) = Header::parse(bytes).expect("our own messages are sound") {
        let body = &bytes[HEADER_LEN..header.total_len()];
        message(&mut text, header.tag, body);
        bytes = &bytes[header.total_len()..];
    }
    assert!(bytes.is_empty(), "half a message at the end");
    text
}

fn message(text: &mut String, tag: u8, body: &[u8]) {
    let shown = String::from_utf8_lossy;
    match tag {
        b'T' => {
            let description = backend::RowDescription::decode(body).expect("sound");
            for column in description.columns() {
                let kind = match (column.type_oid, column.type_len) {
                    (25, -1) => "text",
                    (23, 4) => "int4",
                    (20, 8) => "int8",
                    (17, -1) => "bytea",
                    (1700, -1) => "numeric",
                    other => panic!("a type that the console does not have: {other:?}"),
                };
                assert_eq!((column.table_oid, column.number, column.type_modifier, column.format), (0, 0, -1, 0));
                writeln!(text, "{} {kind}", shown(column.name)).expect("a string takes all");
            }
        }
        b'D' => {
            let row = backend::DataRow::decode(body).expect("sound");
            let values: Vec<_> = row.values().map(|value| value.map_or("NULL".into(), shown)).collect();
            writeln!(text, "= {}", values.join(" | ")).expect("a string takes all");
        }
        b'C' => writeln!(text, "tag {}", shown(&body[..body.len() - 1])).expect("a string takes all"),
        b'Z' => writeln!(text, "ready {}", shown(body)).expect("a string takes all"),
        b'N' => {
            let fields = backend::Fields::decode(body);
            for (name, field) in [("code", fields.code()), ("message", fields.message()), ("detail", fields.detail())] {
                writeln!(text, "{name} {}", shown(field.expect("the field is there"))).expect("a string takes all");
            }
        }
        other => panic!("an answer has no message {:?}", char::from(other)),
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// Whether it is as its file has it.
fn is_as_written(word: &str, show: Show, world: &world::World) -> bool {
    let answer = show.table(&world.show_input()).map_or(Answer::Help, Answer::Rows);
    let found = read(&answer.encode());
    let path = folder().join(format!("show_{}.txt", word.to_lowercase()));
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &found).expect("the tree is writable");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    if found != expected {
        eprintln!("--- {} has\n{expected}--- found is\n{found}", path.display());
    }
    found == expected
}

#[test]
fn each_show_is_as_its_file_has_it() {
    let world = world::World::new();
    let shows = || Show::lines().flatten();
    let differ: Vec<&str> =
        shows().filter(|(word, show)| !is_as_written(word, *show, &world)).map(|(word, _)| word).collect();
    assert_eq!(differ, [""; 0], "UPDATE=1 writes them anew");
    for (word, show) in shows() {
        assert_eq!(Command::parse(&format!("show {word};")), Some(Command::Show(Shown::all(show))));
    }
    assert_eq!(std::fs::read_dir(folder()).expect("it is there").count(), shows().count(), "a file for each");
}

#[test]
fn the_index_of_words_has_each_show() {
    let index = include_str!("../../../docs/pgbouncer-index.md");
    let missing: Vec<&str> = Show::lines()
        .flatten()
        .map(|(word, _)| word)
        .filter(|word| !index.contains(&format!("`SHOW {word}`")))
        .collect();
    assert_eq!(missing, [""; 0]);
}

#[test]
fn statements_of_clients_are_shown_to_administrators_only() {
    let world = world::World::new();
    let table =
        Show::Pins.table(&control::ShowInput { shows_statements: false, ..world.show_input() }).expect("a table");
    let at = table.columns.iter().position(|column| column.name == "statement").expect("a column");
    assert_eq!(table.rows().map(|row| row[at]).collect::<Vec<_>>(), [None]);
    for (shows_statements, clients_with_tags) in [(true, 2), (false, 0)] {
        let input = control::ShowInput { shows_statements, ..world.show_input() };
        let table = Show::Sessions.table(&input).expect("a table");
        let at = table.columns.iter().position(|column| column.name == "tags").expect("a column");
        assert_eq!(table.rows().filter(|row| row[at].is_some()).count(), clients_with_tags);
    }
}

/// What is not counted is NULL, not 0.
#[test]
fn without_rules_classes_have_no_counts() {
    let mut world = world::World::new();
    let mut classes = queueing::classes::Classes::clone(&world.settings.classes);
    classes.rules.clear();
    world.settings.classes = std::sync::Arc::new(classes);
    let table = Show::Classes.table(&world.show_input()).expect("a table");
    let at = table.columns.iter().position(|column| column.name == "cl_waiting").expect("a column");
    assert_eq!(table.len(), 3);
    let refused = table.columns.iter().position(|column| column.name == "refused").expect("a column");
    assert!(table.rows().all(|row| row[at..refused].iter().all(Option::is_none)), "{table:?}");
}
