//! A client that sends the same bytes to PostgreSQL and through pgweir gets the same answers, whatever becomes of its COPY.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use outer::{Client, Message, Stage, Wishes, frontend};

/// What a client does: sends a packet, or waits for a message of this type.
enum Step {
    Send(Vec<u8>),
    Await(u8),
}

use Step::{Await, Send};

fn data(row: &str) -> Vec<u8> {
    frontend::frame(b'd', row.as_bytes())
}

fn done() -> Vec<u8> {
    frontend::frame(b'c', b"")
}

fn fail() -> Vec<u8> {
    frontend::frame(b'f', b"enough\0")
}

fn flush() -> Vec<u8> {
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

const COPY: &str = "copy copied from stdin";
/// Fails when the copy has begun and nothing of it has been read.
const COPY_GUARDED: &str = "copy guarded from stdin";
const INSERT: &str = "insert into copied values (100)";

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
        told.push("it was closed".to_owned());
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
fn stage(settings: Vec<(&'static str, String)>) -> Stage {
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
fn play(stage: &Stage, address: SocketAddr, steps: &[Step]) -> Vec<String> {
    let _ = stage.direct("truncate copied");
    let mut client = Client::login(address, "postgres", "postgres").unwrap_or_else(|gone| panic!("login: {gone}"));
    let mut told = told(&mut client, steps);
    told.push(format!("copied: {}", stage.direct("select array_agg(a order by a) from copied")));
    told
}

fn direct(stage: &Stage) -> SocketAddr {
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

/// Draws programs: the same for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        // xorshift64*, by Vigna.
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound
    }

    fn pick<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len() as u64) as usize]
    }

    /// CopyData messages and what ends them, or nothing.
    fn copied(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for _ in 0..self.below(3) {
            bytes.extend(data(self.pick(&["1\n", "2\n", "x\n", "3\n4\n", "5"])));
            match self.below(12) {
                0 => bytes.extend(flush()),
                1 => bytes.extend(frontend::sync()),
                _ => {}
            }
        }
        match self.below(8) {
            0 => {}
            1 | 2 => bytes.extend(fail()),
            _ => bytes.extend(done()),
        }
        bytes
    }

    fn simple(&mut self) -> Vec<u8> {
        const TEXTS: [&str; 10] = [
            "select 7",
            "insert into copied values (100)",
            "select 1/0",
            "begin",
            "commit",
            "rollback",
            "select 8; select 1/0; select 9",
            "copy (select 1) to stdout",
            "set work_mem = '7MB'; show work_mem",
            "",
        ];
        match self.below(3) {
            0 => [frontend::query(self.pick(&[COPY, COPY, COPY_GUARDED])), self.copied()].concat(),
            _ => frontend::query(self.pick(&TEXTS)),
        }
    }

    fn batch(&mut self) -> Vec<u8> {
        const TEXTS: [&str; 6] =
            ["select 7", INSERT, "select 1/0", "copy (select 1) to stdout", "select no_such", "set work_mem = '8MB'"];
        let mut bytes = Vec::new();
        for part in 0..1 + self.below(3) {
            // Every statement has a name of its own: this test does not prepare one name twice.
            let name = if self.below(2) == 0 { String::new() } else { format!("n{}_{part}", self.0) };
            let (sql, copied) = match self.below(3) {
                0 => (self.pick(&[COPY, COPY, COPY_GUARDED]), self.copied()),
                _ => (self.pick(&TEXTS), Vec::new()),
            };
            bytes.extend(
                [frontend::parse(&name, sql), frontend::bind(&name, &[]), frontend::execute(), copied].concat(),
            );
            if self.below(5) == 0 {
                bytes.extend(flush());
            }
        }
        if self.below(10) > 0 {
            bytes.extend(frontend::sync());
        }
        bytes
    }

    /// Some requests, each in a packet of its own or with the next.
    fn program(&mut self) -> Vec<Step> {
        let (mut steps, mut packet) = (Vec::new(), Vec::new());
        for _ in 0..1 + self.below(5) {
            packet.extend(match self.below(10) {
                0..=3 => self.simple(),
                4..=7 => self.batch(),
                8 => [done(), data("9\n"), fail()].concat(),
                _ => [flush(), frontend::sync()].concat(),
            });
            if self.below(3) == 0 {
                steps.push(Send(std::mem::take(&mut packet)));
            }
        }
        steps.push(Send(packet));
        steps
    }
}

/// Where PostgreSQL closes a connection of which it has not read all, the reset that follows takes away what it had said last.
fn is_same(postgres: &[String], pgweir: &[String]) -> bool {
    let before = |told: &[String]| told.iter().position(|words| words == "it was closed");
    let (Some(theirs), Some(ours)) = (before(postgres), before(pgweir)) else { return postgres == pgweir };
    let shared = theirs.min(ours);
    postgres[..shared] == pgweir[..shared] && postgres.last() == pgweir.last()
}

/// Whether the pooler has ended a session of which it cannot know what PostgreSQL skips: that is its right behind a COPY by the extended
/// protocol with a Sync behind its data.
fn gives_up(steps: &[Step], postgres: &[String], pgweir: &[String]) -> bool {
    let sent: Vec<u8> =
        steps.iter().flat_map(|step| if let Send(bytes) = step { bytes.clone() } else { Vec::new() }).collect();
    let has = |part: &[u8]| sent.windows(part.len()).any(|window| window == part);
    let copies = has(b"copy copied from stdin\0\0\0") || has(b"copy guarded from stdin\0\0\0");
    let lost = pgweir.iter().position(|words| words.starts_with("E FATAL 08P01"));
    copies && lost.is_some_and(|lost| postgres.iter().zip(&pgweir[..lost]).all(|(theirs, ours)| theirs == ours))
}

/// So many programs, or as many as go into RANDOM_PROGRAMS_SECONDS, from RANDOM_PROGRAMS_SEED on.
#[test]
fn random_programs_are_answered_as_by_postgres() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let until = number("RANDOM_PROGRAMS_SECONDS").map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let first = number("RANDOM_PROGRAMS_SEED").unwrap_or(1);
    let stages = [stage(Vec::new()), stage(vec![("pool_fidelity", "classic".to_owned())])];
    let (mut seed, mut given_up, mut differences) = (first, 0, String::new());
    while until.map_or(seed < first + 150, |until| Instant::now() < until) {
        let steps = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1).program();
        for (stage, fidelity) in stages.iter().zip(["transparent", "classic"]) {
            let [postgres, pgweir] =
                [direct(stage), stage.pooler.address()].map(|address| play(stage, address, &steps));
            assert!(!postgres.iter().any(|words| words == "silence"), "seed {seed}: {postgres:#?}");
            if is_same(&postgres, &pgweir) {
                continue;
            }
            if gives_up(&steps, &postgres, &pgweir) {
                given_up += 1;
                continue;
            }
            let shown = steps
                .iter()
                .map(|step| if let Send(bytes) = step { bytes.escape_ascii().to_string() } else { String::new() });
            let sent: Vec<String> = shown.collect();
            differences +=
                &format!("\nseed {seed}, {fidelity}: {sent:#?}\n  PostgreSQL {postgres:?}\n  pgweir     {pgweir:?}");
        }
        if differences.len() > 20_000 {
            break;
        }
        seed += 1;
    }
    println!("{} programs; {given_up} times the session was given up", seed - first);
    assert!(differences.is_empty(), "{differences}");
    // How often nothing tells depends on how fast the server is; most are compared to their ends.
    assert!(given_up < seed - first, "{given_up} of {} runs were given up", 2 * (seed - first));
}
