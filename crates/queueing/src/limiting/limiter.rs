//! A worker's part of the limits of one class, and of one statement, with the queues of sessions that wait for them.
//!
//! Promises: first in, first out among sessions that wait for the same limit and need the same; a session that waits for one limit never waits for
//! another. A session gets all that it needs, or nothing of it. A session that has a server already needs no
//! permit, and waits for no session that does: that one may be waiting for its permit.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use units::Time;

use super::permit_lease::PermitLease;
use super::rate_lease::RateLease;
use super::{CallBack, Exceeded, Limit};
use crate::classes::{Class, LimitKind, Limits, Rate};
use crate::refusals::Reason;
use ::settings::Over;

/// Whether a session that comes may begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Passage {
    Open,
    /// Not now, and nobody knows yet when.
    Later,
    /// Not now, and it may not wait.
    Refused(LimitError),
}

/// The error of a request that a limit refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitError {
    pub reason: Reason,
    pub text: String,
    pub exceeded: Exceeded,
}

/// Since the start, or since there is such a limit.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub passed: u64,
    pub delayed: u64,
    pub rejected: u64,
}

/// Spans of time: their sum, and the longest.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Spans {
    pub total_us: u64,
    pub max_us: u64,
}

impl Spans {
    pub fn add(&mut self, span: Duration) {
        let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        self.total_us = self.total_us.saturating_add(micros);
        self.max_us = self.max_us.max(micros);
    }
}

/// A class's.
#[derive(Debug)]
pub struct ClassLimiter {
    pub name: Arc<str>,
    pub limits: Limits,
    pub transactions: RateLease,
    pub queries: RateLease,
    pub permits: PermitLease,
    /// Tickets of the sessions that wait.
    pub queue: BTreeSet<u64>,
    /// Of those, the sessions that have servers.
    pub linked: BTreeSet<u64>,
    counts: [Counts; LimitKind::ALL.len()],
}

impl ClassLimiter {
    /// `used`: so many have permits of such a class, from before.
    pub fn new(class: &Class, used: u32) -> ClassLimiter {
        ClassLimiter {
            name: Arc::clone(&class.name),
            limits: class.limits,
            transactions: RateLease::default(),
            queries: RateLease::default(),
            permits: PermitLease::used_by(used),
            queue: BTreeSet::new(),
            linked: BTreeSet::new(),
            counts: [Counts::default(); LimitKind::ALL.len()],
        }
    }

    /// Whether transactions go through without being counted.
    #[inline]
    pub fn is_free(limits: &Limits) -> bool {
        limits.transactions.is_none() && limits.queries.is_none() && limits.active.is_none()
    }

    pub fn limit(&self, kind: LimitKind) -> Limit {
        Limit::Class(Arc::clone(&self.name), kind)
    }

    pub fn counts(&self, kind: LimitKind) -> Counts {
        self.counts[kind as usize]
    }

    /// The ticket that is next, and whether its session has a server.
    pub fn next(&self) -> Option<(u64, bool)> {
        let linked = self.linked.first().map(|ticket| (*ticket, true));
        let other = self.queue.first().map(|ticket| (*ticket, false));
        let seated = other.filter(|_| self.limits.active.is_none() || self.permits.free() > 0);
        linked.into_iter().chain(seated).min().or(other)
    }

    /// Whether a session that comes now would be the next.
    pub fn is_next(&self, linked: bool) -> bool {
        self.linked.is_empty() && self.next().is_none_or(|_| linked && self.permits.free() == 0)
    }

    pub fn waiting(&self) -> u32 {
        u32::try_from(self.queue.len() + self.linked.len()).unwrap_or(u32::MAX)
    }

    /// So many wait for permits; so many wait for tokens, or will as soon as they have permits that are there.
    fn needed(&self) -> (u32, u32) {
        let unlinked = u32::try_from(self.queue.len()).unwrap_or(u32::MAX);
        let linked = u32::try_from(self.linked.len()).unwrap_or(u32::MAX);
        let seated = if self.limits.active.is_some() { unlinked.min(self.permits.free()) } else { unlinked };
        (unlinked, seated.saturating_add(linked))
    }

    /// What stands in the way of the first in the queue. `linked`: it has a server, and has or needs no permit.
    fn lacks(&self, linked: bool) -> Option<LimitKind> {
        let dry = |rate: Option<Rate>, rate_lease: &RateLease| rate.is_some() && rate_lease.tokens() == 0;
        if self.limits.active.is_some() && self.permits.free() == 0 && !linked {
            Some(LimitKind::Active)
        } else if dry(self.limits.transactions, &self.transactions) {
            Some(LimitKind::Transactions)
        } else {
            dry(self.limits.queries, &self.queries).then_some(LimitKind::Queries)
        }
    }

