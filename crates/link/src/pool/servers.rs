//! The servers of a pool on one worker: which are idle, how many are in each group, how many have to be closed, and how long
//! a link lasts.
//!
//! Servers have to be closed where the pool has become smaller, or where another pool is entitled to them under a cap that
//! both share. What a server is doing is in `crate::server`.

use std::collections::VecDeque;
use std::time::Duration;

use queueing::queue::{ClassQueue, Waiter};
use units::{ConnId, Time, limits};

use crate::server::{CloseReason, Group};

/// The servers of one pool here.
#[derive(Debug, Default)]
pub struct Servers {
    /// Least recently used first.
    pub(crate) idle: VecDeque<ConnId>,
    /// Servers whose clients have prepared without a Sync and sent nothing since, as far as is known.
    pub(crate) resting: Vec<ConnId>,
    /// Servers on their way to other workers, counted here until they have arrived.
    pub(crate) lent: u32,
    /// How many are in each group.
    groups: [u32; 6],
    /// When those in [`Group::Ending`] are taken to have ended, in order.
    ends: VecDeque<Time>,
    /// Servers to close when they are released, since a reload has made the pool smaller.
    surplus: u32,
    /// Servers to close when they are released, since it is another pool's turn at a cap.
    yields: u32,
    /// A session has set `temp_buffers`: no server with local buffers is handed out again.
    pub(crate) sets_local_buffers: LocalBuffers,
    /// Smoothed time from link to release, in microseconds.
    service_us: u64,
    pub(crate) own: OwnServers,
}

/// Whether sessions of a pool set `temp_buffers`.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum LocalBuffers {
    #[default]
    AsConfigured,
    /// The first does so, or has; idle servers with local buffers are still there.
    SetNow,
    Set,
}

/// Servers that are opened for one session each, which replicates, and serve no other.
#[derive(Debug, Default)]
pub struct OwnServers {
    /// Sessions that wait for leave to open one. An idle server is of no use to them, only its place.
    pub(crate) queue: ClassQueue,
    /// How many are being opened.
    opening: u32,
    /// How many have logged in.
    open: u32,
    /// How many idle servers were closed for sessions in the queue.
    evicted: u32,
}

impl OwnServers {
    /// The oldest waiter has leave, or has left.
    pub(crate) fn one_fewer_waits(&mut self) {
        self.evicted = self.evicted.saturating_sub(1).min(self.queue.len());
    }

    /// The sessions that wait for leave to open one.
    #[inline]
    pub fn queue(&self) -> &ClassQueue {
        &self.queue
    }

    /// A session begins to wait for leave to open one. Returns its ticket.
    pub fn wait(&mut self, session: ConnId, now: Time) -> u64 {
        self.queue.push(session, now)
    }

    /// Whether an idle server has to make room: none was granted in time, and not as many have been closed as sessions wait.
    pub fn wants_room(&self, now: Time) -> bool {
        let is_old = |waiter: Waiter| now.since(waiter.since) >= limits::GRANT;
        self.evicted < self.queue.len() && self.queue.front().is_some_and(is_old)
    }

    /// An idle server was closed for one of them.
    pub fn evict(&mut self) {
        self.evicted += 1;
    }

    pub fn opens(&mut self) {
        self.opening += 1;
    }

    pub fn has_opened(&mut self) {
        debug_assert!(self.opening > 0, "a session's own server that has opened was being opened");
        self.opening -= 1;
        self.open += 1;
    }

    /// One of them is closed. `group`: the one it was in.
    fn closed(&mut self, group: Group) {
        let count = if group == Group::Opening { &mut self.opening } else { &mut self.open };
        debug_assert!(*count > 0, "a session's own server that is closed was counted");
        *count -= 1;
    }

    pub fn opening(&self) -> u32 {
        self.opening
    }

    pub fn open(&self) -> u32 {
        self.open
    }
}

impl Servers {
    #[inline]
    pub fn count(&self, group: Group) -> u32 {
        self.groups[group as usize]
    }

    /// The idle servers, the least recently used first.
    #[inline]
    pub fn idle(&self) -> &VecDeque<ConnId> {
        &self.idle
    }

    /// How many are on their way to other workers.
    pub fn lent(&self) -> u32 {
        self.lent
    }

    /// The servers that are opened for one session each.
    #[inline]
    pub fn own(&self) -> &OwnServers {
        &self.own
    }

    /// The servers that are opened for one session each.
    pub fn own_mut(&mut self) -> &mut OwnServers {
        &mut self.own
    }

