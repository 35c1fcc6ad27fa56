//! I15: a size of `auto` stays within its bounds. Once settled, it leaves its base by at most one rung, for at most
//! five windows, with pauses between. No search begins before the rest after the last one is over. Checked in every
//! world that has such a pool. The length of a search is checked where the pool has work all the time: in worlds made
//! for it.
//!
//! In worlds made for it (`--sizes`) a size counts as found if, ten seconds after the beginning and after a step, it
//! has settled where throughput is at least 95 % of the best. That is counted, not demanded of each world: a search has
//! eight seconds, and in half of these worlds the database's speed changes meanwhile.

use std::collections::BTreeMap;

use queueing::sizing::{PAUSE_MIN, REST_MIN, SEARCH_END, Sizing};
use units::PoolId;

use super::WorldView;
use crate::census::CheckCounts;
use crate::course::Finding;

/// A neighbour is tried for five windows; its servers may take three seconds to come or to go, and two looks are left out. A window
/// takes four seconds at most, and one look more in a world made for it, where enough transactions end in each.
const TRIED_US: u64 = 3_000_000 + 7 * 4_200_000;
const TRIED_IN_CURVE_US: u64 = 3_000_000 + 7 * 600_000;

/// A search may begin again once. It ends with a window, which begins after servers were opened or closed; two checks
/// are left out.
const SEARCHED_US: u64 = 2 * SEARCH_END.as_micros() as u64 + 3_000_000 + 3 * 600_000;

/// The least throughput, relative to the best, of a size that counts as found.
const GOOD: f64 = 0.95;

/// The checked state of a pool.
#[derive(Copy, Clone, Debug, Default)]
struct Watched {
    /// The size at which it has settled.
    base: Option<u32>,
    /// Since when its size is another one, and when it returned last.
    away: Option<u64>,
    back: Option<u64>,
    /// Since when it is searched, or when a search ended last.
    searched_from: Option<u64>,
    found_at: Option<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct Sizes {
    pools: BTreeMap<PoolId, Watched>,
    /// Times at which the size was judged.
    judged: usize,
}

impl Sizes {
    /// After a round of the coordinator, which alone changes sizes.
    pub(super) fn check(&mut self, view: &WorldView<'_>, counts: &mut CheckCounts) -> Result<(), Finding> {
        let (now, curve) = (view.now, view.plan.purpose.curve);
        let coordinator = view.machines.coordinator();
        let mut wrong = None;
        for (pool, _) in coordinator.pools() {
            let Some(sizing) = coordinator.sizing(pool) else {
                self.pools.remove(&pool);
                continue;
            };
            let watched = self.pools.entry(pool).or_default();
            let found = watched.searches(now, sizing, curve.is_some()).and_then(|()| {
                let tried_us = if curve.is_some() { TRIED_IN_CURVE_US } else { TRIED_US };
                watched.note(now, sizing, tried_us)
            });
            wrong = wrong.or(found.err().map(|what| format!("{what}; {:?}", sizing.account())));
        }
        if let Some(what) = wrong {
            return Err((15, what));
        }
        self.judge(view, counts);
        Ok(())
    }

    /// Compares the size with the best one at the time when it should have been found.
    fn judge(&mut self, view: &WorldView<'_>, counts: &mut CheckCounts) {
        let Some(curve) = view.plan.purpose.curve else { return };
        let Some(due) = curve.dues().nth(self.judged) else { return };
        if view.now < due {
            return;
        }
        self.judged += 1;
        let coordinator = view.machines.coordinator();
        let pool = coordinator.pools().map(|(pool, _)| pool).find(|pool| *pool != PoolId(0));
        let size = pool.and_then(|pool| match coordinator.sizing(pool) {
            Some(sizing) => sizing.settled(),
            None => Some(coordinator.size(pool)),
        });
        let is_good = size.is_some_and(|size| curve.worth(size, due) >= GOOD);
        counts.sized += 1;
        counts.sized_well += u64::from(is_good);
    }
}

impl Watched {
    /// Checks searches and the rest between them. `has_work`: the pool has work all the time.
    fn searches(&mut self, now: u64, sizing: &Sizing, has_work: bool) -> Result<(), String> {
        if !sizing.is_searching() {
            let ended = self.searched_from.take().map(|_| now);
            self.found_at = ended.or(self.found_at);
            return Ok(());
        }
        let rest_us = REST_MIN.as_micros() as u64;
        if let (None, Some(at)) = (self.searched_from, self.found_at.filter(|at| now < at + rest_us)) {
            return Err(format!("a search begins {} us after the last", now - at));
        }
        let since = *self.searched_from.get_or_insert(now);
        if has_work && now > since + SEARCHED_US {
            return Err(format!("it is searched since {since}"));
        }
        Ok(())
    }

    fn note(&mut self, now: u64, sizing: &Sizing, tried_us: u64) -> Result<(), String> {
        let size = sizing.size();
        if !(sizing.floor()..=sizing.ceiling()).contains(&size) {
            return Err(format!("{size} servers are out of bounds"));
        }
        let Some(base) = sizing.settled() else {
            let found_at = self.found_at.filter(|_| sizing.is_searching());
            *self = Watched { searched_from: self.searched_from, found_at, ..Watched::default() };
            return Ok(());
        };
        if self.base != Some(base) {
            // The base moves to the current size: a try of a neighbour, if there was one, has ended.
            let back = self.away.map(|_| now).or(self.back);
            *self = Watched { base: Some(base), away: None, back, ..*self };
        }
        if size == base {
            self.back = self.away.take().map(|_| now).or(self.back);
            return Ok(());
        }
        if !sizing.neighbours(base).any(|near| near == size) {
            return Err(format!("{size} servers are more than a rung from {base}"));
        }
        let paused = self.back.is_none_or(|back| now >= back + PAUSE_MIN.as_micros() as u64);
        if self.away.is_none() && !paused {
            return Err(format!("{size} servers are tried within {PAUSE_MIN:?} of the last try"));
        }
        let since = *self.away.get_or_insert(now);
        if now > since + tried_us {
            return Err(format!("{size} servers instead of {base} are tried since {since}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use queueing::sizing::Seen;
    use units::Time;

    use super::*;

    #[test]
    fn a_search_that_does_not_end_and_one_too_soon_are_found() {
        let mut sizing = Sizing::new(1, 64, 8);
        let (span, busy) = (Duration::from_millis(200), Duration::from_millis(1_600));
        sizing.observe(Time(200_000), Seen { span, completed: 100, busy, waited: busy, waiting: 100, open: 8 });
        assert!(sizing.is_searching());
        let mut watched = Watched::default();
        assert_eq!(watched.searches(200_000, &sizing, true), Ok(()));
        assert_eq!(watched.searches(200_000 + SEARCHED_US, &sizing, true), Ok(()));
        assert!(watched.searches(200_001 + SEARCHED_US, &sizing, true).is_err());
        assert_eq!(watched.searches(200_001 + SEARCHED_US, &sizing, false), Ok(()));
        let rested = |now| Watched { found_at: Some(0), ..Watched::default() }.searches(now, &sizing, true);
        assert!(rested(9_999_999).is_err() && rested(10_000_000).is_ok());
    }
}
