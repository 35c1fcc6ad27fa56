//! A client that sends the same bytes to PostgreSQL and through pgweir gets the same answers, whatever becomes of its COPY.

use std::net::SocketAddr;

use outer::{Client, Message, Stage, Wishes, frontend};

/// What a client does: sends a packet, or waits for a message of this type.
pub(crate) enum Step {
    Send(Vec<u8>),
    Await(u8),
}

use Step::{Await, Send};

pub(crate) fn data(row: &str) -> Vec<u8> {
    frontend::frame(b'd', row.as_bytes())
}

pub(crate) fn done() -> Vec<u8> {
    frontend::frame(b'c', b"")
}

pub(crate) fn fail() -> Vec<u8> {
    frontend::frame(b'f', b"enough\0")
}

pub(crate) fn flush() -> Vec<u8> {
    frontend::frame(b'H', b"")
}

fn copy() -> Vec<u8> {
    frontend::query("copy copied from stdin")
}

fn insert() -> Vec<u8> {
    frontend::query("insert into copied values (100)")
}

/// By the extended protocol; the Sync is the caller's.
fn extended(sql: &str) -> Vec<u8> {
    [frontend::parse("", sql), frontend::bind("", &[]), frontend::execute()].concat()
}

fn named(sql: &str) -> Vec<u8> {
    [frontend::parse("n", sql), frontend::bind("n", &[]), frontend::execute()].concat()
}

fn sent(parts: &[Vec<u8>]) -> Step {
    Send(parts.concat())
}

pub(crate) const COPY: &str = "copy copied from stdin";
/// Fails when the copy has begun and nothing of it has been read.
pub(crate) const COPY_GUARDED: &str = "copy guarded from stdin";
pub(crate) const INSERT: &str = "insert into copied values (100)";

