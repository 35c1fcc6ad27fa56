//! `pool_size = auto`: how many servers give a pool the most throughput at the least latency.
//!
//! ```text
//!             somebody waits              nothing left to try               a better neighbour: one rung
//!   Waiting ────────────────► Searching ──────────────────────► Settled ────────────────────────────────┐
//!                                 ▲                               │  ▲                                   │
//!                                 └──── transactions are clearly ─┘  └───────────────────────────────────┘
//!                                       faster or slower
//! ```
//!
//! A search goes over a [ladder](ladder) of sizes to where a look is worth most by what is [believed](belief) so far. Settled, it tries
//! a neighbouring rung now and then, and moves there once the difference is certain. A size is worth what it brings: one
//! twice as large must bring 1.5 % more, so of equal ones the least is chosen, whose transactions are the fastest. Slow transactions
//! whose servers neither compute nor wait for what they share are given [more servers at once](climb).
//!
//! It promises: sizes between floor and ceiling. Settled, and not climbing, never further than one rung from where it has settled, and there
//! for at most [`PROBE_WINDOWS`] windows, with pauses between that grow from [`PAUSE_MIN`] to [`PAUSE_MAX`]. A search ends
//! after [`SEARCH_END`] (and begins anew once at most, if throughput jumps meanwhile), and another begins no sooner than [`REST_MIN`] after it, then twice as long. A pool
//! that nobody waits for stays as it is, and so does one in which next to no transaction ends.
//!
//! Does not know PostgreSQL, workers or tokens: time and what was seen are arguments. Does not see a curve with two peaks.

mod belief;
mod climb;
mod evidence;
mod ladder;
mod search;
mod settled;

use std::collections::VecDeque;
use std::time::Duration;

pub use evidence::Seen;

use units::Time;

use crate::wait_events::WaitCounts;
use belief::Belief;
use climb::{Climb, Decision, Place};
use evidence::{Sample, Unrest, Window};
use ladder::Ladder;
use search::Search;
use settled::Rest;

/// How often a pool whose size is being found is looked at.
pub const LOOK: Duration = Duration::from_millis(200);

/// A search that begins above this looks at fewer servers first: that does PostgreSQL less harm than more.
const MANY: u32 = 16;

/// How long a search goes on to other sizes, and when it ends even in the middle of a visit.
pub const SEARCH_MAX: Duration = Duration::from_millis(7600);
pub const SEARCH_END: Duration = Duration::from_millis(8200);

/// How long after a search the next one may begin. Doubles for each that follows within [`PAUSE_MAX`], up to that.
pub const REST_MIN: Duration = Duration::from_secs(10);

/// Windows for which a neighbouring size is tried, once settled.
pub(crate) const PROBE_WINDOWS: f64 = 5.0;

/// Throughput is another one by this much, and a window by so many standard errors: more than a step needs that is found from the means of
/// several (`settled`), since a single window is often off.
const STEP: f64 = 0.14;
const ODD_SURE: f64 = 4.0;

/// Between two tries, once settled: half as long again after each that has changed nothing.
pub const PAUSE_MIN: Duration = Duration::from_secs(3);
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(60);

/// How long servers may take to open or to close before the size is judged as it is.
const ARRIVAL_MAX: Duration = Duration::from_secs(3);

/// For how long sizes are not tried that could not be reached.
const BLOCKED: Duration = Duration::from_secs(60);

const TOO_FEW: &str = "too few transactions end to compare sizes";

/// Changes that are remembered.
pub(crate) const CHANGES_MAX: usize = 10;

/// A size that was changed, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub at: Time,
    pub from: u32,
    pub to: u32,
    pub why: String,
}

/// How things stand, for `SHOW SIZING`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizingSnapshot {
    pub size: u32,
    pub floor: u32,
    pub ceiling: u32,
    /// The size that was found, if one was.
    pub settled: Option<u32>,
    pub why: String,
    /// What the servers with work wait for in PostgreSQL, in words, if it tells.
    pub wait_words: Option<String>,
    /// The last ones, oldest first.
    pub changes: Vec<Change>,
    /// All there ever were.
    pub change_count: u64,
}

