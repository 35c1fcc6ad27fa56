//! A worker's part of all limits, and the sessions that wait for them: the tables of [`crate::limits::admission`].
//!
//! Every ticket is in exactly one queue. A statement's limiter is kept while a transaction uses it or waits for it; of
//! the others, [`limits::FINGERPRINTS_MAX`] are kept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use link::permits::Permits;
use link::statistics::public_key;
use machine::Settings;
use machine::snapshot::{LimitCounts, StatementCounts};
use queueing::classes::LimitKind;
use queueing::limiting::limiter::{ClassLimiter, LimitError, StatementLimiter};
use queueing::limiting::{FULL, Limit};
use sql::Key;
use units::{ConnId, Time, limits};

/// A notice about a place in the queue counts at most so many waiters, since all waiters may get a notice at once.
const PLACES_MAX: usize = 100;

/// The limit that a session waits for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    Class(usize),
    Statement(u64),
}

/// A session that waits for a limit.
#[derive(Copy, Clone, Debug)]
pub(crate) struct LimitWaiter {
    pub(crate) conn: ConnId,
    pub(crate) before: Before,
    /// It has a server.
    pub(crate) linked: bool,
    /// Since when it waits for the first of its limits.
    pub(crate) since: Time,
    /// Since when it waits for this one.
    pub(crate) entered: Time,
    pub(crate) kind: Option<LimitKind>,
}

/// How the wait of a linked session ended. The session acts on it when its server is between messages.
#[derive(Debug)]
pub(crate) enum Outcome {
    Passed,
    Refused(LimitError),
    Late { since: Time, deadline_ms: u32 },
    Cancelled,
}

/// A worker's part of all limits.
#[derive(Debug)]
pub(crate) struct Limiters {
    /// By class; empty where nothing is limited.
    pub(crate) classes: Vec<ClassLimiter>,
    pub(crate) statements: BTreeMap<u64, StatementLimiter>,
    pub(crate) counts_statements: bool,
    /// Some class or statement is limited.
    limits: bool,
    /// By ticket.
    pub(crate) waiters: BTreeMap<u64, LimitWaiter>,
    next_ticket: u64,
    pub(crate) outcomes: BTreeMap<ConnId, Outcome>,
    /// When allowance may have to go back to the coordinator.
    pub(crate) look_at: Option<Time>,
    pub(crate) key: Key,
    /// The coordinator's counts, on the first worker.
    pub(crate) logins: Box<[LimitCounts]>,
}

impl Limiters {
    pub(crate) fn new(settings: &Settings) -> Limiters {
        let mut limiters = Limiters {
            classes: Vec::new(),
            statements: BTreeMap::new(),
            counts_statements: false,
            limits: false,
            waiters: BTreeMap::new(),
            next_ticket: 0,
            outcomes: BTreeMap::new(),
            look_at: None,
            key: public_key(),
            logins: Box::default(),
        };
        let back = limiters.configure(settings, |_| 0);
        debug_assert!(back.is_empty(), "nothing was given yet");
        limiters
    }

    /// Nothing is limited. Permits of earlier limits may still have to be given back.
    #[inline]
    pub(crate) fn is_none(&self) -> bool {
        !self.limits
    }

    /// Takes new settings. Returns permits to give back, of classes that are not limited any more. `used`: how many
    /// transactions have permits of a class.
    #[must_use]
    pub(crate) fn configure(&mut self, settings: &Settings, used: impl Fn(&str) -> u32) -> Vec<(Limit, u32)> {
        let limited = settings.classes.all.iter().any(|class| !ClassLimiter::is_free(&class.limits));
        let mut before = std::mem::take(&mut self.classes);
        for class in settings.classes.all.iter().filter(|_| limited) {
            let mut limiter = match before.iter().position(|limiter| limiter.name == class.name) {
                Some(place) => before.swap_remove(place),
                None => ClassLimiter::new(class, used(&class.name)),
            };
            limiter.limits = class.limits;
            self.classes.push(limiter);
        }
        self.counts_statements = settings.global.classes.limits_statements();
        self.limits = self.counts_statements || !self.classes.is_empty();
        before.iter_mut().map(|limiter| (limiter.limit(LimitKind::Active), limiter.permits.empty())).collect()
    }

    pub(crate) fn next_at(&self) -> Option<Time> {
        self.look_at
    }

    pub(crate) fn look(&mut self, at: Option<Time>) {
        self.look_at = self.look_at.into_iter().chain(at).min();
    }

