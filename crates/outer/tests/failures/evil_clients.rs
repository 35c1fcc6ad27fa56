//! Clients that break the protocol before they have logged in, in the clear and inside TLS, whole and byte by byte: each is told an
//! error with a code, or closed where PostgreSQL closes, and nobody else notices.
//!
//! `hostile.rs` has startup packets that are garbage, and what comes after a login.

use std::sync::Arc;

use outer::line::{GSSENC_REQUEST, Line, Manner, SSL_REQUEST, Told, trusting};
use outer::{Authority, Client, Pooler, Stage, eventually, frontend};
use rustls::ClientConfig;

/// What all of a test's cases may make the pooler grow.
const GROWTH_KB_MAX: u64 = 8 * 1024;

/// Codes of what a client may be told that breaks the rules or proves nothing.
const PROMISED: [&str; 5] = ["08P01", "0A000", "28000", "28P01", "3D000"];

/// A pooler that asks for proofs in one way, and somebody who is served beside.
struct Setting {
    // In the order they go.
    bystander: Client,
    pooler: Pooler,
    before_kb: u64,
    config: Arc<ClientConfig>,
    count: usize,
}

impl Setting {
    fn new(stage: &Stage, ours: &Authority, auth_type: &str) -> Setting {
        let ini = format!(
            "[databases]\n* = host={} port={} user=postgres password={} dbname=postgres\nopen = host={} port={} user=postgres password={} \
             dbname=postgres auth_type=trust\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {{port}}\nunix_socket_dir =\n\
             auth_type = {auth_type}\nauth_file = {{dir}}/users.txt\nauth_hba_file = {{dir}}/hba.conf\npool_mode = transaction\n\
             auth_oauth_options = issuer=https://id.example audience=shop jwks={{dir}}/keys.json\n\
             client_tls_sslmode = allow\nclient_tls_cert_file = {}\nclient_tls_key_file = {}\n",
            stage.cluster.host(),
            stage.cluster.port(),
            stage.cluster.password(),
            stage.cluster.host(),
            stage.cluster.port(),
            stage.cluster.password(),
            ours.path("pooler.crt"),
            ours.path("pooler.key"),
        );
        let rules = "host open all all trust\nhost all all all oauth issuer=https://id.example scope=\"openid\"\n";
        let files = [
            ("users.txt", "\"ann\" \"right\"\n".to_owned()),
            ("hba.conf", rules.to_owned()),
            ("keys.json", "{\"keys\":[]}".to_owned()),
        ];
        let pooler = Pooler::start_with(&ini, &files);
        let mut bystander = Client::login(pooler.address(), "ann", "open").expect("it is trusted");
        bystander.query("select 1").expect("it is served");
        let before_kb = pooler.resident_kb().0;
        Setting { bystander, pooler, before_kb, config: trusting(ours, Some("postgresql")), count: 0 }
    }

    /// A connection, and what it is told that sends this behind whatever `lead` does, and then no more.
    fn outcome(
        &mut self,
        (manner, is_slow): (Manner, bool),
        lead: impl Fn(&mut Line) -> std::io::Result<()>,
        bytes: &[u8],
    ) -> Told {
        self.count += 1;
        let line = Line::begin(self.pooler.address(), manner, &self.config, is_slow);
        let mut line = line.unwrap_or_else(|why| panic!("{manner:?}: {why}"));
        lead(&mut line).unwrap_or_else(|why| panic!("{manner:?}: {why}"));
        // It may be closed before everything is sent.
        let _ = line.send(bytes);
        line.stop_sending();
        line.last_words()
    }

    /// That the client was told, or closed if it may be, and nobody else notices.
    fn check(&mut self, told: &Told, may_be_closed: bool, what: &str) {
        assert!(told.is_closed, "{what}: neither told nor closed: {told:?}");
        match &told.error {
            Some((severity, code)) => {
                assert!(severity == "FATAL" && PROMISED.contains(&&**code), "{what}: {severity} {code}");
            }
            None => assert!(may_be_closed, "{what}: closed without a word: {told:?}"),
        }
        assert_eq!(self.bystander.query("select 'calm'").expect("nobody else notices").value(), Some("calm"), "{what}");
    }

    fn end(mut self, what: &str) {
        let (_, most) = self.pooler.resident_kb();
        println!(
            "{} {what}; resident {} kB before, {} kB more at most",
            self.count,
            self.before_kb,
            most - self.before_kb
        );
        assert!(most - self.before_kb < GROWTH_KB_MAX, "{} kB", most - self.before_kb);
        assert!(self.pooler.is_alive());
        assert!(!self.pooler.log().contains(" panic in "), "{}", self.pooler.log());
    }
}

