//! The load: thousands of clients in one thread, on epoll.
//!
//! ```text
//!   Crowd::open ──► connect() ──► work() ──► leave()
//!                   as many logins at a time as the document's pgbench had threads
//!                                 every client asks, checks, asks again
//! ```
//!
//! Promises: time is measured as pgbench does: logging in apart from working; a transaction's latency from its first byte to
//! its last; whoever is at work when time is up may finish, and counts. One wrong answer fails the whole.
//! Does not pause between transactions, and does not run on more than one core: it asks a hundred thousand times a second,
//! several times what PostgreSQL answers on the cores it leaves.

use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use client::Place;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use crate::client::{Client, Progress};
use crate::interrupt;
use crate::login::Account;
use crate::scripts::{Dice, Script};

/// When a load ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    /// `pgbench -T`.
    For(Duration),
    /// `pgbench -t`, but no longer than the time given.
    Each(u32, Duration),
}

/// No login, or no answer after the time is up, for so long ends the wait for it.
const STALL: Duration = Duration::from_secs(60);
/// How long those at work when time is up may go on.
const DRAIN: Duration = Duration::from_secs(30);
/// How often a waiting driver looks whether it is to end.
const LOOK: Duration = Duration::from_millis(100);

/// What a load is.
pub(crate) struct Load {
    pub(crate) place: Place,
    pub(crate) account: Rc<Account>,
    /// Those that work.
    pub(crate) clients: usize,
    /// Those that only log in and stay.
    pub(crate) idle: usize,
    pub(crate) logins_at_once: usize,
    pub(crate) script: Script,
    pub(crate) length: Length,
    /// Whether a client leaves when it has done its part: in session mode others wait for its server.
    pub(crate) leave: bool,
    pub(crate) scale: u32,
    pub(crate) seed: u64,
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) done: u64,
    pub(crate) elapsed: Duration,
    pub(crate) latencies_us: Vec<u32>,
    /// Clients that were still without their answer when the wait for it ended.
    pub(crate) unserved: usize,
    /// The time ran out before everybody had done its part.
    pub(crate) cut: bool,
}

struct Connection {
    socket: OwnedFd,
    client: Client,
    out: Vec<u8>,
    sent: usize,
    wants_write: bool,
    since: Instant,
    done: u32,
    is_busy: bool,
    /// Logs in, stays, and never asks.
    is_bystander: bool,
}

/// All clients of a load.
pub(crate) struct Crowd {
    load: Load,
    epoll: OwnedFd,
    slots: Vec<Option<Connection>>,
    read: Vec<u8>,
    dice: Dice,
    logged_in: usize,
    busy: usize,
    /// Nobody begins a transaction after this.
    until: Instant,
    outcome: Outcome,
}

