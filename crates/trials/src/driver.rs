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

use std::sync::Arc;
use std::time::{Duration, Instant};

use client::Place;
use measure::client::{Client, Progress};
use measure::interrupt;
use measure::sockets::{Connection, Sockets};
use measure::work::Work;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};

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
    /// Those that work.
    pub(crate) clients: usize,
    /// Those that only log in and stay.
    pub(crate) idle: usize,
    pub(crate) logins_at_once: usize,
    pub(crate) length: Length,
    /// Whether a client leaves when it has done its part: in session mode others wait for its server.
    pub(crate) leave: bool,
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

struct Peer {
    client: Client,
    since: Instant,
    done: u32,
    is_busy: bool,
    /// Logs in, stays, and never asks.
    is_bystander: bool,
}

/// The most that one read takes.
const READ_BYTES: usize = 1 << 16;
/// Terminate.
const GOODBYE: &[u8] = b"X\0\0\0\x04";

/// All clients of a load.
pub(crate) struct Crowd {
    load: Load,
    work: Arc<Work>,
    sockets: Sockets<Peer>,
    /// Connections that were begun.
    dialled: usize,
    logged_in: usize,
    busy: usize,
    /// Nobody begins a transaction after this.
    until: Instant,
    outcome: Outcome,
}

impl Crowd {
    /// Nobody is connected yet.
    pub(crate) fn open(load: Load, work: Work) -> Result<Self, String> {
        Ok(Self {
            load,
            work: Arc::new(work),
            sockets: Sockets::open(READ_BYTES).map_err(|error| format!("no epoll: {error}"))?,
            dialled: 0,
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
            while self.dialled < wanted && self.dialled - self.logged_in < self.load.logins_at_once {
                self.dial()?;
            }
            self.poll_once().map_err(|why| format!("after {} logins: {why}", self.logged_in))?;
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
        for slot in 0..self.sockets.len() {
            let is_bystander = self.sockets.get(slot).is_none_or(|one| one.peer.is_bystander);
            if !is_bystander {
                self.ask(slot)?;
            }
        }
        let mut last = Instant::now();
        while self.busy > 0 && Instant::now() < self.until + DRAIN {
            let before = self.outcome.done;
            self.poll_once()?;
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
        for connection in self.sockets.iter_mut() {
            // Whoever is in the middle of something just goes.
            if !connection.peer.is_busy {
                say_goodbye(connection);
            }
        }
    }

    fn dial(&mut self) -> Result<(), String> {
        let socket = self.load.place.dial()?;
        let mut out = Vec::new();
        let client = Client::start(&self.work, &mut out);
        let is_bystander = self.dialled < self.load.idle;
        let peer = Peer { client, since: Instant::now(), done: 0, is_busy: false, is_bystander };
        let slot = self.sockets.add(socket, peer, out).map_err(words("watch a socket"))?;
        self.dialled += 1;
        self.flush(slot)
    }

    /// Waits for something to happen, and acts on it.
    fn poll_once(&mut self) -> Result<(), String> {
        interrupt::check()?;
        self.sockets.wait(LOOK).map_err(words("wait for events"))?;
        while let Some(ready) = self.sockets.next_ready() {
            if ready.can_write {
                self.flush(ready.slot)?;
            }
            if ready.can_read {
                self.receive(ready.slot)?;
            }
        }
        Ok(())
    }

    fn receive(&mut self, slot: usize) -> Result<(), String> {
        let received = self.sockets.receive(slot).map_err(words("read an answer"))?;
        let Some((connection, bytes)) = received else { return Ok(()) };
        if bytes.is_empty() {
            return Err("the server closed a client's connection".to_owned());
        }
        let progress = connection.peer.client.receive(bytes, &mut connection.out)?;
        self.flush(slot)?;
        match progress {
            Progress::More => Ok(()),
            Progress::Ready => {
                self.logged_in += 1;
                Ok(())
            }
            Progress::Answered => self.done(slot),
            Progress::Refused => unreachable!("no limit is set in a trial, and no refusal is taken for an answer"),
        }
    }

    /// A transaction is over: the next one, or none.
    fn done(&mut self, slot: usize) -> Result<(), String> {
        let Some(connection) = self.sockets.get_mut(slot) else { return Ok(()) };
        let (now, peer) = (Instant::now(), &mut connection.peer);
        let waited = u32::try_from((now - peer.since).as_micros()).unwrap_or(u32::MAX);
        peer.done += 1;
        peer.is_busy = false;
        self.busy -= 1;
        self.outcome.done += 1;
        self.outcome.latencies_us.push(waited);
        let is_late = now >= self.until;
        let has_done_its_part = matches!(self.load.length, Length::Each(count, _) if peer.done >= count);
        if !is_late && !has_done_its_part {
            return self.ask(slot);
        }
        if is_late && !has_done_its_part && matches!(self.load.length, Length::Each(..)) {
            self.outcome.cut = true;
        }
        if self.load.leave {
            say_goodbye(connection);
            self.sockets.close(slot);
        }
        Ok(())
    }

    fn ask(&mut self, slot: usize) -> Result<(), String> {
        let Some(connection) = self.sockets.get_mut(slot) else { return Ok(()) };
        connection.peer.since = Instant::now();
        connection.peer.is_busy = true;
        self.busy += 1;
        connection.peer.client.ask(&mut connection.out)?;
        self.flush(slot)
    }

    fn flush(&mut self, slot: usize) -> Result<(), String> {
        self.sockets.flush(slot).map_err(words("write"))
    }
}

fn say_goodbye(connection: &Connection<Peer>) {
    // If it is gone already, so much the better.
    let _ = send(connection.socket(), GOODBYE, SendFlags::NOSIGNAL);
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