// tidy: a table, a row a sequence.
/// The simple protocol.
fn simple() -> Vec<(&'static str, Vec<Step>)> {
    let sync = frontend::sync;
    vec![
        ("a copy", vec![sent(&[copy()]), Await(b'G'), sent(&[data("1\n"), done()])]),
        ("a copy ahead", vec![sent(&[copy(), data("1\n"), done(), insert()])]),
        ("a copy that is given up", vec![sent(&[copy(), data("1\n"), fail(), insert()])]),
        ("bad data, CopyDone, a query", vec![sent(&[copy(), data("x\n"), done(), insert()])]),
        ("bad data and a query", vec![sent(&[copy(), data("x\n"), insert()])]),
        ("bad data and two queries", vec![sent(&[copy(), data("x\n"), insert(), frontend::query("select 7")])]),
        ("bad data and a query later", vec![sent(&[copy()]), Await(b'G'), sent(&[data("x\n"), insert()])]),
        (
            "bad data and a query apart",
            vec![sent(&[copy()]), Await(b'G'), sent(&[data("x\n")]), sent(&[data("y\n")]), sent(&[insert()])],
        ),
        (
            "bad data, its error, a query",
            vec![
                sent(&[copy()]),
                Await(b'G'),
                sent(&[data("x\n")]),
                Await(b'Z'),
                sent(&[data("y\n"), done(), insert()]),
            ],
        ),
        ("bad data and a batch", vec![sent(&[copy(), data("x\n"), extended("select 8"), sync()])]),
        (
            "bad data and a batch later",
            vec![
                sent(&[copy()]),
                Await(b'G'),
                sent(&[data("x\n"), named("select 8"), sync(), named("select 8"), sync()]),
            ],
        ),
        (
            "bad data and a SET",
            vec![
                sent(&[copy()]),
                Await(b'G'),
                sent(&[data("x\n"), frontend::query("set work_mem = '7MB'"), frontend::query("show work_mem")]),
            ],
        ),
        ("good data and a query", vec![sent(&[copy(), data("1\n"), insert()])]),
        ("good data and a query later", vec![sent(&[copy()]), Await(b'G'), sent(&[data("1\n"), insert()])]),
        ("good data and a batch", vec![sent(&[copy(), data("1\n"), extended("select 8"), sync()])]),
        (
            "good data and a batch later",
            vec![sent(&[copy()]), Await(b'G'), sent(&[data("1\n"), named("select 8"), sync()])],
        ),
        ("no data and a query", vec![sent(&[copy(), insert()])]),
        ("Sync and Flush inside", vec![sent(&[copy(), data("1\n"), sync(), flush(), data("2\n"), done(), insert()])]),
        (
            "Sync and Flush inside, later",
            vec![
                sent(&[copy()]),
                Await(b'G'),
                sent(&[data("1\n"), sync(), flush(), data("2\n"), sync(), done(), insert()]),
            ],
        ),
        ("Sync behind bad data", vec![sent(&[copy(), data("x\n"), sync(), flush(), sync()])]),
        ("Sync behind bad data, later", vec![sent(&[copy()]), Await(b'G'), sent(&[data("x\n"), sync()])]),
        ("Sync before bad data", vec![sent(&[copy(), sync(), data("x\n"), done()])]),
        (
            "Sync before and behind bad data",
            vec![sent(&[copy()]), Await(b'G'), sent(&[sync(), data("x\n"), sync(), sync(), done(), insert()])],
        ),
        ("Sync before bad data and a query", vec![sent(&[copy(), sync(), data("x\n"), insert()])]),
        (
            "Sync before bad data, then a batch",
            vec![sent(&[copy()]), Await(b'G'), sent(&[sync(), data("x\n"), done(), named("select 8"), sync()])],
        ),
        (
            "two copies in a text, the second fails",
            vec![sent(&[
                frontend::query("copy copied from stdin; copy copied from stdin"),
                data("1\n"),
                done(),
                data("x\n"),
                done(),
                insert(),
            ])],
        ),
        (
            "two copies in a text, left in the second",
            vec![
                sent(&[frontend::query("copy copied from stdin; copy copied from stdin")]),
                Await(b'G'),
                sent(&[data("1\n"), done()]),
                Await(b'G'),
                sent(&[data("x\n"), insert()]),
            ],
        ),
        (
            "in a transaction",
            vec![sent(&[frontend::query("begin"), copy(), data("x\n"), insert(), frontend::query("rollback")])],
        ),
        (
            "in a transaction, later",
            vec![
                sent(&[frontend::query("begin")]),
                Await(b'Z'),
                sent(&[copy()]),
                Await(b'G'),
                sent(&[data("x\n"), insert(), frontend::query("rollback")]),
            ],
        ),
        (
            "a trigger fails before the data",
            vec![sent(&[frontend::query(COPY_GUARDED), sync(), data("1\n"), done(), insert()])],
        ),
        ("a trigger fails before the data and a query", vec![sent(&[frontend::query(COPY_GUARDED), insert()])]),
        ("copy data outside of a copy", vec![sent(&[data("1\n"), done(), fail(), insert()])]),
    ]
}

