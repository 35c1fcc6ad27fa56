//! The real machines in the real engine, between clients and a PostgreSQL of a few lines: that the parts fit, and what
//! a transaction costs in system calls. What PostgreSQL really says is tested from outside, against a real one.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use engine::{Counters, Engine, Listening, LogOptions, Options};
use pooling::Settings;
use pooling::settings::{Address, AuthType, Database, Host, LoadBalanceHosts, PoolMode};
use pooling::{Snapshot, Stop};

const PATIENCE: Duration = Duration::from_secs(20);

/// A message as the protocol frames it.
fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag];
    bytes.extend((body.len() as u32 + 4).to_be_bytes());
    bytes.extend(body);
    bytes
}

/// The next message: its tag and body. `None` at the end of the stream.
fn next(stream: &mut impl Read) -> Option<(u8, Vec<u8>)> {
    let mut header = [0; 5];
    stream.read_exact(&mut header).ok()?;
    let len = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize - 4;
    let mut body = vec![0; len];
    stream.read_exact(&mut body).ok()?;
    Some((header[0], body))
}

fn startup(user: &str, database: &str) -> Vec<u8> {
    let mut body = 196_608_u32.to_be_bytes().to_vec();
    body.extend(format!("user\0{user}\0database\0{database}\0\0").bytes());
    let mut bytes = (body.len() as u32 + 4).to_be_bytes().to_vec();
    bytes.extend(body);
    bytes
}

/// Logs anybody in, and answers every query with its own text as the command tag.
fn serve(mut stream: TcpStream) {
    stream.set_nodelay(true).expect("TCP");
    let mut len = [0; 4];
    if stream.read_exact(&mut len).is_err() {
        return;
    }
    let mut rest = vec![0; u32::from_be_bytes(len) as usize - 4];
    stream.read_exact(&mut rest).expect("a startup packet");
    let mut hello = message(b'R', &[0; 4]);
    hello.extend(message(b'S', b"server_version\015.0\0"));
    hello.extend(message(b'K', &[0, 0, 0, 7, 1, 2, 3, 4]));
    hello.extend(message(b'Z', b"I"));
    stream.write_all(&hello).expect("it reads");
    while let Some((tag, body)) = next(&mut stream) {
        if tag == b'Q' {
            let mut answer = message(b'C', &body);
            answer.extend(message(b'Z', b"I"));
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

fn settings(workers: u16, pool_size: u32) -> Settings {
    let address = postgres();
    let database = Database {
        name: "shop".to_owned(),
        hosts: vec![Address { host: Host::Ip(address.ip()), port: address.port() }],
        load_balance_hosts: LoadBalanceHosts::RoundRobin,
        dbname: None,
        forced_user: Some("app".to_owned()),
        password: None,
        pool_size: Some(pool_size),
        min_pool_size: None,
        reserve_pool_size: None,
        pool_mode: Some(PoolMode::Transaction),
        max_db_connections: None,
        max_db_client_connections: None,
        server_lifetime: None,
        query_wait_timeout: None,
        connect_query: None,
        startup: Vec::new(),
        automatic: false,
    };
    let mut settings = Settings { auth_type: AuthType::Any, workers, ..Settings::default() };
    settings.databases.insert("shop".to_owned(), Arc::new(database));
    settings
}

fn start(settings: Settings) -> (Engine, SocketAddr) {
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

fn log_in(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_nodelay(true).expect("TCP");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time");
    stream.write_all(&startup("ali", "shop")).expect("it reads");
    until_ready(&mut stream);
    stream
}

/// What comes before ReadyForQuery.
fn until_ready(stream: &mut TcpStream) -> Vec<(u8, Vec<u8>)> {
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

/// Asks, and checks that the answer is this question's.
fn ask(stream: &mut TcpStream, text: &str) {
    let text = format!("{text}\0");
    stream.write_all(&message(b'Q', text.as_bytes())).expect("it reads");
    assert_eq!(until_ready(stream), [(b'C', text.into_bytes())]);
}

fn sum(engine: &Engine) -> Counters {
    let mut sum = Counters::default();
    for thread in engine.handle().counters(PATIENCE) {
        sum.add(&thread.counters);
    }
    sum
}

fn transactions(snapshots: &[Snapshot]) -> u64 {
    snapshots.iter().flat_map(|snapshot| &snapshot.pools).map(|pool| pool.totals.transactions).sum()
}

#[test]
fn a_transaction_is_two_reads_and_two_writes_and_no_more() {
    let (engine, address) = start(settings(1, 1));
    let mut stream = log_in(address);
    ask(&mut stream, "warm");
    let before = sum(&engine);
    for _ in 0..1000 {
        ask(&mut stream, "select 1");
    }
    let after = sum(&engine);
    assert_eq!((after.recvs - before.recvs, after.sends - before.sends), (2000, 2000));
    assert_eq!(after.epoll_ctls, before.epoll_ctls, "no epoll_ctl in the steady state");
    assert_eq!(after.rounds, after.clock_reads, "one clock read a round");
    assert!(after.rounds - before.rounds <= 2002, "{before:?} {after:?}");
    assert_eq!(transactions(&engine.handle().look(true, PATIENCE)), 1001);
}

#[test]
fn many_clients_share_few_servers_on_one_worker_and_on_three() {
    for workers in [1, 3] {
        let (engine, address) = start(settings(workers, 16));
        let clients: Vec<_> = (0..32)
            .map(|client| {
                std::thread::spawn(move || {
                    let mut stream = log_in(address);
                    for turn in 0..100 {
                        ask(&mut stream, &format!("select {client} {turn}"));
                    }
                })
            })
            .collect();
        for client in clients {
            client.join().expect("every answer was its own");
        }
        let snapshots = engine.handle().look(true, PATIENCE);
        assert_eq!(snapshots.len(), usize::from(workers));
        assert_eq!(transactions(&snapshots), 3200);
        let servers: usize = snapshots.iter().map(|snapshot| snapshot.servers.len()).sum();
        assert!(servers <= 16, "{servers} servers");
    }
}

#[test]
fn it_ends_when_the_last_client_has_left() {
    let (engine, address) = start(settings(2, 4));
    let mut stream = log_in(address);
    engine.handle().stop(Stop::WaitForClients);
    ask(&mut stream, "still served");
    stream.write_all(&message(b'X', b"")).expect("it reads");
    drop(stream);
    engine.wait();
}