    /// Takes what one transaction needs.
    fn take(&mut self, linked: bool) {
        let Limits { transactions, queries, active, .. } = self.limits;
        let taken = [
            (LimitKind::Active, active.is_some() && !linked && self.permits.take()),
            (LimitKind::Transactions, transactions.is_some() && self.transactions.take()),
            (LimitKind::Queries, queries.is_some() && self.queries.take()),
        ];
        for (kind, is_taken) in taken {
            self.counts[kind as usize].passed += u64::from(is_taken);
        }
    }

    /// Lets in one transaction, the first in the queue.
    pub fn pass(&mut self, now: Time, linked: bool) -> Passage {
        let Some(kind) = self.lacks(linked) else {
            self.take(linked);
            return Passage::Open;
        };
        if self.limits.over == Over::Delay {
            return Passage::Later;
        }
        let known = match kind {
            LimitKind::Active => self.permits.full_until(now),
            LimitKind::Transactions => self.transactions.dry_until(now),
            _ => self.queries.dry_until(now),
        };
        match known {
            Some(_) => Passage::Refused(self.error(kind, now)),
            None => Passage::Later,
        }
    }

    /// What a session that comes now waits for, if it is to wait.
    pub fn delays(&self) -> Option<LimitKind> {
        self.lacks(false).filter(|_| self.limits.over == Over::Delay)
    }

    /// A session has waited for longer than a request to the coordinator takes.
    pub fn count_delayed(&mut self, kind: LimitKind) {
        self.counts[kind as usize].delayed += 1;
    }

    /// How long the session at this place of the queue will wait from now on, as far as is known here; `None`: that is unknown.
    pub fn expected_wait(&self, kind: LimitKind, now: Time, place: u32) -> Option<Duration> {
        match (kind, self.limits.active) {
            (LimitKind::Active, Some(limit)) => self.permits.expected_in(limit).map(|one| one.saturating_mul(place)),
            _ => Some(self.free_at(kind, now, place.saturating_sub(1)).since(now)),
        }
    }

    /// When the limit `kind` lets one more session through that comes after so many others.
    fn free_at(&self, kind: LimitKind, now: Time, others: u32) -> Time {
        let Limits { transactions, queries, active, .. } = self.limits;
        let free = match kind {
            LimitKind::Active => active.map(|limit| {
                let one = now + self.permits.free_in(limit);
                self.permits.full_until(now).map_or(one, |until| until.max(one))
            }),
            LimitKind::Queries => queries.map(|rate| self.queries.free_at(now, rate, others)),
            _ => transactions.map(|rate| self.transactions.free_at(now, rate, others)),
        };
        free.unwrap_or(now)
    }

    fn error(&mut self, kind: LimitKind, now: Time) -> LimitError {
        self.counts[kind as usize].rejected += 1;
        let name = &self.name;
        let (limit, text) = match kind {
            LimitKind::Active => {
                let limit = self.limits.active.unwrap_or_default();
                let most = counted(limit, "transaction");
                (limit, format!("limit exceeded: class \"{name}\" may have {most} at a time"))
            }
            LimitKind::Queries => {
                let limit = self.limits.queries.map_or(0, |rate| rate.per_second);
                let most = counted(limit, "statement");
                (limit, format!("limit exceeded: class \"{name}\" may run {most} per second"))
            }
            _ => {
                let limit = self.limits.transactions.map_or(0, |rate| rate.per_second);
                let most = counted(limit, "transaction");
                (limit, format!("limit exceeded: class \"{name}\" may begin {most} per second"))
            }
        };
        let micros = self.free_at(kind, now, 0).micros_since(now);
        LimitError {
            reason: Reason::Limit(kind),
            text,
            exceeded: Exceeded { limit, remaining: 0, retry_ms: micros.div_ceil(1000).max(1) },
        }
    }

    /// What is to be requested, for the sessions that wait and for what was used ahead.
    pub fn requests(&mut self, now: Time) -> Vec<(LimitKind, u32)> {
        let (unseated, needed) = self.needed();
        let mut requests = Vec::new();
        if self.limits.active.is_some() {
            requests.push((LimitKind::Active, self.permits.request(unseated)));
        }
        if self.limits.transactions.is_some() {
            requests.push((LimitKind::Transactions, self.transactions.request(now, needed)));
        }
        if self.limits.queries.is_some() {
            requests.push((LimitKind::Queries, self.queries.request(now, needed)));
        }
        requests.retain(|&(_, more)| more > 0);
        requests
    }

    /// When something may have to be given back, or requested.
    pub fn next_at(&self, now: Time) -> Option<Time> {
        let (unseated, needed) = self.needed();
        let rate_leases = [self.transactions.next_at(now, needed), self.queries.next_at(now, needed)];
        rate_leases.into_iter().flatten().chain(self.permits.next_at(unseated)).min()
    }

