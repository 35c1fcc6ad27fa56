//! Sessions and servers: real workers and the real coordinator between clients and servers of the fuzzer's.
//!
//! Clients and servers send well-formed messages, half of them, wrong ones and mere bytes, in pieces; sockets take less
//! than they are given; connections fail, break and are closed; time passes; settings change. Asserts after every step
//! the invariants that a worker and the coordinator know of themselves; that actions name connections that are there;
//! that what a server is sent is sound protocol, whatever clients send; and in the end that nobody waits any more and
//! nothing is left open. As long as servers behave, which the simulator's PostgreSQL sees to: that clients hear sound
//! protocol and nobody's rows but their own, and that each statement meets a session that it may meet (I2, I3, I4, I9).
//!
//! ```text
//!   settings, settings, { who and what, more as the action wants } …
//! ```

mod carrying;
mod client;
mod script;
mod server;
mod setting;
mod socket;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use pooling::mail::Stop;
use pooling::{Actions, Coordinator, Door, Event, Job, Machine};
use pooling::{Mail, Place, Settings, Worker};
use queueing::board::Board;
use sim::shared::Server;
use units::{ConnId, DoorId, Time, WorkerId};

use client::Client;
use socket::Socket;

use crate::tape::Tape;

const SEATS: usize = 4;

/// Longer than any time-out of the settings.
const LONG: Duration = Duration::from_secs(100);

/// Into so many parts a span is divided at most.
const TICKS: u32 = 100;

/// Nothing takes so many steps to come to rest.
const STEPS_MAX: usize = 20_000;

/// After so many letters everybody's round ends. A thread reads its mail once a round and then shows on the board what it
/// knows; were that never to come, two workers could lend each other a server for ever, each by what the other showed last.
const LETTERS_MAX: usize = 16;

/// One run of the target.
pub fn run(bytes: &[u8]) {
    let mut world = World::new(bytes);
    world.play();
    world.end();
}

struct World<'a> {
    tape: Tape<'a>,
    now: Time,
    settings: Arc<Settings>,
    /// Makes session pools of the simulator's servers.
    is_session: bool,
    /// What those servers share.
    database: Server,
    door: Door,
    coordinator: Coordinator,
    workers: Vec<Worker>,
    finished: BTreeSet<WorkerId>,
    sockets: Vec<Socket>,
    seats: [Option<Client>; SEATS],
    clients: u32,
    letters: VecDeque<(Mail, Option<usize>)>,
    refused: VecDeque<(Place, Mail, Option<usize>)>,
    in_hand: Option<usize>,
    jobs: VecDeque<(ConnId, Job)>,
    board: Board,
    /// How many bytes come at a time; zero: all.
    piece: usize,
    /// Bytes wait where they are, so that more come together.
    holds: bool,
    /// Servers log in and answer by themselves.
    serves: bool,
    /// Mailboxes of workers refuse what they may.
    full: bool,
    /// Some server has said what no PostgreSQL says: what clients hear may be anything.
    lies: bool,
    /// Whose keys were used in requests to cancel.
    cancelled: BTreeSet<u32>,
    stopped: bool,
    is_traced: bool,
    actions: Actions,
}

