//! Bytes in and out: echo, back-pressure, ends, connecting.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use connections::databases::{Address, Host};
use machine::{Action, Event, Mail, Piece, Place, Refusal, Source, ToDoor, ToWorker};
use socket2::SockRef;
use units::Kind;

use super::{PATIENCE, Script, Stage, client, ping, rest};
use crate::host::VISITORS_ALONE_MAX;

#[test]
fn it_echoes_over_tcp_of_both_kinds_and_unix() {
    let stage =
        Stage::open_with(1, |options| options.addresses = vec!["127.0.0.1".to_owned(), "::1".to_owned()], |_| None);
    for address in stage.addresses() {
        let mut stream = client(address);
        ping(&mut stream, b"over TCP");
        let from = stream.local_addr().expect("connected");
        stage.expect(&format!("accept Tcp {{ from: {from:?}, to: {address:?} }}"));
    }
    ping(&mut stage.unix(), b"over Unix");
    let note = stage.expect("accept Unix");
    assert!(note.contains(&format!("pid: {}", std::process::id())), "{note}");
}

#[test]
fn star_means_both_kinds_on_one_port() {
    let free = TcpListener::bind("127.0.0.1:0").expect("loopback").local_addr().expect("bound").port();
    let change = |options: &mut crate::Options| (options.addresses, options.port) = (vec!["*".to_owned()], free);
    let stage = Stage::open_with(1, change, |_| None);
    for text in [format!("127.0.0.1:{free}"), format!("[::1]:{free}")] {
        let mut stream = client(text.parse().expect("an address"));
        ping(&mut stream, b"x");
        let from = stream.local_addr().expect("connected");
        stage.expect(&format!("accept Tcp {{ from: {from:?}, to: {text} }}"));
    }
}

/// An address that no machine has (RFC 5737).
const NOT_OURS: &str = "203.0.113.7";

#[test]
fn an_address_that_cannot_be_listened_on_leaves_the_others() {
    let addresses = [NOT_OURS, "127.0.0.1"].map(str::to_owned).to_vec();
    let options = crate::Options { addresses, port: 0, unix: None, ..crate::Options::default() };
    let mut missed = Vec::new();
    let listeners = crate::listener::listen(&options, &mut missed).expect("one address is ours");
    assert_eq!((listeners.len(), missed.len()), (1, 1));
    assert!(missed[0].to_string().starts_with("cannot listen on 203.0.113.7:0: "), "{}", missed[0]);
    let only = crate::Options { addresses: vec![NOT_OURS.to_owned()], ..options };
    let why = crate::listener::listen(&only, &mut Vec::new()).err().expect("there is nowhere to listen on");
    assert_eq!(why.place, "203.0.113.7:0");
}

/// Clients come by TCP where they were told to: to whoever has the port, or to nobody.
#[test]
fn the_unix_socket_alone_does_not_do_where_tcp_is_asked_for() {
    let dir = format!("@pgweir-alone-{}", std::process::id());
    let unix = Some(crate::UnixOptions { dir, mode: 0o777, group: None });
    let addresses = vec![NOT_OURS.to_owned()];
    let options = crate::Options { addresses, port: 0, unix, ..crate::Options::default() };
    let why = crate::listener::listen(&options, &mut Vec::new()).err().expect("no TCP address is ours");
    assert_eq!(why.place, "203.0.113.7:0");
}

#[test]
fn the_steady_state_is_one_recv_and_one_send_and_one_clock_read_a_round() {
    let stage = Stage::open(1, |_| None);
    let mut stream = stage.tcp();
    ping(&mut stream, b"warm");
    let before = stage.counters();
    for _ in 0..1000 {
        ping(&mut stream, b"sixty bytes, more or less");
    }
    let after = stage.counters();
    assert_eq!(after.rounds, after.clock_reads);
    assert_eq!((after.recvs - before.recvs, after.sends - before.sends), (1000, 1000));
    assert_eq!(after.epoll_ctls, before.epoll_ctls);
    // The requests for the counters are the only letters.
    assert!(after.rounds - before.rounds <= 1002, "{before:?} {after:?}");
}