impl Crowd {
    /// Nobody is connected yet.
    pub(crate) fn open(load: Load) -> Result<Self, String> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| format!("no epoll: {error}"))?;
        let dice = Dice::new(load.seed, load.scale);
        Ok(Self {
            load,
            epoll,
            slots: Vec::new(),
            read: vec![0; 1 << 16],
            dice,
            logged_in: 0,
            busy: 0,
            until: Instant::now(),
            outcome: Outcome::default(),
        })
    }

    /// Logs everybody in; how long that took.
    ///
    /// # Errors
    /// The server refuses one, or is silent for a minute.
    pub(crate) fn connect(&mut self) -> Result<Duration, String> {
        let began = Instant::now();
        let wanted = self.load.clients + self.load.idle;
        let (mut seen, mut last) = (0, began);
        while self.logged_in < wanted {
            while self.slots.len() < wanted && self.slots.len() - self.logged_in < self.load.logins_at_once {
                self.dial()?;
            }
            self.turn().map_err(|why| format!("after {} logins: {why}", self.logged_in))?;
            if self.logged_in > seen {
                (seen, last) = (self.logged_in, Instant::now());
            }
            if last.elapsed() > STALL {
                return Err(format!("only {} of {wanted} clients could log in", self.logged_in));
            }
        }
        Ok(began.elapsed())
    }

    /// Lets everybody work until the load's end.
    ///
    /// # Errors
    /// A wrong answer, a lost connection.
    pub(crate) fn work(&mut self) -> Result<Outcome, String> {
        let began = Instant::now();
        // Who has so many to do is at work for as long as that takes, and given up after a time.
        let (length, given_up) = match self.load.length {
            Length::For(time) => (time, time),
            Length::Each(_, time) => (Duration::ZERO, time),
        };
        self.until = began + given_up;
        for slot in 0..self.slots.len() {
            let is_bystander = self.slots[slot].as_ref().is_none_or(|one| one.is_bystander);
            if !is_bystander {
                self.ask(slot)?;
            }
        }
        let mut last = Instant::now();
        while self.busy > 0 && Instant::now() < self.until + DRAIN {
            let before = self.outcome.done;
            self.turn()?;
            if self.outcome.done > before {
                last = Instant::now();
            }
        }
        self.outcome.unserved = self.busy;
        self.outcome.elapsed = end(self.busy, last, began + length) - began;
        Ok(std::mem::take(&mut self.outcome))
    }

    /// Everybody says goodbye.
    pub(crate) fn leave(mut self) {
        for connection in self.slots.iter_mut().filter_map(Option::as_mut) {
            // Whoever is in the middle of something just goes.
            if !connection.is_busy {
                let _ = rustix::net::send(&connection.socket, b"X\0\0\0\x04", rustix::net::SendFlags::NOSIGNAL);
            }
        }
    }

    fn dial(&mut self) -> Result<(), String> {
        let socket = self.load.place.dial()?;
        let slot = self.slots.len();
        let data = epoll::EventData::new_u64(slot as u64);
        epoll::add(&self.epoll, &socket, data, epoll::EventFlags::IN).map_err(words("watch a socket"))?;
        let mut out = Vec::new();
        let client = Client::start(&self.load.account, self.load.script, &mut out);
        self.slots.push(Some(Connection {
            socket,
            client,
            out,
            sent: 0,
            wants_write: false,
            since: Instant::now(),
            done: 0,
            is_busy: false,
            is_bystander: slot < self.load.idle,
        }));
        self.flush(slot)
    }

    /// Waits for something to happen, and acts on it.
    fn turn(&mut self) -> Result<(), String> {
        interrupt::check()?;
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(LOOK.subsec_nanos()) };
        let mut events = [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }; 256];
        let count = match epoll::wait(&self.epoll, &mut events[..], Some(&timeout)) {
            Ok(count) => count,
            Err(Errno::INTR) => 0,
            Err(error) => return Err(words("wait for events")(error)),
        };
        for event in &events[..count] {
            let (slot, flags) = (usize::try_from(event.data.u64()).expect("our own slots"), event.flags);
            if flags.contains(epoll::EventFlags::OUT) {
                self.flush(slot)?;
            }
            if flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR) {
                self.receive(slot)?;
            }
        }
        Ok(())
    }

    fn receive(&mut self, slot: usize) -> Result<(), String> {
        let Some(connection) = &mut self.slots[slot] else { return Ok(()) };
        let count = match rustix::io::read(connection.socket.as_fd(), &mut self.read[..]) {
            Ok(count) => count,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
            Err(error) => return Err(words("read an answer")(error)),
        };
        if count == 0 {
            return Err("the server closed a client's connection".to_owned());
        }
        let progress = connection.client.receive(&self.read[..count], &mut connection.out)?;
        self.flush(slot)?;
        match progress {
            Progress::More => Ok(()),
            Progress::LoggedIn => {
                self.logged_in += 1;
                Ok(())
            }
            Progress::Done => self.done(slot),
        }
    }

    /// A transaction is over: the next one, or none.
    fn done(&mut self, slot: usize) -> Result<(), String> {
        let Some(connection) = &mut self.slots[slot] else { return Ok(()) };
        let now = Instant::now();
        let waited = u32::try_from((now - connection.since).as_micros()).unwrap_or(u32::MAX);
        connection.done += 1;
        connection.is_busy = false;
        self.busy -= 1;
        self.outcome.done += 1;
        self.outcome.latencies_us.push(waited);
        let is_late = now >= self.until;
        let has_done_its_part = matches!(self.load.length, Length::Each(count, _) if connection.done >= count);
        if !is_late && !has_done_its_part {
            return self.ask(slot);
        }
        if is_late && !has_done_its_part && matches!(self.load.length, Length::Each(..)) {
            self.outcome.cut = true;
        }
        if self.load.leave {
            let _ = rustix::net::send(&connection.socket, b"X\0\0\0\x04", rustix::net::SendFlags::NOSIGNAL);
            self.slots[slot] = None;
        }
        Ok(())
    }

    fn ask(&mut self, slot: usize) -> Result<(), String> {
        let Some(connection) = &mut self.slots[slot] else { return Ok(()) };
        connection.since = Instant::now();
        connection.is_busy = true;
        self.busy += 1;
        connection.client.ask(self.dice.draw(), &mut connection.out);
        self.flush(slot)
    }

    /// Sends what can be sent, and asks to be told when the rest can.
    fn flush(&mut self, slot: usize) -> Result<(), String> {
        let Some(connection) = &mut self.slots[slot] else { return Ok(()) };
        while connection.sent < connection.out.len() {
            let rest = &connection.out[connection.sent..];
            match rustix::net::send(&connection.socket, rest, rustix::net::SendFlags::NOSIGNAL) {
                Ok(count) => connection.sent += count,
                Err(Errno::AGAIN | Errno::NOTCONN) => break,
                Err(Errno::INTR) => {}
                // The read side will say what happened.
                Err(Errno::PIPE | Errno::CONNRESET) => connection.sent = connection.out.len(),
                Err(error) => return Err(words("write")(error)),
            }
        }
        let is_blocked = connection.sent < connection.out.len();
        if !is_blocked {
            connection.out.clear();
            connection.sent = 0;
        }
        if is_blocked == connection.wants_write {
            return Ok(());
        }
        connection.wants_write = is_blocked;
        let data = epoll::EventData::new_u64(slot as u64);
        let write = if is_blocked { epoll::EventFlags::OUT } else { epoll::EventFlags::empty() };
        let flags = epoll::EventFlags::IN | write;
        epoll::modify(&self.epoll, &connection.socket, data, flags).map_err(words("watch a socket"))
    }
}

/// When a load has ended that was to last until then at least. That nobody else was served behind the last answer is not the rate's,
/// but a note's; a silence within the load's own time is.
fn end(unserved: usize, last: Instant, until: Instant) -> Instant {
    if unserved > 0 { last.max(until) } else { last }
}

/// Turns a system's error into a sentence.
fn words(what: &'static str) -> impl Fn(Errno) -> String {
    move |error| format!("cannot {what}: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_those_who_get_no_answer_is_not_the_loads_time() {
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        // The last answer and the end of the load's time, in seconds; how many got none; when it ended.
        let table = [(4, 5, 0, 4), (6, 5, 0, 6), (4, 5, 1, 5), (6, 5, 1, 6)];
        for (last, until, unserved, expected) in table {
            assert_eq!(end(unserved, at(last), at(until)), at(expected), "{last} {until} {unserved}");
        }
    }
}
