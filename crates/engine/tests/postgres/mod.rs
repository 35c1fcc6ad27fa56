//! A fake PostgreSQL in a few lines, its clients, and an engine between them.

#![allow(dead_code, reason = "each test uses its own part of it")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use connections::databases::{Address, Database, Host};
use engine::{Engine, Listening, LogOptions, Options};
use machine::Settings;
use settings::{AuthType, DatabaseSettings, PoolMode, PoolSize};

/// Only a defect takes this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// ReadyForQuery, outside a transaction.
pub(crate) const READY: [u8; 6] = [b'Z', 0, 0, 0, 5, b'I'];

/// A message in the protocol's frame.
pub(crate) fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag];
    bytes.extend((body.len() as u32 + 4).to_be_bytes());
    bytes.extend(body);
    bytes
}

/// The next message: its tag and body. `None` at the end of the stream.
pub(crate) fn next(stream: &mut impl Read) -> Option<(u8, Vec<u8>)> {
    let mut header = [0; 5];
    stream.read_exact(&mut header).ok()?;
    let len = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize - 4;
    let mut body = vec![0; len];
    stream.read_exact(&mut body).ok()?;
    Some((header[0], body))
}

pub(crate) fn startup(user: &str, database: &str) -> Vec<u8> {
    let mut body = 196_608_u32.to_be_bytes().to_vec();
    body.extend(format!("user\0{user}\0database\0{database}\0\0").bytes());
    let mut bytes = (body.len() as u32 + 4).to_be_bytes().to_vec();
    bytes.extend(body);
    bytes
}

/// Accepts every login, and answers every query with its own text as the command tag. Allocates nothing once it is
/// warm.
fn serve(mut stream: TcpStream) {
    stream.set_nodelay(true).expect("TCP");
    let mut len = [0; 4];
    if stream.read_exact(&mut len).is_err() {
        return;
    }
    let mut body = vec![0; u32::from_be_bytes(len) as usize - 4];
    stream.read_exact(&mut body).expect("a startup packet");
    let mut answer = message(b'R', &[0; 4]);
    answer.extend(message(b'S', b"server_version\x0015.0\x00"));
    answer.extend(message(b'K', &[0, 0, 0, 7, 1, 2, 3, 4]));
    answer.extend(READY);
    stream.write_all(&answer).expect("it reads");
    let mut header = [0; 5];
    while stream.read_exact(&mut header).is_ok() {
        let len = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize - 4;
        body.resize(len, 0);
        stream.read_exact(&mut body).expect("the rest of a message");
        if header[0] == b'Q' {
            answer.clear();
            answer.push(b'C');
            answer.extend_from_slice(&header[1..]);
            answer.extend_from_slice(&body);
            answer.extend_from_slice(&READY);
            stream.write_all(&answer).expect("it reads");
        }
    }
}

/// The address of a PostgreSQL that lives as long as the process.
fn postgres() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

pub(crate) fn settings(workers: u16, pool_size: u32) -> Settings {
    let address = postgres();
    let hosts = vec![Address { host: Host::Ip(address.ip()), port: address.port() }];
    let database = Database {
        forced_user: Some("app".to_owned()),
        settings: DatabaseSettings {
            pool_size: Some(PoolSize::Fixed(pool_size)),
            pool_mode: Some(PoolMode::Transaction),
            ..DatabaseSettings::default()
        },
        ..Database::new("shop", hosts)
    };
    // This PostgreSQL echoes: it has no catalogue to be read.
    let mut settings = Settings { workers, reads_catalogue: false, reads_base: false, ..Settings::default() };
    settings.global.tls.server_tls_sslmode = settings::SslMode::Disable;
    settings.global.login.auth_type = AuthType::Any;
    settings.databases.insert("shop".to_owned(), Arc::new(database));
    settings
}

pub(crate) fn start(settings: Settings) -> (Engine, SocketAddr) {
    let options = Options {
        addresses: vec!["127.0.0.1".to_owned()],
        port: 0,
        unix: None,
        log: LogOptions { stderr: false, ..LogOptions::default() },
        ..Options::default()
    };
    let engine = Engine::start(&options, Arc::new(settings)).expect("a free port");
    let address = engine.handle().listening().into_iter().find_map(|place| match place {
        Listening::Tcp(address) => Some(address),
        Listening::Unix(_) => None,
    });
    (engine, address.expect("it listens on TCP"))
}

pub(crate) fn log_in(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_nodelay(true).expect("TCP");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time");
    stream.write_all(&startup("ali", "shop")).expect("it reads");
    until_ready(&mut stream);
    stream
}

/// The messages before ReadyForQuery.
pub(crate) fn until_ready(stream: &mut TcpStream) -> Vec<(u8, Vec<u8>)> {
    let mut seen = Vec::new();
    loop {
        let (tag, body) = next(stream).unwrap_or_else(|| panic!("the end, after {seen:?}"));
        assert_ne!(tag, b'E', "{}", String::from_utf8_lossy(&body));
        if tag == b'Z' {
            return seen;
        }
        seen.push((tag, body));
    }
}

/// Sends a query, and checks that the answer belongs to it.
pub(crate) fn ask(stream: &mut TcpStream, text: &str) {
    let text = format!("{text}\0");
    stream.write_all(&message(b'Q', text.as_bytes())).expect("it reads");
    assert_eq!(until_ready(stream), [(b'C', text.into_bytes())]);
}
