//! Servers that break the protocol before or at their login: each costs its own clients an error with a code, and nobody else
//! anything.
//!
//! One played PostgreSQL plays all cases, in the clear and inside TLS, whole and byte by byte: the database that the pooler wants says
//! which. Clients of all cases come at once, and a client of a real PostgreSQL is served beside them.

use std::fmt::Write as _;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use outer::{Client, Impostor, Peer, Pooler, Slot, Stage, frontend};

/// What all cases together may make the pooler grow.
const GROWTH_KB_MAX: u64 = 24 * 1024;

/// Servers that ask for costly hashes, one each, and how many queries of others are answered meanwhile at least. A worker that hashes
/// itself would answer one between two hashes.
const COSTLY: usize = 16;
const MEANWHILE_MIN: usize = 3 * COSTLY;

/// Clients of this user get an error after 2 s if there is no server or it does not answer.
const HASTY: &str = "[users]\nann = query_wait_timeout=2 query_timeout=2\n";

type Play = Box<dyn Fn(&mut Peer) -> io::Result<()> + Send + Sync>;

/// What a server does behind the startup packet, by name.
struct Case(String, Play);

fn case(name: impl Into<String>, play: impl Fn(&mut Peer) -> io::Result<()> + Send + Sync + 'static) -> Case {
    Case(name.into(), Box::new(play))
}

/// A server that says this and waits.
fn says(name: impl Into<String>, bytes: Vec<u8>) -> Case {
    case(name, move |peer| peer.say(&bytes))
}

fn authentication(kind: u32, rest: &[u8]) -> Vec<u8> {
    frontend::frame(b'R', &[&kind.to_be_bytes()[..], rest].concat())
}

fn ok() -> Vec<u8> {
    authentication(0, b"")
}

fn sasl() -> Vec<u8> {
    authentication(10, b"SCRAM-SHA-256\0\0")
}

fn ready() -> Vec<u8> {
    frontend::frame(b'Z', b"I")
}

/// The message with each length that it does not have.
fn lengths(name: &str, message: &[u8]) -> Vec<(String, Vec<u8>)> {
    let actual = u32::try_from(message.len() - 1).expect("it is short");
    let wrong = [0, 1, 3, 4, actual - 1, actual + 1, 0x7fff_ffff, 0xffff_ffff];
    let with = |length: u32| [&message[..1], &length.to_be_bytes(), &message[5..]].concat();
    let all = wrong.into_iter().filter(|length| *length != actual);
    all.map(|length| (format!("{name} with length {length}"), with(length))).collect()
}

/// Takes the pooler's first message of SCRAM and says this, in which `NONCE` is the pooler's nonce.
fn challenge(peer: &mut Peer, first: &[u8]) -> io::Result<()> {
    peer.say(&sasl())?;
    let heard = peer.hear()?;
    let text = String::from_utf8_lossy(&heard).into_owned();
    let nonce = text.split("r=").nth(1).unwrap_or_default();
    let text = String::from_utf8_lossy(first).replace("NONCE", nonce);
    peer.say(&authentication(11, text.as_bytes()))
}

const SOUND: &[u8] = b"r=NONCEabc,s=c2FsdHNhbHRzYWx0c2FsdA==,i=4096";