/// Where the servers are on their way to the size.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Arrival {
    /// They are being opened or closed.
    Under {
        since: Time,
    },
    /// They are there: what is seen next still has the change in it.
    Fresh,
    Done,
}

#[derive(Clone, Debug)]
enum Mode {
    Waiting,
    Searching(Search),
    Settled(Rest),
}

/// The size of one pool.
#[derive(Clone, Debug)]
pub struct Sizing {
    ladder: Ladder,
    /// Where the size is.
    rung: usize,
    arrival: Arrival,
    window: Window,
    /// Windows seen since the size became what it is.
    visited: u32,
    /// The end of the last window.
    seen_at: Time,
    belief: Belief,
    unrest: Unrest,
    /// The last window was far from what was expected: above it, or below.
    odd: Option<bool>,
    mode: Mode,
    /// This rung and those above it could not be reached.
    blocked: Option<(usize, Time)>,
    changes: VecDeque<Change>,
    change_count: u64,
    /// Why the size is what it is, for people.
    why: String,
    pub waits: Waits,
}

/// What servers wait for in PostgreSQL at the present size.
#[derive(Clone, Debug, Default)]
pub struct Waits {
    counts: WaitCounts,
    /// The words that `SHOW SIZING` has for it.
    words: Option<String>,
    climb: Climb,
}

impl Waits {
    /// Whether the size is one that was chosen by them: then they are read also where no session waits.
    #[must_use]
    pub fn have_decided(&self) -> bool {
        self.climb.has_climbed()
    }
}

impl Sizing {
    /// Begins at the rung at or below `start`. `floor` counts as 1 at least, `ceiling` as `floor` at least.
    #[must_use]
    pub fn new(floor: u32, ceiling: u32, start: u32) -> Sizing {
        let floor = floor.max(1);
        let ladder = Ladder::new(floor, ceiling.max(floor));
        Sizing {
            rung: ladder.below(start),
            arrival: Arrival::Done,
            window: Window::default(),
            visited: 0,
            seen_at: Time::ZERO,
            belief: Belief::new(&ladder),
            unrest: Unrest::default(),
            odd: None,
            mode: Mode::Waiting,
            blocked: None,
            changes: VecDeque::new(),
            change_count: 0,
            why: "nobody has waited yet".to_owned(),
            waits: Waits::default(),
            ladder,
        }
    }

    #[must_use]
    pub fn size(&self) -> u32 {
        self.ladder.size(self.rung)
    }

    #[must_use]
    pub fn floor(&self) -> u32 {
        self.ladder.size(0)
    }

    #[must_use]
    pub fn ceiling(&self) -> u32 {
        self.ladder.size(self.ladder.top())
    }

    #[must_use]
    pub fn account(&self) -> SizingSnapshot {
        SizingSnapshot {
            size: self.size(),
            floor: self.floor(),
            ceiling: self.ceiling(),
            settled: self.settled(),
            why: self.why.clone(),
            wait_words: self.waits.words.clone(),
            changes: self.changes.iter().cloned().collect(),
            change_count: self.change_count,
        }
    }

    /// The size that it has settled at, if it has.
    #[must_use]
    pub fn settled(&self) -> Option<u32> {
        match &self.mode {
            Mode::Settled(rest) => Some(self.ladder.size(rest.base)),
            Mode::Waiting | Mode::Searching(_) => None,
        }
    }

    /// Whether it is looking for one.
    #[must_use]
    pub fn is_searching(&self) -> bool {
        matches!(self.mode, Mode::Searching(_))
    }

    /// Sizes next to this one on the ladder, and itself.
    pub fn neighbours(&self, size: u32) -> impl Iterator<Item = u32> {
        let rung = self.ladder.below(size);
        (rung.saturating_sub(1)..=(rung + 1).min(self.ladder.top())).map(|rung| self.ladder.size(rung))
    }

