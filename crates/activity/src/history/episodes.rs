//! Times of trouble: the seconds in which one pool waited for one root, put together.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use units::PoolKey;

use super::second::WhySecond;
use super::{At, History, Span};

/// An episode ends after this many milliseconds without trouble.
const CALM_MS: u64 = 10_000;

/// The number of episodes that are kept, so that names of a client's choice take bounded memory.
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
    /// Adds the seconds of the span that a history has. Spans come in the order of time.
    pub fn add(&mut self, history: &History, span: Span) {
        history.within(span).for_each(|second| self.add_second(second.at, &second.whys));
    }

    fn add_second(&mut self, at: At, whys: &[WhySecond]) {
        for why in whys {
            let key = (why.pool.clone(), why.root.clone());
            // A second in which clients waited for a lock only counts, too.
            let waited = u64::from(why.waiting.max(1));
            let goes_on = |last: &&mut Episode| at.0.saturating_sub(last.to.0) <= CALM_MS;
            if let Some(last) = self.found.get_mut(&key).and_then(|of_root| of_root.last_mut()).filter(goes_on) {
                (last.to, last.waited) = (at, last.waited + waited);
                if why.waiting >= last.worst.waiting {
                    last.worst = why.clone();
                }
            } else if self.count < EPISODES_MAX {
                self.count += 1;
                let episode = Episode { from: at, to: at, waited, worst: why.clone() };
                self.found.entry(key).or_default().push(episode);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn added(seconds: impl Iterator<Item = (u64, u32, String)>) -> Episodes {
        let mut episodes = Episodes::default();
        for (second, waiting, root) in seconds {
            let pool = PoolKey { database: "shop".into(), user: "web".into() };
            let why = WhySecond { pool, waiting, queue: "".into(), root: root.into(), sentence: "".into() };
            episodes.add_second(At(second * 1000), &[why]);
        }
        episodes
    }

    #[test]
    fn ten_seconds_of_calm_end_an_episode() {
        let seconds = [(0, 2), (1, 5), (11, 3), (22, 9)].map(|(at, waiting)| (at, waiting, "billing".to_owned()));
        let found = added(seconds.into_iter()).sorted();
        let shown: Vec<_> =
            found.iter().map(|one| (one.from.second(), one.to.second(), one.waited, one.worst.waiting)).collect();
        assert_eq!(shown, [(0, 11, 10, 5), (22, 22, 9, 9)]);
    }

    #[test]
    fn more_roots_than_are_kept_take_no_memory() {
        let many = (0..5000).map(|number| (number * 20, 1, format!("client {number}")));
        let episodes = added(many);
        assert_eq!((episodes.found.len(), episodes.sorted().len()), (EPISODES_MAX, EPISODES_MAX));
    }
}
