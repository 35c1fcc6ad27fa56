//! What is known of names: their addresses, until when they hold, and who waits for them. A value: it looks nothing up and
//! reads no clock.
//!
//! ```text
//!   ask ─► known and fresh: the answer
//!      └─► else: the caller waits, and the first one looks up ─► found: the answer for all who wait
//! ```
//!
//! One name is looked up once at a time, however many ask. An answer holds for `dns_max_ttl`, a failure for `dns_nxdomain_ttl`,
//! whatever the record itself says. Where no name server answers, what was known last is used on ([`LAST_KNOWN_MAX`]): a name
//! server that is down does not change where a database is. An answer that there is no such name counts.
//!
//! A name is in doubt for [`DOUBTED`] after a connection to it has failed, or was closed by the other side: it is looked up once in [`RECHECK`]
//! then, though nobody asks, so that a database that moves is followed. The addresses that are known count meanwhile.
//!
//! Who asks next begins with the next address, so that connections spread over all. An address that has just refused a
//! connection comes last for [`SHUNNED`].
//!
//! //= pgbouncer config.md#dns_max_ttl
//! //= pgbouncer config.md#dns_nxdomain_ttl

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::{Failure, Found, KnownName, News, Zone};

/// Names kept. Names come from the settings, so there are few; the bound guards against a `*` entry with very many.
const NAMES_MAX: usize = 1024;

/// As long as PgBouncer's default for answers: whoever has mended the host waits no longer.
const SHUNNED: Duration = Duration::from_secs(15);

/// A primary that is lost has its name moved within half a minute, mostly; each connection that fails meanwhile doubts it anew.
const DOUBTED: Duration = Duration::from_secs(15);

/// How often a name in doubt is looked up.
const RECHECK: Duration = Duration::from_secs(1);

/// RFC 8767 has one to three days in mind.
//= rfc8767#section-5
const LAST_KNOWN_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// How long things hold.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Holds {
    pub(crate) answer: Duration,
    pub(crate) failure: Duration,
}

/// What to do for somebody who asks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Known(Found),
    /// Look it up: nobody does so yet.
    LookUp,
    /// It is being looked up.
    Wait,
}

/// What became of a lookup.
#[derive(Debug)]
pub(crate) struct Outcome<W> {
    /// Those who wait, and what each of them gets.
    pub(crate) answers: Vec<(W, Found)>,
    pub(crate) news: Option<News>,
    /// It has to be looked up once more.
    pub(crate) again: bool,
}

#[derive(Debug)]
struct Name<W> {
    found: Option<Found>,
    /// Until when that holds.
    until: Instant,
    /// The addresses that were answered last, and when.
    last: Option<(Arc<[IpAddr]>, Instant)>,
    /// Which of them comes first for whoever asks next.
    turn: usize,
    shunned: BTreeMap<IpAddr, Instant>,
    /// It is being looked up.
    in_flight: bool,
    /// When that has begun last.
    began: Instant,
    /// Until when it is in doubt.
    doubted_until: Instant,
    /// What is being looked up was asked before somebody wanted it anew.
    outdated: bool,
    /// It was said that it cannot be looked up.
    told: bool,
    waiting: Vec<W>,
    asked_at: Instant,
}

/// `W`: somebody who waits for an answer.
#[derive(Debug)]
pub(crate) struct Book<W> {
    pub(crate) holds: Holds,
    tells_first: bool,
    names: BTreeMap<String, Name<W>>,
    /// Serials of zones that were asked for.
    serials: BTreeMap<String, u32>,
}

impl<W> Book<W> {
    pub(crate) fn new(holds: Holds, tells_first: bool) -> Book<W> {
        Book { holds, tells_first, names: BTreeMap::new(), serials: BTreeMap::new() }
    }

