//! The state that all parts of a world share: its plan, clock, random numbers, stage and trace.
//!
//! It knows none of these parts. All random numbers come from here, so the order of draws decides what happens.

use crate::agenda::{Agenda, Happening};
use crate::census::{Census, WorldCounts};
use crate::plan::Plan;
use crate::random::Random;
use crate::trace::Trace;

/// An invariant that does not hold, by its number, and what shows it.
pub type Finding = (u8, String);

/// The first finding of a world.
#[derive(Clone, Debug)]
pub struct Failure {
    pub invariant: u8,
    pub text: String,
    pub step: u64,
}

/// The stages of a world.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Working,
    /// No more faults; clients finish and leave.
    Closing {
        since: u64,
    },
    /// No client is left; idle servers time out.
    Quiet {
        since: u64,
    },
    Done,
}

#[derive(Debug)]
pub(crate) struct Course {
    pub(crate) plan: Plan,
    pub(crate) random: Random,
    agenda: Agenda,
    pub(crate) stage: Stage,
    /// When a server last died, or a login at PostgreSQL last failed.
    trouble_at: Option<u64>,
    /// Until then a database may be without a host that can be used.
    troubled_until: u64,
    /// When a worker last panicked.
    fault_at: Option<u64>,
    pub(crate) census: Census,
    pub(crate) trace: Trace,
    failure: Option<Failure>,
}

impl Course {
    pub(crate) fn new(plan: Plan, trace: Trace) -> Course {
        Course {
            random: Random::new(plan.seed),
            plan,
            agenda: Agenda::default(),
            stage: Stage::Working,
            trouble_at: None,
            troubled_until: 0,
            fault_at: None,
            census: Census { world: WorldCounts { worlds: 1, ..WorldCounts::default() }, ..Census::default() },
            trace,
            failure: None,
        }
    }

    pub(crate) fn now(&self) -> u64 {
        self.agenda.now()
    }

    pub(crate) fn at(&mut self, at: u64, what: Happening) {
        self.agenda.at(at, what);
    }

    pub(crate) fn after(&mut self, micros: u64, what: Happening) {
        self.agenda.at(self.now() + micros, what);
    }

    /// Takes the next event and sets the clock to its time.
    pub(crate) fn next(&mut self) -> Option<Happening> {
        self.agenda.next()
    }

    /// Faults happen only while work is going on.
    pub(crate) fn is_working(&self) -> bool {
        self.stage == Stage::Working
    }

    /// Something went wrong at PostgreSQL.
    pub(crate) fn note_trouble(&mut self) {
        self.trouble_at = Some(self.now());
    }

    /// Something goes wrong there for so long.
    pub(crate) fn note_trouble_until(&mut self, until: u64) {
        self.note_trouble();
        self.troubled_until = self.troubled_until.max(until);
    }

    pub(crate) fn trouble_at(&self) -> Option<u64> {
        let lasting = Some(self.now().min(self.troubled_until)).filter(|at| *at > 0);
        self.trouble_at.max(lasting)
    }

    /// The same without what is known to last.
    pub(crate) fn struck_at(&self) -> Option<u64> {
        self.trouble_at
    }

    /// A worker has panicked.
    pub(crate) fn note_fault(&mut self) {
        self.fault_at = Some(self.now());
    }

    pub(crate) fn fault_at(&self) -> Option<u64> {
        self.fault_at
    }

    pub(crate) fn fail(&mut self, invariant: u8, text: impl Into<String>) {
        if self.failure.is_none() {
            let text = text.into();
            self.trace.line(self.agenda.now(), || format!("I{invariant}: {text}"));
            self.failure = Some(Failure { invariant, text, step: self.census.world.steps });
        }
    }

    /// Fails if a check has found something.
    pub(crate) fn judge(&mut self, checked: Result<(), Finding>) {
        if let Err((invariant, text)) = checked {
            self.fail(invariant, text);
        }
    }

    pub(crate) fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// A line of the trace, if lines are kept.
    pub(crate) fn note(&mut self, write: impl FnOnce() -> String) {
        self.trace.line(self.agenda.now(), write);
    }

    /// Draws a delay of the network.
    pub(crate) fn delay(&mut self) -> u64 {
        let weather = self.plan.weather;
        let delay = self.random.range(weather.delay_min, weather.delay_max);
        if self.random.chance(weather.late) { delay * 100 } else { delay }
    }

    /// How much a socket's buffer holds.
    pub(crate) fn room(&mut self) -> usize {
        let weather = self.plan.weather;
        self.random.skewed(weather.room_min, weather.room_max) as usize
    }
}
