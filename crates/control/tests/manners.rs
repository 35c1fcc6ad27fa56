//! A command by either protocol, SHOW … LIKE, and what drivers send by themselves, as the control thread answers them.

mod world;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use control::{Asker, Command, ControlEvent, EngineFacts, KnownNames, Loaded, Plane, Steward, Wanted};
use jiff::Zoned;
use machine::{Level, Look, Manner, Question, Settings, Snapshot, Stop};
use units::random::Random;
use units::{ConnId, Serial, WorkerId};
use wire::{HEADER_LEN, Header, backend};

/// A data plane that notes what it is asked to do.
#[derive(Default)]
struct Notes {
    answer: Vec<u8>,
    looks: u32,
    loads: u32,
}

struct NotingPlane(Rc<RefCell<Notes>>);

impl Plane for NotingPlane {
    fn look(&mut self, _look: Look) -> Vec<Snapshot> {
        self.0.borrow_mut().looks += 1;
        world::World::new().snapshots
    }

    fn counters(&mut self) -> EngineFacts {
        EngineFacts::default()
    }

    fn configure(&mut self, _settings: Arc<Settings>) {}

    fn stop(&mut self, _stop: Stop) {}

    fn accept(&mut self, _accepts: bool) {}

    fn answer(&mut self, _to: Asker, bytes: Vec<u8>, _close: bool) {
        self.0.borrow_mut().answer = bytes;
    }

    fn kill_client(&mut self, _worker: WorkerId, _conn: ConnId, _serial: Serial) {}

    fn kill_query(&mut self, _worker: WorkerId, _conn: ConnId, _serial: Serial) {}

    fn wall_clock(&self) -> Zoned {
        Zoned::default()
    }

    fn log_lines_lost(&mut self) -> u64 {
        0
    }

    fn names(&mut self) -> KnownNames {
        KnownNames::default()
    }

    fn forget_names(&mut self) {}

    fn give_memory_back(&mut self) {}

    fn tell(&mut self, _level: Level, _text: String) {}
}

/// What a command leads to: the answer's messages, and how often the workers were looked at and the configuration was read.
fn asked(text: &str, manner: Manner, admin: bool) -> (Vec<(u8, Vec<u8>)>, u32, u32) {
    let notes = Rc::new(RefCell::new(Notes::default()));
    let loaded = Loaded {
        settings: Arc::new(world::World::new().settings),
        rows: world::World::new().rows,
        listen_port: 6432,
        stats_period: 60 * world::SECOND,
        log_stats: false,
        warnings: Vec::new(),
    };
    let (found, read) = (loaded.clone(), Rc::clone(&notes));
    let load = move |_: Wanted<'_>| {
        read.borrow_mut().loads += 1;
        Ok(found.clone())
    };
    let mut steward = Steward::new(NotingPlane(Rc::clone(&notes)), load, loaded);
    let asker = Asker { worker: WorkerId(0), conn: ConnId::from_bits(1 << 60) };
    let question = Question { text: text.as_bytes().to_vec(), manner, user: "adm".into(), admin };
    assert_eq!(steward.serve(ControlEvent::Asked { asker, question }), None);
    let notes = notes.borrow();
    let (mut rest, mut messages) = (&notes.answer[..], Vec::new());
    while let Some(header) = Header::parse(rest).expect("sound") {
        messages.push((header.tag, rest[HEADER_LEN..header.total_len()].to_vec()));
        rest = &rest[header.total_len()..];
    }
    (messages, notes.looks, notes.loads)
}

fn tags(messages: &[(u8, Vec<u8>)]) -> String {
    messages.iter().map(|(tag, _)| char::from(*tag)).collect()
}

fn describe(formats: &[u16]) -> Manner {
    Manner::Describe { formats: formats.into() }
}

fn execute(formats: &[u16]) -> Manner {
    Manner::Execute { formats: formats.into() }
}

/// The values of the first column.
fn names(messages: &[(u8, Vec<u8>)]) -> Vec<String> {
    let rows = messages.iter().filter(|(tag, _)| *tag == b'D');
    let first = |body: &[u8]| {
        let row = backend::DataRow::decode(body).expect("sound");
        String::from_utf8(row.values().next().expect("a column").expect("a value").to_vec()).expect("text")
    };
    rows.map(|(_, body)| first(body)).collect()
}