    /// The queue for that limit.
    fn queue_of(&mut self, before: Before, linked: bool) -> Option<&mut BTreeSet<u64>> {
        match before {
            Before::Class(index) => {
                self.classes.get_mut(index).map(|limiter| if linked { &mut limiter.linked } else { &mut limiter.queue })
            }
            Before::Statement(fingerprint) => self.statements.get_mut(&fingerprint).map(|limiter| &mut limiter.queue),
        }
    }

    /// The ticket that is next at a limit.
    pub(crate) fn next_of(&self, before: Before) -> Option<u64> {
        match before {
            Before::Class(index) => self.classes.get(index)?.next().map(|(ticket, _)| ticket),
            Before::Statement(fingerprint) => self.statements.get(&fingerprint)?.queue.first().copied(),
        }
    }

    pub(crate) fn enter_queue(&mut self, wait: LimitWaiter) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.waiters.insert(ticket, wait);
        let queue = self.queue_of(wait.before, wait.linked);
        debug_assert!(queue.is_some(), "a session waits at a limit that is there");
        if let Some(queue) = queue {
            queue.insert(ticket);
        }
        ticket
    }

    /// The notice for a waiting client: its limit, and as detail its place and the expected wait. A place beyond
    /// [`PLACES_MAX`] is not counted.
    pub(crate) fn standing(&self, now: Time, ticket: u64) -> Option<(String, String)> {
        let wait = self.waiters.get(&ticket)?;
        let (words, queue, expected) = match wait.before {
            Before::Class(index) => {
                let limiter = self.classes.get(index)?;
                let queue = if wait.linked { &limiter.linked } else { &limiter.queue };
                let place = place_in(queue, ticket);
                let expected = wait.kind.zip(place).and_then(|(kind, place)| limiter.expected_wait(kind, now, place));
                (format!("limit of class \"{}\" reached, client being queued", limiter.name), queue, expected)
            }
            Before::Statement(fingerprint) => {
                let queue = &self.statements.get(&fingerprint)?.queue;
                ("limit of this statement reached, client being queued".to_owned(), queue, None)
            }
        };
        let place = place_in(queue, ticket).map_or(format!("more than {PLACES_MAX}"), |place| place.to_string());
        let detail = format!("place={place} of {}", queue.len());
        let expected = expected.map(|expected| format!(" expected_wait_ms={}", expected.as_millis()));
        Some((words, detail + &expected.unwrap_or_default()))
    }

    fn count_delayed(&mut self, before: Before, kind: LimitKind) {
        match before {
            Before::Class(index) => {
                if let Some(limiter) = self.classes.get_mut(index) {
                    limiter.count_delayed(kind);
                }
            }
            Before::Statement(fingerprint) => {
                if let Some(limiter) = self.statements.get_mut(&fingerprint) {
                    limiter.counts.delayed += 1;
                }
            }
        }
    }

    pub(crate) fn leave_queue(&mut self, now: Time, ticket: u64) -> Option<LimitWaiter> {
        let wait = self.waiters.remove(&ticket)?;
        // A wait only for the coordinator's answer does not count as delayed.
        if let Some(kind) = wait.kind.filter(|_| now.since(wait.entered) >= FULL) {
            self.count_delayed(wait.before, kind);
        }
        let was_there = self.queue_of(wait.before, wait.linked).is_some_and(|queue| queue.remove(&ticket));
        debug_assert!(was_there, "every ticket is in one queue, and a limiter stays as long as its queue");
        Some(wait)
    }

    /// A transaction that has waited since `since` for its statement's permit is given up.
    pub(crate) fn count_vain_wait(&mut self, now: Time, before: Before, since: Time) {
        if let Before::Statement(fingerprint) = before
            && let Some(limiter) = self.statements.get_mut(&fingerprint)
        {
            limiter.wait_times.add(now.since(since));
        }
    }

    /// The limiter of a statement. If there are too many, the least recently used one is dropped.
    pub(crate) fn statement(&mut self, now: Time, fingerprint: u64, text: &[u8]) -> &mut StatementLimiter {
        // Several are dropped if the table grew while all were in use.
        while self.statements.len() >= limits::FINGERPRINTS_MAX && !self.statements.contains_key(&fingerprint) {
            let unused = self.statements.iter().filter(|(_, limiter)| limiter.is_unused());
            let oldest = unused.min_by_key(|(_, limiter)| limiter.used_at).map(|(fingerprint, _)| *fingerprint);
            // All are in use: the table grows for now.
            let Some(oldest) = oldest else { break };
            self.statements.remove(&oldest);
        }
        let text = &text[..text.len().min(limits::PIN_TEXT_LEN_MAX)];
        self.statements.entry(fingerprint).or_insert_with(|| StatementLimiter::new(text, now))
    }

    /// Counts of the limited classes, for SHOW LIMITS.
    pub(crate) fn class_counts(&self) -> Vec<LimitCounts> {
        let counted = |limiter: &ClassLimiter| {
            let limits = [
                (LimitKind::Transactions, limiter.limits.transactions.is_some()),
                (LimitKind::Queries, limiter.limits.queries.is_some()),
                (LimitKind::Active, limiter.limits.active.is_some()),
            ];
            let rows = limits.into_iter().filter(|(_, is_limited)| *is_limited).map(|(kind, _)| {
                let counts = limiter.counts(kind);
                let (left, unused) = limiter.left_of(kind);
                LimitCounts {
                    class: Arc::clone(&limiter.name),
                    kind,
                    left,
                    unused,
                    waiting: limiter.waiting(),
                    active: limiter.permits.used(),
                    passed: counts.passed,
                    delayed: counts.delayed,
                    rejected: counts.rejected,
                }
            });
            rows.collect::<Vec<_>>()
        };
        self.classes.iter().flat_map(counted).chain(self.logins.iter().cloned()).collect()
    }

    /// Counts of the limited statements. `permits`: all that transactions have.
    pub(crate) fn statement_counts<'s>(&self, permits: impl Iterator<Item = &'s Permits>) -> Vec<StatementCounts> {
        // Transactions that have a permit, and no server yet.
        let mut unlinked: BTreeMap<u64, u32> = BTreeMap::new();
        for permits in permits.filter(|permits| permits.linked_at().is_none()) {
            if let Some(fingerprint) = permits.statement() {
                *unlinked.entry(fingerprint).or_default() += 1;
            }
        }
        let rows = self.statements.iter().map(|(fingerprint, limiter)| {
            let unlinked = unlinked.get(fingerprint).copied().unwrap_or_default();
            StatementCounts {
                fingerprint: *fingerprint,
                text: String::from_utf8_lossy(&limiter.text).into_owned(),
                waiting: limiter.waiting() + unlinked,
                active: limiter.permits.used().saturating_sub(unlinked),
                permits: limiter.permits.used(),
                count: limiter.count,
                run_us: limiter.run.total_us,
                run_max_us: limiter.run.max_us,
                wait_us: limiter.wait_times.total_us,
                wait_max_us: limiter.wait_times.max_us,
                delayed: limiter.counts.delayed,
                rejected: limiter.counts.rejected,
            }
        });
        rows.collect()
    }
}

