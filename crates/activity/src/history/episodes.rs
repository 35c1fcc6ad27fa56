//! Times of trouble: the seconds in which one pool waited for one root, put together.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use units::PoolKey;

use super::second::{Second, WhySecond};
use super::{At, History, Span};

/// After as many milliseconds without trouble it is another time.
const CALM_MS: u64 = 10_000;

/// Times that are told apart.
const EPISODES_MAX: usize = 1000;

/// A time in which clients of one pool waited for one root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Episode {
    pub from: At,
    pub to: At,
    /// Clients, times the seconds in which they waited.
    pub waited: u64,
    /// The second in which most clients waited.
    pub worst: WhySecond,
}

/// Episodes that are being made of seconds, from the oldest.
#[derive(Debug, Default)]
pub struct Episodes {
    found: BTreeMap<(PoolKey, Box<str>), Vec<Episode>>,
    count: usize,
}

impl Episodes {
    /// Adds the seconds of the span that a history has. They are later than those before.
    pub fn add(&mut self, history: &History, span: Span) {
        history.within(span).for_each(|second| self.add_second(second));
    }

    fn add_second(&mut self, second: &Second) {
        for why in &second.whys {
            let of_root = self.found.entry((why.pool.clone(), why.root.clone())).or_default();
            // A second in which clients waited for a lock only counts, too.
            let waited = u64::from(why.waiting.max(1));
            let goes_on = |last: &&mut Episode| second.at.0.saturating_sub(last.to.0) <= CALM_MS;
            if let Some(last) = of_root.last_mut().filter(goes_on) {
                (last.to, last.waited) = (second.at, last.waited + waited);
                if why.waiting >= last.worst.waiting {
                    last.worst = why.clone();
                }
            } else if self.count < EPISODES_MAX {
                self.count += 1;
                of_root.push(Episode { from: second.at, to: second.at, waited, worst: why.clone() });
            }
        }
    }

    /// Those for which clients have waited longest first.
    #[must_use]
    pub fn sorted(self) -> Vec<Episode> {
        let mut episodes: Vec<Episode> = self.found.into_values().flatten().collect();
        episodes.sort_by_key(|episode| (Reverse(episode.waited), episode.from));
        episodes
    }
}
