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
//!
//! | file | what it is |
//! |---|---|
//! | `script` | who does what next, read off the input |
//! | `machines`, `post` | what is tested, and the mail between them |
//! | `sockets`, `socket` | connections |
//! | `client`, `server`, `postgres` | the far ends of these, and what they find wrong |
//! | `carrying` | what the machines ask for is carried out |
//! | `setting` | how the pooler is set up |

mod carrying;
mod client;
mod machines;
mod post;
mod postgres;
mod script;
mod server;
mod setting;
mod socket;
mod sockets;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use machine::mail::Stop;
use machine::{Actions, Event, Hangup, Job, Mail, Place, Settings, ToWorker};
use units::{ConnId, Kind, Time, WorkerId};
use wire::frontend;

use crate::door::setting::tcp;
use client::Clients;
use machines::{Machines, place};
use post::Post;
use postgres::Postgres;
use script::WorkerScript;
use socket::Socket;
use sockets::Sockets;

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
    let mut script = WorkerScript::new(bytes);
    script.play();
    script.end();
}

struct World {
    now: Time,
    settings: Arc<Settings>,
    machines: Machines,
    actions: Actions,
    post: Post,
    jobs: VecDeque<(ConnId, Job)>,
    /// Connections whose handshake is to be done.
    handshakes: VecDeque<ConnId>,
    sockets: Sockets,
    clients: Clients,
    postgres: Postgres,
    finished: BTreeSet<WorkerId>,
    stopped: bool,
    is_traced: bool,
}

impl World {
    fn new(settings: Settings) -> World {
        let settings = Arc::new(settings);
        World {
            now: Time(1_000_000),
            machines: Machines::new(&settings),
            actions: Actions::new(),
            post: Post::default(),
            jobs: VecDeque::new(),
            handshakes: VecDeque::new(),
            sockets: Sockets::default(),
            clients: Clients::new(),
            postgres: Postgres::new(&settings),
            settings,
            finished: BTreeSet::new(),
            stopped: false,
            is_traced: std::env::var_os("TRACE").is_some(),
        }
    }

    /// A line of what happens, for whoever replays one input.
    fn trace(&self, line: impl FnOnce() -> String) {
        if self.is_traced {
            eprintln!("{}", line());
        }
    }

    /// Whether an event that was told led to anything.
    fn step(&mut self, place: Place, event: Event<'_>) -> bool {
        let mut actions = std::mem::take(&mut self.actions);
        let chunk = if let Event::Received { bytes, .. } = &event { *bytes } else { &[] };
        self.trace(|| format!("{} {place:?} {event:?}", self.now.0));
        self.machines.step(self.now, place, event, &mut actions);
        let mut list = actions.take();
        let acted = !list.is_empty();
        let mut blocked = Vec::new();
        for action in list.drain(..) {
            self.trace(|| format!("    {}", carrying::shown(&action, &actions, chunk)));
            self.carry_out(place, action, &actions, chunk, &mut blocked);
        }
        actions.put_back(list);
        let machine = self.machines.get(place);
        actions.clear(|buffer| machine.recycle(buffer));
        self.actions = actions;
        for conn in blocked {
            if self.sockets.find(conn).is_some() {
                self.step(place, Event::Blocked { conn });
            }
        }
        while let Some((place, mail)) = self.post.take_refused() {
            self.step(place, Event::Returned(mail.into_returned()));
            self.post.check_adopted();
        }
        acted
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
        let Some(mail) = self.post.take() else { return false };
        self.step(mail.place(), Event::Mail(mail));
        self.post.check_adopted();
        true
    }

    fn compute_one(&mut self) -> bool {
        if let Some(conn) = self.handshakes.pop_front() {
            if self.sockets.find(conn).is_some() {
                self.step(place(conn), Event::Secured { conn, outcome: Ok(Box::default()) });
            }
            return true;
        }
        let Some((conn, job)) = self.jobs.pop_front() else { return false };
        self.step(place(conn), Event::Computed { conn, done: job.run() });
        true
    }

    /// A server or a cancel connection does one thing of what it does by itself.
    fn serve_one(&mut self) -> bool {
        if !self.postgres.serves() {
            return false;
        }
        if let Some(index) = self.sockets.opening() {
            self.open(index, true);
            return true;
        }
        (0..self.sockets.len()).any(|index| self.answer(index))
    }

    fn read_one(&mut self) -> bool {
        let Some((conn, bytes)) = self.sockets.read() else { return false };
        match bytes.is_empty() {
            true => self.step(place(conn), Event::Hangup { conn, why: Hangup::Closed }),
            false => self.step(place(conn), Event::Received { conn, bytes: &bytes }),
        };
        true
    }

    /// A socket that has room takes more of what is kept for it.
    fn drain_one(&mut self) -> bool {
        for index in 0..self.sockets.len() {
            let Some(conn) = self.sockets[index].id else { continue };
            let backlog = self.machines.get(place(conn)).backlog(conn).to_vec();
            let count = self.sockets[index].takes(backlog.len());
            if count == 0 {
                continue;
            }
            self.hear(index, &backlog[..count]);
            self.step(place(conn), Event::Drained { conn, count });
            return true;
        }
        false
    }

    /// Whether the end of the round led to anything.
    fn end_round(&mut self) -> bool {
        let mut acted = false;
        for place in self.machines.places() {
            // What a worker shows at the end of a round may be reason for another.
            acted |= match place {
                Place::Coordinator => false,
                Place::Door(_) => self.step(place, Event::RoundEnded),
                Place::Worker(_) => self.step(place, Event::RoundEnded) && self.step(place, Event::RoundEnded),
            };
        }
        acted || !self.post.is_empty()
    }