// tidy: a table, a row a sequence.
/// The extended protocol.
fn batches() -> Vec<(&'static str, Vec<Step>)> {
    let sync = frontend::sync;
    vec![
        ("as libpq", vec![sent(&[extended(COPY), sync()]), Await(b'G'), sent(&[data("1\n"), done(), sync()])]),
        (
            "as libpq, bad data",
            vec![sent(&[extended(COPY), sync()]), Await(b'G'), sent(&[data("x\n"), done(), sync()])],
        ),
        (
            "as libpq, bad data, told before the end",
            vec![
                sent(&[extended(COPY), sync()]),
                Await(b'G'),
                sent(&[data("x\n")]),
                Await(b'E'),
                sent(&[done(), sync()]),
            ],
        ),
        (
            "as libpq, given up",
            vec![sent(&[extended(COPY), sync()]), Await(b'G'), sent(&[data("1\n"), fail(), sync()])],
        ),
        (
            "as libpq, a trigger fails",
            vec![sent(&[extended(COPY_GUARDED), sync()]), Await(b'Z'), sent(&[data("1\n"), done(), insert()])],
        ),
        (
            "as libpq, a trigger fails, not noticed",
            vec![sent(&[extended(COPY_GUARDED), sync()]), Await(b'E'), sent(&[data("1\n"), done(), sync()])],
        ),
        (
            "without a Sync before the data",
            vec![sent(&[extended(COPY), flush()]), Await(b'G'), sent(&[data("1\n"), done(), sync()])],
        ),
        ("all ahead", vec![sent(&[extended(COPY), sync(), data("1\n"), done(), sync(), insert()])]),
        ("all ahead, bad data", vec![sent(&[extended(COPY), sync(), data("x\n"), done(), sync(), insert()])]),
        (
            "all ahead, bad data, a batch behind",
            vec![sent(&[extended(COPY), sync(), data("x\n"), done(), sync(), extended("select 8"), sync()])],
        ),
        (
            "all ahead, a trigger fails",
            vec![sent(&[extended(COPY_GUARDED), sync(), data("1\n"), done(), sync(), insert()])],
        ),
        ("bad data and a query", vec![sent(&[extended(COPY), data("x\n"), insert(), sync()])]),
        (
            "bad data and a query later",
            vec![sent(&[extended(COPY), flush()]), Await(b'G'), sent(&[data("x\n"), insert(), sync(), insert()])],
        ),
        (
            "bad data and a batch",
            vec![sent(&[extended(COPY), data("x\n"), named("select 8"), sync(), named("select 8"), sync()])],
        ),
        (
            "bad data and a batch later",
            vec![
                sent(&[extended(COPY), flush()]),
                Await(b'G'),
                sent(&[data("x\n"), named("select 8"), sync(), named("select 8"), sync()]),
            ],
        ),
        ("good data and a query", vec![sent(&[extended(COPY), data("1\n"), insert(), sync()])]),
        (
            "good data and a query later",
            vec![sent(&[extended(COPY), flush()]), Await(b'G'), sent(&[data("1\n"), insert(), sync()])],
        ),
        ("good data and a batch", vec![sent(&[extended(COPY), data("1\n"), extended("select 8"), sync()])]),
        (
            "good data and a batch later",
            vec![sent(&[extended(COPY), flush()]), Await(b'G'), sent(&[data("1\n"), named("select 8"), sync()])],
        ),
        (
            "behind another statement of its batch",
            vec![sent(&[extended(INSERT), extended(COPY), data("x\n"), done(), sync(), insert()])],
        ),
        (
            "before another statement of its batch",
            vec![sent(&[
                extended(COPY),
                data("1\n"),
                done(),
                extended(INSERT),
                sync(),
                frontend::query("select count(*) from copied"),
            ])],
        ),
        (
            "before another statement of its batch, bad data",
            vec![sent(&[
                extended(COPY),
                data("x\n"),
                done(),
                extended(INSERT),
                sync(),
                frontend::query("select count(*) from copied"),
            ])],
        ),
        (
            "Sync behind bad data, later",
            vec![sent(&[extended(COPY), flush()]), Await(b'G'), sent(&[data("x\n"), sync()]), Await(b'Z')],
        ),
    ]
}

/// What stands behind a Sync that the server may have read inside of the copy or outside, and is skipped or not: nothing tells
/// which, so the session is told that it ends, where PostgreSQL answers.
fn beyond() -> Vec<Step> {
    vec![sent(&[extended(COPY), data("x\n"), frontend::sync(), insert()])]
}

/// All that a client is told, from its first message to the answer to a last question, or to the end of its connection.
fn told(client: &mut Client, steps: &[Step]) -> Vec<String> {
    let mut told = Vec::new();
    for step in steps {
        match step {
            Send(bytes) => {
                if client.send(bytes).is_err() {
                    break;
                }
            }
            &Await(tag) => while read(client, &mut told).is_some_and(|heard| heard != tag) {},
        }
    }
    // Sync ends whatever is skipped; the row of the query is the last that is to come.
    if client.send(&[frontend::sync(), frontend::query("rollback; select 'the end'")].concat()).is_err() {
        // It was closed. What was told before that is still there to be read.
        while read(client, &mut told).is_some() {}
        return told;
    }
    while !told.iter().any(|words| words.contains("the end")) && read(client, &mut told).is_some() {}
    while told.last().is_some_and(|words| !words.starts_with('Z')) && read(client, &mut told).is_some() {}
    told
}