    /// Whether a server is noted whose client has prepared without a Sync and sent nothing since.
    #[inline]
    pub fn has_resting(&self) -> bool {
        !self.resting.is_empty()
    }

    /// A server whose client has prepared without a Sync. Others are kept if they still rest.
    pub fn note_resting(&mut self, server: ConnId, still_rests: impl Fn(ConnId) -> bool) {
        self.resting.retain(|&other| other != server && still_rests(other));
        self.resting.push(server);
    }

    /// Takes the resting server that was noted last. It may have been closed or released since.
    pub fn take_resting(&mut self) -> Option<ConnId> {
        self.resting.pop()
    }

    /// A session sets `temp_buffers`, or has set it.
    pub fn local_buffers_set(&mut self) {
        if self.sets_local_buffers == LocalBuffers::AsConfigured {
            self.sets_local_buffers = LocalBuffers::SetNow;
        }
    }

    /// Whether sessions set `temp_buffers`.
    #[inline]
    pub fn local_buffers(&self) -> LocalBuffers {
        self.sets_local_buffers
    }

    /// The idle servers among which those with local buffers are to be closed, if the first session has set `temp_buffers` since the last call.
    pub fn idle_to_retire(&mut self) -> Option<Vec<ConnId>> {
        if self.sets_local_buffers != LocalBuffers::SetNow {
            return None;
        }
        self.sets_local_buffers = LocalBuffers::Set;
        Some(self.idle.iter().copied().collect())
    }

    /// A server in this group is closed, for this reason.
    pub fn remove(&mut self, server: ConnId, group: Group, is_own: bool, why: &CloseReason) {
        self.closed(why);
        self.leave(group);
        if is_own {
            self.own.closed(group);
        }
        self.idle.retain(|&idle| idle != server);
    }

    /// Of all groups.
    pub fn all(&self) -> u32 {
        self.groups.iter().sum()
    }

    /// How many servers have logged in.
    pub(crate) fn open(&self) -> u32 {
        self.all() - self.count(Group::Opening) - self.count(Group::Ending)
    }

    /// How many of these may serve any session.
    pub fn shared(&self) -> u32 {
        self.open() - self.own.open
    }

    /// How many are being opened for whoever waits.
    pub fn opening(&self) -> u32 {
        self.count(Group::Opening) - self.own.opening
    }

    /// How many are idle, or will be so soon. Requested ones do not count.
    pub fn coming(&self) -> u32 {
        self.count(Group::Idle) + self.count(Group::Returning) + self.opening()
    }

    /// Servers here that do not have to be closed already, and are not idle.
    pub fn unpromised(&self) -> u32 {
        (self.all() - self.count(Group::Idle) - self.count(Group::Ending))
            .saturating_sub(self.lent + self.yields + self.surplus + self.own.opening + self.own.open)
    }

    #[inline]
    pub fn enter(&mut self, group: Group) {
        self.groups[group as usize] += 1;
    }

    #[inline]
    pub fn leave(&mut self, group: Group) {
        debug_assert!(self.groups[group as usize] > 0, "counts per group have come apart");
        self.groups[group as usize] -= 1;
    }

    /// A server was closed while PostgreSQL was at work for it: it counts until `at`, which is no earlier than that of others before.
    pub fn ends_at(&mut self, at: Time) {
        debug_assert!(self.ends.back().is_none_or(|last| *last <= at), "servers are closed in the order of time");
        self.enter(Group::Ending);
        self.ends.push_back(at);
    }

    /// When the next server in [`Group::Ending`] is taken to have ended.
    pub fn next_end(&self) -> Option<Time> {
        self.ends.front().copied()
    }

    /// Takes one that has ended by now out of [`Group::Ending`]. Whether there was one.
    pub fn take_ended(&mut self, now: Time) -> bool {
        let has_ended = self.ends.pop_front_if(|at| *at <= now).is_some();
        if has_ended {
            self.leave(Group::Ending);
        }
        has_ended
    }

    /// Removes a server from the idle list: usually it is the one used last.
    #[inline]
    pub(super) fn leave_idle(&mut self, conn: ConnId) {
        if self.idle.back() == Some(&conn) {
            self.idle.pop_back();
        } else {
            self.idle.retain(|&idle| idle != conn);
        }
    }

    /// The pool has become smaller: so many have to be closed here.
    pub fn shrink(&mut self, count: u32) {
        self.surplus = count;
    }

    /// The one that has been idle longest, if a server has to be closed.
    pub fn take_idle_surplus(&mut self) -> Option<ConnId> {
        let idle = *self.idle.front()?;
        self.surplus = self.surplus.checked_sub(1)?;
        Some(idle)
    }