#[test]
fn what_is_only_described_is_not_done() {
    let table = [
        ("show pools", "TZ"),
        ("show clients like 'C'", "TZ"),
        ("show server_version", "TZ"),
        ("show help", "nZ"),
        ("reload", "nZ"),
        ("pause", "nZ"),
        ("shutdown", "nZ"),
        ("set default_pool_size = 3", "nZ"),
        ("begin", "nZ"),
        ("", "nZ"),
        ("-- ping", "nZ"),
        ("select 1", "EZ"),
        ("select version()", "TZ"),
        ("select db.oid,db.* from pg_catalog.pg_database db where datname=$1", "tTZ"),
        // Several statements are for a simple query.
        ("begin; commit", "EZ"),
    ];
    for (text, expected) in table {
        let (messages, looks, loads) = asked(text, describe(&[]), true);
        assert_eq!((tags(&messages).as_str(), looks, loads), (expected, 0, 0), "{text:?}");
    }
    for manner in [describe(&[]), execute(&[]), Manner::Query] {
        let (messages, _, loads) = asked("reload", manner, false);
        assert_eq!((tags(&messages).as_str(), loads), ("EZ", 0), "for administrators only");
    }
}

#[test]
fn a_description_is_that_of_the_rows() {
    let simple = asked("show lists", Manner::Query, true).0;
    let (described, executed) = (asked("show lists", describe(&[]), true).0, asked("show lists", execute(&[]), true).0);
    assert_eq!(described[0], simple[0]);
    assert_eq!(executed[..], simple[1..], "all but the description");
}

#[test]
fn rows_have_the_formats_that_are_asked_for() {
    let (described, executed) =
        (asked("show lists", describe(&[0, 1]), true).0, asked("show lists", execute(&[0, 1]), true).0);
    let description = backend::RowDescription::decode(&described[0].1).expect("sound");
    assert_eq!(description.columns().map(|column| column.format).collect::<Vec<_>>(), [0, 1]);
    let simple = asked("show lists", Manner::Query, true).0;
    for ((_, binary), (_, text)) in executed.iter().zip(&simple[1..]).filter(|((tag, _), _)| *tag == b'D') {
        let [binary, text] = [binary, text].map(|body| backend::DataRow::decode(body).expect("sound"));
        let (binary, text): (Vec<_>, Vec<_>) = (binary.values().collect(), text.values().collect());
        assert_eq!(binary[0], text[0]);
        let number = i32::from_be_bytes(binary[1].expect("a value").try_into().expect("four bytes"));
        assert_eq!(number.to_string().as_bytes(), text[1].expect("a value"));
    }
    // Every table can be asked for in binary: a number that is none would be a panic.
    for (word, _) in control::Show::lines().flatten() {
        let messages = asked(&format!("show {word}"), execute(&[1; 64]), true).0;
        assert!(tags(&messages).ends_with("CZ"), "{word}");
    }
}

#[test]
fn like_leaves_the_rows_whose_first_text_fits() {
    let shown = |text: &str| names(&asked(text, Manner::Query, true).0);
    assert_eq!(shown("show config"), ["auth_user", "listen_port", "pool_mode"]);
    assert_eq!(shown("show config like '%o%t%'"), ["listen_port"]);
    assert_eq!(shown("show config like 'p___\\_mode'"), ["pool_mode"]);
    assert_eq!(shown("SHOW CONFIG LIKE 'POOL%'"), [""; 0]);
    assert_eq!(shown("show pools like 'pgb%'"), ["pgbouncer"]);
    assert_eq!(shown("show clients like 'C'").len(), shown("show clients").len());
    assert_eq!(shown("show lists like 'dns\\_%'"), ["dns_names", "dns_zones", "dns_queries", "dns_pending"]);
    // None of its columns is text.
    assert_eq!(tags(&asked("show peer_pools like '%'", Manner::Query, true).0), "TCZ");
    assert_eq!(tags(&asked("show fds like '%'", Manner::Query, false).0), "EZ");
}

#[test]
fn what_drivers_send_is_answered_and_does_nothing() {
    for (text, expected) in [
        ("BEGIN", "BEGIN"),
        ("START TRANSACTION READ ONLY", "START TRANSACTION"),
        ("COMMIT", "COMMIT"),
        ("ROLLBACK;", "ROLLBACK"),
        ("SET extra_float_digits = 3", "SET"),
    ] {
        // A user of stats_users may, too.
        let (messages, looks, loads) = asked(text, Manner::Query, false);
        assert_eq!((tags(&messages).as_str(), looks, loads), ("CZ", 0, 0), "{text}");
        assert_eq!(messages[0].1.strip_suffix(b"\0"), Some(expected.as_bytes()));
    }
    assert_eq!(names(&asked("show server_version", Manner::Query, false).0), ["1.25.2/bouncer"]);
    assert_eq!(names(&asked("SHOW TRANSACTION ISOLATION LEVEL", Manner::Query, false).0), ["read committed"]);
    assert_eq!(tags(&asked("-- ping", Manner::Query, false).0), "IZ");
    assert_eq!(tags(&asked("", Manner::Query, false).0), "EZ", "as in PgBouncer");
    assert_eq!(tags(&asked("", execute(&[]), false).0), "IZ");
}