fn manners() -> impl Iterator<Item = (Manner, bool)> {
    Manner::ALL.into_iter().flat_map(|manner| [(manner, false), (manner, true)])
}

/// The number at `at` with each value that it should not have. A client whose message is longer than what it sends may be closed
/// without a word, as at PostgreSQL.
fn lengths(bytes: &[u8], at: usize) -> Vec<(String, Vec<u8>, bool)> {
    let actual = u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let wrong = [0, 1, 3, 4, actual.wrapping_sub(1), actual + 1, 0x7fff_ffff, 0xffff_ffff];
    let all = wrong.into_iter().filter(|length| *length != actual);
    let with = |length: u32| [&bytes[..at], &length.to_be_bytes(), &bytes[at + 4..]].concat();
    all.map(|length| (format!("length {length}"), with(length), length == actual + 1)).collect()
}

fn startup() -> Vec<u8> {
    frontend::startup(&[("user", "ann"), ("database", "postgres")])
}

fn sasl(mechanism: &str, response: &[u8]) -> Vec<u8> {
    let length = u32::try_from(response.len()).expect("it is short").to_be_bytes();
    frontend::frame(b'p', &[mechanism.as_bytes(), b"\0", &length, response].concat())
}

/// The startup packet, and the pooler's question.
fn asked(line: &mut Line) -> std::io::Result<()> {
    line.send(&startup())?;
    line.hear_message().map(|message| assert_eq!(message[0], b'R', "a question"))
}

/// The same, and the first round of SCRAM.
fn challenged(line: &mut Line) -> std::io::Result<()> {
    asked(line)?;
    line.send(&sasl("SCRAM-SHA-256", b"n,,n=,r=abcdefghijklmnop"))?;
    line.hear_message().map(|message| assert_eq!(message[..9], [&b"R"[..], &message[1..5], &[0, 0, 0, 11]].concat()))
}

#[test]
fn startup_packets_with_wrong_lengths() {
    let (stage, ours) = Stage::encrypted();
    let mut setting = Setting::new(&stage, &ours, "scram-sha-256");
    let packets = [
        ("startup", startup()),
        ("SSLRequest", SSL_REQUEST.to_vec()),
        ("GSSENCRequest", GSSENC_REQUEST.to_vec()),
        ("cancel", frontend::cancel(1, 2)),
    ];
    for manner in manners() {
        for (name, packet) in &packets {
            for (length, bytes, _) in lengths(packet, 0) {
                let told = setting.outcome(manner, |_| Ok(()), &bytes);
                // PostgreSQL says nothing to whoever sends no startup packet.
                setting.check(&told, true, &format!("{name} {length} {manner:?}"));
            }
        }
    }
    setting.end("startup packets with wrong lengths");
}

