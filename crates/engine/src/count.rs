//! A thread's counters, without atomics: each thread owns its counters and returns a copy on request.
//!
//! Tests use them to check the loop: one clock read a round, no `epoll_ctl` in the steady state, the number of system
//! calls for a transaction.

use machine::peering::PeerPool;
use machine::refused_logins::RefusedLogins;
use units::WorkerId;

/// One thread's counters, and which thread it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadCounters {
    /// 0 is the thread of the door.
    pub thread: usize,
    /// The worker that lives on it, if one does.
    pub worker: Option<WorkerId>,
    pub counters: Counters,
    /// Of the door, if it lives on it.
    pub peer_pools: Vec<PeerPool>,
}

/// Counts since the thread's start.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Rounds of the loop, one `epoll_wait` each.
    pub rounds: u64,
    pub clock_reads: u64,
    pub recvs: u64,
    /// `send` and `sendmsg`.
    pub sends: u64,
    pub epoll_ctls: u64,
    pub accepts: u64,
    /// Steps of all machines of the thread.
    pub steps: u64,
    /// Letters read from the thread's mailbox.
    pub letters: u64,
    /// Wakes sent to other threads that slept.
    pub wakes_sent: u64,
    /// Wakes received.
    pub wakes_taken: u64,
    /// Servers sent to other threads.
    pub lends: u64,
    /// Letters that a full mailbox refused.
    pub returned: u64,
    pub panics: u64,
    /// Clients that were refused because there was no file descriptor for them.
    pub turned_away: u64,
    pub refused_logins: RefusedLogins,
    /// Clients that are logging in now.
    pub logins: u64,
}

impl Counters {
    /// Adds another thread's counts.
    pub fn add(&mut self, other: &Counters) {
        self.rounds += other.rounds;
        self.clock_reads += other.clock_reads;
        self.recvs += other.recvs;
        self.sends += other.sends;
        self.epoll_ctls += other.epoll_ctls;
        self.accepts += other.accepts;
        self.steps += other.steps;
        self.letters += other.letters;
        self.wakes_sent += other.wakes_sent;
        self.wakes_taken += other.wakes_taken;
        self.lends += other.lends;
        self.returned += other.returned;
        self.panics += other.panics;
        self.turned_away += other.turned_away;
        self.refused_logins.add(&other.refused_logins);
        self.logins += other.logins;
    }
}
