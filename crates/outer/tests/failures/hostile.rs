//! Clients that are broken or mean harm: they are told or closed, nobody else notices, and nothing is allocated on a
//! length's say-so.

use std::time::{Duration, Instant};

use outer::{Client, Stage, Wishes, eventually, frontend};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The errors that a client which breaks the protocol may get; a close without an error is fine where PostgreSQL does the same.
const PROMISED: [&str; 3] = ["08P01", "0A000", "28000"];

/// The pooler may keep this much more than before after any attack.
const GROWTH_KB_MAX: u64 = 4 * 1024;

/// Asserts that `client` is closed, without an error or after a FATAL one that is [`PROMISED`].
fn assert_refused(mut client: Client, what: &str) {
    let told = loop {
        match client.receive() {
            Ok(message) if message.tag == b'E' => break Some((message.field(b'S'), message.field(b'C'))),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("{what}: neither told nor closed"),
            Err(_) => break None,
        }
    };
    if let Some((severity, code)) = told {
        assert!(severity == "FATAL" && PROMISED.contains(&code.as_str()), "{what}: {severity} {code}");
        assert_eq!(client.last_words(), None, "{what}: closed after FATAL");
    }
}

fn startup_with_length(length: u32, rest: &[u8]) -> Vec<u8> {
    [&length.to_be_bytes()[..], rest].concat()
}

#[test]
fn garbage_instead_of_a_startup_packet() {
    let mut stage = Stage::set(&Wishes::default());
    let mut bystander = stage.client();
    bystander.query("select 1").expect("served");
    let (before, _) = stage.pooler.resident_kb();
    let user = [&196_608_u32.to_be_bytes()[..], b"user\0postgres\0"].concat();
    let long = [&196_608_u32.to_be_bytes()[..], b"user\0postgres\0database\0", &vec![b'd'; 20_000], b"\0\0"].concat();
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("HTTP", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec()),
        ("zeros", vec![0; 1000]),
        ("ones", vec![0xff; 1000]),
        ("length 0", startup_with_length(0, &user)),
        ("length 3", startup_with_length(3, &user)),
        ("length 4", startup_with_length(4, &user)),
        ("length 7", startup_with_length(7, &user)),
        ("length -1", startup_with_length(u32::MAX, &user)),
        ("length 2^31-1", startup_with_length(0x7fff_ffff, &user)),
        ("oversized, announced", startup_with_length(10_001, &user)),
        ("oversized, sent", frontend::untagged(&long)),
        ("no end", frontend::untagged(&user)),
        ("a name without value", frontend::untagged(&[&user[..], b"database\0"].concat())),
        ("no user", frontend::startup(&[("database", "postgres")])),
        ("protocol 2.0", frontend::untagged(&[&131_072_u32.to_be_bytes()[..], b"user\0postgres\0\0"].concat())),
        ("protocol 4.0", frontend::untagged(&[&262_144_u32.to_be_bytes()[..], b"user\0postgres\0\0"].concat())),
        ("SSLRequest with more", [frontend::untagged(&80_877_103_u32.to_be_bytes()), vec![0xff; 100]].concat()),
        ("a short cancel", frontend::untagged(&80_877_102_u32.to_be_bytes())),
        ("a query first", frontend::query("select 1")),
    ];
    for (what, bytes) in &cases {
        let mut client = Client::connect(stage.pooler.address()).expect("it listens");
        // It may be closed before everything is sent.
        let _ = client.send(bytes);
        client.stop_sending();
        assert_refused(client, what);
        assert_eq!(bystander.query("select 'calm'").expect("nobody else notices").value(), Some("calm"), "{what}");
    }
    let (_, most) = stage.pooler.resident_kb();
    println!("{} kinds of broken startup packets; resident {before} kB before, {most} kB at most", cases.len());
    assert!(most < before + GROWTH_KB_MAX);
    stage.assert_healthy();
}

#[test]
fn garbage_after_login() {
    let mut stage = Stage::set(&Wishes { pool: 2, ..Wishes::default() });
    let mut bystander = stage.client();
    bystander.query("select 1").expect("served");
    let (before, _) = stage.pooler.resident_kb();
    let mut count = 0;
    for tag in *b"QPBEDCSHFfdcp\0R\xff" {
        for length in [0, 1, 3, 0x7fff_ffff, 0x8000_0000, u32::MAX] {
            let what = format!("type {:?} with length {length:#x}", char::from(tag));
            for in_transaction in [false, true] {
                let mut client = stage.client();
                if in_transaction {
                    client.query("begin").expect("served");
                }
                let _ = client.send(&[&[tag][..], &length.to_be_bytes(), b"select 1\0"].concat());
                client.stop_sending();
                assert_refused(client, &what);
                count += 1;
            }
            assert_eq!(bystander.query("select 'calm'").expect("nobody else notices").value(), Some("calm"), "{what}");
        }
    }
    let (_, most) = stage.pooler.resident_kb();
    println!("{count} impossible lengths after login; resident {before} kB before, {most} kB at most");
    assert!(most < before + GROWTH_KB_MAX);
    stage.assert_healthy();
}