    /// Somebody asks; `waiter` is kept if the answer is not known.
    pub(crate) fn ask(&mut self, name: &str, waiter: W, now: Instant) -> (Asked, Option<W>) {
        if !self.names.contains_key(name) {
            self.make_room();
        }
        let entry = self.names.entry(name.to_owned()).or_insert_with(|| Name {
            found: None,
            until: now,
            last: None,
            turn: 0,
            shunned: BTreeMap::new(),
            in_flight: false,
            began: now,
            doubted_until: now,
            outdated: false,
            told: false,
            waiting: Vec::new(),
            asked_at: now,
        });
        entry.asked_at = now;
        if now < entry.until && entry.found.is_some() {
            return (Asked::Known(entry.answer(now)), Some(waiter));
        }
        entry.waiting.push(waiter);
        let begins = entry.begin(now);
        (if begins { Asked::LookUp } else { Asked::Wait }, None)
    }

    /// The name that was asked for least recently makes room, if there are too many and nobody waits for it.
    fn make_room(&mut self) {
        if self.names.len() < NAMES_MAX {
            return;
        }
        let idle = self.names.iter().filter(|(_, name)| !name.in_flight);
        if let Some(oldest) = idle.min_by_key(|(_, name)| name.asked_at).map(|(name, _)| name.clone()) {
            self.names.remove(&oldest);
        }
    }

    /// A lookup has ended.
    pub(crate) fn found(&mut self, name: &str, found: Result<Arc<[IpAddr]>, Failure>, now: Instant) -> Outcome<W> {
        let nothing = Outcome { answers: Vec::new(), news: None, again: false };
        // A name that is being looked up is kept.
        let Some(entry) = self.names.get_mut(name) else { return nothing };
        if std::mem::take(&mut entry.outdated) {
            entry.began = now;
            return Outcome { again: true, ..nothing };
        }
        entry.in_flight = false;
        let (found, hold, news) = match found {
            Ok(addresses) => {
                let last = entry.last.as_ref();
                let moved = last.map_or(self.tells_first, |(last, _)| !are_same(last, &addresses));
                entry.last = Some((Arc::clone(&addresses), now));
                let back = std::mem::take(&mut entry.told);
                let news = match (moved, back) {
                    (true, _) => Some(News::Moved { name: name.into(), addresses: Arc::clone(&addresses) }),
                    (false, true) => Some(News::Back { name: name.into() }),
                    (false, false) => None,
                };
                (Ok(addresses), self.holds.answer, news)
            }
            Err(failure) => {
                let usable = |(last, at): &(Arc<[IpAddr]>, Instant)| {
                    (failure.is_passing && now < *at + LAST_KNOWN_MAX).then(|| Arc::clone(last))
                };
                let kept = entry.last.as_ref().and_then(usable);
                let is_new = kept.is_some() && !std::mem::replace(&mut entry.told, kept.is_some());
                let why = failure.why;
                let news = is_new.then(|| News::NoAnswer { name: name.into(), why: why.clone() });
                (kept.ok_or(why), self.holds.failure, news)
            }
        };
        entry.found = Some(found);
        entry.until = now + hold;
        let waiting = std::mem::take(&mut entry.waiting);
        let answers = waiting.into_iter().map(|waiter| (waiter, entry.answer(now))).collect();
        Outcome { answers, news, again: false }
    }

    /// An address of the name could not be connected to.
    pub(crate) fn shun(&mut self, name: &str, address: IpAddr, now: Instant) {
        if let Some(entry) = self.names.get_mut(name) {
            entry.shunned.retain(|_, until| now < *until);
            entry.shunned.insert(address, now + SHUNNED);
        }
    }

    /// A connection to the name has failed, or was closed by the other side. A name that nobody has asked for is not looked up.
    pub(crate) fn doubt(&mut self, name: &str, now: Instant) {
        if let Some(entry) = self.names.get_mut(name) {
            entry.doubted_until = now + DOUBTED;
        }
    }

    /// When the next name in doubt has to be looked up, if there is one.
    pub(crate) fn next_recheck(&self, now: Instant) -> Option<Instant> {
        let doubted = self.names.values().filter(|entry| entry.is_doubted(now));
        doubted.map(|entry| entry.began + RECHECK).min()
    }

    /// The names in doubt that have to be looked up now.
    pub(crate) fn recheck(&mut self, now: Instant) -> Vec<String> {
        let due = self.names.iter_mut().filter(|(_, entry)| entry.is_doubted(now) && entry.began + RECHECK <= now);
        due.filter_map(|(name, entry)| entry.begin(now).then(|| name.clone())).collect()
    }

