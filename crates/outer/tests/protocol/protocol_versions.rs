//! Protocol 3.2 on both sides: libpq 18 before the program, and a server with a long cancel key behind it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use outer::{Pooler, Stage, eventually};
use wire::backend::{self, Authentication, BackendKeyData, ErrorResponse, Status};
use wire::frontend::{Startup, parse_startup};

/// Nothing here takes so long.
const PATIENCE: Duration = Duration::from_secs(120);

#[test]
fn libpq_18_speaks_each_version_and_cancels_inside_tls_and_in_the_clear() {
    let (stage, ours) = Stage::encrypted();
    let ini = format!(
        "[databases]\n* = host=localhost port={} dbname=postgres user=ann password=right\n[pgbouncer]\n\
         listen_addr = 127.0.0.1\nlisten_port = {{port}}\nunix_socket_dir = {{dir}}\nauth_type = scram-sha-256\n\
         auth_file = {{dir}}/users.txt\npool_mode = transaction\nclient_tls_sslmode = allow\n\
         client_tls_cert_file = {}\nclient_tls_key_file = {}\nserver_max_protocol_version = latest\n",
        stage.cluster.port(),
        ours.path("pooler.crt"),
        ours.path("pooler.key")
    );
    let pooler = Pooler::start(&ini, "\"ann\" \"right\"\n", None);
    for tls in [
        "sslmode=disable".to_owned(),
        "sslmode=require channel_binding=require".to_owned(),
        format!("sslmode=verify-full sslrootcert={} sslnegotiation=direct", ours.path("ca.crt")),
    ] {
        let conninfo = format!("host=localhost port={} user=ann password=right dbname=postgres {tls}", pooler.port);
        let printed = outer::python("protocol_versions.py", &[&conninfo]).expect("libpq 18 gets in");
        let lines: Vec<&str> = printed.lines().collect();
        let expected =
            ["3.0 30000 cancelled", "3.2 30002 cancelled", "latest 30002 cancelled", "at least 3.2 30002 cancelled"];
        assert_eq!(lines, expected, "{tls}: {}", pooler.log());
    }
}

/// The next connection, which the pooler opens.
fn accepted(listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).expect("it is open");
    let mut stream = None;
    eventually("the pooler connects", || {
        stream = listener.accept().ok().map(|(stream, _)| stream);
        stream.is_some()
    });
    let stream = stream.expect("it is so");
    stream.set_nonblocking(false).expect("it is open");
    stream
}

/// Reads a first packet; what `read` makes of it.
fn first_packet<T>(stream: &mut TcpStream, read: impl Fn(Startup<'_>) -> T) -> T {
    stream.set_read_timeout(Some(PATIENCE)).expect("above zero");
    let mut bytes = Vec::new();
    loop {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("the pooler sends a packet");
        bytes.extend_from_slice(&byte);
        if let Some((packet, _)) = parse_startup(&bytes).expect("the pooler's own") {
            return read(packet);
        }
    }
}

/// A server that gives secrets of each length gets them back, byte by byte.
#[test]
fn a_servers_long_key_comes_back_as_it_was() {
    let stage = Stage::set(&outer::Wishes::default());
    for (len, asked) in [(4, "3.0"), (5, "3.2"), (32, "latest"), (255, "3.0"), (256, "3.2")] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("it listens").port();
        let secret: Vec<u8> = (0..len).map(|at| (at * 7 + 3) as u8).collect();
        let ini = format!(
            "[databases]\npostgres = host=127.0.0.1 port={port} user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {{port}}\nunix_socket_dir = {{dir}}\nauth_type = any\npool_mode = transaction\n\
             server_tls_sslmode = disable\nserver_max_protocol_version = {asked}\nquery_timeout = 1\n\
             query_cancel_timeout = 0\nserver_connect_timeout = 0\npool_fidelity = classic\nserver_check_query =\nobserve_interval = 0\n\
             host_check_interval = 0\n"
        );
        let pooler = Pooler::start(&ini, "", None);
        let target = format!("host=127.0.0.1 port={} user=postgres dbname=postgres", pooler.port);
        let asking = std::thread::spawn({
            let program = stage.binaries.program("psql").expect("it is there");
            // What may be committing is not cancelled.
            move || std::process::Command::new(program).args(["-X", "-d", &target, "-c", "begin; select 1"]).output()
        });
        let mut server = accepted(&listener);
        let minor = first_packet(&mut server, |packet| match packet {
            Startup::Start(message) => message.minor,
            other => panic!("{other:?}"),
        });
        assert_eq!(minor, if asked == "3.0" { 0 } else { 2 });
        let mut out = Vec::new();
        Authentication::Ok.encode(&mut out);
        BackendKeyData { pid: 4711, secret: &secret }.encode(&mut out);
        backend::encode_ready(&mut out, Status::Idle);
        server.write_all(&out).expect("the pooler reads");
        // What it begins with it does not say.
        let mut header = [0; 5];
        server.read_exact(&mut header).expect("the pooler asks");
        let mut question = vec![0; u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize - 4];
        server.read_exact(&mut question).expect("all of it");
        assert_eq!(header[0], b'Q');
        let mut out = Vec::new();
        let (code, message) = (wire::sqlstate::SYNTAX_ERROR, "no such function");
        ErrorResponse { severity: "ERROR", code, message, detail: None, hint: None }.encode(&mut out);
        backend::encode_ready(&mut out, Status::Idle);
        server.write_all(&out).expect("the pooler reads");
        // The query is not answered; after query_timeout the pooler cancels it.
        let mut canceller = accepted(&listener);
        let given = first_packet(&mut canceller, |packet| match packet {
            Startup::Cancel(request) => (request.pid, request.secret.to_vec()),
            other => panic!("{other:?}"),
        });
        assert_eq!(given, (4711, secret), "{len} bytes");
        drop(canceller);
        let mut out = Vec::new();
        let (code, message) = (wire::sqlstate::QUERY_CANCELED, "canceling statement due to user request");
        ErrorResponse { severity: "ERROR", code, message, detail: None, hint: None }.encode(&mut out);
        backend::encode_ready(&mut out, Status::Idle);
        server.write_all(&out).expect("the pooler reads");
        let output = asking.join().expect("no panic").expect("psql runs");
        assert!(!output.status.success());
    }
}