/// The type of the next message; none if there is none.
fn read(client: &mut Client, told: &mut Vec<String>) -> Option<u8> {
    let message = match client.receive() {
        Ok(message) => message,
        Err(how) => {
            let silent = matches!(how.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut);
            told.push(if silent { "silence" } else { "it was closed" }.to_owned());
            return None;
        }
    };
    if !matches!(message.tag, b'S' | b'K' | b'N') {
        told.push(words(&message));
    }
    Some(message.tag)
}

fn words(message: &Message) -> String {
    let tag = char::from(message.tag);
    match message.tag {
        // Which message was not expected inside of the copy may be another: the pooler prepares a named statement by messages of its own.
        b'E' if message.field(b'M').starts_with("unexpected message type 0x") => {
            "E 08P01 unexpected message type".to_owned()
        }
        b'E' => format!("E {} {} {}", message.field(b'S'), message.field(b'C'), message.field(b'M')),
        b'D' => format!("D {:?}", message.columns()),
        b'C' | b'Z' => format!("{tag} {}", String::from_utf8_lossy(&message.body)),
        _ => tag.to_string(),
    }
}

/// PostgreSQL with tables to copy into, and a pooler with these settings.
pub(crate) fn stage(settings: Vec<(&'static str, String)>) -> Stage {
    let stage = Stage::set(&Wishes { pool: 2, settings, ..Wishes::default() });
    let _ = stage.direct(
        "do $$ begin execute format('copy (values (''local all all trust''), (''host all all 127.0.0.1/32 trust'')) to %L',
                                    current_setting('hba_file')); end $$; select pg_reload_conf()",
    );
    let _ = stage.direct(
        "create table copied (a int primary key); create table guarded (a int);
         create function refuse() returns trigger language plpgsql as $$ begin raise 'refused'; end $$;
         create trigger refuse before insert on guarded for each statement execute function refuse()",
    );
    stage
}

/// What is told by whoever listens there, and which rows are there afterwards.
pub(crate) fn play(stage: &Stage, address: SocketAddr, steps: &[Step]) -> Vec<String> {
    let _ = stage.direct("truncate copied");
    let mut client = Client::login(address, "postgres", "postgres").unwrap_or_else(|gone| panic!("login: {gone}"));
    let mut told = told(&mut client, steps);
    told.push(format!("copied: {}", stage.direct("select array_agg(a order by a) from copied")));
    told
}

pub(crate) fn direct(stage: &Stage) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], stage.cluster.port()))
}

/// Plays every row against both; `settings`: of the pooler.
fn compare(settings: Vec<(&'static str, String)>) {
    let stage = stage(settings);
    let (mut rows, mut differences) = (0, String::new());
    for (protocol, (name, steps)) in
        simple().into_iter().map(|row| ("simple", row)).chain(batches().into_iter().map(|row| ("extended", row)))
    {
        let [postgres, pgweir] = [direct(&stage), stage.pooler.address()].map(|address| play(&stage, address, &steps));
        assert!(!postgres.iter().any(|words| words == "silence"), "{protocol}, {name}: {postgres:#?}");
        if postgres != pgweir {
            differences += &format!("\n{protocol}, {name}:\n  PostgreSQL {postgres:?}\n  pgweir     {pgweir:?}");
        }
        rows += 1;
    }
    assert!(differences.is_empty(), "{differences}");
    let mut client = stage.client();
    let ended = told(&mut client, &beyond());
    assert!(ended.iter().any(|words| words.starts_with("E FATAL 08P01")), "{ended:?}");
    assert!(rows >= 50, "only {rows} rows");
}

#[test]
fn a_copy_ends_as_in_postgres_whatever_stands_behind_it() {
    compare(Vec::new());
}

#[test]
fn a_copy_ends_as_in_postgres_where_sessions_are_not_followed() {
    compare(vec![("pool_fidelity", "classic".to_owned())]);
}

#[test]
fn a_copy_ends_as_in_postgres_in_session_mode() {
    compare(vec![("pool_mode", "session".to_owned())]);
}
