//! Who wants to see how it is now: what was asked for, and what was seen last.
//!
//! Promises: each wish is answered by a look that began after it, or shortly before; wishes that come together share one look.

use std::time::{Duration, Instant};

use control::Sight;

/// A look is as good as a new one for so long.
const FRESH: Duration = Duration::from_millis(200);

#[derive(Debug, Default)]
pub(super) struct Looks {
    wanted: Option<Sight>,
    /// When it began.
    last: Option<(Instant, Sight)>,
}

/// What is to be done for those who want to see.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// To look.
    Look(Sight),
    /// To tell them: it was just looked.
    Tell(Sight),
}

impl Looks {
    pub(super) fn wish(&mut self, sight: Sight) {
        self.wanted = self.wanted.max(Some(sight));
    }

    /// Of wishes until now. A look that is due counts as begun.
    pub(super) fn due(&mut self, now: Instant) -> Option<Due> {
        let sight = self.wanted.take()?;
        let is_fresh = |(began, seen): (Instant, Sight)| seen >= sight && now.saturating_duration_since(began) < FRESH;
        if self.last.is_some_and(is_fresh) {
            return Some(Due::Tell(sight));
        }
        self.last = Some((now, sight));
        Some(Due::Look(sight))
    }

    /// A look has ended: what it has seen answers those who came meanwhile, too.
    pub(super) fn seen(&mut self, sight: Sight) {
        self.wanted = self.wanted.filter(|wanted| *wanted > sight);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_wish_during_another_observation_is_not_lost() {
        let (mut looks, now) = (Looks::default(), Instant::now());
        assert_eq!(looks.due(now), None);
        // An observation is under way that is nobody's look, and so nothing was seen for anybody.
        looks.wish(Sight::Backends);
        assert_eq!(looks.due(now), Some(Due::Look(Sight::Backends)));
        // One for locks comes while only backends are looked at.
        looks.wish(Sight::Locks);
        looks.seen(Sight::Backends);
        assert_eq!(looks.due(now + MS), Some(Due::Look(Sight::Locks)));
        looks.seen(Sight::Locks);
        assert_eq!(looks.due(now + MS), None);
    }

    #[test]
    fn wishes_that_come_together_share_one_look() {
        let (mut looks, now) = (Looks::default(), Instant::now());
        looks.wish(Sight::Locks);
        looks.wish(Sight::Backends);
        assert_eq!(looks.due(now), Some(Due::Look(Sight::Locks)));
        looks.wish(Sight::Locks);
        looks.seen(Sight::Locks);
        assert_eq!(looks.due(now), None, "told with the others");
        looks.wish(Sight::Backends);
        assert_eq!(looks.due(now + 199 * MS), Some(Due::Tell(Sight::Backends)));
        looks.wish(Sight::Backends);
        assert_eq!(looks.due(now + 200 * MS), Some(Due::Look(Sight::Backends)));
    }
}