fn scram_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let counts =
        ["0", "-1", "1000000", "1000001", "50000000", "2147483647", "2147483648", "4294967296", "", "x", "4096 "];
    for count in counts {
        let first = format!("r=NONCEabc,s=c2FsdHNhbHRzYWx0c2FsdA==,i={count}");
        cases.push(case(format!("{count:?} iterations"), move |peer| challenge(peer, first.as_bytes())));
    }
    let long = "n".repeat(64_000);
    let salt = "A".repeat(64_000);
    for (name, first) in [
        ("a nonce of 64 kB", format!("r=NONCE{long},s=c2FsdA==,i=4096")),
        ("a nonce that is not ours", "r=abc,s=c2FsdA==,i=4096".to_owned()),
        ("no nonce of its own", "r=NONCE,s=c2FsdA==,i=4096".to_owned()),
        ("a salt that is no base64", "r=NONCEabc,s=!!!!,i=4096".to_owned()),
        ("no salt", "r=NONCEabc,s=,i=4096".to_owned()),
        ("a salt of 48 kB", format!("r=NONCEabc,s={salt},i=4096")),
        ("a mandatory extension", "m=x,r=NONCEabc,s=c2FsdA==,i=4096".to_owned()),
        ("no text", "\0\u{fffd}".to_owned()),
        ("nothing", String::new()),
    ] {
        cases.push(case(format!("a challenge with {name}"), move |peer| challenge(peer, first.as_bytes())));
    }
    let signature = "v=".to_owned() + &"A".repeat(43) + "=";
    for (name, last) in [
        ("a wrong signature", signature.as_str()),
        ("half a signature", "v=AAAA"),
        ("an error", "e=other-error"),
        ("nothing", ""),
        ("64 kB", &long),
    ] {
        let last = [authentication(12, last.as_bytes()), ok(), ready()].concat();
        cases.push(case(format!("{name} in the end of SCRAM"), move |peer| {
            challenge(peer, SOUND)?;
            peer.hear()?;
            peer.say(&last)
        }));
    }
    cases.push(case("no end of SCRAM", |peer| {
        challenge(peer, SOUND)?;
        peer.hear()?;
        peer.say(&[ok(), ready()].concat())
    }));
    cases.push(case("AuthenticationOk at once behind SASL", |peer| peer.say(&[sasl(), ok(), ready()].concat())));
    cases.push(case("the end of SCRAM behind its beginning", |peer| {
        peer.say(&[sasl(), authentication(12, b"v=AAAA"), ok(), ready()].concat())
    }));
    for (name, message) in lengths("SASLContinue", &authentication(11, b"r=abc,s=c2FsdA==,i=4096")) {
        cases.push(case(name, move |peer| {
            peer.say(&sasl())?;
            peer.hear()?;
            peer.say(&message)
        }));
    }
    for (name, message) in lengths("SASLFinal", &authentication(12, signature.as_bytes())) {
        cases.push(case(name, move |peer| {
            challenge(peer, SOUND)?;
            peer.hear()?;
            peer.say(&message)
        }));
    }
    cases
}

/// Errors that lack what an error has.
fn errors() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("an error without a code", frontend::frame(b'E', b"SFATAL\0Mno code\0\0")),
        ("an error with an empty code", frontend::frame(b'E', b"SFATAL\0C\0Mempty\0\0")),
        (
            "an error with a long code",
            frontend::frame(b'E', &[b"SFATAL\0C", &[b'x'; 500][..], b"\0Mlong\0\0"].concat()),
        ),
        ("an error without fields", frontend::frame(b'E', b"\0")),
        ("an error without a body", frontend::frame(b'E', b"")),
        ("an error without a terminator", frontend::frame(b'E', b"SFATAL\0C28P01\0Mopen\0")),
        ("an error whose last field has no end", frontend::frame(b'E', b"SFATAL\0C28P01\0Mopen")),
        ("an error that is no text", frontend::frame(b'E', b"S\xff\xfe\0C\xff\xff\xff\xff\xff\0M\x01\x02\x80\0\0")),
        ("an error of 60 kB", frontend::frame(b'E', &[b"SFATAL\0CXX000\0M", &[b'm'; 60_000][..], b"\0\0"].concat())),
    ]
}

fn error_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, error) in errors() {
        cases.push(says(format!("{name}, at once"), error.clone()));
        let say = error.clone();
        cases.push(case(format!("{name}, behind SASLInitialResponse"), move |peer| {
            peer.say(&sasl())?;
            peer.hear()?;
            peer.say(&say)
        }));
        let say = error.clone();
        cases.push(case(format!("{name}, behind SASLResponse"), move |peer| {
            challenge(peer, SOUND)?;
            peer.hear()?;
            peer.say(&say)
        }));
        let say = error.clone();
        cases.push(case(format!("{name}, behind a password"), move |peer| {
            peer.say(&authentication(3, b""))?;
            peer.hear()?;
            peer.say(&say)
        }));
        cases.push(says(format!("{name}, behind AuthenticationOk"), [ok(), error.clone()].concat()));
        let status = frontend::frame(b'S', b"server_version\x0015.1\0");
        cases.push(says(format!("{name}, behind a ParameterStatus"), [ok(), status, error].concat()));
    }
    cases
}