#[test]
fn cve_2026_6664_lengths_in_messages_of_scram() {
    let (stage, ours) = Stage::encrypted();
    let mut setting = Setting::new(&stage, &ours, "scram-sha-256");
    let initial = sasl("SCRAM-SHA-256", b"n,,n=,r=abcdefghijklmnop");
    let nonce = "r".repeat(64_000);
    let last = frontend::frame(b'p', b"c=biws,r=abc,p=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
    for manner in manners() {
        for (what, bytes, is_longer) in lengths(&initial, 1) {
            let told = setting.outcome(manner, asked, &bytes);
            setting.check(&told, is_longer, &format!("SASLInitialResponse {what} {manner:?}"));
        }
        for (what, bytes, _) in lengths(&initial, 5 + "SCRAM-SHA-256\0".len()) {
            let told = setting.outcome(manner, asked, &bytes);
            setting.check(&told, false, &format!("SASLInitialResponse inner {what} {manner:?}"));
        }
        for (what, bytes, is_longer) in lengths(&last, 1) {
            let told = setting.outcome(manner, challenged, &bytes);
            setting.check(&told, is_longer, &format!("SASLResponse {what} {manner:?}"));
        }
        for (what, first) in [("nonce", format!("n,,n=,r={nonce}")), ("name", format!("n,,n={nonce},r=abc"))] {
            let told = setting.outcome(manner, asked, &sasl("SCRAM-SHA-256", first.as_bytes()));
            setting.check(&told, false, &format!("a {what} of 64 kB {manner:?}"));
        }
        let long = frontend::frame(b'p', format!("c=biws,r={nonce},p=AAAA").as_bytes());
        let told = setting.outcome(manner, challenged, &long);
        setting.check(&told, false, &format!("a nonce of 64 kB in the end {manner:?}"));
    }
    setting.end("broken messages of SCRAM");
}

#[test]
fn passwords_and_tokens_with_wrong_lengths() {
    let (stage, ours) = Stage::encrypted();
    let token = sasl("OAUTHBEARER", b"n,,\x01auth=Bearer abc.def.ghi\x01\x01");
    let inner = 5 + "OAUTHBEARER\0".len();
    for (auth_type, message) in [
        ("plain", frontend::frame(b'p', b"wrong password\0")),
        ("md5", frontend::frame(b'p', b"md5aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\0")),
        ("hba", token),
    ] {
        let mut setting = Setting::new(&stage, &ours, auth_type);
        for manner in manners() {
            for (what, bytes, is_longer) in lengths(&message, 1) {
                let told = setting.outcome(manner, asked, &bytes);
                setting.check(&told, is_longer, &format!("{auth_type} {what} {manner:?}"));
            }
            let wrong = if auth_type == "hba" { lengths(&message, inner) } else { Vec::new() };
            for (what, bytes, _) in wrong {
                let told = setting.outcome(manner, asked, &bytes);
                setting.check(&told, false, &format!("{auth_type} inner {what} {manner:?}"));
            }
        }
        setting.end(&format!("broken messages for {auth_type}"));
    }
}

/// Bytes that came in the clear must never count as if they had come inside TLS.
#[test]
fn cve_2021_23214_cve_2021_3935_cve_2021_43766_bytes_behind_a_request_for_tls() {
    let (stage, ours) = Stage::encrypted();
    // Whoever is trusted would be let in by what was sent ahead.
    let mut setting = Setting::new(&stage, &ours, "trust");
    let hello = Line::hello(&setting.config);
    let query = frontend::query("select 'smuggled'");
    let open = frontend::startup(&[("user", "ann"), ("database", "open")]);
    for is_slow in [false, true] {
        let manner = (Manner::Clear, is_slow);
        for (what, request) in [("SSLRequest", SSL_REQUEST), ("GSSENCRequest", GSSENC_REQUEST)] {
            for (behind, bytes) in [
                ("a startup packet", open.clone()),
                ("a startup packet and a query", [open.clone(), query.clone()].concat()),
                ("a byte", vec![0]),
                ("zeros", vec![0; 64]),
            ] {
                let told = setting.outcome(manner, |_| Ok(()), &[&request[..], &bytes].concat());
                let what = format!("{what} and {behind}, slowly: {is_slow}");
                if is_slow && what.starts_with("GSSENC") {
                    // It is answered before the next byte has come: the client goes on in the clear, as it may.
                    continue;
                }
                setting.check(&told, is_slow, &what);
                let text = String::from_utf8_lossy(&told.bytes);
                assert!(!text.contains("smuggled"), "{what}: {told:?}");
            }
        }
        for (what, bytes) in [
            ("a startup packet", open.clone()),
            ("a query", query.clone()),
            ("zeros", vec![0; 300]),
            ("another SSLRequest", SSL_REQUEST.to_vec()),
        ] {
            // Behind the pooler's yes; direct TLS, and a handshake that such bytes follow at once.
            let told = setting.outcome(
                manner,
                |line| line.send(&SSL_REQUEST).and_then(|()| line.hear(1).map(|answer| assert_eq!(answer, b"S"))),
                &bytes,
            );
            assert!(told.is_closed && !told.bytes.contains(&b'Z'), "{what} behind the answer: {told:?}");
            let told = setting.outcome(manner, |_| Ok(()), &[&bytes[..], &hello].concat());
            assert!(
                !String::from_utf8_lossy(&told.bytes).contains("smuggled\0"),
                "{what} before a ClientHello: {told:?}"
            );
            let told = setting.outcome(manner, |_| Ok(()), &[&hello[..], &bytes].concat());
            assert!(told.is_closed && told.error.is_none(), "{what} behind a ClientHello: {told:?}");
            for secured in [Manner::Asked, Manner::Direct] {
                // It may be closed before all of it is sent.
                let bare = |line: &mut Line| {
                    let _ = line.send_bare(&bytes);
                    Ok(())
                };
                let told = setting.outcome((secured, is_slow), bare, b"");
                assert!(told.is_closed && told.error.is_none(), "{what} behind a handshake: {told:?}");
            }
        }
        for secured in [Manner::Asked, Manner::Direct] {
            for request in [SSL_REQUEST, GSSENC_REQUEST] {
                let told = setting.outcome((secured, is_slow), |_| Ok(()), &[&request[..], &open].concat());
                assert!(!told.bytes.contains(&b'Z'), "a request inside TLS: {told:?}");
                assert!(told.is_closed, "{told:?}");
            }
        }
    }
    setting.end("mixtures of clear bytes and TLS");
}

/// A record of TLS.
fn record(kind: u8, version: u16, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len()).expect("it is short").to_be_bytes();
    [&[kind][..], &version.to_be_bytes(), &length, body].concat()
}

