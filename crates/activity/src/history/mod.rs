//! The last hour, second by second, within a bound of memory.
//!
//! ```text
//!   Moment ─ push ─► Second   samples: (who, for what, behind whom) × how many      counted by what repeats, never by unique ids
//!                             worst: some rows with all their ids
//!                             busy: which session was counted as what
//!                             pools: gauges and counters
//!                             whys: the verdicts on pools in trouble
//!                             locks: the lock tree
//!                    Keys     what samples are of, each once
//! ```
//!
//! A second can be [stored](History::stored) as bytes and [restored](History::restore).
//!
//! Promises: at most [`Options::memory_max`] bytes, whatever clients say: the oldest seconds go first. Constants of statements are not kept, unless
//! [`Options::literals`] asks for them.

mod episodes;
pub mod frames;
mod glance;
mod keys;
mod locks;
pub mod packed;
mod second;
mod spans;
mod stored;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use units::Serial;

use crate::moment::{At, Moment};
use crate::tags::Tags;
use crate::tally::wait_class;
use crate::verdict::{Verdict, verdicts};

pub use episodes::{Episode, Episodes};
pub use glance::Glance;
use keys::Keys;
pub use keys::{Key, KeyId, OWN_CLASS, Who};
pub use locks::{LockLine, LockMember, LockSeen, LockText};
pub use second::{Busy, Exact, PoolSecond, Sample, Second, WhySecond};
pub use spans::{Dimension, OTHERS, Span, WaitSum, WaitSums};

/// How far back it goes, if nothing else is said.
pub const SECONDS_MAX: usize = 3600;

/// Seconds in which the tags of idle sessions are looked for.
const SEEN_WITH_TAGS: usize = 60;

/// What is kept, and how much of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes; `observe_memory`.
    pub memory_max: usize,
    /// Of comments' tags, those that repeat: `observe_tags`.
    pub tags: Vec<Box<str>>,
    /// Whether statements keep their constants: `observe_literals`.
    pub literals: bool,
    /// How far back it goes.
    pub seconds_max: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { memory_max: 64 << 20, tags: Vec::new(), literals: false, seconds_max: SECONDS_MAX }
    }
}

/// What was seen, now and before.
#[derive(Debug, Default)]
pub struct History {
    options: Options,
    latest: Option<Arc<Moment>>,
    /// Those on the latest moment.
    verdicts: Vec<Verdict>,
    seconds: VecDeque<Second>,
    keys: Keys,
    /// Bytes of the seconds.
    weight: usize,
    counted: SinceStart,
    /// For whoever shows it.
    pub on_disk: OnDisk,
}

/// Seconds that were written to disk since its files were opened.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct OnDisk {
    pub seconds: u64,
    /// The disk was behind, or nothing could be written.
    pub lost: u64,
}

/// What was seen since the start, each second once: it never falls.
#[derive(Debug, Default)]
struct SinceStart {
    until: At,
    looks: u64,
    samples: BTreeMap<&'static str, u64>,
}

impl History {
    #[must_use]
    pub fn new(options: Options) -> History {
        History { options, ..History::default() }
    }

    /// What is kept already stays as it is.
    pub fn configure(&mut self, options: Options) {
        self.options = options;
        self.fit();
    }

    /// Keeps a moment, and forgets what is too old or too much. Of moments of one second the last is kept.
    pub fn push(&mut self, moment: Arc<Moment>) {
        // A clock that was set back: what is later than now cannot be told from what comes.
        while self.seconds.back().is_some_and(|last| last.at.second() >= moment.at.second()) {
            let last = self.seconds.pop_back().expect("it was just there");
            self.forget(&last);
        }
        self.verdicts = verdicts(&moment);
        let second = Second::of(&moment, &self.verdicts, &mut self.keys, &self.options);
        self.count(&second);
        self.weight += second.weight();
        self.seconds.push_back(second);
        self.latest = Some(moment);
        self.fit();
    }

    fn count(&mut self, second: &Second) {
        // Another moment of the same second, or a clock that was set back.
        if second.at.second() <= self.counted.until.second() {
            return;
        }
        (self.counted.until, self.counted.looks) = (second.at, self.counted.looks + 1);
        for sample in &second.samples {
            let class = wait_class(&self.keys.get(sample.key).class);
            *self.counted.samples.entry(class).or_default() += u64::from(sample.count);
        }
    }

    fn fit(&mut self) {
        while self.seconds.len() > self.options.seconds_max || self.bytes() > self.options.memory_max {
            let Some(oldest) = self.seconds.pop_front() else { return };
            self.forget(&oldest);
        }
    }

    fn forget(&mut self, second: &Second) {
        self.weight -= second.weight();
        second.keys().for_each(|key| self.keys.give_back(key));
    }

    /// What it takes, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.weight + self.keys.weight()
    }

    /// Seconds that were looked at since the start.
    #[must_use]
    pub fn looks(&self) -> u64 {
        self.counted.looks
    }

    /// Samples since the start by class of wait event: of those in [`crate::WAIT_CLASSES`].
    #[must_use]
    pub fn samples(&self) -> &BTreeMap<&'static str, u64> {
        &self.counted.samples
    }

    /// What was seen last, in full.
    #[must_use]
    pub fn latest(&self) -> Option<&Arc<Moment>> {
        self.latest.as_ref()
    }

    /// Why clients wait at the latest moment. Empty: nobody has looked.
    #[must_use]
    pub fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }

    /// The tags of the statement that each session runs or waits with. Of other sessions those of `observe_tags` with which they were seen last, if
    /// that was within the last minute.
    #[must_use]
    pub fn tags_of_sessions(&self) -> BTreeMap<Serial, &Tags> {
        let rows = self.latest.iter().flat_map(|moment| &moment.rows).filter(|row| !row.tags.is_empty());
        let mut tags: BTreeMap<Serial, &Tags> =
            rows.filter_map(|row| Some((row.session.as_ref()?.id.serial, &row.tags))).collect();
        for second in self.seconds.iter().rev().take(SEEN_WITH_TAGS) {
            for busy in &second.busy {
                let known = &self.keys.get(busy.key).who.tags;
                if !known.is_empty() {
                    tags.entry(busy.session).or_insert(known);
                }
            }
        }
        tags
    }

    /// From the oldest.
    pub fn seconds(&self) -> impl DoubleEndedIterator<Item = &Second> + ExactSizeIterator {
        self.seconds.iter()
    }

    /// The last one up to that moment.
    #[must_use]
    pub fn second(&self, at: At) -> Option<&Second> {
        let end = self.seconds.partition_point(|second| second.at.second() <= at.second());
        self.seconds.get(end.checked_sub(1)?)
    }

    /// What [`Glance::of`] would see of it on disk.
    #[must_use]
    pub fn glance(&self, second: &Second) -> Glance {
        let mut classes: BTreeMap<String, u32> = BTreeMap::new();
        for sample in &second.samples {
            let known = classes.entry(self.key(sample.key).class.to_string()).or_default();
            *known = known.saturating_add(sample.count);
        }
        Glance { at: second.at, hosts_missing: second.hosts_missing, classes, pools: second.pools.to_vec() }
    }

    /// # Panics
    /// If the id is not of a second that is kept.
    #[must_use]
    pub fn key(&self, id: KeyId) -> &Key {
        self.keys.get(id)
    }
}

#[cfg(test)]
mod tests;