/// The first has place 1. `None`: its place is beyond [`PLACES_MAX`].
fn place_in(queue: &BTreeSet<u64>, ticket: u64) -> Option<u32> {
    let before = queue.range(..ticket).take(PLACES_MAX).count();
    u32::try_from(before + 1).ok().filter(|_| before < PLACES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_grew_while_all_were_in_use_shrinks_again() {
        let mut limiters = Limiters::new(&Settings::default());
        let grown = limits::FINGERPRINTS_MAX as u64 + 100;
        for number in 0..grown {
            limiters.statement(Time(1 + number), number, b"select 'used'").queue.insert(number);
        }
        assert_eq!(limiters.statements.len() as u64, grown, "none of them is to be forgotten");
        limiters.statements.values_mut().for_each(|limiter| limiter.queue.clear());
        limiters.statement(Time(1 + grown), u64::MAX, b"select 'another'");
        assert_eq!(limiters.statements.len(), limits::FINGERPRINTS_MAX);
        assert!(limiters.statements.contains_key(&(grown - 1)), "the oldest go first");
    }

    #[test]
    fn unused_statements_are_forgotten_and_used_ones_are_not() {
        let mut limiters = Limiters::new(&Settings::default());
        let allowance = queueing::limiting::Allowance {
            holder: units::id::WorkerId(0).into(),
            granted: 1,
            answered: 1,
            remaining: 0,
            next_at: None,
        };
        let used = limiters.statement(Time(1), u64::MAX, b"select 'used'");
        used.permits.allowed(Time(1), &allowance);
        assert!(used.permits.take());
        for number in 0..20 * limits::FINGERPRINTS_MAX as u64 {
            limiters.statement(Time(2 + number), number, b"select 'another'");
            assert!(limiters.statements.len() <= limits::FINGERPRINTS_MAX);
        }
        assert!(limiters.statements.contains_key(&u64::MAX), "its transaction still runs");
    }
}
