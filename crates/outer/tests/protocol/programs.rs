//! A client that sends a random program to PostgreSQL and through pgweir gets the same answers.

use std::time::{Duration, Instant};

use outer::{Client, frontend};

use crate::copying::Step::Send;
use crate::copying::{COPY, COPY_GUARDED, INSERT, Step, data, direct, done, fail, flush, play, stage};

/// Draws programs: the same for the same seed.
struct Random(u64);

/// The reason in the pooler's log for the end of a session that it gives up.
const SYNC_LOST: &str = "protocol synchronization was lost";

/// The lengths that a message may declare although its type allows no such length.
const LENGTHS: [(u8, u32); 8] = [
    (b'Q', 3),
    (b'S', 0),
    (b'd', 3),
    (b'P', u32::MAX),
    (b'S', 20_000),
    (b'H', 10_005),
    (b'c', 20_000),
    (b'd', 0x7fff_ffff),
];

/// Messages with bodies that PostgreSQL refuses, or would if it read them.
const BAD_BODIES: [(u8, &[u8]); 34] = [
    (b'P', b""),
    (b'P', b"bad"),
    (b'P', b"bad\0select 7"),
    (b'P', b"\0select 7\0\0\x02\0\0\0\x17"),
    (b'P', b"bad\0select 7\0\0"),
    (b'P', b"bad\0select 7\0\0\0and more"),
    (b'P', b"\0insert into copied values (200)\0\0\0\0"),
    (b'B', b""),
    (b'B', b"portal"),
    (b'B', b"\0statement"),
    (b'B', b"\0\0\0"),
    (b'B', b"\0\0\0\0\0\x01\0\0\0\x09short"),
    (b'B', b"\0\0\0\0\0\0\0\0more"),
    (b'D', b""),
    (b'D', b"S"),
    (b'D', b"Sunended"),
    (b'D', b"Xkind\0"),
    (b'D', b"P\0more"),
    (b'C', b""),
    (b'C', b"Sunended"),
    (b'C', b"Xkind\0"),
    (b'C', b"S\0more"),
    (b'E', b""),
    (b'E', b"\0\0\0"),
    (b'E', b"\0\0\0\0\0more"),
    (b'S', b"\0"),
    (b'S', b"more"),
    (b'H', b"\0"),
    (b'Q', b""),
    (b'Q', b"insert into copied values (201)"),
    (b'Q', b"insert into copied values (202)\0select 7\0"),
    (b'F', b""),
    (b'F', b"\0\0\x05\x22\0"),
    (b'f', b"unended"),
];

impl Random {
    /// A message that PostgreSQL refuses: most of them by an error, and some by ending the session.
    fn illegal(&mut self) -> Vec<u8> {
        match self.below(12) {
            0 => frontend::frame(b'z', b""),
            1 => frontend::frame(b'p', b"secret\0"),
            2 => {
                let (tag, len) = LENGTHS[self.below(LENGTHS.len() as u64) as usize];
                [&[tag][..], &len.to_be_bytes()].concat()
            }
            _ => {
                let (tag, body) = BAD_BODIES[self.below(BAD_BODIES.len() as u64) as usize];
                frontend::frame(tag, body)
            }
        }
    }

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
                2 if self.below(3) == 0 => bytes.extend(self.illegal()),
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

    /// A message about a statement with one of two names, which mostly have the same text.
    fn of_a_name(&mut self) -> Vec<u8> {
        const TEXT: &str = "select $1::int";
        let name = self.pick(&["one", "two"]);
        match self.below(9) {
            0..=2 => frontend::parse(name, TEXT),
            3 => frontend::parse(name, "select $1::text"),
            4 => [frontend::bind(name, &["7"]), frontend::execute()].concat(),
            5 | 6 => [frontend::bind(name, &[]), frontend::execute()].concat(),
            7 => frontend::frame(b'D', format!("S{name}\0").as_bytes()),
            _ => frontend::close_statement(name),
        }
    }