fn other_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, message) in [
        ("AuthenticationOk", ok()),
        ("AuthenticationCleartextPassword", authentication(3, b"")),
        ("AuthenticationMD5Password", authentication(5, b"salt")),
        ("AuthenticationSASL", sasl()),
    ] {
        cases.extend(lengths(name, &message).into_iter().map(|(name, bytes)| says(name, bytes)));
    }
    for (name, message) in [
        ("ParameterStatus", frontend::frame(b'S', b"a\0b\0")),
        ("BackendKeyData", frontend::frame(b'K', &[0; 8])),
        ("ReadyForQuery", ready()),
        ("NoticeResponse", frontend::frame(b'N', b"SNOTICE\0C00000\0Mx\0\0")),
        ("ErrorResponse", frontend::frame(b'E', b"SFATAL\0C28000\0Mx\0\0")),
        ("NegotiateProtocolVersion", frontend::frame(b'v', &[0, 3, 0, 0, 0, 0, 0, 0])),
    ] {
        cases.extend(lengths(name, &message).into_iter().map(|(name, bytes)| says(name, [ok(), bytes].concat())));
    }
    let mut all: Vec<(String, Vec<u8>)> = vec![
        ("ReadyForQuery before authentication".to_owned(), ready()),
        ("ReadyForQuery before ParameterStatus".to_owned(), [ok(), ready()].concat()),
        ("AuthenticationOk twice".to_owned(), [ok(), ok()].concat()),
        ("ReadyForQuery in a transaction".to_owned(), [ok(), frontend::frame(b'Z', b"T")].concat()),
        ("ReadyForQuery of an unknown kind".to_owned(), [ok(), frontend::frame(b'Z', b"\xff")].concat()),
        ("no mechanism".to_owned(), authentication(10, b"\0")),
        ("no list of mechanisms".to_owned(), authentication(10, b"")),
        ("a list of mechanisms without end".to_owned(), authentication(10, b"SCRAM-SHA-256")),
        ("an unknown mechanism".to_owned(), authentication(10, b"SCRAM-MD5\0\0")),
        ("a mechanism of 60 kB".to_owned(), authentication(10, &[&[b'M'; 60_000][..], b"\0\0"].concat())),
        ("a challenge at once".to_owned(), authentication(11, SOUND)),
        ("a row".to_owned(), [ok(), frontend::frame(b'D', b"\0\0")].concat()),
        ("HTTP".to_owned(), b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
        ("zeros".to_owned(), vec![0; 4096]),
        ("nothing".to_owned(), Vec::new()),
    ];
    for kind in [1, 2, 4, 6, 7, 8, 9, 13, 255, 0x7fff_ffff, 0xffff_ffff] {
        all.push((format!("authentication of kind {kind}"), authentication(kind, b"")));
    }
    cases.extend(all.into_iter().map(|(name, bytes)| says(name, bytes)));
    for (name, before, message) in [
        ("ParameterStatus", ok(), frontend::frame(b'S', &[b"name\0", &[b'v'; 2000][..], b"\0"].concat())),
        ("BackendKeyData", ok(), frontend::frame(b'K', &[7; 8])),
        ("notices before authentication", Vec::new(), frontend::frame(b'N', b"SNOTICE\0C00000\0Mx\0\0")),
        ("notices", ok(), frontend::frame(b'N', b"SNOTICE\0C00000\0Mx\0\0")),
        ("AuthenticationSASL", Vec::new(), sasl()),
        ("one ParameterStatus", ok(), [&b"S\x7f\xff\xff\xff"[..], &[b'v'; 4000]].concat()),
    ] {
        cases.push(case(format!("endless {name}"), move |peer| {
            peer.say(&before)?;
            peer.say_for_ever(&message)
        }));
    }
    cases
}

