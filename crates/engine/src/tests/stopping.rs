//! Starting where another process already listens, and the three ways to stop.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;

use machine::{Action, Event, Mail, Place, Settings, Stop, ToCoordinator, ToDoor, ToWorker};

use super::{Script, Stage, ping, rest};
use crate::{Engine, LogOptions, Options, UnixOptions};

/// Finishes when it gets a stop; the door first waits for its clients, and then sends the others the stop that waits for clients.
fn obedient(place: Place) -> Option<Script> {
    let (mut stopping, mut passes_on) = (false, false);
    let mut clients = std::collections::BTreeSet::new();
    let is_door = matches!(place, Place::Door(_));
    Some(Box::new(move |actor, event| {
        match event {
            Event::Received { conn, .. } => {
                clients.insert(*conn);
            }
            Event::Hangup { conn, .. } => {
                clients.remove(conn);
            }
            Event::Mail(
                Mail::ToDoor(_, ToDoor::Stop(_))
                | Mail::ToCoordinator(ToCoordinator::Stop(_))
                | Mail::ToWorker(_, ToWorker::Stop(_)),
            ) => {
                stopping = true;
                passes_on = matches!(event, Event::Mail(Mail::ToDoor(_, ToDoor::Stop(Stop::WaitForClients))));
                actor.note("stopping");
            }
            _ => {}
        }
        let mut list = actor.echo(event);
        if stopping && (clients.is_empty() || !is_door) {
            if passes_on {
                let workers = (0..2).map(|worker| Place::Worker(units::WorkerId(worker)));
                let others = [Place::Coordinator].into_iter().chain(workers);
                let stops = others.map(|place| Mail::stop(place, Stop::WaitForClients));
                list.extend(stops.map(|mail| Action::Post { mail, carrying: None }));
            }
            list.push(Action::Finished);
            stopping = false;
        }
        list
    }))
}

#[test]
fn a_gentle_stop_closes_tcp_keeps_the_socket_and_ends_with_the_last_client() {
    let mut stage = Stage::open(2, obedient);
    let path = stage.unix_path();
    let mut stream = stage.tcp();
    ping(&mut stream, b"one client");
    let address = stage.addresses()[0];
    stage.engine().handle().stop(Stop::WaitForClients);
    stage.expect("stopping");
    assert!(std::net::TcpStream::connect(address).is_err(), "TCP is closed");
    ping(&mut stage.unix(), b"the console");
    ping(&mut stream, b"still served");
    assert!(!stage.engine().handle().is_over());
    drop(stream);
    let handle = stage.engine().handle();
    stage.engine.take().expect("it runs").wait();
    assert!(handle.is_over());
    assert!(!std::path::Path::new(&path).exists(), "the socket's file is gone");
}

/// The door's thread is at work while a client connects and the process is told to end: it closes the listener before it hears of the client.
#[test]
fn a_client_that_the_kernel_has_let_in_is_accepted() {
    let (goes_on, waits) = std::sync::mpsc::channel::<()>();
    let waits = Arc::new(std::sync::Mutex::new(waits));
    let stage = Stage::open(2, move |place| {
        let waits = Arc::clone(&waits);
        matches!(place, Place::Door(_)).then(|| -> Script {
            Box::new(move |actor, event| {
                if matches!(event, Event::Received { bytes, .. } if *bytes == b"wait") {
                    actor.note("it waits");
                    waits.lock().expect("nobody panics").recv().expect("the test goes on");
                }
                actor.echo(event)
            })
        })
    });
    let mut first = stage.tcp();
    first.write_all(b"wait").expect("connected");
    stage.expect("it waits");
    let mut second = stage.tcp();
    stage.engine().handle().stop(Stop::WaitForClients);
    goes_on.send(()).expect("the door waits");
    ping(&mut second, b"it was accepted");
}

#[test]
fn an_immediate_stop_waits_for_no_client() {
    let mut stage = Stage::open(2, |_| None);
    let mut stream = stage.tcp();
    ping(&mut stream, b"one client");
    stage.engine().handle().stop(Stop::Immediate);
    stage.engine.take().expect("it runs").wait();
    assert_eq!(rest(&mut stream), b"");
}

fn only_unix(dir: &std::path::Path) -> Options {
    let unix = UnixOptions { dir: dir.to_str().expect("plain").to_owned(), mode: 0o711, group: None };
    Options {
        port: 7,
        unix: Some(unix),
        log: LogOptions { stderr: false, ..LogOptions::default() },
        ..Options::default()
    }
}

#[test]
fn a_socket_in_use_is_kept_and_an_unused_one_replaced() {
    let dir = std::env::temp_dir().join(format!("engine-stale-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a temporary directory");
    let path = dir.join(".s.PGSQL.7");
    let start = || {
        let builder: crate::shared::Builder = Arc::new(|_, _| full_machine());
        Engine::start_with(&only_unix(&dir), Arc::new(Settings::default()), builder)
    };
    let other = UnixListener::bind(&path).expect("a fresh directory");
    let why = start().err().expect("the socket is in use").to_string();
    assert!(why.contains("unix socket is in use, cannot continue"), "{why}");
    // Dropping a listener leaves its file, like a killed process.
    drop(other);
    let engine = start().expect("the socket is unused");
    let mode = std::fs::metadata(&path).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o711);
    drop(UnixStream::connect(&path).expect("it listens"));
    drop(engine);
    std::fs::write(&path, "precious").expect("our own directory");
    let why = start().err().expect("a plain file").to_string();
    assert!(why.contains("no socket"), "{why}");
    std::fs::remove_dir_all(&dir).expect("our own directory");
}

/// A machine that does nothing and, as a door, has no room.
fn full_machine() -> Box<dyn crate::tenant::Tenant> {
    let (notes, _) = std::sync::mpsc::channel();
    Box::new(super::Actor {
        place: Place::Coordinator,
        script: Some(Box::new(|_, _| Vec::new())),
        backlog: Default::default(),
        slots: super::SLOTS_MAX,
        deadline: None,
        now: units::Time::ZERO,
        fault: None,
        asked: Vec::new(),
        notes,
    })
}

#[test]
fn a_client_above_the_limit_gets_an_error() {
    let dir = std::env::temp_dir().join(format!("engine-full-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a temporary directory");
    let builder: crate::shared::Builder = Arc::new(|_, _| full_machine());
    let engine = Engine::start_with(&only_unix(&dir), Arc::new(Settings::default()), builder).expect("free");
    let mut stream = UnixStream::connect(dir.join(".s.PGSQL.7")).expect("it listens");
    let mut told = Vec::new();
    stream.read_to_end(&mut told).expect("an answer");
    assert_eq!(told[0], b'E');
    assert!(told.windows(5).any(|code| code == b"53300"), "{}", String::from_utf8_lossy(&told));
    drop(engine);
    std::fs::remove_dir_all(&dir).expect("our own directory");
}