/// A ClientHello without extensions, which is all that versions before 1.2 know.
fn old_hello(version: u16) -> Vec<u8> {
    let suites = [0xc0, 0x09, 0xc0, 0x13, 0x00, 0x2f];
    let body = [&version.to_be_bytes()[..], &[7; 32], &[0, 0, 6], &suites, &[1, 0]].concat();
    let length = u32::try_from(body.len()).expect("it is short").to_be_bytes();
    record(22, 0x0301, &[&[1][..], &length[1..], &body].concat())
}

#[test]
fn handshakes_that_are_none() {
    let (stage, ours) = Stage::encrypted();
    let mut setting = Setting::new(&stage, &ours, "scram-sha-256");
    let hello = Line::hello(&setting.config);
    let with = |at: usize, byte: u8| [&hello[..at], &[byte], &hello[at + 1..]].concat();
    let cases = [
        ("TLS 1.0", old_hello(0x0301)),
        ("TLS 1.1", old_hello(0x0302)),
        ("SSL 3", old_hello(0x0300)),
        ("an empty record", record(22, 0x0301, b"")),
        ("a record that is too long", [&[22, 3, 1, 0xff, 0xff][..], &[0; 2000]].concat()),
        ("a record of an unknown kind", record(99, 0x0303, &[1; 100])),
        ("an alert", record(21, 0x0303, &[2, 40])),
        ("a secret record", record(23, 0x0303, &[0; 200])),
        ("a handshake that is too long", record(22, 0x0301, &[&[1, 0xff, 0xff, 0xff][..], &[0; 1000]].concat())),
        ("another message of the handshake", record(22, 0x0301, &[2, 0, 0, 4, 0, 0, 0, 0])),
        ("the length of a record less one", with(4, hello[4].wrapping_sub(1))),
        ("the length of a record and one", with(4, hello[4].wrapping_add(1))),
        ("the length of the hello less one", with(8, hello[8].wrapping_sub(1))),
        ("the length of the hello and one", with(8, hello[8].wrapping_add(1))),
        ("half a hello", hello[..hello.len() / 2].to_vec()),
        ("a hello twice", [hello.clone(), hello.clone()].concat()),
        ("garbage", (0..3000_u32).map(|at| u8::try_from((at * 7919) % 251).expect("below 256")).collect()),
    ];
    let asked =
        |line: &mut Line| line.send(&SSL_REQUEST).and_then(|()| line.hear(1).map(|answer| assert_eq!(answer, b"S")));
    for is_slow in [false, true] {
        for (what, bytes) in &cases {
            let told = setting.outcome((Manner::Clear, is_slow), asked, bytes);
            setting.check(&told, true, what);
            // Direct TLS begins with a record of the handshake.
            if bytes[0] == 22 {
                let told = setting.outcome((Manner::Clear, is_slow), |_| Ok(()), bytes);
                setting.check(&told, true, what);
            }
        }
        // PostgreSQL closes where direct TLS is not for its protocol.
        for protocol in [None, Some("http/1.1"), Some("postgresq"), Some("postgresql2")] {
            let config = trusting(&ours, protocol);
            let line = Line::begin(setting.pooler.address(), Manner::Direct, &config, is_slow);
            let is_let_in = line.is_ok_and(|mut line| {
                line.send(&startup()).is_ok() && line.hear_message().is_ok_and(|message| message[0] == b'R')
            });
            assert!(!is_let_in, "direct TLS with {protocol:?}");
        }
    }
    setting.end("handshakes that are none");
}

/// Without close_notify an end may be somebody else's: it ends nothing but the connection.
#[test]
fn an_end_without_close_notify_inside_a_message() {
    let (stage, ours) = Stage::encrypted();
    let mut setting = Setting::new(&stage, &ours, "plain");
    let before = setting.pooler.descriptors();
    let password = frontend::frame(b'p', b"right\0");
    for manner in [Manner::Asked, Manner::Direct] {
        for is_slow in [false, true] {
            for cut in 1..password.len() {
                let told = setting.outcome((manner, is_slow), asked, &password[..cut]);
                setting.check(&told, true, &format!("{cut} bytes of a password {manner:?}"));
                assert!(told.error.is_none(), "{told:?}");
            }
            let whole = startup();
            for cut in [1, 4, 8, whole.len() - 1] {
                let told = setting.outcome((manner, is_slow), |_| Ok(()), &whole[..cut]);
                setting.check(&told, true, &format!("{cut} bytes of a startup packet {manner:?}"));
            }
        }
    }
    // A server more of the bystander's.
    eventually("all of them are closed", || setting.pooler.descriptors() <= before + 1);
    setting.end("ends without close_notify");
}