    /// Whoever asks from now on gets what is looked up from now on.
    pub(crate) fn forget_all(&mut self, now: Instant) {
        for entry in self.names.values_mut() {
            entry.until = now;
            entry.outdated = entry.in_flight;
        }
    }

    /// The zones of the names that are known.
    pub(crate) fn zones(&self) -> BTreeSet<String> {
        self.names.keys().filter_map(|name| zone_of(name)).map(str::to_owned).collect()
    }

    /// A zone's serial. Returns the names that have to be looked up if it has changed.
    //= pgbouncer config.md#dns_zone_check_period
    pub(crate) fn serial_found(&mut self, zone: &str, serial: u32, now: Instant) -> Vec<String> {
        let before = self.serials.insert(zone.to_owned(), serial);
        if before.is_none_or(|before| before == serial) {
            return Vec::new();
        }
        let mut changed = Vec::new();
        for (name, entry) in self.names.iter_mut().filter(|(name, _)| zone_of(name) == Some(zone)) {
            if entry.begin(now) {
                changed.push(name.clone());
            } else {
                entry.outdated = true;
            }
        }
        changed
    }

    /// All names, and how long what is known of them holds.
    pub(crate) fn known(&self, now: Instant) -> Vec<KnownName> {
        let known = self.names.iter().map(|(name, entry)| {
            let addresses = entry.found.as_ref().and_then(|found| found.as_ref().ok());
            let ttl = entry.until.saturating_duration_since(now);
            let addresses = addresses.map(|found| found.to_vec()).unwrap_or_default();
            KnownName { name: name.clone(), ttl, addresses }
        });
        known.collect()
    }

    /// All zones, with the serials that were found.
    pub(crate) fn known_zones(&self) -> Vec<Zone> {
        let mut zones: BTreeMap<&str, usize> = BTreeMap::new();
        self.names.keys().filter_map(|name| zone_of(name)).for_each(|zone| *zones.entry(zone).or_default() += 1);
        let serial = |zone| self.serials.get(zone).copied().unwrap_or_default();
        let known =
            zones.into_iter().map(|(zone, count)| Zone { name: zone.to_owned(), serial: serial(zone), names: count });
        known.collect()
    }

    /// How many lookups are under way.
    pub(crate) fn in_flight(&self) -> usize {
        self.names.values().filter(|entry| entry.in_flight).count()
    }
}

impl<W> Name<W> {
    /// The name is to be looked up. False: it is being looked up already.
    fn begin(&mut self, now: Instant) -> bool {
        if std::mem::replace(&mut self.in_flight, true) {
            return false;
        }
        self.began = now;
        true
    }

    /// One that is being looked up waits for that.
    fn is_doubted(&self, now: Instant) -> bool {
        now < self.doubted_until && !self.in_flight
    }

    /// What is known, in the order to try: the next address first, those that have just failed last.
    fn answer(&mut self, now: Instant) -> Found {
        let addresses = match self.found.as_ref().expect("it is asked for when something was found") {
            Ok(addresses) => addresses,
            Err(why) => return Err(why.clone()),
        };
        let first = self.turn % addresses.len().max(1);
        self.turn = first + 1;
        let in_turn = addresses[first..].iter().chain(&addresses[..first]).copied();
        let is_shunned = |address: &IpAddr| self.shunned.get(address).is_some_and(|until| now < *until);
        let (last, mut order): (Vec<IpAddr>, Vec<IpAddr>) = in_turn.partition(is_shunned);
        order.extend(last);
        Ok(order.into())
    }
}

/// A host's zone, as PgBouncer has it: what follows its first dot.
fn zone_of(name: &str) -> Option<&str> {
    name.split_once('.').map(|(_, zone)| zone).filter(|zone| !zone.is_empty())
}

/// Whether there are the same addresses, in any order: name servers turn it round.
fn are_same(one: &[IpAddr], other: &[IpAddr]) -> bool {
    one.iter().collect::<BTreeSet<_>>() == other.iter().collect::<BTreeSet<_>>()
}

#[cfg(test)]
#[path = "book_tests.rs"]
mod tests;