#[test]
fn a_thread_that_looks_before_it_sleeps_hears_clients_and_letters() {
    let stage = Stage::open_with(2, |options| options.busy_poll = Duration::from_millis(1), |_| None);
    let (mut tcp, mut unix) = (stage.tcp(), stage.unix());
    // The counters come by letters to each thread.
    let before = stage.counters();
    for _ in 0..100 {
        ping(&mut tcp, b"is there anything");
        ping(&mut unix, b"new?");
    }
    let after = stage.counters();
    assert_eq!(after.recvs - before.recvs, 200);
    let (rounds, clock_reads) = (after.rounds - before.rounds, after.clock_reads - before.clock_reads);
    assert!(
        rounds.abs_diff(clock_reads) <= 3,
        "a look is no round: {rounds} rounds, {clock_reads} readings of the clock"
    );
    stage.engine().handle().set_busy_poll(Duration::ZERO);
    ping(&mut tcp, b"and without looking");
    stage.counters();
}

#[test]
fn a_slow_reader_gets_everything_in_order() {
    let stage = Stage::open_with(1, |options| options.tcp.buffer_len = Some(8192), |_| None);
    let mut stream = stage.tcp();
    let sent: Vec<u8> = (0..4_000_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut writer = stream.try_clone().expect("a descriptor");
    let copy = sent.clone();
    let writing = std::thread::spawn(move || {
        writer.write_all(&copy).expect("it is read from in the end");
        writer.shutdown(Shutdown::Write).expect("open");
    });
    // Nothing is read until there has been back-pressure: the buffers on the way hold less than is written.
    let until = std::time::Instant::now() + PATIENCE;
    while stage.counters().epoll_ctls <= 4 && std::time::Instant::now() < until {
        std::thread::yield_now();
    }
    let mut first = [0; 1];
    stream.read_exact(&mut first).expect("an echo");
    let mut got = first.to_vec();
    got.resize(sent.len(), 0);
    stream.read_exact(&mut got[1..]).expect("the whole echo");
    writing.join().expect("written");
    assert!(got == sent, "bytes were lost, doubled or put in another order");
    assert!(stage.counters().epoll_ctls > 4, "the test met no back-pressure");
}

/// Splits each chunk into three sends, which are gathered.
fn in_three() -> Option<Script> {
    Some(Box::new(|actor, event| {
        let Event::Received { conn, bytes } = *event else { return actor.echo(event) };
        let len = u32::try_from(bytes.len()).expect("a chunk");
        let piece = |start: u32, end: u32| Action::Send {
            conn,
            piece: Piece { source: Source::Chunk, start, len: end - start },
        };
        vec![piece(0, len / 3), piece(len / 3, len / 2), piece(len / 2, len)]
    }))
}

#[test]
fn neighbouring_sends_are_one_call_and_short_writes_keep_the_rest() {
    let change = |options: &mut crate::Options| options.tcp.buffer_len = Some(8192);
    let stage = Stage::open_with(1, change, |_| in_three());
    let mut stream = stage.tcp();
    ping(&mut stream, b"abcdefghi");
    assert_eq!(stage.counters().sends, 1);
    let sent: Vec<u8> = (0..1_000_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut writer = stream.try_clone().expect("a descriptor");
    let copy = sent.clone();
    let writing = std::thread::spawn(move || writer.write_all(&copy).expect("it is read from"));
    let mut got = vec![0; sent.len()];
    stream.read_exact(&mut got).expect("the whole echo");
    writing.join().expect("written");
    assert!(got == sent, "bytes were lost, doubled or put in another order");
}

/// Notes ends; obeys `-` (stop reading) and `+` by a mail, echoes nothing.
fn noting() -> Option<Script> {
    let mut last = None;
    Some(Box::new(move |actor, event| match *event {
        Event::Received { conn, bytes } => {
            actor.note(format!("got {}", String::from_utf8_lossy(bytes)));
            last = Some(conn);
            let stops = bytes.ends_with(b"-");
            stops.then_some(Action::Interest { conn, read: false, write: false }).into_iter().collect()
        }
        Event::Mail(Mail::ToDoor(_, ToDoor::NotPlaced { .. })) => {
            let go_on = |conn| Action::Interest { conn, read: true, write: false };
            last.map(go_on).into_iter().collect()
        }
        Event::Hangup { conn, why } => {
            actor.note(format!("end {why:?}"));
            vec![Action::Close { conn, last_words: true }]
        }
        _ => Vec::new(),
    }))
}

fn wake_door(stage: &Stage) {
    let mail = ToDoor::NotPlaced { login: super::conn(Kind::Login, 0, 0), why: Refusal::ShuttingDown };
    stage.engine().handle().post(Mail::ToDoor(crate::shared::DOOR, mail));
}

#[test]
fn an_end_is_reported_once_and_says_how() {
    let stage = Stage::open(1, |_| noting());
    let mut stream = stage.tcp();
    stream.write_all(b"bye").expect("it reads");
    drop(stream);
    assert_eq!(stage.expect("end"), "end Closed");
    let stream = stage.tcp();
    stage.expect("accept");
    SockRef::from(&stream).set_linger(Some(Duration::ZERO)).expect("TCP");
    drop(stream);
    assert_eq!(stage.expect("end"), "end Broken");
}

#[test]
fn a_reset_is_seen_while_reading_is_paused() {
    let stage = Stage::open(1, |_| noting());
    let mut stream = stage.tcp();
    stream.write_all(b"-").expect("it reads");
    stage.expect("got -");
    SockRef::from(&stream).set_linger(Some(Duration::ZERO)).expect("TCP");
    drop(stream);
    assert_eq!(stage.expect("end"), "end Broken");
}

#[test]
fn what_was_sent_before_the_end_is_read_after_a_pause() {
    let stage = Stage::open(1, |_| noting());
    let mut stream = stage.unix();
    stream.write_all(b"-").expect("it reads");
    stage.expect("got -");
    // A Unix socket reports a hang-up at once, with bytes still unread.
    stream.write_all(b"last words").expect("there is room");
    drop(stream);
    let before = stage.counters().rounds;
    // It is not a busy loop: only the requests for the counters make rounds.
    let turned = stage.counters().rounds - before;
    assert!(turned <= 4, "{turned} rounds");
    wake_door(&stage);
    assert_eq!(stage.expect("got"), "got last words");
    assert_eq!(stage.expect("end"), "end Closed");
}

#[test]
fn a_peer_that_takes_nothing_any_more_is_still_heard() {
    // The machine reads the rest after the peer has sent its last bytes and closed.
    let stage = Stage::open(1, |_| {
        let mut first = true;
        Some(Box::new(move |actor, event| match *event {
            Event::Received { conn, bytes } if first => {
                first = false;
                actor.note("got the first");
                // Kept until the peer has closed.
                actor.backlog.insert(conn, vec![0; 1]);
                actor.note(format!("{}", bytes.len()));
                vec![Action::Interest { conn, read: false, write: false }]
            }
            Event::Mail(Mail::ToDoor(_, ToDoor::NotPlaced { .. })) => {
                let waiting = std::mem::take(&mut actor.backlog);
                waiting.into_keys().map(|conn| Action::Interest { conn, read: true, write: false }).collect()
            }
            Event::Received { bytes, .. } => {
                actor.note(format!("got {}", String::from_utf8_lossy(bytes)));
                Vec::new()
            }
            _ => actor.echo(event),
        }))
    });
    let mut stream = stage.unix();
    stream.write_all(b"x").expect("it reads");
    stage.expect("got the first");
    stream.write_all(b"FATAL").expect("there is room");
    drop(stream);
    wake_door(&stage);
    assert_eq!(stage.expect("got"), "got FATAL");
}

#[test]
fn a_reader_that_vanishes_while_much_is_waiting_for_it_ends_once() {
    let stage = Stage::open(1, |_| {
        Some(Box::new(|actor, event| {
            if let Event::Hangup { conn, why } = event {
                actor.note(format!("end {} {why:?}", conn.slot()));
            }
            if let Event::Blocked { .. } = event {
                actor.note("blocked");
            }
            actor.echo(event)
        }))
    });
    let mut stream = stage.unix();
    stream.set_nonblocking(true).expect("a socket");
    // A write that fails may find a reader that is only slow.
    while stream.write(&[7; 50_000]).is_ok() || !stage.has_noted("blocked", Duration::from_millis(1)) {}
    drop(stream);
    assert_eq!(stage.expect("end"), "end 0 Broken");
    drop(stage.unix());
    assert_eq!(stage.expect("end"), "end 1 Closed", "the first end was reported twice");
}

/// Opens a server at a mail, sends it nothing, and notes its events.
fn opening(address: Address) -> impl Fn(Place) -> Option<Script> + Send + Sync {
    let address = Arc::new(address);
    move |place| {
        let address = Arc::clone(&address);
        matches!(place, Place::Worker(_)).then(|| -> Script {
            Box::new(move |actor, event| match event {
                Event::Mail(Mail::ToWorker(_, ToWorker::Cancel { .. })) => {
                    let conn = actor.fresh(Kind::Server);
                    vec![Action::Open { conn, address: Arc::clone(&address) }]
                }
                Event::Opened { ends, .. } => {
                    let ends = ends.as_ref().map(|ends| format!(" {} -> {}", ends.local, ends.remote));
                    actor.note(format!("opened{}", ends.unwrap_or_default()));
                    Vec::new()
                }
                Event::OpenFailed { why, .. } => {
                    actor.note(format!("failed: {why}"));
                    Vec::new()
                }
                _ => actor.echo(event),
            })
        })
    }
}

fn open_server(stage: &Stage) {
    let mail = ToWorker::Cancel { pid: 0, secret: [0; 4].into(), ticket: None };
    stage.engine().handle().post(Mail::ToWorker(units::WorkerId(0), mail));
}

#[test]
fn servers_are_reached_by_address_name_and_socket() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let port = listener.local_addr().expect("bound").port();
    for host in [Host::Ip([127, 0, 0, 1].into()), Host::Name("localhost".to_owned())] {
        let stage = Stage::open(1, opening(Address { host, port }));
        open_server(&stage);
        let (mut server, from) = listener.accept().expect("a connection");
        assert_eq!(stage.expect(""), format!("opened {from} -> 127.0.0.1:{port}"));
        server.set_read_timeout(Some(PATIENCE)).expect("a time");
        ping(&mut server, b"hello from the server");
    }
    let other = Stage::open(1, |_| None);
    let dir = other.dir.to_str().expect("plain").to_owned();
    let port = other.addresses()[0].port();
    let stage = Stage::open(1, opening(Address { host: Host::Unix(dir), port }));
    open_server(&stage);
    assert_eq!(stage.expect(""), "opened");
    other.expect("accept Unix");
}

#[test]
fn a_server_that_is_not_there_fails_in_words() {
    let gone = TcpListener::bind("127.0.0.1:0").expect("loopback").local_addr().expect("bound").port();
    let hosts =
        [Host::Ip([127, 0, 0, 1].into()), Host::Unix("/nowhere".to_owned()), Host::Name("no.invalid".to_owned())];
    for host in hosts {
        let stage = Stage::open(1, opening(Address { host, port: gone }));
        open_server(&stage);
        let note = stage.expect("failed: ");
        assert!(note.contains("connect failed: ") || note.contains("server DNS lookup failed: "), "{note}");
    }
}

#[test]
fn a_final_error_reaches_a_client_that_goes_on_writing() {
    let stage = Stage::open(1, |_| {
        Some(Box::new(|actor, event| match *event {
            Event::Received { conn, bytes } => {
                vec![super::whole(conn, bytes), Action::Close { conn, last_words: true }]
            }
            _ => actor.echo(event),
        }))
    });
    let mut stream = stage.tcp();
    stream.write_all(b"farewell").expect("it reads");
    // It may fail, as the connection is being closed.
    let _ = stream.write_all(&[0; 100_000]);
    assert!(rest(&mut stream).starts_with(b"farewell"));
}

#[test]
fn clients_that_come_after_a_reload_get_the_new_options() {
    let seen = |stream: &TcpStream| {
        let socket = socket2::SockRef::from(stream);
        (socket.keepalive().expect("it is open"), socket.tcp_keepalive_time().expect("it is open").as_secs())
    };
    let options =
        crate::TcpOptions { keepalive_idle: Some(std::time::Duration::from_secs(7)), ..crate::TcpOptions::default() };
    let listening =
        crate::Options { addresses: vec!["127.0.0.1".to_owned()], port: 0, unix: None, ..crate::Options::default() };
    let listeners = crate::listener::listen(&listening, &mut Vec::new()).expect("a free port");
    let crate::Listening::Tcp(address) = listeners[0].place else { panic!("it is TCP") };
    let accepted = |is_new: bool| {
        let _client = TcpStream::connect(address).expect("it listens");
        let fd = loop {
            match listeners[0].accept() {
                crate::listener::Accepted::Client(fd, _) => break fd,
                _ => std::thread::yield_now(),
            }
        };
        assert_eq!(seen(&TcpStream::from(fd)) == (true, 7), is_new);
    };
    accepted(false);
    listeners[0].set_tcp(&options).expect("the kernel takes them");
    accepted(true);
}

#[test]
fn the_listen_queue_has_room_for_a_burst_of_clients() {
    let allowed = std::fs::read_to_string("/proc/sys/net/core/somaxconn").expect("Linux has it");
    let count = allowed.trim().parse::<usize>().expect("a number").min(1000);
    crate::gate::raise_descriptor_limit();
    let options =
        crate::Options { addresses: vec!["127.0.0.1".to_owned()], port: 0, unix: None, ..crate::Options::default() };
    let listeners = crate::listener::listen(&options, &mut Vec::new()).expect("a free port");
    let crate::Listening::Tcp(address) = listeners[0].place else { panic!("it is TCP") };
    // A client that finds no room tries again and again, and finds none: nobody is accepted.
    let clients: Vec<TcpStream> =
        (0..count).map_while(|_| TcpStream::connect_timeout(&address, PATIENCE).ok()).collect();
    assert_eq!(clients.len(), count);
}

#[test]
fn the_table_of_descriptors_has_room_before_the_first_client() {
    crate::gate::raise_descriptor_limit();
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
    // More than all tests together open, where that many are allowed.
    let count = usize::try_from(limit).unwrap_or(usize::MAX).min(9000);
    crate::gate::make_room(count);
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let len = status.lines().find_map(|line| line.strip_prefix("FDSize:")).expect("proc(5) has it");
    assert!(len.trim().parse::<usize>().expect("a number") >= count, "{len}");
    // No descriptor stays open for it.
    assert!(!std::path::Path::new(&format!("/proc/self/fd/{}", count - 1)).exists());
}

/// A message "hold" blocks the thread until the test releases it. The round of every other event is noted.
fn rounds_of(held: Receiver<()>) -> impl Fn(Place) -> Option<Script> {
    let held = Mutex::new(Some(held));
    move |place| {
        let held = held.lock().expect("not poisoned").take_if(|_| matches!(place, Place::Door(_)))?;
        Some(Box::new(move |actor, event| {
            match event {
                Event::Received { bytes: b"hold", .. } => {
                    actor.note("held");
                    held.recv_timeout(PATIENCE).expect("the test lets go");
                }
                Event::Received { .. } => actor.note(format!("came {}", actor.now.0)),
                Event::Hangup { .. } => actor.note(format!("left {}", actor.now.0)),
                _ => {}
            }
            actor.echo(event)
        }))
    }
}

/// The largest number of notes with the same time: a round reads the clock once, and takes longer than the clock's
/// resolution.
fn most_in_a_round(stage: &Stage, beginning: &str, count: usize) -> usize {
    let mut rounds = BTreeMap::new();
    for _ in 0..count {
        *rounds.entry(stage.expect(beginning)).or_insert(0) += 1;
    }
    rounds.into_values().max().expect("there were some")
}

#[test]
fn many_logins_and_ends_are_reported_in_portions() {
    const STORM: usize = VISITORS_ALONE_MAX + 44;
    let (release, held) = channel();
    let stage = Stage::open(1, rounds_of(held));
    let mut holder = stage.tcp();
    let mut storm: Vec<TcpStream> = (0..STORM).map(|_| stage.tcp()).collect();
    storm.iter_mut().for_each(|stream| ping(stream, b"in"));
    most_in_a_round(&stage, "came", STORM);
    let mut hold = |then: &mut dyn FnMut()| {
        holder.write_all(b"hold").expect("it reads");
        stage.expect("held");
        then();
        release.send(()).expect("it waits");
    };
    hold(&mut || storm.iter_mut().for_each(|stream| stream.write_all(b"log me in").expect("it is open")));
    assert_eq!(most_in_a_round(&stage, "came", STORM), VISITORS_ALONE_MAX);
    storm.iter_mut().for_each(|stream| stream.read_exact(&mut [0; 9]).expect("no client is forgotten"));
    hold(&mut || storm.clear());
    assert_eq!(most_in_a_round(&stage, "left", STORM), VISITORS_ALONE_MAX);
}