impl<'a> World<'a> {
    fn new(bytes: &'a [u8]) -> World<'a> {
        let mut tape = Tape::new(bytes);
        let (first, second) = (tape.byte(), tape.byte());
        let settings = Arc::new(setting::settings(first, second));
        let count = settings.workers;
        let worker = |number: u16| Worker::new(WorkerId(number), count, Arc::clone(&settings), [number as u8 + 1; 32]);
        World {
            tape,
            now: Time(1_000_000),
            database: Server::default(),
            is_session: settings.global.pools.pool_mode == pooling::settings::PoolMode::Session,
            door: Door::new(DoorId(0), Arc::clone(&settings), [0; 32]),
            coordinator: Coordinator::new(count, Arc::clone(&settings)),
            workers: (0..count).map(worker).collect(),
            finished: BTreeSet::new(),
            settings,
            sockets: Vec::new(),
            seats: Default::default(),
            clients: client::FIRST,
            letters: VecDeque::new(),
            refused: VecDeque::new(),
            in_hand: None,
            jobs: VecDeque::new(),
            board: Board::new(count),
            piece: 0,
            holds: false,
            serves: true,
            full: false,
            lies: false,
            cancelled: BTreeSet::new(),
            stopped: false,
            is_traced: std::env::var_os("TRACE").is_some(),
            actions: Actions::new(),
        }
    }

    /// A line of what happens, for whoever replays one input.
    fn trace(&self, line: impl FnOnce() -> String) {
        if self.is_traced {
            eprintln!("{}", line());
        }
    }

    fn machine(&mut self, place: Place) -> &mut dyn Machine {
        match place {
            Place::Door(_) => &mut self.door,
            Place::Coordinator => &mut self.coordinator,
            Place::Worker(worker) => &mut self.workers[usize::from(worker.0)],
        }
    }

    fn place(conn: ConnId) -> Place {
        match conn.kind() {
            units::Kind::Login => Place::Door(DoorId(0)),
            _ => Place::Worker(WorkerId(conn.owner())),
        }
    }

    /// Whether an event that was told led to anything.
    fn step(&mut self, place: Place, event: Event<'_>) -> bool {
        let mut actions = std::mem::take(&mut self.actions);
        let chunk = if let Event::Received { bytes, .. } = &event { *bytes } else { &[] };
        self.trace(|| format!("{} {place:?} {event:?}", self.now.0));
        let now = self.now;
        let board = std::mem::replace(&mut self.board, Board::new(1));
        self.machine(place).step(now, &board, event, &mut actions);
        self.board = board;
        match place {
            Place::Worker(worker) => self.workers[usize::from(worker.0)].check(),
            Place::Coordinator => self.coordinator.check(),
            Place::Door(_) => Ok(()),
        }
        .unwrap_or_else(|violation| panic!("an invariant does not hold: {violation}"));
        let mut list = actions.take();
        let acted = !list.is_empty();
        let mut blocked = Vec::new();
        for action in list.drain(..) {
            self.trace(|| format!("    {}", crate::worker::carrying::shown(&action, &actions, chunk)));
            self.carry_out(place, action, &actions, chunk, &mut blocked);
        }
        actions.put_back(list);
        let machine = self.machine(place);
        actions.clear(|buffer| machine.recycle(buffer));
        self.actions = actions;
        for conn in blocked {
            if self.socket(conn).is_some() {
                self.step(place, Event::Blocked { conn });
            }
        }
        while let Some((place, mail, socket)) = self.refused.pop_front() {
            self.in_hand = socket;
            self.step(place, Event::Returned(mail.into_returned()));
            assert!(self.in_hand.is_none(), "a connection that comes back is adopted");
        }
        acted
    }

    fn socket(&self, conn: ConnId) -> Option<usize> {
        self.sockets.iter().position(|socket| socket.id == Some(conn))
    }

    /// Everything that follows by itself.
    fn settle(&mut self) {
        let mut letters = 0;
        for _ in 0..STEPS_MAX {
            let is_over = letters == LETTERS_MAX;
            if !is_over && self.deliver_one() {
                letters += 1;
                continue;
            }
            if !is_over && (self.compute_one() || self.serve_one() || self.read_one() || self.drain_one()) {
                continue;
            }
            letters = 0;
            if !self.end_round() {
                return;
            }
        }
        panic!("the world does not come to rest");
    }

    fn deliver_one(&mut self) -> bool {
        let Some((mail, socket)) = self.letters.pop_front() else { return false };
        self.in_hand = socket;
        self.step(mail.place(), Event::Mail(mail));
        assert!(self.in_hand.is_none(), "a connection that comes with mail is adopted");
        true
    }

    fn compute_one(&mut self) -> bool {
        let Some((conn, job)) = self.jobs.pop_front() else { return false };
        self.step(World::place(conn), Event::Computed { conn, done: job.run() });
        true
    }

    /// Servers are told of before clients.
    fn read_one(&mut self) -> bool {
        if self.holds {
            return false;
        }
        let readable = |socket: &Socket| socket.id.is_some() && socket.is_readable();
        let server = self.sockets.iter().position(|socket| readable(socket) && !socket.is_client());
        let Some(index) = server.or_else(|| self.sockets.iter().position(readable)) else { return false };
        let socket = &mut self.sockets[index];
        let conn = socket.id.expect("it was looked for");
        let bytes = socket.read(self.piece);
        match bytes.is_empty() {
            true => drop(self.step(World::place(conn), Event::Hangup { conn, why: pooling::Hangup::Closed })),
            false => drop(self.step(World::place(conn), Event::Received { conn, bytes: &bytes })),
        }
        true
    }

    /// A socket that has room takes more of what is kept for it.
    fn drain_one(&mut self) -> bool {
        for index in 0..self.sockets.len() {
            let Some(conn) = self.sockets[index].id else { continue };
            let backlog = self.machine(World::place(conn)).backlog(conn).to_vec();
            let count = self.sockets[index].takes(backlog.len());
            if count == 0 {
                continue;
            }
            self.hear(index, &backlog[..count]);
            self.step(World::place(conn), Event::Drained { conn, count });
            return true;
        }
        false
    }

    /// Whether the end of the round led to anything.
    fn end_round(&mut self) -> bool {
        let mut acted = self.step(Place::Door(DoorId(0)), Event::RoundEnded);
        for worker in 0..self.workers.len() {
            let place = Place::Worker(WorkerId(worker as u16));
            acted |= self.step(place, Event::RoundEnded) && self.step(place, Event::RoundEnded);
        }
        acted || !self.letters.is_empty()
    }

    /// Time passes, from deadline to deadline. Who is woken every millisecond to look at the board is woken late.
    fn wait(&mut self, span: Duration) {
        let until = self.now + span;
        let tick = span / TICKS;
        for _ in 0..STEPS_MAX {
            let mut places = vec![Place::Coordinator];
            places.extend((0..self.workers.len()).map(|worker| Place::Worker(WorkerId(worker as u16))));
            let deadlines = places.into_iter().map(|place| (self.machine(place).next_deadline(), place));
            let next = deadlines.filter_map(|(at, place)| at.map(|at| (at, place))).min();
            let Some((at, place)) = next.filter(|(at, _)| *at <= until) else {
                self.now = until;
                return;
            };
            let late = self.now + tick;
            self.now = at.max(if at < late { late.min(until) } else { at });
            self.step(place, Event::DeadlineReached);
            self.settle();
        }
        panic!("a deadline is reached again and again");
    }

    fn tell_everybody(&mut self, mail: impl Fn(Place) -> Mail) {
        let workers = (0..self.workers.len()).map(|worker| Place::Worker(WorkerId(worker as u16)));
        for place in [Place::Door(DoorId(0)), Place::Coordinator].into_iter().chain(workers) {
            self.step(place, Event::Mail(mail(place)));
        }
        self.settle();
    }

    /// All servers fall silent, time passes, everybody leaves, the pooler stops: nothing is left.
    fn end(mut self) {
        (self.holds, self.full, self.serves, self.piece) = (false, false, false, 0);
        self.settle();
        self.wait(LONG);
        for worker in &self.workers {
            let snapshot = worker.snapshot(self.now, true);
            let waits = snapshot.clients.iter().find(|client| client.state == "waiting");
            assert!(waits.is_none(), "I8: {waits:?} waits beyond every deadline");
        }
        for index in 0..self.sockets.len() {
            if self.sockets[index].is_client() {
                self.hang_up(index, pooling::Hangup::Broken);
            }
        }
        self.settle();
        self.wait(LONG);
        assert_eq!(self.coordinator.clients(), 0, "I12: places are taken by nobody");
        self.tell_everybody(|place| Mail::stop(place, Stop::Immediate));
        self.wait(LONG);
        assert_eq!(self.finished.len(), self.workers.len(), "a worker does not finish");
        let open = self.sockets.iter().filter_map(|socket| socket.id).find(|conn| conn.kind() != units::Kind::Login);
        assert!(open.is_none(), "I12: {open:?} is left open");
        let held: u32 = self.coordinator.pools().map(|(pool, _)| self.coordinator.held(pool)).sum();
        assert_eq!(held, 0, "I12: tokens are lost");
    }
}
