//! A proxy before the pooler that says by the PROXY protocol which client it speaks for.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use client::Trusted;
use outer::line::Manner;
use outer::{Client, Pooler, Stage, Wishes, eventually, frontend};

const LINE: &[u8] = b"PROXY TCP4 203.0.113.7 192.0.2.1 51234 6432\r\n";

/// The header in the binary format, with a TLV behind the addresses.
const BINARY: &[u8] =
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x11\xcb\x00\x71\x07\xc0\x00\x02\x01\xc8\x22\x19\x20\x04\x00\x02\x01\x02";

/// Only a defect takes this long.
const PATIENCE: Duration = Duration::from_secs(120);

const ITSELF: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x00";

/// A pooler that believes proxies on this machine.
fn pooler(stage: &Stage, settings: &str) -> Pooler {
    let (port, password) = (stage.cluster.port(), stage.cluster.password());
    let mut ini = format!("[databases]\npostgres = host=127.0.0.1 port={port} user=postgres password={password}\n");
    ini += "[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\npool_mode = transaction\n";
    ini += "auth_type = hba\nauth_hba_file = {dir}/hba.conf\nauth_file = {dir}/users.txt\nadmin_users = postgres\n";
    ini += "proxy_protocol_networks = 127.0.0.0/8\napplication_name_add_host = 1\nlogfile = {dir}/log.json\nlog_format = json\n";
    let rules = "host all all 203.0.113.0/24 trust\nhost all all 127.0.0.1/32 trust\n".to_owned();
    let users = "\"postgres\" \"\"\n".to_owned();
    Pooler::start_with(&format!("{ini}{settings}"), &[("hba.conf", rules), ("users.txt", users)])
}

/// A client behind a proxy that sends this header, byte by byte if it is slow.
fn through(pooler: &Pooler, header: &[u8], database: &str, is_slow: bool) -> Result<Client, String> {
    let mut stream = TcpStream::connect(pooler.address()).map_err(|error| error.to_string())?;
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(|error| error.to_string())?;
    let pieces: Vec<&[u8]> = if is_slow { header.chunks(1).collect() } else { vec![header] };
    for piece in pieces {
        stream.write_all(piece).map_err(|error| error.to_string())?;
    }
    let mut client = Client::over(Box::new(stream), pooler.address().into());
    let names = [("user", "postgres"), ("database", database), ("application_name", "app")];
    client.log_in(&frontend::startup(&names), &mut Trusted).map_err(|gone| gone.to_string())?;
    Ok(client)
}

/// Rows with this in their first columns.
fn rows(client: &mut Client, show: &str) -> Vec<Vec<String>> {
    let answer = client.query(show).expect("the console answers");
    let row = |row: &Vec<Option<String>>| row.iter().map(|value| value.clone().unwrap_or_default()).collect();
    answer.rows.iter().map(row).collect()
}

#[test]
fn the_clients_own_address_counts_everywhere() {
    let stage = Stage::set(&Wishes::default());
    let pooler = pooler(&stage, "");
    for (header, is_slow) in [(LINE, false), (LINE, true), (BINARY, false), (BINARY, true)] {
        let mut client = through(&pooler, header, "postgres", is_slow).unwrap_or_else(|why| panic!("{why}"));
        let name = client.query("show application_name").expect("an answer");
        assert_eq!(name.value(), Some("app - 203.0.113.7:51234"));
        // Who looks comes through the proxy too, which speaks for itself.
        let mut console = through(&pooler, ITSELF, "pgbouncer", false).unwrap_or_else(|why| panic!("{why}"));
        for show in ["show clients", "show sockets"] {
            let shown = rows(&mut console, show);
            let is_it = |row: &&Vec<String>| row.iter().any(|value| value == "203.0.113.7");
            let row = shown.iter().find(is_it).unwrap_or_else(|| panic!("{show}: {shown:?}"));
            assert!(
                row.iter().any(|value| value == "51234") && row.iter().any(|value| value == "192.0.2.1"),
                "{row:?}"
            );
        }
    }
    let is_it = |line: &str| ["login attempt", "203.0.113.7", "51234"].iter().all(|words| line.contains(words));
    eventually("it is logged", || {
        std::fs::read_to_string(pooler.dir().join("log.json")).is_ok_and(|log| log.lines().any(is_it))
    });
}

