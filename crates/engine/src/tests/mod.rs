//! Real sockets on this machine, and machines made for the test. Nothing sleeps: machines send notes of their events
//! through a channel, and sockets are waited for.

mod encrypted;
mod exhaustion;
mod panics;
mod sockets;
mod stopping;
mod threads;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use machine::{Action, Actions, Event, Machine, Peer, Piece, Place, Settings, Source};
use queueing::board::Board;
use units::{ConnId, Kind, Time};

use crate::shared::Builder;
use crate::tenant::Tenant;
use crate::{Engine, Listening, LogOptions, Options, UnixOptions};

/// Long enough for a loaded machine; a test that waits it out has failed.
const PATIENCE: Duration = Duration::from_secs(120);

/// The number of clients that an actor has room for as a door.
const SLOTS_MAX: u32 = 10_000;

/// An id like those that machines give out (`units::id`).
fn conn(kind: Kind, owner: u16, slot: u32) -> ConnId {
    ConnId::from_bits((((kind as u64) << 9 | u64::from(owner)) << 24 | u64::from(slot)) << 27 | 1)
}

/// What a machine of the test does at an event. The returned actions are carried out.
type Script = Box<dyn FnMut(&mut Actor, &Event<'_>) -> Vec<Action> + Send>;

/// A machine that runs a script. It keeps backlogs like a real one.
struct Actor {
    place: Place,
    script: Option<Script>,
    backlog: BTreeMap<ConnId, Vec<u8>>,
    slots: u32,
    deadline: Option<Time>,
    now: Time,
    fault: Option<String>,
    /// Its actions before its script panics.
    asked: Vec<Action>,
    notes: Sender<String>,
}

impl Actor {
    fn note(&self, text: impl Into<String>) {
        // The test may have ended.
        let _ = self.notes.send(text.into());
    }

    fn fresh(&mut self, kind: Kind) -> ConnId {
        let owner = match self.place {
            Place::Worker(worker) => worker.0,
            Place::Door(_) | Place::Coordinator => 0,
        };
        self.slots += 1;
        conn(kind, owner, self.slots - 1)
    }

    /// Echoes, with back-pressure as a machine should do it.
    fn echo(&mut self, event: &Event<'_>) -> Vec<Action> {
        match *event {
            Event::Received { conn, bytes } => vec![whole(conn, bytes)],
            Event::Blocked { conn } => vec![Action::Interest { conn, read: false, write: true }],
            Event::Drained { conn, count } => {
                let backlog = self.backlog.get_mut(&conn).expect("only a backlog is drained");
                backlog.drain(..count);
                let is_empty = backlog.is_empty();
                is_empty.then_some(Action::Interest { conn, read: true, write: false }).into_iter().collect()
            }
            Event::Hangup { conn, .. } => {
                self.backlog.remove(&conn);
                vec![Action::Close { conn, last_words: true }]
            }
            // After this event a real machine's deadline is never in the past.
            Event::DeadlineReached => panic!("no script took the deadline back"),
            _ => Vec::new(),
        }
    }
}

fn whole(conn: ConnId, bytes: &[u8]) -> Action {
    let len = u32::try_from(bytes.len()).expect("a chunk");
    Action::Send { conn, piece: Piece { source: Source::Chunk, start: 0, len } }
}

impl Machine for Actor {
    fn step(&mut self, now: Time, _: &Board, event: Event<'_>, actions: &mut Actions) {
        self.now = now;
        let Some(mut script) = self.script.take() else { return actions.put_back(self.echo(&event)) };
        let list = catch_unwind(AssertUnwindSafe(|| script(self, &event))).unwrap_or_else(|panic| {
            self.asked.drain(..).for_each(|action| actions.push(action));
            resume_unwind(panic)
        });
        self.script = Some(script);
        actions.put_back(list);
    }

    fn backlog(&self, conn: ConnId) -> &[u8] {
        self.backlog.get(&conn).map_or(&[], Vec::as_slice)
    }

    fn keep(&mut self, conn: ConnId, bytes: &[u8]) {
        self.backlog.entry(conn).or_default().extend_from_slice(bytes);
    }

    fn next_deadline(&self) -> Option<Time> {
        self.deadline
    }

    fn awaits_round_end(&self) -> bool {
        true
    }

    fn recycle(&mut self, _: Vec<u8>) {}
}

impl Tenant for Actor {
    fn accept(&mut self, _: Time, peer: Peer) -> Option<ConnId> {
        let conn = self.fresh(Kind::Login);
        self.note(format!("accept {peer:?}"));
        (self.slots <= SLOTS_MAX).then_some(conn)
    }

    fn fault(&self) -> Option<String> {
        self.fault.clone()
    }
}

/// An engine with actors in it.
struct Stage {
    engine: Option<Engine>,
    notes: Receiver<String>,
    dir: std::path::PathBuf,
}

impl Stage {
    /// `script` makes each place's script; without one it echoes.
    fn open(workers: u16, script: impl Fn(Place) -> Option<Script> + Send + Sync + 'static) -> Stage {
        Stage::open_with(workers, |_| {}, script)
    }

    fn open_with(
        workers: u16,
        change: impl FnOnce(&mut Options),
        script: impl Fn(Place) -> Option<Script> + Send + Sync + 'static,
    ) -> Stage {
        static STAGES: AtomicU32 = AtomicU32::new(0);
        let number = STAGES.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("engine-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a temporary directory");
        let unix = UnixOptions { dir: dir.to_str().expect("plain").to_owned(), mode: 0o700, group: None };
        let mut options = Options {
            addresses: vec!["127.0.0.1".to_owned()],
            port: 0,
            unix: Some(unix),
            log: LogOptions { file: Some(dir.join("log")), stderr: false, ..LogOptions::default() },
            ..Options::default()
        };
        change(&mut options);
        let (sender, notes) = channel();
        let sender = Mutex::new(sender);
        let builder: Builder = Arc::new(move |place, _| {
            let notes = sender.lock().expect("not poisoned").clone();
            Box::new(Actor {
                place,
                script: script(place),
                backlog: BTreeMap::new(),
                slots: 0,
                deadline: None,
                now: Time::ZERO,
                fault: None,
                asked: Vec::new(),
                notes,
            })
        });
        let settings = Settings { workers, ..Settings::default() };
        let engine = Engine::start_with(&options, Arc::new(settings), builder).expect("a free port");
        Stage { engine: Some(engine), notes, dir }
    }

    fn engine(&self) -> &Engine {
        self.engine.as_ref().expect("it runs")
    }

    fn tcp(&self) -> TcpStream {
        client(self.addresses()[0])
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        let tcp = |place| match place {
            Listening::Tcp(address) => Some(address),
            Listening::Unix(_) => None,
        };
        self.engine().handle().listening().into_iter().filter_map(tcp).collect()
    }

    fn unix(&self) -> std::os::unix::net::UnixStream {
        let path = self.unix_path();
        let stream = std::os::unix::net::UnixStream::connect(path).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time");
        stream
    }

    fn unix_path(&self) -> String {
        let unix = |place| match place {
            Listening::Unix(path) => Some(path),
            Listening::Tcp(_) => None,
        };
        self.engine().handle().listening().into_iter().find_map(unix).expect("it has a Unix socket")
    }

    /// Waits for a note with this beginning; others are skipped.
    fn expect(&self, beginning: &str) -> String {
        let mut passed = Vec::new();
        loop {
            match self.notes.recv_timeout(PATIENCE) {
                Ok(note) if note.starts_with(beginning) => return note,
                Ok(note) => passed.push(note),
                Err(_) => panic!("no note {beginning:?}, but {passed:?}"),
            }
        }
    }

    /// Whether there is a note with this beginning, or comes one while nothing else does for so long.
    fn has_noted(&self, beginning: &str, patience: Duration) -> bool {
        while let Ok(note) = self.notes.recv_timeout(patience) {
            if note.starts_with(beginning) {
                return true;
            }
        }
        false
    }

    /// Waits for these words in the log.
    fn expect_log(&self, words: &str) {
        let until = Instant::now() + PATIENCE;
        loop {
            self.engine().handle().log().flush();
            let log = std::fs::read_to_string(self.dir.join("log")).unwrap_or_default();
            if log.contains(words) {
                return;
            }
            assert!(Instant::now() < until, "no {words:?} in {log}");
        }
    }

    fn counters(&self) -> crate::Counters {
        let mut sum = crate::Counters::default();
        for thread in self.engine().handle().counters(PATIENCE) {
            sum.add(&thread.counters);
        }
        sum
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        drop(self.engine.take());
        // Best effort in a temporary directory.
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn client(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_nodelay(true).expect("TCP");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time");
    stream
}

/// Sends and expects the same back.
fn ping(stream: &mut (impl Read + Write), bytes: &[u8]) {
    stream.write_all(bytes).expect("it reads");
    let mut back = vec![0; bytes.len()];
    stream.read_exact(&mut back).expect("it answers");
    assert_eq!(back, bytes);
}

/// Reads until the end; a reset counts as one.
fn rest(stream: &mut impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => bytes,
        Err(error) => panic!("no end after {} bytes: {error}", bytes.len()),
    }
}

#[test]
fn ids_of_the_tests_are_as_pooling_reads_them() {
    let id = conn(Kind::Server, 5, 77);
    assert_eq!((id.kind(), id.owner(), id.slot()), (Kind::Server, 5, 77));
}