/// The case whose number is the database's name; behind it an `s` if each byte goes alone.
fn play(cases: &[Case], peer: &mut Peer) -> io::Result<()> {
    let startup = peer.hear_startup()?;
    let text = String::from_utf8_lossy(&startup).into_owned();
    let database = text.split("database\0c").nth(1).and_then(|rest| rest.split('\0').next()).unwrap_or_default();
    if database.ends_with('s') {
        peer.slow_down();
    }
    let number: usize = database.trim_end_matches('s').parse().map_err(io::Error::other)?;
    (cases[number].1)(peer)?;
    peer.hear_out()
}

/// A login and a query; the error that ended it, with its code.
fn told(pooler: &Pooler, user: &str, database: &str) -> Result<String, String> {
    let told = match Client::login(pooler.address(), user, database) {
        Ok(mut client) => match client.query("select 1") {
            Ok(answer) => answer.errors.into_iter().next(),
            Err(gone) => gone.error,
        },
        Err(gone) => gone.error,
    };
    match told {
        Some(error) if error.sqlstate.len() == 5 && !error.message.is_empty() => Ok(error.sqlstate),
        other => Err(format!("{other:?}")),
    }
}

/// How long queries of a real PostgreSQL take while this lasts, the last one of them perhaps a little longer.
fn beside<T>(pooler: &Pooler, act: impl FnOnce() -> T) -> (T, Vec<Duration>) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let bystander = scope.spawn(|| {
            let mut client = Client::login(pooler.address(), "postgres", "good").expect("a real server");
            let mut took = Vec::new();
            while took.is_empty() || !is_over.load(Ordering::Relaxed) {
                let begun = Instant::now();
                assert_eq!(client.query("select 'calm'").expect("nobody else notices").value(), Some("calm"));
                took.push(begun.elapsed());
                thread::sleep(Duration::from_millis(2));
            }
            took.sort_unstable();
            took
        });
        let outcome = act();
        is_over.store(true, Ordering::Relaxed);
        (outcome, bystander.join().expect("it was served"))
    })
}

/// Behind `entries` of databases; `more`: settings, and sections behind them.
fn pooler(stage: &Stage, entries: &str, more: &str) -> Pooler {
    let ini = format!(
        "[databases]\ngood = host={} port={} dbname=postgres user=postgres password={}\n{entries}\
         [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {{port}}\nunix_socket_dir =\nauth_type = trust\n\
         auth_file = {{dir}}/users.txt\npool_mode = transaction\nmax_client_conn = 5000\nserver_login_retry = 1\n\
         query_wait_notify = 0\n{more}\n",
        stage.cluster.host(),
        stage.cluster.port(),
        stage.cluster.password(),
    );
    Pooler::start(&ini, "\"ann\" \"right\"\n\"postgres\" \"\"\n", None)
}

fn run(mut pooler: Pooler, names: &[String], what: &str) {
    beside(&pooler, || thread::sleep(Duration::from_millis(100)));
    let (before, _) = pooler.resident_kb();
    let begun = Instant::now();
    let (outcomes, took) = beside(&pooler, || {
        thread::scope(|scope| {
            let pooler = &pooler;
            let ask = |number: usize, slow: &'static str| {
                scope.spawn(move || (number, slow, told(pooler, "ann", &format!("c{number}{slow}"))))
            };
            let all: Vec<_> = (0..names.len()).flat_map(|number| [ask(number, ""), ask(number, "s")]).collect();
            all.into_iter().map(|asked| asked.join().expect("it ends")).collect::<Vec<_>>()
        })
    });
    let lasted = begun.elapsed();
    let untold: Vec<String> = outcomes
        .iter()
        .filter_map(|(number, slow, told)| Some(format!("{}{slow}: {}", names[*number], told.as_ref().err()?)))
        .collect();
    let (_, most) = pooler.resident_kb();
    let (usual, slow) = (took[took.len() / 2], took[took.len() * 99 / 100]);
    println!(
        "{} cases {what} in {lasted:?}; {} queries beside them took {usual:?}, 99 % at most {slow:?}, all {:?}; resident {before} kB \
         before, {} kB more at most",
        outcomes.len(),
        took.len(),
        took[took.len() - 1],
        most - before
    );
    // If a server kept a worker busy, the worker's clients would get no error within the minute that they wait.
    assert!(untold.is_empty(), "{} clients were not told why: {untold:#?}", untold.len());
    assert!(pooler.is_alive());
    assert!(most - before < GROWTH_KB_MAX, "{} kB", most - before);
    let panics = pooler.log().matches(" panic in ").count();
    assert_eq!(panics, 0, "{}", pooler.log());
}

