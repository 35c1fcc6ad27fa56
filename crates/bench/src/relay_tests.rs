//! The load through the relay, over both kinds of sockets.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::*;
use crate::contestant::Premises;
use crate::fake::Answer;
use crate::style::{Style, work};
use crate::world::{Mode, World};
use demo::free_port;

/// Turns until it is told to stop; says how many sockets were open then.
fn turning(mut relay: Relay, stop: Arc<AtomicBool>) -> std::thread::JoinHandle<usize> {
    std::thread::spawn(move || {
        let wait = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
        while !stop.load(Ordering::Relaxed) || relay.sockets() > 0 {
            relay.poll_once(Some(&wait)).expect("the relay turns");
        }
        relay.sockets()
    })
}

fn through(host: impl Fn(&Premises) -> String, answer: Answer) {
    let place = Premises::open(false).expect("a folder");
    let mut world = World::open(&place.folder).expect("loopback sockets");
    let listen_port = free_port();
    let route = Route { listen_port, host: host(&place), port: world.port };
    let stop = Arc::new(AtomicBool::new(false));
    let relay = turning(Relay::open(route).expect("it listens"), Arc::clone(&stop));
    let fleet = world.fleet(listen_port, work("bench", "", "bench", Style::Simple, answer));
    world.connect(fleet, 8).expect("eight logins pass through");
    assert_eq!(world.fake_links(), 8, "a server for each client");
    world.start(fleet, Mode::Closed).expect("questions");
    while world.done(fleet) < 200 {
        world.run_for(Duration::from_millis(5)).expect("right answers");
    }
    world.settle(fleet).expect("the last answers");
    world.disconnect(fleet).expect("goodbyes");
    while world.fake_links() > 0 {
        world.run_for(Duration::from_millis(1)).expect("goodbyes pass through");
    }
    stop.store(true, Ordering::Relaxed);
    assert_eq!(relay.join().expect("it ended well"), 0);
}

#[test]
fn small_answers_pass_over_tcp() {
    through(|_| "127.0.0.1".to_owned(), Answer::Small);
}

#[test]
fn small_answers_pass_over_a_unix_socket() {
    through(|place| place.folder.display().to_string(), Answer::Small);
}

/// 100 kB are more than the buffer, and eight of them more than a socket takes at once.
#[test]
fn large_answers_pass_whole() {
    through(|_| "127.0.0.1".to_owned(), Answer::Value);
    through(|place| place.folder.display().to_string(), Answer::Rows);
}

/// Everything in one thread, so that the relay turns exactly when it is told to.
#[test]
fn a_reader_that_stops_stops_the_writer_and_nothing_is_lost() {
    use std::io::{ErrorKind, Read, Write};
    let upstream = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let listen_port = free_port();
    let port = upstream.local_addr().expect("its number").port();
    let mut relay = Relay::open(Route { listen_port, host: "127.0.0.1".to_owned(), port }).expect("it listens");
    let mut client = std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, listen_port)).expect("accepted");
    relay.poll_once(None).expect("it dials");
    let (mut server, _) = upstream.accept().expect("the relay dialled");
    client.set_nonblocking(true).expect("set");
    server.set_nonblocking(true).expect("set");

    let wait = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
    let mut sent = Vec::new();
    while !relay.ends.iter().flatten().any(|end| !end.rest.is_empty()) {
        let chunk: Vec<u8> = (0..4096).map(|n| ((n + sent.len()) % 251) as u8).collect();
        match server.write(&chunk) {
            Ok(count) => sent.extend_from_slice(&chunk[..count]),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        relay.poll_once(Some(&wait)).expect("it copies");
        assert!(sent.len() < 256 << 20, "nobody reads, and yet somebody takes it all");
    }
    drop(server);
    let mut seen = Vec::new();
    let mut part = vec![0; BUFFER_BYTES];
    loop {
        match client.read(&mut part) {
            Ok(0) => break,
            Ok(count) => seen.extend_from_slice(&part[..count]),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        relay.poll_once(Some(&wait)).expect("it copies");
    }
    assert!(seen == sent, "in order, exactly once: {} of {} bytes", seen.len(), sent.len());
    assert_eq!(relay.sockets(), 0);
}

#[test]
fn the_common_ini_file_is_enough() {
    let ini = "[databases]\nbench = host=/tmp/a port=5433 dbname=bench user=bench\n\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
               listen_port = 6432\n";
    let route = Route { listen_port: 6432, host: "/tmp/a".to_owned(), port: 5433 };
    assert_eq!(Route::parse(ini), Ok(route));
    assert!(Route::parse(&ini.replace("listen_port", "port")).is_err());
    assert!(Route::parse(&ini.replace("host=", "")).is_err());
}
