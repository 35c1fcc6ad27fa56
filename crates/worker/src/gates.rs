//! A worker's gates, who waits before them, and who has gone through: tables that [`super::limiting`] decides by.
//!
//! Promises: every ticket is in one line; a statement's gate is kept while anybody uses it or waits, and
//! [`limits::FINGERPRINTS_MAX`] of the others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use link::session::{Admission, Session};
use machine::Settings;
use machine::snapshot::{LimitCounts, StatementCounts};
use queueing::classes::Kind;
use queueing::limiting::gate::{Gate, StatementGate, Told};
use queueing::limiting::{FULL, Limit};
use sql::Key;
use units::{ConnId, Time, limits};

/// What fingerprints of statements that limits name depend on: users write them down, so it never changes.
const FINGERPRINTS: u64 = 0x7067_7765_6972;

/// So many of those before somebody are counted when it is told its place: all who wait may be told at once.
const PLACES_MAX: usize = 100;

/// Before which gate somebody waits.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Before {
    Class(usize),
    Statement(u64),
}

/// Who waits, for what and since when.
#[derive(Copy, Clone, Debug)]
pub(super) struct Wait {
    pub(super) conn: ConnId,
    pub(super) before: Before,
    /// It has a server.
    pub(super) linked: bool,
    /// At whichever gate it came to first.
    pub(super) since: Time,
    /// It can wait for so long with its server; 0: it does not say, or its session's state does.
    pub(super) deadline_ms: u32,
    /// Before this one. `kind`: of a class, what it was without then; none: who is refused waits only to be told so.
    pub(super) entered: Time,
    pub(super) kind: Option<Kind>,
}

/// What has become of the wait of somebody who has a server, and is not told so yet.
#[derive(Debug)]
pub(super) enum Outcome {
    Passed,
    Refused(Told),
    Late { since: Time, deadline_ms: u32 },
    Cancelled,
}

/// What a transaction uses while it lasts.
#[derive(Clone, Debug)]
pub(super) struct Seat {
    pub(super) class: Option<Arc<str>>,
    pub(super) statement: Option<u64>,
    pub(super) since: Time,
    /// When its client sent it: before `since`, if it had to wait for the slot.
    pub(super) asked_at: Time,
    /// When it got its server.
    pub(super) linked_at: Option<Time>,
}

/// A worker's part of all limits.
#[derive(Debug)]
pub(super) struct Gates {
    /// By class; empty where nothing is limited.
    pub(super) classes: Vec<Gate>,
    pub(super) statements: BTreeMap<u64, StatementGate>,
    pub(super) counts_statements: bool,
    /// There is one of these.
    limits: bool,
    /// By ticket.
    pub(super) waits: BTreeMap<u64, Wait>,
    next_ticket: u64,
    pub(super) outcomes: BTreeMap<ConnId, Outcome>,
    /// By session; of one that has gone, by the server that is not done with its transaction yet.
    pub(super) seated: BTreeMap<ConnId, Seat>,
    /// When something may have to go back.
    pub(super) look_at: Option<Time>,
    pub(super) key: Key,
    /// The coordinator's counts, on the first worker.
    pub(super) logins: Box<[LimitCounts]>,
}

impl Gates {
    pub(super) fn new(settings: &Settings) -> Gates {
        let mut gates = Gates {
            classes: Vec::new(),
            statements: BTreeMap::new(),
            counts_statements: false,
            limits: false,
            waits: BTreeMap::new(),
            next_ticket: 0,
            outcomes: BTreeMap::new(),
            seated: BTreeMap::new(),
            look_at: None,
            key: Key::from_seed(FINGERPRINTS),
            logins: Box::default(),
        };
        let back = gates.configure(settings);
        debug_assert!(back.is_empty(), "nothing was given yet");
        gates
    }

    /// Nothing is limited, or was and is still to be given back.
    #[inline]
    pub(super) fn is_none(&self) -> bool {
        !self.limits
    }

    /// Says what goes back: slots of classes that are not limited any more.
    #[must_use]
    pub(super) fn configure(&mut self, settings: &Settings) -> Vec<(Limit, u32)> {
        let limited = settings.classes.all.iter().any(|class| !Gate::is_free(&class.limits));
        let mut before = std::mem::take(&mut self.classes);
        for class in settings.classes.all.iter().filter(|_| limited) {
            let mut gate = match before.iter().position(|gate| gate.name == class.name) {
                Some(place) => before.swap_remove(place),
                None => Gate::new(class, self.used_in(&class.name)),
            };
            gate.limits = class.limits;
            self.classes.push(gate);
        }
        self.counts_statements = settings.global.classes.limits_statements();
        self.limits = self.counts_statements || !self.classes.is_empty();
        before.iter_mut().map(|gate| (gate.limit(Kind::Active), gate.seats.empty())).collect()
    }