#[test]
fn the_rules_are_for_the_clients_address_and_nobody_gets_in_by_the_proxys() {
    let stage = Stage::set(&Wishes::default());
    let pooler = pooler(&stage, "");
    let other = b"PROXY TCP4 198.51.100.9 192.0.2.1 51234 6432\r\n";
    let refused = through(&pooler, other, "postgres", false).map(drop).expect_err("no rule is for it");
    assert!(refused.contains("no pg_hba.conf entry for host \"198.51.100.9\""), "{refused}");
    // Without a header; with a broken one.
    for header in [b"".as_slice(), b"PROXY TCP4 203.0.113.7 192.0.2.1 51234 99999\r\n"] {
        let refused = through(&pooler, header, "postgres", false).map(drop).expect_err("no header");
        assert!(refused.contains("PROXY protocol header expected"), "{refused}");
    }
}

#[test]
fn half_a_header_waits_for_client_login_timeout_and_keeps_nobody() {
    let stage = Stage::set(&Wishes::default());
    let pooler = pooler(&stage, "client_login_timeout = 3600\n");
    let silent = || -> Vec<TcpStream> {
        let one = |number: usize| {
            let mut stream = TcpStream::connect(pooler.address()).expect("it listens");
            stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
            let half = if number.is_multiple_of(2) { &LINE[..20] } else { &BINARY[..20] };
            stream.write_all(half).expect("it is open");
            stream
        };
        (0..50).map(one).collect()
    };
    // These clients have an hour; no other client waits for them.
    let _waiting = silent();
    assert!(through(&pooler, LINE, "postgres", false).is_ok());
    let mut console = through(&pooler, ITSELF, "pgbouncer", false).unwrap_or_else(|why| panic!("{why}"));
    // The transcript `proxy/half-a-header.txt` proves when the second is over.
    let _ = console.query("set client_login_timeout = 1").expect("the console answers");
    for mut stream in silent() {
        let mut told = Vec::new();
        let _ = stream.read_to_end(&mut told);
        assert!(String::from_utf8_lossy(&told).contains("client_login_timeout"));
    }
}

#[test]
fn a_header_from_elsewhere_is_refused() {
    let stage = Stage::set(&Wishes::default());
    let pooler = pooler(&stage, "proxy_protocol_networks = 10.0.0.0/8\n");
    for header in [LINE, BINARY, ITSELF] {
        let refused = through(&pooler, header, "postgres", false).map(drop).expect_err("nobody believes it");
        assert!(refused.contains("unexpected PROXY protocol header"), "{refused}");
    }
    assert!(through(&pooler, b"", "postgres", false).is_ok(), "a client that is none");
    eventually("it is logged", || {
        let log = std::fs::read_to_string(pooler.dir().join("log.json")).unwrap_or_default();
        log.matches("unexpected PROXY protocol header").count() >= 3 && !log.contains("203.0.113.7")
    });
}

#[test]
fn tls_may_follow_a_header_asked_for_or_at_once() {
    let (stage, ours) = Stage::encrypted();
    let files = format!(
        "client_tls_sslmode = require\nclient_tls_cert_file = {}\nclient_tls_key_file = {}\n",
        ours.path("pooler.crt"),
        ours.path("pooler.key")
    );
    let pooler = pooler(&stage, &files);
    let config = outer::line::trusting(&ours, Some("postgresql"));
    for manner in [Manner::Asked, Manner::Direct] {
        for is_slow in [false, true] {
            let mut line = outer::line::Line::open(pooler.address(), is_slow).expect("it listens");
            line.send(LINE).expect("it is open");
            if manner == Manner::Asked {
                line.send(&[0, 0, 0, 8, 4, 210, 22, 47]).expect("it is open");
                assert_eq!(line.hear(1).expect("an answer"), b"S");
            }
            line.encrypt(&config).expect("a handshake");
            line.send(&frontend::startup(&[("user", "postgres"), ("database", "postgres")])).expect("it is open");
            let told = line.hear_message().expect("an answer");
            assert_eq!(told.first(), Some(&b'R'), "{}", told.escape_ascii());
        }
    }
}