    /// What was seen since the last time. Returns whether the size is another one from now on.
    pub fn observe(&mut self, now: Time, seen: Seen) -> bool {
        let before = self.rung;
        if !self.climb(now, seen)
            && let Some(sample) = self.sample(now, seen)
        {
            self.judge(now, sample);
        }
        self.rung != before
    }

    /// Goes up where servers wait for what they do not share, and back where they do no longer. Whether it has decided about the size.
    fn climb(&mut self, now: Time, seen: Seen) -> bool {
        if self.arrival != Arrival::Done {
            return false;
        }
        let search_from = match &self.mode {
            Mode::Settled(rest) => Some(rest.search_from),
            Mode::Waiting | Mode::Searching(_) => None,
        };
        let blocked = self.blocked.filter(|(_, until)| now < *until).map_or(usize::MAX, |(rung, _)| rung);
        let place = Place { rung: self.rung, blocked, search_from };
        let Some(decision) = self.waits.climb.decide(now, seen, &self.ladder, place) else { return false };
        let (size, waits) = (self.size(), self.waits.counts.to_string());
        let (rung, why) = match decision {
            Decision::Up(rung) => (rung, format!("{size} servers wait for nothing that they share ({waits})")),
            Decision::Back(rung) => (rung, format!("{size} servers share what they wait for ({waits})")),
            Decision::Search => {
                let why = format!("looking for the best size from here ({waits})");
                self.search_again(now, self.rung, REST_MIN, false, &why);
                return true;
            }
        };
        self.move_to(now, rung, &why);
        self.mode = Mode::Settled(Rest::new(now, rung, REST_MIN, false));
        self.why = why;
        true
    }

    /// What PostgreSQL has said that servers with work wait for: nothing, mostly.
    pub fn add_wait_counts(&mut self, waits: &WaitCounts) {
        // On the way to another size it says little of either.
        if waits.looks() > 0 && self.arrival == Arrival::Done {
            self.waits.counts.then(waits);
            self.waits.climb.add_wait_counts(waits);
            self.waits.words = Some(self.waits.counts.to_string());
        }
    }

    /// A full window of the present size, once its servers are there.
    fn sample(&mut self, now: Time, seen: Seen) -> Option<Sample> {
        match self.arrival {
            Arrival::Under { since } => {
                let size = self.size();
                let waits = seen.open < size && seen.waiting > 0 || seen.open > size;
                if waits && now.since(since) < ARRIVAL_MAX {
                    return None;
                }
                self.arrival = Arrival::Fresh;
                if waits && seen.open < size && self.is_try() {
                    self.not_reached(now, seen.open);
                }
                None
            }
            Arrival::Fresh => {
                self.arrival = Arrival::Done;
                None
            }
            Arrival::Done if matches!(self.mode, Mode::Waiting) && seen.waiting > 0 && seen.open < self.size() => {
                self.arrival = Arrival::Under { since: now };
                self.window = Window::default();
                None
            }
            Arrival::Done => self.window.add(seen),
        }
    }

    /// Whether the size is a larger one than is known to be reached. What was reached before is slow, not out of reach:
    /// on a machine that is busy with something else, a server may take seconds to open.
    fn is_try(&self) -> bool {
        match &self.mode {
            Mode::Waiting => false,
            Mode::Searching(_) => (0..self.rung).any(|rung| self.belief.is_known(rung)),
            Mode::Settled(rest) => self.rung > rest.base,
        }
    }

    /// PostgreSQL, or a limit that other pools share, gives no more servers than this.
    fn not_reached(&mut self, now: Time, open: u32) {
        if self.settled().is_some_and(|size| open < size) {
            self.give_up_probe(now, "servers open slowly now");
            return;
        }
        self.blocked = Some((self.rung, now + BLOCKED));
        let why = format!("{} servers could not be opened, {open} could", self.size());
        let back = self.ladder.below(open).min(self.rung.saturating_sub(1));
        self.move_to(now, back, &why);
        match &mut self.mode {
            Mode::Settled(rest) => rest.return_to(now, back),
            Mode::Waiting | Mode::Searching(_) => {}
        }
    }