fn all_by(port: u16) -> String {
    format!("* = host=127.0.0.1 port={port} user=ann password=right\n")
}

fn run_all(cases: fn() -> Vec<Case>) {
    let (stage, ours) = Stage::encrypted();
    for is_encrypted in [false, true] {
        let all = cases();
        let names: Vec<String> = all.iter().map(|case| case.0.clone()).collect();
        let act = move |peer: &mut Peer| play(&all, peer);
        let (evil, mode) = if is_encrypted {
            (Impostor::encrypted(&ours, "server", act), "require")
        } else {
            (Impostor::start(act), "disable")
        };
        let more = format!("server_connect_timeout = 1\nserver_tls_sslmode = {mode}\n{HASTY}");
        let pooler = pooler(&stage, &all_by(evil.port), &more);
        run(pooler, &names, if is_encrypted { "inside TLS" } else { "in the clear" });
    }
}

#[test]
fn cve_2026_6665_long_nonces_and_costly_challenges_of_a_server() {
    run_all(scram_cases);
}

#[test]
fn cve_2026_6666_errors_of_a_server_without_a_code() {
    run_all(error_cases);
}

#[test]
fn whatever_else_a_server_says_before_it_is_ready() {
    run_all(other_cases);
}

/// Behind a refusal a server that is only preferred to have TLS is tried in the clear: then it says nothing.
fn answer_request(peer: &mut Peer, bytes: &[u8], is_slow: bool) -> io::Result<()> {
    if peer.hear_startup()? != [4, 210, 22, 47] {
        return peer.hear_out();
    }
    if is_slow {
        peer.slow_down();
    }
    peer.say(bytes)?;
    peer.hear_out()
}