#[test]
fn passwords_that_are_no_passwords() {
    let mut stage = Stage::set(&Wishes { auth: "scram-sha-256", ..Wishes::default() });
    outer::psql(&stage, &["-c", "select 1"]).expect("a right password is let in");
    let (before, _) = stage.pooler.resident_kb();
    let sasl = |inner: u32| [&b"SCRAM-SHA-256\0"[..], &inner.to_be_bytes(), b"n,,n=,r=abc"].concat();
    let long_nonce = [&b"SCRAM-SHA-256\0"[..], &60_011_u32.to_be_bytes(), b"n,,n=,r=", &vec![b'r'; 60_003]].concat();
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("length 0", vec![b'p', 0, 0, 0, 0]),
        ("length -1", vec![b'p', 0xff, 0xff, 0xff, 0xff]),
        ("a gigabyte announced", [&b"p"[..], &0x4000_0000_u32.to_be_bytes(), &vec![b'x'; 100_000]].concat()),
        ("empty", frontend::frame(b'p', b"")),
        ("inner length 0", frontend::frame(b'p', &sasl(0))),
        ("inner length -1", frontend::frame(b'p', &sasl(u32::MAX))),
        ("inner length -2", frontend::frame(b'p', &sasl(u32::MAX - 1))),
        ("inner length 2^31-1", frontend::frame(b'p', &sasl(0x7fff_ffff))),
        ("a long nonce", frontend::frame(b'p', &long_nonce)),
        ("an unknown mechanism", frontend::frame(b'p', b"SCRAM-MD5\0\0\0\0\x03n,,")),
        ("a query instead", frontend::query("select 1")),
    ];
    for (what, bytes) in &cases {
        let mut client = Client::connect(stage.pooler.address()).expect("it listens");
        client.send(&frontend::startup(&[("user", "postgres"), ("database", "postgres")])).expect("connected");
        assert_eq!(client.receive().expect("it asks for a proof").tag, b'R', "{what}");
        let _ = client.send(bytes);
        client.stop_sending();
        let told = client.last_words();
        let code = told.as_ref().map_or("", |error| error.sqlstate.as_str());
        assert!(["", "08P01", "28P01", "28000"].contains(&code), "{what}: {told:?}");
    }
    let (_, most) = stage.pooler.resident_kb();
    println!("{} kinds of broken passwords; resident {before} kB before, {most} kB at most", cases.len());
    assert!(most < before + GROWTH_KB_MAX);
    assert!(stage.pooler.is_alive());
    outer::psql(&stage, &["-c", "select 1"]).expect("a right password is let in");
}

/// Descriptors this process and those it starts may have; raised to what the system allows.
fn descriptors_max() -> usize {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("up to the maximum anybody may");
    maximum.and_then(|most| usize::try_from(most).ok()).unwrap_or(1 << 20)
}

#[test]
fn fifteen_thousand_half_open_logins() {
    let count = 15_000.min(descriptors_max() - 1000);
    // With the usual backlog of 128, a burst overflows it and waits a second for the kernel to try again.
    let settings = [("max_client_conn", "18000"), ("client_login_timeout", "3600"), ("listen_backlog", "4096")];
    let settings = settings.map(|(name, value)| (name, value.to_owned())).to_vec();
    let mut stage = Stage::set(&Wishes { auth: "scram-sha-256", settings, alone: true, ..Wishes::default() });
    outer::psql(&stage, &["-c", "select 1"]).expect("let in");
    let (before, _) = stage.pooler.resident_kb();
    let descriptors = stage.pooler.descriptors();
    let begun = Instant::now();
    let startup = frontend::startup(&[("user", "postgres"), ("database", "postgres")]);
    let address = stage.pooler.address();
    let open = || -> Vec<Client> {
        let one = |number: usize| {
            let mut client = Client::connect(address).expect("it listens");
            // A third sends nothing, a third sends half of the packet, a third never answers the request for a password.
            let said = [0, startup.len() / 2, startup.len()][number % 3];
            // With a short client_login_timeout, the pooler may have closed the connection already.
            let _ = client.send(&startup[..said]);
            client
        };
        (0..count).map(one).collect()
    };
    // These clients have an hour: a real login that waited for them would time out.
    let half_open = open();
    // Nine tenths are enough: in such a burst the kernel repeats some handshakes later.
    eventually("they have come", || stage.pooler.descriptors() >= descriptors + count * 9 / 10);
    let opened = begun.elapsed();
    let begun = Instant::now();
    let target = format!("{}?connect_timeout=120", stage.url());
    outer::psql(&stage, &["-d", &target, "-c", "select 1"]).expect("a real login goes through");
    let login = begun.elapsed();
    assert!(stage.pooler.descriptors() >= descriptors + count * 9 / 10, "they are there still");
    let (_, most) = stage.pooler.resident_kb();
    let each = most.saturating_sub(before) as usize * 1024 / count;
    println!("{count} half-open logins in {opened:?}: a real one (psql and all) takes {login:?}; {each} B each");
    assert!(each <= 4096, "{each} B for somebody who has proved nothing");
    drop(half_open);
    eventually("they have gone", || stage.pooler.descriptors() <= descriptors + 10);
    // The transcript `timeouts/client-login.txt` proves when a login times out.
    let console = stage.url_of("pgbouncer");
    outer::psql(&stage, &["-d", &console, "-c", "set client_login_timeout = 5"]).expect("an order");
    let half_open = open();
    eventually("client_login_timeout has closed them all", || stage.pooler.descriptors() <= descriptors + 10);
    drop(half_open);
    eventually("and life goes on", || outer::psql(&stage, &["-c", "select 1"]).is_ok());
    assert!(stage.pooler.is_alive());
}