    fn is_blocked(&self, now: Time, rung: usize) -> bool {
        self.blocked.is_some_and(|(from, until)| rung >= from && now < until)
    }

    fn judge(&mut self, now: Time, sample: Sample) {
        if sample.few {
            self.stop_learning(now, sample.saturated);
            return;
        }
        let passed = now.since(std::mem::replace(&mut self.seen_at, now)).as_secs_f64();
        self.belief.pass(passed, self.unrest.drift(passed));
        match &self.mode {
            Mode::Waiting if !sample.saturated => {}
            Mode::Waiting => {
                "somebody waits: looking for the best size".clone_into(&mut self.why);
                self.mode = Mode::Searching(Search::new(now, self.size() > MANY, REST_MIN));
                self.search(now, sample);
            }
            Mode::Searching(_) => self.search(now, sample),
            Mode::Settled(_) => self.rest(now, sample),
        }
    }

    /// Takes a window of the present size into account. One that is most unlikely is left out; two in a row, to the same
    /// side, are another level than before: `true`.
    fn see(&mut self, sample: Sample) -> bool {
        self.unrest.learn(sample);
        self.visited += 1;
        let rung = self.rung_of(sample);
        let (expected, variance) = self.belief.expected(rung);
        let off = sample.speed - expected;
        let is_odd = self.belief.is_known(rung)
            && off.abs() > STEP
            && off.abs() > ODD_SURE * (variance + self.unrest.noise()).sqrt();
        let before = std::mem::replace(&mut self.odd, is_odd.then_some(off > 0.0));
        if is_odd && before != self.odd {
            return false;
        }
        if is_odd {
            self.belief.jump(off);
        }
        self.believe(sample);
        is_odd
    }

    fn believe(&mut self, sample: Sample) {
        self.belief.see(self.rung_of(sample), sample.speed, self.unrest.noise());
    }

    /// Which size a window's evidence is about: where servers were needed and could not be opened, the nearest to those that were there.
    fn rung_of(&self, sample: Sample) -> usize {
        let open = if sample.saturated { sample.open + sample.open / 5 } else { u32::MAX };
        self.ladder.below(open).min(self.rung)
    }

    /// Nothing can be learned now: what was under way ends where it began, or with what it has found.
    fn stop_learning(&mut self, now: Time, saturated: bool) {
        self.unrest.interrupt();
        match &self.mode {
            Mode::Waiting if saturated => TOO_FEW.clone_into(&mut self.why),
            Mode::Waiting => {}
            Mode::Searching(_) => self.settle(now, TOO_FEW),
            Mode::Settled(_) => self.give_up_probe(now, TOO_FEW),
        }
    }

    /// Another size from now on, or the same.
    fn move_to(&mut self, now: Time, rung: usize, why: &str) {
        if rung != self.rung {
            if self.changes.len() == CHANGES_MAX {
                self.changes.pop_front();
            }
            self.change_count += 1;
            let (from, to) = (self.size(), self.ladder.size(rung));
            self.changes.push_back(Change { at: now, from, to, why: why.to_owned() });
            self.rung = rung;
            self.arrival = Arrival::Under { since: now };
            self.window = Window::default();
            // What is shown is of this size, or nothing.
            (self.waits.counts, self.waits.words) = (WaitCounts::default(), None);
            self.waits.climb.forget();
            self.unrest.interrupt();
        }
        self.visited = 0;
    }
}

/// A logarithm of a ratio as people write it.
fn percent(log_ratio: f64) -> String {
    format!("{:+.1} %", (log_ratio.exp() - 1.0) * 100.0)
}