    /// Another pool is entitled to one of them.
    pub fn yield_one(&mut self) {
        self.yields += 1;
    }

    /// Why a server that is released now is closed, if one has to be.
    #[inline]
    pub fn takes_back(&mut self) -> Option<CloseReason> {
        if self.yields + self.surplus == 0 {
            return None;
        }
        if self.yields > 0 {
            self.yields -= 1;
            return Some(CloseReason::Yielded);
        }
        self.surplus -= 1;
        Some(CloseReason::Surplus)
    }

    /// A server was closed for any reason: one fewer has to be closed.
    fn closed(&mut self, why: &CloseReason) {
        if matches!(why, CloseReason::Surplus | CloseReason::Yielded) {
            return;
        }
        if self.yields > 0 {
            self.yields -= 1;
        } else {
            self.surplus = self.surplus.saturating_sub(1);
        }
    }

    /// Updates the mean with the duration of a link.
    #[inline]
    pub fn observe_service(&mut self, micros: u64) {
        self.service_us = if self.service_us == 0 { micros } else { (self.service_us * 7 + micros) / 8 };
    }

    /// The smoothed time from link to release, in microseconds.
    pub(crate) fn service_us(&self) -> u64 {
        self.service_us
    }

    /// How long a waiter waits before a server is lent to it by another worker.
    pub fn patience(&self) -> Duration {
        limits::STRANGER + Duration::from_micros(self.service_us)
    }
}

#[cfg(test)]
mod tests {
    use units::Kind;

    use super::*;

    fn conn(number: u32) -> ConnId {
        ConnId::new(Kind::Server, 0, number, 0)
    }

    #[test]
    fn another_pools_turn_comes_before_what_is_too_many() {
        let mut servers = Servers::default();
        servers.shrink(1);
        servers.yield_one();
        let why: Vec<_> = std::iter::from_fn(|| servers.takes_back()).collect();
        assert_eq!(why, [CloseReason::Yielded, CloseReason::Surplus]);
    }

    #[test]
    fn a_server_that_closes_by_itself_is_one_less_that_has_to_go() {
        let mut servers = Servers::default();
        servers.shrink(2);
        servers.yield_one();
        servers.closed(&CloseReason::Crashed);
        servers.closed(&CloseReason::Crashed);
        assert_eq!((servers.yields, servers.surplus), (0, 1));
        // These were counted when it was said why.
        servers.closed(&CloseReason::Surplus);
        servers.closed(&CloseReason::Yielded);
        assert_eq!((servers.yields, servers.surplus), (0, 1));
        servers.closed(&CloseReason::LifetimeOver);
        servers.closed(&CloseReason::LifetimeOver);
        assert_eq!(servers.takes_back(), None);
    }

    #[test]
    fn the_longest_idle_go_first_and_only_as_many_as_are_too_many() {
        let mut servers = Servers { idle: [conn(1), conn(2), conn(3)].into(), ..Servers::default() };
        assert_eq!(servers.take_idle_surplus(), None);
        servers.shrink(2);
        assert_eq!(servers.take_idle_surplus(), Some(conn(1)));
        servers.leave_idle(conn(1));
        assert_eq!(servers.take_idle_surplus(), Some(conn(2)));
        servers.leave_idle(conn(2));
        assert_eq!(servers.take_idle_surplus(), None);
        servers.shrink(2);
        servers.leave_idle(conn(3));
        assert_eq!(
            (servers.take_idle_surplus(), servers.takes_back()),
            (None, Some(CloseReason::Surplus)),
            "the others when they come"
        );
    }

    #[test]
    fn unpromised_servers_are_counted() {
        let mut servers = Servers::default();
        for group in [Group::Idle, Group::Opening, Group::Linked, Group::Linked, Group::Recovering] {
            servers.enter(group);
        }
        assert_eq!((servers.all(), servers.open(), servers.coming(), servers.unpromised()), (5, 4, 2, 4));
        servers.lent = 1;
        servers.yield_one();
        assert_eq!(servers.unpromised(), 2);
        servers.shrink(9);
        assert_eq!(servers.unpromised(), 0);
    }

    #[test]
    fn patience_follows_how_long_servers_serve() {
        let mut servers = Servers::default();
        assert_eq!(servers.patience(), limits::STRANGER);
        servers.observe_service(800);
        assert_eq!(servers.service_us(), 800, "the first says all that is known");
        servers.observe_service(1600);
        assert_eq!(servers.patience(), limits::STRANGER + Duration::from_micros(900));
    }
}