    /// Time passes, from deadline to deadline. Who is woken every millisecond to look at the board is woken late.
    fn wait(&mut self, span: Duration) {
        let until = self.now + span;
        let tick = span / TICKS;
        for _ in 0..STEPS_MAX {
            let Some((at, place)) = self.machines.next_deadline().filter(|(at, _)| *at <= until) else {
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
        for place in self.machines.places() {
            self.step(place, Event::Mail(mail(place)));
        }
        self.settle();
    }

    /// All servers fall silent, time passes, everybody leaves, the pooler stops: nothing is left.
    fn end(mut self) {
        self.sockets.set_holds(false);
        self.sockets.set_piece(0);
        self.post.set_full(false);
        self.postgres.set_serves(false);
        self.settle();
        self.wait(LONG);
        self.machines.check_nobody_waits(self.now);
        for index in self.sockets.all_that(Socket::is_client) {
            self.hang_up(index, Hangup::Broken);
        }
        self.settle();
        self.wait(LONG);
        self.machines.check_places_are_free();
        self.tell_everybody(|place| Mail::stop(place, Stop::Immediate));
        self.wait(LONG);
        assert_eq!(self.finished.len(), self.machines.workers(), "a worker does not finish");
        let open = self.sockets.iter().filter_map(|socket| socket.id).find(|conn| conn.kind() != Kind::Login);
        assert!(open.is_none(), "I12: {open:?} is left open");
        self.machines.check_tokens_are_back();
    }

    /// A client comes, and says who it is by these startup parameters; unless its seat is taken.
    fn connect(&mut self, seat: usize, is_marked: bool, startup: &[(&[u8], &[u8])]) {
        if self.clients.get(seat).is_some_and(|client| self.sockets[client.socket()].id.is_some()) {
            return;
        }
        let Some(conn) = self.machines.accept(self.now, tcp()) else { return };
        let mut socket = Socket::new(conn, None);
        socket.client = self.clients.number();
        frontend::encode_startup(&mut socket.incoming, startup.iter().copied());
        let number = socket.client;
        let index = self.sockets.push(socket);
        self.clients.sit(seat, number, index, is_marked);
    }

    /// A connection breaks, or its far end closes it behind what is on its way.
    fn hang_up(&mut self, index: usize, why: Hangup) {
        let socket = &mut self.sockets[index];
        let Some(conn) = socket.id.filter(|_| socket.stands) else { return };
        socket.process = None;
        if why == Hangup::Closed {
            socket.ends = true;
        } else {
            socket.incoming.clear();
            self.step(place(conn), Event::Hangup { conn, why });
        }
        self.settle();
    }

    /// A connection that was asked for stands, or not.
    fn open(&mut self, index: usize, stands: bool) {
        let socket = &mut self.sockets[index];
        let Some(conn) = socket.id.filter(|_| !socket.stands) else { return };
        socket.stands = stands;
        let event = match stands {
            true => Event::Opened { conn, ends: None },
            false => Event::OpenFailed { conn, why: "refused".to_owned() },
        };
        self.step(place(conn), event);
    }

    /// A server or cancel connection answers one message. False: there is none.
    fn answer(&mut self, index: usize) -> bool {
        let socket = &mut self.sockets[index];
        if socket.kind != Kind::Cancel {
            return self.postgres.answer(socket);
        }
        let Some((pid, secret)) = socket.take_cancel() else { return false };
        if let Some(index) = self.sockets.struck_by(pid, &secret) {
            let owner = self.sockets[index].strike();
            self.check_strike(owner);
        }
        true
    }

    /// I4. The pooler itself cancels what a client that is gone, or out of time, has left behind.
    fn check_strike(&self, owner: Option<u32>) {
        let Some(owner) = owner.filter(|owner| !self.clients.has_cancelled(*owner) && !self.postgres.lies()) else {
            return;
        };
        let present = self.clients.with_number(owner).is_some_and(|client| {
            let socket = &self.sockets[client.socket()];
            socket.id.is_some() && !socket.ends
        });
        assert!(
            !present || self.settings.global.waiting.query_timeout.is_some(),
            "I4: a cancel hits {owner}, who asked for none"
        );
    }

    /// A client's request to cancel has come, by whichever door.
    fn request_cancel(&mut self, pid: i32, secret: Vec<u8>) {
        let worker = WorkerId((pid >> 21 & 0x1ff) as u16);
        if self.machines.has_worker(worker) {
            self.post.put(Mail::ToWorker(worker, ToWorker::Cancel { pid, secret: secret.into(), ticket: None }));
        }
    }

    /// New settings. How many workers there are, and how pools share servers, stays.
    fn configure(&mut self, mut settings: Settings) {
        settings.workers = self.settings.workers;
        settings.global.pools.pool_mode = self.settings.global.pools.pool_mode;
        self.settings = Arc::new(settings);
        let settings = Arc::clone(&self.settings);
        self.tell_everybody(|place| Mail::configure(place, Arc::clone(&settings)));
    }

    /// The pooler is told to stop, once.
    fn stop(&mut self, stop: Stop) {
        if !std::mem::replace(&mut self.stopped, true) {
            self.tell_everybody(|place| Mail::stop(place, stop));
        }
    }
}