    /// What goes back now.
    pub fn unspent(&mut self, now: Time) -> [(LimitKind, u32); 3] {
        let (unseated, needed) = self.needed();
        let owed = self.permits.return_recalled(unseated);
        [
            (LimitKind::Transactions, self.transactions.unspent(now, needed)),
            (LimitKind::Queries, self.queries.unspent(now, needed)),
            (LimitKind::Active, owed + self.permits.unspent(now, unseated)),
        ]
    }

    /// The coordinator calls permits back: how many go now, and how many will not.
    pub fn called(&mut self, call: &CallBack) -> (u32, u32) {
        let (unseated, _) = self.needed();
        self.permits.called(call, unseated)
    }

    /// How much of its limits is left, and when there will be more: what a client gets that has asked for reports of its limits.
    pub fn left(&self, now: Time) -> (u32, u64) {
        let Limits { transactions, queries, active, .. } = self.limits;
        let limited = [
            (LimitKind::Transactions, transactions.is_some()),
            (LimitKind::Queries, queries.is_some()),
            (LimitKind::Active, active.is_some()),
        ];
        let limited = limited.into_iter().filter(|&(_, is_limited)| is_limited);
        let scarcest = limited.map(|(kind, _)| (self.remaining(kind), kind)).min_by_key(|&(remaining, _)| remaining);
        match scarcest {
            None => (u32::MAX, 0),
            Some((0, kind)) => {
                let until = self.free_at(kind, now, self.waiting());
                (0, until.micros_since(now).div_ceil(1000).max(1))
            }
            Some((remaining, _)) => (remaining, 0),
        }
    }

    /// What the coordinator had left of a rate when it reported last, and what of it is here, unused.
    pub fn left_of(&self, kind: LimitKind) -> (Option<(u32, Time)>, u32) {
        match kind {
            // The count of used permits says what is left of them.
            LimitKind::Active => (None, self.permits.free()),
            LimitKind::Queries => (self.queries.left(), self.queries.tokens()),
            _ => (self.transactions.left(), self.transactions.tokens()),
        }
    }

    fn remaining(&self, kind: LimitKind) -> u32 {
        match kind {
            LimitKind::Active => self.permits.remaining(),
            LimitKind::Queries => self.queries.remaining(),
            _ => self.transactions.remaining(),
        }
    }
}

/// So many of something, in words.
fn counted(count: u32, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// A statement's.
#[derive(Debug)]
pub struct StatementLimiter {
    pub permits: PermitLease,
    pub queue: BTreeSet<u64>,
    /// The beginning of the text, as it was first seen.
    pub text: Box<[u8]>,
    pub used_at: Time,
    /// Transactions that had a server and are over.
    pub count: u64,
    pub run: Spans,
    pub wait_times: Spans,
    pub counts: Counts,
}

impl StatementLimiter {
    pub fn new(text: &[u8], now: Time) -> StatementLimiter {
        StatementLimiter {
            permits: PermitLease::default(),
            queue: BTreeSet::new(),
            text: text.into(),
            used_at: now,
            count: 0,
            run: Spans::default(),
            wait_times: Spans::default(),
            counts: Counts::default(),
        }
    }

    pub fn pass(&mut self, now: Time, limit: u32, over: Over) -> Passage {
        if self.permits.take() {
            return Passage::Open;
        }
        match self.permits.full_until(now).filter(|_| over == Over::Reject) {
            None => Passage::Later,
            Some(until) => {
                self.counts.rejected += 1;
                let most = counted(limit, "transaction");
                let text = format!("limit exceeded: {most} at a time may begin with this statement");
                let wait = until.since(now).max(self.permits.free_in(limit));
                let retry_ms = (wait.as_micros() as u64).div_ceil(1000).max(1);
                Passage::Refused(LimitError {
                    reason: Reason::Statement,
                    text,
                    exceeded: Exceeded { limit, remaining: 0, retry_ms },
                })
            }
        }
    }

    /// A transaction that began with the statement gives its permit back after `lasted`. `ran`: how long it had a server, if it
    /// got one.
    pub fn release(&mut self, now: Time, lasted: Duration, waited: Duration, ran: Option<Duration>) -> u32 {
        self.wait_times.add(waited);
        if let Some(ran) = ran {
            self.count += 1;
            self.run.add(ran);
        }
        self.used_at = now;
        self.permits.release(now, lasted)
    }

    pub fn waiting(&self) -> u32 {
        u32::try_from(self.queue.len()).unwrap_or(u32::MAX)
    }

    /// Nothing uses it, and only SHOW reads its counts.
    pub fn is_unused(&self) -> bool {
        self.permits.is_unused() && self.queue.is_empty()
    }
}