/// What a server may answer to an SSLRequest: only a yes with nothing behind it is one.
#[test]
fn cve_2021_23222_cve_2021_43767_bytes_behind_a_servers_yes_to_tls() {
    let (stage, _) = Stage::encrypted();
    let logged_in = [ok(), ready()].concat();
    let refused = frontend::frame(b'E', b"SFATAL\0C28000\0Mno\0\0");
    let cases = [
        ("a yes and a login", [b"S".to_vec(), logged_in.clone()].concat()),
        ("a yes and a byte", b"S\0".to_vec()),
        ("a yes and a yes", b"SS".to_vec()),
        ("a yes and garbage", [b"S".to_vec(), vec![0x16; 500]].concat()),
        ("a yes and an alert", b"S\x15\x03\x03\0\x02\x02\x28".to_vec()),
        ("a no and a login", [b"N".to_vec(), logged_in].concat()),
        ("an error", refused),
        ("an error without a body", b"E".to_vec()),
        ("an error without a code", frontend::frame(b'E', b"SFATAL\0Mno\0\0")),
        ("an error with a wrong length", b"E\x7f\xff\xff\xff".to_vec()),
        ("a small letter", b"s".to_vec()),
        ("a zero", b"\0".to_vec()),
        ("HTTP", b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
        ("nothing", Vec::new()),
    ];
    let mut entries = String::new();
    for (number, (_, bytes)) in cases.iter().enumerate() {
        for (slow, is_slow) in [("", false), ("s", true)] {
            let bytes = bytes.clone();
            let evil = Impostor::start(move |peer| answer_request(peer, &bytes, is_slow));
            writeln!(entries, "c{number}{slow} = host=127.0.0.1 port={} user=ann password=right", evil.port)
                .expect("writing to a String cannot fail");
        }
    }
    let names: Vec<String> = cases.iter().map(|(name, _)| (*name).to_owned()).collect();
    for mode in ["require", "prefer"] {
        let more = format!("server_connect_timeout = 1\nserver_tls_sslmode = {mode}\n{HASTY}");
        let pooler = pooler(&stage, &entries, &more);
        run(pooler, &names, &format!("instead of a yes to TLS, server_tls_sslmode = {mode},"));
    }
}

/// Hashing takes seconds of a processor: the other pools are served meanwhile. More of it than anybody needs is refused.
#[test]
fn costly_hashes_are_nobody_elses_trouble() {
    let _alone = Slot::alone();
    let (stage, _) = Stage::encrypted();
    let challenge_of = |count: &str| format!("r=NONCEabc,s=c2FsdHNhbHRzYWx0c2FsdA==,i={count}");
    let refused = ["50000000", "2147483647", "2147483648"];
    let mut cases: Vec<Case> = Vec::new();
    for count in refused {
        let first = challenge_of(count);
        cases.push(case(count, move |peer| challenge(peer, first.as_bytes())));
    }
    // How many servers have asked and are not answered yet.
    let hashing = Arc::new(AtomicUsize::new(0));
    for _ in 0..COSTLY {
        let (first, hashing) = (challenge_of("1000000"), Arc::clone(&hashing));
        cases.push(case("a costly one", move |peer| {
            challenge(peer, first.as_bytes())?;
            hashing.fetch_add(1, Ordering::SeqCst);
            let heard = peer.hear();
            hashing.fetch_sub(1, Ordering::SeqCst);
            heard?;
            peer.say(&frontend::frame(b'E', b"SFATAL\0C28P01\0Mthat was all\0\0"))
        }));
    }
    let evil = Impostor::start(move |peer| play(&cases, peer));
    // Slow logins to servers do not time out. Only ann's clients, whose servers are refused, get an error soon.
    let more = format!("server_connect_timeout = 0\nserver_tls_sslmode = disable\n{HASTY}");
    let pooler = pooler(&stage, &all_by(evil.port), &more);
    let cpu = pooler.cpu();
    let is_over = AtomicBool::new(false);
    // Its server is there before the others are asked for.
    let mut client = Client::login(pooler.address(), "postgres", "good").expect("a real server");
    client.query("select 1").expect("served");
    let (told, meanwhile) = thread::scope(|scope| {
        let bystander = scope.spawn(|| {
            let mut meanwhile = 0;
            while !is_over.load(Ordering::SeqCst) {
                let before = hashing.load(Ordering::SeqCst);
                assert_eq!(client.query("select 'calm'").expect("nobody else notices").value(), Some("calm"));
                meanwhile += usize::from(before > 0 && hashing.load(Ordering::SeqCst) > 0);
            }
            meanwhile
        });
        let ask = |number: usize| {
            let (pooler, user) = (&pooler, if number < refused.len() { "ann" } else { "postgres" });
            scope.spawn(move || told(pooler, user, &format!("c{number}")))
        };
        let asked: Vec<_> = (0..refused.len() + COSTLY).map(ask).collect();
        let told: Vec<_> = asked.into_iter().map(|asked| asked.join().expect("it ends")).collect();
        is_over.store(true, Ordering::SeqCst);
        (told, bystander.join().expect("it was served"))
    });
    println!(
        "{COSTLY} servers that ask for 1000000 iterations cost {:?} of processor time; {meanwhile} queries were answered meanwhile",
        pooler.cpu() - cpu
    );
    assert!(told.iter().all(Result::is_ok), "{told:?}");
    assert!(meanwhile >= MEANWHILE_MIN, "{meanwhile} queries beside {COSTLY} costly hashes");
}
