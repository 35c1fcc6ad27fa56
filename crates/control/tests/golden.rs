//! Every SHOW as a client reads it, from hand-made snapshots: column names, type ids, rows. Each SHOW has a file in
//! `tests/golden/`; `UPDATE=1 cargo test -p control` writes them anew.

mod world;

use std::fmt::Write as _;
use std::path::Path;

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

fn check(show: Show, name: &str) {
    let world = world::World::new();
    let answer = show.table(&world.show_input()).map_or(Answer::Help, Answer::Rows);
    let found = read(&answer.encode());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/show_{name}.txt"));
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &found).expect("the tree is writable");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, expected, "{} differs; UPDATE=1 writes it anew", path.display());
    let parsed = Command::parse(&format!("show {name};"));
    assert_eq!(parsed, Some(Command::Show(show)));
}

#[test]
fn statements_of_clients_are_shown_to_administrators_only() {
    let world = world::World::new();
    let table =
        Show::Pins.table(&control::ShowInput { shows_statements: false, ..world.show_input() }).expect("a table");
    let at = table.columns.iter().position(|column| column.name == "statement").expect("a column");
    assert_eq!(table.rows.len(), 1);
    assert_eq!(table.rows[0][at], None);
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
    assert_eq!(table.rows.len(), 3);
    assert!(table.rows.iter().all(|row| row[at..].iter().all(Option::is_none)), "{table:?}");
}

macro_rules! golden {
    ($($name:ident $show:ident)*) => {
        $(#[test] fn $name() { check(Show::$show, stringify!($name)); })*
    };
}

golden! {
    classes Classes
    clients Clients
    config Config
    databases Databases
    events Events
    fidelity Fidelity
    fidelity_reasons FidelityReasons
    fingerprints Fingerprints
    help Help
    lanes Lanes
    limits Limits
    lists Lists
    pins Pins
    pools Pools
    servers Servers
    sizing Sizing
    state State
    stats Stats
    stats_averages StatsAverages
    stats_totals StatsTotals
    totals Totals
    users Users
    version Version
    workers Workers
}
