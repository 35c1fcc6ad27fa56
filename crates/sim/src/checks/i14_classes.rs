//! I14: a class in which sessions wait all the time gets its weight's part of the server time, less the slack that ADR
//! 0020 states. And I6 as PostgreSQL sees it: no server is idle for longer than the messages travel while a session
//! waits.
//!
//! Checked in worlds made for it (`--classes`), without data from the pooler. A server is held from the first byte sent
//! to it until its ReadyForQuery outside of a transaction is read, by the class of the client whose mark was sent. A
//! session waits from when the pooler has read its whole request until that is sent to a server.

use std::collections::BTreeMap;

use super::WorldView;
use crate::census::CheckCounts;
use crate::command::CHECK;
use crate::contest::Contest;
use crate::course::{Finding, Stage};
use crate::link::{Link, LinkId};
use crate::statement::Mark;

/// The delay before another worker's waiter counts: `limits::STRANGER`.
const STRANGER_US: u64 = units::limits::STRANGER.as_micros() as u64;

/// The state of the check.
#[derive(Debug, Default)]
pub(crate) struct Contested {
    lanes: Vec<Lane>,
    servers: BTreeMap<LinkId, ServerUse>,
    /// Waiting clients by number, and since when they wait.
    waiting: BTreeMap<u32, u64>,
    /// The longest time that a server was held, in microseconds, and the largest number held at a time.
    longest_us: u64,
    held_max: u64,
    /// A class was due enough that the check would have noticed a missing share.
    is_worth: bool,
    /// Whether sessions wait for side effects to be read, not for a server; and until when that was last so.
    awaits_side_effects: bool,
    learnt_at: u64,
}

/// One class.
#[derive(Debug, Default)]
struct Lane {
    weight: u64,
    waiting: u32,
    /// The number of servers that it holds, and the sum of their start times.
    active: i64,
    begun: i64,
    /// Server-microseconds of ended uses, and their number.
    served: i64,
    holds: u64,
    span: Option<Span>,
}

/// A time in which sessions of a class waited without a break.
#[derive(Debug)]
struct Span {
    since: u64,
    /// The server time of each class when it began.
    before: Vec<i64>,
    /// Which classes have had work since then.
    worked: Vec<bool>,
}

/// One server.
#[derive(Copy, Clone, Debug)]
struct ServerUse {
    /// The class that uses it, or used it last. The pooler's own statements are charged to that class, unless a
    /// client's message follows in the same step. A query that the pooler sends after a client's text is charged to
    /// that client's class, as a part of the same use.
    lane: Option<usize>,
    named: bool,
    since: u64,
    until: Option<u64>,
}

impl Lane {
    fn served(&self, now: u64) -> i64 {
        self.served + self.active * now as i64 - self.begun
    }

    fn has_work(&self) -> bool {
        self.waiting > 0 || self.active > 0
    }

    fn begin(&mut self, since: u64) {
        self.active += 1;
        self.begun += since as i64;
    }

    fn leave(&mut self, since: u64) {
        self.active -= 1;
        self.begun -= since as i64;
    }
}

impl Contested {
    /// A contest has been seen.
    pub(crate) fn has_begun(&self) -> bool {
        !self.lanes.is_empty()
    }

    /// The pooler has read the whole request of a client.
    pub(crate) fn note_asked(&mut self, now: u64, contest: &Contest, number: u32) {
        if self.lanes.is_empty() {
            self.lanes
                .extend(contest.crowds.iter().map(|crowd| Lane { weight: crowd.weight.into(), ..Lane::default() }));
        }
        self.asked(now, number, contest.crowd_of(number));
    }

    /// The pooler sends bytes to a server, for the client of this number or on its own.
    pub(crate) fn note_sent(&mut self, now: u64, contest: &Contest, id: LinkId, (bytes, whose): (&[u8], Option<u32>)) {
        let whose = whose.map(|number| (number, contest.crowd_of(number)));
        let asks = bytes.windows(CHECK.len()).any(|part| part == CHECK.as_bytes());
        self.sent(now, id, whose, asks);
    }

    pub(super) fn check(
        &mut self,
        view: &WorldView<'_>,
        awaits_side_effects: bool,
        counts: &mut CheckCounts,
    ) -> Result<(), Finding> {
        let Some(contest) = &view.plan.purpose.contest else { return Ok(()) };
        // Afterwards waiting sessions are still served, but shares are not contested.
        let is_contested = view.stage == Stage::Working;
        let exchange_us = if contest.homes > 1 {
            super::i06_idle::tries(view.plan) * super::i06_idle::exchange_us(view.plan)
        } else {
            0
        };
        let (now, network) = (view.now, view.network);
        if awaits_side_effects || self.awaits_side_effects {
            (self.awaits_side_effects, self.learnt_at) = (awaits_side_effects, now);
        }
        let is_open = |id: &LinkId| network.get(*id).is_some_and(Link::is_open);
        let gone: Vec<LinkId> = self.servers.keys().copied().filter(|id| !is_open(id)).collect();
        for id in gone {
            self.freed(now, id);
            self.servers.remove(&id);
        }
        let was_worth = self.is_worth;
        let unfair = if is_contested { self.unfair(now, exchange_us) } else { None };
        // At worst all servers travel to that worker before one is for this session.
        let travel_us = 2 * (STRANGER_US + self.longest_us(now)) + self.held_max * exchange_us;
        let beside = self.idle_beside(now, travel_us);
        counts.contested += u64::from(self.is_worth && !was_worth);
        match unfair.map(|text| (14, text)).or(beside.map(|text| (6, text))) {
            Some(found) => Err(found),
            None => Ok(()),
        }
    }