    fn batch(&mut self) -> Vec<u8> {
        const TEXTS: [&str; 6] =
            ["select 7", INSERT, "select 1/0", "copy (select 1) to stdout", "select no_such", "set work_mem = '8MB'"];
        let mut bytes = Vec::new();
        for part in 0..1 + self.below(3) {
            // Most statements have a name of their own.
            let name = if self.below(2) == 0 { String::new() } else { format!("n{}_{part}", self.0) };
            let (sql, copied) = match self.below(3) {
                0 => (self.pick(&[COPY, COPY, COPY_GUARDED]), self.copied()),
                _ => (self.pick(&TEXTS), Vec::new()),
            };
            bytes.extend(
                [frontend::parse(&name, sql), frontend::bind(&name, &[]), frontend::execute(), copied].concat(),
            );
            match self.below(20) {
                0..=2 => bytes.extend(flush()),
                3 => bytes.extend(self.illegal()),
                4 => bytes.extend([frontend::bind("", &[]), frontend::execute()].concat()),
                5..=9 => bytes.extend(self.of_a_name()),
                _ => {}
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
            packet.extend(match self.below(12) {
                0..=3 => self.simple(),
                4..=7 => self.batch(),
                8 => self.illegal(),
                9 => [self.of_a_name(), self.of_a_name(), frontend::sync()].concat(),
                10 => [done(), data("9\n"), fail()].concat(),
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

/// If PostgreSQL closes a connection before it has read all of it, the reset that follows may discard its last messages.
fn is_same(postgres: &[String], pgweir: &[String]) -> bool {
    let before = |told: &[String]| told.iter().position(|words| words == "it was closed");
    let (Some(theirs), Some(ours)) = (before(postgres), before(pgweir)) else { return postgres == pgweir };
    let shared = theirs.min(ours);
    postgres[..shared] == pgweir[..shared] && postgres.last() == pgweir.last()
}

/// Whether the pooler has ended a session of which it cannot know what PostgreSQL skips: that is its right behind a COPY by the extended
/// protocol with a Sync behind its data, and at a Sync or a Flush with a body within a COPY. A client that sends on may get a reset that
/// discards the last messages: then the pooler's log tells.
fn gives_up(steps: &[Step], postgres: &[String], pgweir: &[String], log: &str) -> bool {
    let sent: Vec<u8> =
        steps.iter().flat_map(|step| if let Send(bytes) = step { bytes.clone() } else { Vec::new() }).collect();
    let has = |part: &[u8]| sent.windows(part.len()).any(|window| window == part);
    let copies = has(b"copy copied from stdin\0\0\0") || has(b"copy guarded from stdin\0\0\0");
    let surplus = BAD_BODIES.iter().any(|(tag, body)| matches!(tag, b'S' | b'H') && has(&frontend::frame(*tag, body)));
    let is_end = |words: &&String| {
        copies && words.starts_with("E FATAL 08P01") || surplus && *words == "E 08P01 unexpected message type"
    };
    let cut = || pgweir.iter().position(|words| words == "it was closed" && copies && log.contains(SYNC_LOST));
    let lost = pgweir.iter().position(|words| is_end(&words)).or_else(cut);
    lost.is_some_and(|lost| postgres.iter().zip(&pgweir[..lost]).all(|(theirs, ours)| theirs == ours))
}

/// Programs that were answered otherwise once.
const FORMER: [u64; 7] =
    [1_795_955_211, 1_795_961_172, 1_795_966_594, 1_795_982_732, 1_795_998_314, 1_796_011_920, 1_796_118_078];

/// The former ones, and 150, or as many as go into RANDOM_PROGRAMS_SECONDS, from RANDOM_PROGRAMS_SEED on.
#[test]
fn random_programs_are_answered_as_by_postgres() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let until = number("RANDOM_PROGRAMS_SECONDS").map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let first = number("RANDOM_PROGRAMS_SEED").unwrap_or(1);
    let stages = [stage(Vec::new()), stage(vec![("pool_fidelity", "classic".to_owned())])];
    let (mut given_up, mut differences, mut count) = (0, String::new(), 0);
    for seed in FORMER.into_iter().chain(first..) {
        if !until.map_or(seed < first + 150 || count < FORMER.len(), |until| Instant::now() < until) {
            break;
        }
        count += 1;
        let steps = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1).program();
        for (stage, fidelity) in stages.iter().zip(["transparent", "classic"]) {
            // Read only where answers differ: it gets long.
            let before = std::fs::metadata(stage.pooler.dir().join("log")).map_or(0, |log| log.len());
            let [postgres, pgweir] =
                [direct(stage), stage.pooler.address()].map(|address| play(stage, address, &steps));
            assert!(!postgres.iter().any(|words| words == "silence"), "seed {seed}: {postgres:#?}");
            if is_same(&postgres, &pgweir) {
                continue;
            }
            if gives_up(&steps, &postgres, &pgweir, &stage.pooler.log()[before as usize..]) {
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
    }
    println!("{count} programs; {given_up} times the session was given up");
    assert!(differences.is_empty(), "{differences}");
    // The number depends on how fast the server is. Most programs are compared to their ends.
    assert!(given_up < count, "{given_up} of {} runs were given up", 2 * count);
}

#[test]
fn a_goodbye_with_a_body_ends_the_session() {
    let stage = stage(Vec::new());
    for address in [direct(&stage), stage.pooler.address()] {
        let mut client = Client::login(address, "postgres", "postgres").expect("let in");
        assert_eq!(client.query("select 7").expect("served").value(), Some("7"));
        client.send(&frontend::frame(b'X', b"goodbye")).expect("connected");
        let gone = client.receive().expect_err("it is closed");
        assert_eq!(gone.kind(), std::io::ErrorKind::UnexpectedEof, "{gone}");
    }
}
