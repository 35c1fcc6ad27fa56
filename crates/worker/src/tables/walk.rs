//! A walk over all that could have something to do at the end of a round: all of it once, and then a few in each round.
//!
//! While another process takes our place, any event may make it possible for a session to move, and thousands may be here that never can.
//! Looking at all of them in each round took six sevenths of the time; looking at a few costs next to nothing, and finds each
//! of them soon. Promises: after the last event everything is looked at once more, if need be in rounds of their own.

use std::time::Duration;

use units::Time;

/// So many are looked at in one round. A session between two transactions is found with half a look at a few hundred clients.
const STEP: usize = 64;

/// How soon the next round comes where no event brings it.
const PACE: Duration = Duration::from_millis(1);

/// Where the walk is.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    /// The next round looks at everything.
    is_whole: bool,
    next: usize,
    /// So many are to be looked at still.
    left: usize,
    next_at: Time,
}

impl Walk {
    /// From now on something is looked for: everything is looked at in this round.
    pub(crate) fn begin(&mut self) {
        self.is_whole = true;
        self.note_change();
    }

    /// Something has happened: it may be found by another look at everything.
    #[inline]
    pub(crate) fn note_change(&mut self) {
        self.left = usize::MAX;
    }

    /// The numbers below `count` that this round looks at.
    pub(crate) fn round(&mut self, now: Time, count: usize) -> impl Iterator<Item = usize> + use<> {
        let looks = if std::mem::take(&mut self.is_whole) { count } else { STEP.min(count) };
        self.left = self.left.min(count) - looks.min(self.left.min(count));
        self.next_at = now + PACE;
        let first = self.next.checked_rem(count).unwrap_or(0);
        self.next = first + looks;
        (first..first + looks).map(move |number| number % count)
    }

    /// When the next round is to come, if no event comes before.
    pub(crate) fn next_at(&self) -> Option<Time> {
        (self.left > 0).then_some(self.next_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_looked_at_once_at_first_and_once_after_each_change() {
        let now = Time(1_000_000);
        let mut walk = Walk::default();
        walk.begin();
        assert_eq!(walk.round(now, 1000).count(), 1000);
        assert_eq!(walk.next_at(), None);
        walk.note_change();
        let mut seen: Vec<usize> = Vec::new();
        while walk.next_at().is_some() {
            let round: Vec<usize> = walk.round(now, 1000).collect();
            assert!(round.len() <= STEP);
            seen.extend(round);
        }
        assert!(seen.len() < 1000 + STEP, "no more is looked at than has to be");
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, (0..1000).collect::<Vec<_>>());
    }

    #[test]
    fn what_grows_and_shrinks_is_looked_at_all_the_same() {
        let now = Time(1_000_000);
        let mut walk = Walk::default();
        for count in [0, 1, 5000, 3, 0, 70] {
            walk.note_change();
            let mut seen: Vec<usize> = Vec::new();
            for _ in 0..=count / STEP {
                seen.extend(walk.round(now, count));
            }
            seen.sort_unstable();
            seen.dedup();
            assert_eq!((seen.len(), walk.next_at()), (count, None));
        }
    }
}