    fn works(&mut self, class: usize) {
        for lane in &mut self.lanes {
            if let Some(span) = &mut lane.span {
                span.worked[class] = true;
            }
        }
    }

    fn asked(&mut self, now: u64, number: u32, class: usize) {
        self.waiting.insert(number, now);
        self.lanes[class].waiting += 1;
        self.works(class);
        if self.lanes[class].span.is_none() {
            let before = self.lanes.iter().map(|lane| lane.served(now)).collect();
            let worked = self.lanes.iter().map(Lane::has_work).collect();
            self.lanes[class].span = Some(Span { since: now, before, worked });
        }
    }

    /// Bytes are sent to a server. `asks`: the pooler queries the state that the last session has left.
    fn sent(&mut self, now: u64, id: LinkId, whose: Option<(u32, usize)>, asks: bool) {
        let free = ServerUse { lane: None, named: true, since: now, until: Some(now) };
        let seat = self.servers.entry(id).or_insert(free);
        if let Some(until) = seat.until.take() {
            let goes_on = until == now && (asks || !seat.named);
            match seat.lane {
                // The pooler's statements directly before and after a client's text belong to that client's use.
                Some(lane) if goes_on => {
                    self.lanes[lane].served -= (until - seat.since) as i64;
                    self.lanes[lane].holds -= u64::from(seat.named);
                }
                _ => (seat.since, seat.named) = (now, false),
            }
            if let Some(lane) = seat.lane {
                self.lanes[lane].begin(seat.since);
            }
        }
        let Some((number, class)) = whose else { return };
        if !seat.named {
            seat.named = true;
            if let Some(lane) = seat.lane.replace(class) {
                self.lanes[lane].leave(seat.since);
            }
            self.lanes[class].begin(seat.since);
            self.works(class);
        }
        if self.waiting.remove(&number).is_some() {
            self.lanes[class].waiting -= 1;
            if self.lanes[class].waiting == 0 {
                self.lanes[class].span = None;
            }
        }
        let held = self.servers.values().filter(|seat| seat.until.is_none()).count() as u64;
        self.held_max = self.held_max.max(held);
    }

    /// A server has sent its whole answer.
    pub(crate) fn freed(&mut self, now: u64, id: LinkId) {
        let Some(seat) = self.servers.get_mut(&id).filter(|seat| seat.until.is_none()) else { return };
        seat.until = Some(now);
        let Some(lane) = seat.lane.map(|lane| &mut self.lanes[lane]) else { return };
        let lasted = now - seat.since;
        lane.leave(seat.since);
        lane.served += lasted as i64;
        lane.holds += u64::from(seat.named);
        self.longest_us = self.longest_us.max(lasted);
    }

    /// The longest time that a server was held, including servers held now.
    fn longest_us(&self, now: u64) -> u64 {
        let held = self.servers.values().filter(|seat| seat.until.is_none() && seat.lane.is_some());
        held.map(|seat| now - seat.since).max().unwrap_or(0).max(self.longest_us)
    }

    /// The mean time that a server was held, of the class where it is longest.
    fn mean_us(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.served.unsigned_abs() / lane.holds.max(1)).max().unwrap_or(0)
    }

    /// The slack of a class, as ADR 0020 states it. `exchange_us`: the exchange of the workers' accounts.
    fn slack_us(&self, now: u64, exchange_us: u64) -> u64 {
        self.held_max * (2 * self.longest_us(now) + 2 * self.mean_us() + exchange_us)
    }

    /// A class that has had too little.
    fn unfair(&mut self, now: u64, exchange_us: u64) -> Option<String> {
        let slack = self.slack_us(now, exchange_us);
        let had: Vec<i64> = self.lanes.iter().map(|lane| lane.served(now)).collect();
        for (class, lane) in self.lanes.iter().enumerate() {
            let Some(span) = &lane.span else { continue };
            let given: i64 = had.iter().zip(&span.before).map(|(now, before)| now - before).sum();
            let rivals = self.lanes.iter().zip(&span.worked).filter(|(_, worked)| **worked);
            let weights: u64 = rivals.map(|(lane, _)| lane.weight).sum();
            let due = given.unsigned_abs() * lane.weight / weights.max(1);
            let own = (had[class] - span.before[class]).unsigned_abs();
            self.is_worth |= due > 2 * slack;
            if own + slack < due {
                let (weight, since) = (lane.weight, span.since);
                return Some(format!(
                    "class{class} of weight {weight} of {weights} has had {own} of {due} us since {since}, {slack} may be missing"
                ));
            }
        }
        None
    }

    /// A server that was idle for so long, and a session that has waited for so long.
    fn idle_beside(&self, now: u64, limit_us: u64) -> Option<String> {
        let (number, since) = self.waiting.iter().min_by_key(|(_, since)| **since)?;
        let mut idle = self.servers.values().filter_map(|seat| seat.until);
        let rests = idle.find(|until| now.saturating_sub(*until.max(since).max(&self.learnt_at)) > limit_us)?;
        Some(format!("client {number} waits since {since}, and a server has had nothing to do since {rests}"))
    }
}

/// The client whose mark is in the bytes sent.
pub(crate) fn client_in(bytes: &[u8]) -> Option<u32> {
    let at = bytes.windows(3).position(|three| three == b"/*c")? + 2;
    let len = bytes[at..].iter().position(|byte| *byte == b'*')?;
    let mark = std::str::from_utf8(&bytes[at..at + len]).ok().and_then(Mark::parse)?;
    Some(mark.client)
}