#[test]
fn several_statements_of_a_driver_are_answered_one_by_one() {
    let text = "begin; show server_version;; select version() ; set datestyle=iso; commit;";
    let (messages, looks, loads) = asked(text, Manner::Query, false);
    assert_eq!((tags(&messages).as_str(), looks, loads), ("CTDCTDCCCZ", 0, 0));
    assert_eq!(names(&messages), ["1.25.2/bouncer", "PgBouncer 1.25.2"]);
    let done: Vec<_> =
        messages.iter().filter(|(tag, _)| *tag == b'C').map(|(_, body)| &body[..body.len() - 1]).collect();
    assert_eq!(done, [&b"BEGIN"[..], b"SHOW", b"SELECT 1", b"SET", b"COMMIT"]);
    for text in ["begin; show pools", "show pools; show pools", "begin; reload", "begin; select 1"] {
        let (messages, looks, loads) = asked(text, Manner::Query, true);
        assert_eq!((tags(&messages).as_str(), looks, loads), ("EZ", 0, 0), "{text}");
    }
}

#[test]
fn the_selects_of_tools_are_answered_in_both_formats_and_with_the_name_of_the_user() {
    let text = "SELECT current_schema(),session_user";
    let row = |messages: &[(u8, Vec<u8>)]| {
        let row = messages.iter().find(|(tag, _)| *tag == b'D').expect("a row");
        let row = backend::DataRow::decode(&row.1).expect("sound");
        row.values().map(|value| value.map(<[u8]>::to_vec)).collect::<Vec<_>>()
    };
    assert_eq!(row(&asked(text, Manner::Query, false).0), [None, Some(b"adm".to_vec())]);
    let database = "SELECT db.oid as did, db.datname, db.datallowconn, and more";
    let both = [row(&asked(database, execute(&[]), false).0), row(&asked(database, execute(&[1; 6]), false).0)];
    let value = |bytes: &[u8]| Some(bytes.to_vec());
    assert_eq!(both[0][..3], [value(b"16384"), value(b"pgbouncer"), value(b"t")]);
    assert_eq!(both[1][..3], [value(&16_384_i32.to_be_bytes()), value(b"pgbouncer"), value(&[1])]);
    assert_eq!(both[1][4], value(&[0]));
}

/// What texts are made of.
const PARTS: [&str; 47] = [
    "show",
    "SHOW",
    "pools",
    "config",
    "server_version",
    "like",
    "LIKE",
    "'%'",
    "'a",
    "'",
    "''",
    "\"",
    "\"a\"",
    "\\",
    "%",
    "set",
    "=",
    "to",
    "default_pool_size",
    "application_name",
    "3",
    "begin",
    "commit",
    "transaction",
    "read",
    "only",
    ",",
    ";",
    " ",
    "  ",
    "\n",
    "\t",
    "--",
    "-- x\n",
    "pause",
    "kill",
    "kill_client",
    "kill_query",
    "reload",
    "shutdown",
    "wait_for_clients",
    "é",
    "\u{a0}",
    "\0",
    "time zone",
    "select version()",
    "select t.oid,t.*,$1",
];

#[test]
fn any_text_is_a_command_or_none() {
    let mut random = Random::seeded(11);
    let mut commands = 0;
    for _ in 0..100_000 {
        let parts = random.below(9);
        let mut text = String::new();
        for _ in 0..parts {
            text += PARTS[random.below(PARTS.len() as u64) as usize];
            text += if random.below(3) == 0 { "" } else { " " };
        }
        let read = Command::parse(&text);
        commands += u32::from(read.is_some());
        // Blanks around it, and a semicolon behind it, change nothing. (What ends with one cannot have another, and a comment takes it in.)
        if read.is_some() && !text.trim_end().ends_with(';') && !text.contains("--") {
            assert_eq!(Command::parse(&format!(" \n{text} ;\t")), read, "{text:?}");
        }
    }
    assert!(commands > 1_000, "{commands} commands: too few to show anything");
}