    /// So many have slots of that class.
    fn used_in(&self, class: &str) -> u32 {
        let used = self.seated.values().filter(|seat| seat.class.as_deref() == Some(class));
        u32::try_from(used.count()).unwrap_or(u32::MAX)
    }

    /// Somebody has a slot.
    pub(super) fn has_seats(&self) -> bool {
        !self.seated.is_empty()
    }

    pub(super) fn next_at(&self) -> Option<Time> {
        self.look_at
    }

    pub(super) fn look(&mut self, at: Option<Time>) {
        self.look_at = self.look_at.into_iter().chain(at).min();
    }

    /// Where in that line a ticket is, or would be.
    fn line_of(&mut self, before: Before, linked: bool) -> Option<&mut BTreeSet<u64>> {
        match before {
            Before::Class(index) => {
                self.classes.get_mut(index).map(|gate| if linked { &mut gate.linked } else { &mut gate.line })
            }
            Before::Statement(fingerprint) => self.statements.get_mut(&fingerprint).map(|gate| &mut gate.line),
        }
    }

    /// Whose turn is next before a gate.
    pub(super) fn next_of(&self, before: Before) -> Option<u64> {
        match before {
            Before::Class(index) => self.classes.get(index)?.next().map(|(ticket, _)| ticket),
            Before::Statement(fingerprint) => self.statements.get(&fingerprint)?.line.first().copied(),
        }
    }

    pub(super) fn enter_line(&mut self, wait: Wait) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.waits.insert(ticket, wait);
        if let Some(line) = self.line_of(wait.before, wait.linked) {
            line.insert(ticket);
        }
        ticket
    }

    /// What a client is told that waits here: before what, and its place and the expected wait. Places far behind are not counted.
    pub(super) fn standing(&self, now: Time, ticket: u64) -> Option<(String, String)> {
        let wait = self.waits.get(&ticket)?;
        let (words, line, expected) = match wait.before {
            Before::Class(index) => {
                let gate = self.classes.get(index)?;
                let line = if wait.linked { &gate.linked } else { &gate.line };
                let place = place_in(line, ticket);
                let expected = wait.kind.zip(place).and_then(|(kind, place)| gate.expected_wait(kind, now, place));
                (format!("limit of class \"{}\" reached, client being queued", gate.name), line, expected)
            }
            Before::Statement(fingerprint) => {
                let line = &self.statements.get(&fingerprint)?.line;
                ("limit of this statement reached, client being queued".to_owned(), line, None)
            }
        };
        let place = place_in(line, ticket).map_or(format!("more than {PLACES_MAX}"), |place| place.to_string());
        let detail = format!("place={place} of {}", line.len());
        let expected = expected.map(|expected| format!(" expected_wait_ms={}", expected.as_millis()));
        Some((words, detail + &expected.unwrap_or_default()))
    }

    fn count_delayed(&mut self, before: Before, kind: Kind) {
        match before {
            Before::Class(index) => {
                if let Some(gate) = self.classes.get_mut(index) {
                    gate.count_delayed(kind);
                }
            }
            Before::Statement(fingerprint) => {
                if let Some(gate) = self.statements.get_mut(&fingerprint) {
                    gate.counts.delayed += 1;
                }
            }
        }
    }

    pub(super) fn wait_of(&self, session: &Session) -> Option<&Wait> {
        let Admission::Waits { ticket } = session.claim.admission else { return None };
        self.waits.get(&ticket)
    }

    pub(super) fn leave_line(&mut self, now: Time, ticket: u64) -> Option<Wait> {
        let wait = self.waits.remove(&ticket)?;
        // Who only waits until the coordinator has been asked is not delayed.
        if let Some(kind) = wait.kind.filter(|_| now.since(wait.entered) >= FULL) {
            self.count_delayed(wait.before, kind);
        }
        if let Some(line) = self.line_of(wait.before, wait.linked) {
            line.remove(&ticket);
        }
        Some(wait)
    }

    pub(super) fn seat(&mut self, now: Time, conn: ConnId, asked_at: Time) -> &mut Seat {
        self.seated.entry(conn).or_insert(Seat { class: None, statement: None, since: now, asked_at, linked_at: None })
    }

    /// The transaction of `conn` has got its server.
    pub(super) fn linked(&mut self, now: Time, conn: ConnId) {
        if let Some(seat) = self.seated.get_mut(&conn) {
            seat.linked_at.get_or_insert(now);
        }
    }

    /// A transaction has waited since `since` for its statement's slot, and does not begin.
    pub(super) fn count_vain_wait(&mut self, now: Time, before: Before, since: Time) {
        if let Before::Statement(fingerprint) = before
            && let Some(gate) = self.statements.get_mut(&fingerprint)
        {
            gate.wait.add(now.since(since));
        }
    }

    /// The gate of a statement; of more than are kept, the one that was used longest ago is forgotten.
    pub(super) fn statement(&mut self, now: Time, fingerprint: u64, text: &[u8]) -> &mut StatementGate {
        // More than one, if all were in use for a time.
        while self.statements.len() >= limits::FINGERPRINTS_MAX && !self.statements.contains_key(&fingerprint) {
            let unused = self.statements.iter().filter(|(_, gate)| gate.is_unused());
            let oldest = unused.min_by_key(|(_, gate)| gate.used_at).map(|(fingerprint, _)| *fingerprint);
            let Some(oldest) = oldest else { break };
            self.statements.remove(&oldest);
        }
        let text = &text[..text.len().min(limits::PIN_TEXT_LEN_MAX)];
        self.statements.entry(fingerprint).or_insert_with(|| StatementGate::new(text, now))
    }

    /// What there is to tell of classes whose limits are counted here.
    pub(super) fn class_counts(&self) -> Vec<LimitCounts> {
        let counted = |gate: &Gate| {
            let limits = [
                (Kind::Transactions, gate.limits.transactions.is_some()),
                (Kind::Queries, gate.limits.queries.is_some()),
                (Kind::Active, gate.limits.active.is_some()),
            ];
            let rows = limits.into_iter().filter(|(_, is_limited)| *is_limited).map(|(kind, _)| {
                let counts = gate.counts(kind);
                let (left, unused) = gate.told_of(kind);
                LimitCounts {
                    class: Arc::clone(&gate.name),
                    kind,
                    left,
                    unused,
                    waiting: gate.waiting(),
                    active: gate.seats.used(),
                    passed: counts.passed,
                    delayed: counts.delayed,
                    rejected: counts.rejected,
                }
            });
            rows.collect::<Vec<_>>()
        };
        self.classes.iter().flat_map(counted).chain(self.logins.iter().cloned()).collect()
    }

    /// And of statements.
    pub(super) fn statement_counts(&self) -> Vec<StatementCounts> {
        // Transactions that have a slot, and no server yet.
        let mut unlinked: BTreeMap<u64, u32> = BTreeMap::new();
        for seat in self.seated.values().filter(|seat| seat.linked_at.is_none()) {
            if let Some(fingerprint) = seat.statement {
                *unlinked.entry(fingerprint).or_default() += 1;
            }
        }
        let rows = self.statements.iter().map(|(fingerprint, gate)| {
            let unlinked = unlinked.get(fingerprint).copied().unwrap_or_default();
            StatementCounts {
                fingerprint: *fingerprint,
                text: String::from_utf8_lossy(&gate.text).into_owned(),
                waiting: gate.waiting() + unlinked,
                active: gate.seats.used().saturating_sub(unlinked),
                slots: gate.seats.used(),
                count: gate.count,
                run_us: gate.run.total_us,
                run_max_us: gate.run.max_us,
                wait_us: gate.wait.total_us,
                wait_max_us: gate.wait.max_us,
                delayed: gate.counts.delayed,
                rejected: gate.counts.rejected,
            }
        });
        rows.collect()
    }
}