#[test]
fn trickled_statements_hold_no_server() {
    let mut stage = Stage::set(&Wishes { pool: 1, ..Wishes::default() });
    let questions: Vec<Vec<u8>> = (0..50).map(|number| frontend::query(&format!("select 'slow {number}'"))).collect();
    let mut slow: Vec<Client> = questions.iter().map(|_| stage.client()).collect();
    let mut other = stage.client();
    let longest_question = questions.iter().map(Vec::len).max().expect("fifty");
    // The only server is free for another one, however much of the statements has come.
    for at in 0..longest_question {
        for (client, question) in slow.iter_mut().zip(&questions) {
            client.send(question.get(at..=at).unwrap_or_default()).expect("connected");
        }
        let answer = other.query("select 'swift'").expect("served");
        assert_eq!(answer.value(), Some("swift"), "at byte {at}");
    }
    for (number, client) in slow.iter_mut().enumerate() {
        assert_eq!(client.answer().expect("served").value(), Some(format!("slow {number}").as_str()));
    }
    stage.assert_healthy();
}

#[test]
fn half_messages_of_three_thousand_clients() {
    const CLIENTS: usize = 3_000;
    const GROWTH_KB: u64 = 40 * 1024;
    let settings = vec![("listen_backlog", "4096".to_owned()), ("log_connections", "0".to_owned())];
    let mut stage = Stage::set(&Wishes { settings, ..Wishes::default() });
    let mut bystander = stage.client();
    bystander.query("select 1").expect("served");
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| stage.client()).collect();
    let (before, _) = stage.pooler.resident_kb();
    let text = format!("select '{}'", "x".repeat(60_000));
    let message = frontend::query(&text);
    for (number, client) in clients.iter_mut().enumerate() {
        // It may have been refused already.
        let _ = client.send(&message[..message.len() - 1]);
        if number % 100 == 0 {
            assert_eq!(bystander.query("select 'calm'").expect("nobody else notices").value(), Some("calm"));
        }
    }
    let answer = bystander.query(&text).expect("a whole message is served");
    assert_eq!(answer.value().map(str::len), Some(60_000));
    let (_, most) = stage.pooler.resident_kb();
    // The last to come may finish what they have begun, the first were told why not.
    let last = clients.last_mut().expect("3,000");
    last.send(&message[message.len() - 1..]).expect("connected");
    assert_eq!(last.answer().expect("served").value().map(str::len), Some(60_000));
    let told = clients[0].last_words().expect("it was told");
    println!(
        "{CLIENTS} half messages of 60 kB: {before} kB before, {} kB more at most; the first was told {told:?}",
        most - before
    );
    assert_eq!(told.sqlstate, "53200");
    assert!(most - before <= GROWTH_KB);
    stage.assert_healthy();
}

#[test]
fn out_of_descriptors() {
    let settings = vec![("max_client_conn", "1000".to_owned())];
    let mut stage = Stage::set(&Wishes { pool: 5, fds: Some(150), settings, ..Wishes::default() });
    let mut console = Client::login(stage.pooler.address(), "postgres", "pgbouncer").expect("the console lets us in");
    let mut early = stage.client();
    early.query("select 1").expect("served");
    let (mut let_in, mut told, mut other) = (Vec::new(), 0, Vec::new());
    for _ in 0..400 {
        match Client::login(stage.pooler.address(), "postgres", "postgres") {
            Ok(client) => let_in.push(client),
            Err(gone) if gone.error.as_ref().is_some_and(|error| error.sqlstate == "53300") => told += 1,
            Err(gone) => other.push(gone.to_string()),
        }
    }
    println!("150 descriptors, 400 clients: {} let in, {told} told 53300", let_in.len());
    assert!(other.is_empty(), "{} were told something else: {:?}", other.len(), &other[..other.len().min(3)]);
    assert!(let_in.len() > 50 && told > 100);
    // A busy loop would take its share of the processors always, and among a dozen processes that is more than this.
    eventually("there is no busy loop", || {
        let before = stage.pooler.cpu();
        std::thread::sleep(Duration::from_secs(1));
        stage.pooler.cpu().saturating_sub(before) < Duration::from_millis(50)
    });
    assert_eq!(early.query("select 'still here'").expect("served").value(), Some("still here"));
    assert!(!console.query("show pools").expect("the console answers").rows.is_empty());
    drop(let_in);
    eventually("those who left are closed", || {
        // The early client and the console.
        console.query("show clients").expect("the console answers").rows.len() == 2
    });
    stage.assert_healthy();
}