/// Who is first has place 1; `None`: it is far behind.
fn place_in(line: &BTreeSet<u64>, ticket: u64) -> Option<u32> {
    let before = line.range(..ticket).take(PLACES_MAX).count();
    u32::try_from(before + 1).ok().filter(|_| before < PLACES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_grew_while_all_were_in_use_shrinks_again() {
        let mut gates = Gates::new(&Settings::default());
        let grown = limits::FINGERPRINTS_MAX as u64 + 100;
        for number in 0..grown {
            gates.statement(Time(1 + number), number, b"select 'used'").line.insert(number);
        }
        assert_eq!(gates.statements.len() as u64, grown, "none of them is to be forgotten");
        gates.statements.values_mut().for_each(|gate| gate.line.clear());
        gates.statement(Time(1 + grown), u64::MAX, b"select 'another'");
        assert_eq!(gates.statements.len(), limits::FINGERPRINTS_MAX);
        assert!(gates.statements.contains_key(&(grown - 1)), "the oldest go first");
    }

    #[test]
    fn statements_that_nobody_uses_are_forgotten_and_those_in_use_are_not() {
        let mut gates = Gates::new(&Settings::default());
        let allowance = queueing::limiting::Allowance {
            worker: units::id::WorkerId(0),
            granted: 1,
            answered: 1,
            remaining: 0,
            next_at: None,
        };
        let used = gates.statement(Time(1), u64::MAX, b"select 'used'");
        used.seats.allowed(Time(1), &allowance);
        assert!(used.seats.take());
        for number in 0..20 * limits::FINGERPRINTS_MAX as u64 {
            gates.statement(Time(2 + number), number, b"select 'another'");
            assert!(gates.statements.len() <= limits::FINGERPRINTS_MAX);
        }
        assert!(gates.statements.contains_key(&u64::MAX), "its transaction still runs");
    }
}
