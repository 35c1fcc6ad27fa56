//! What a tracker has between two transactions, as another process gets it: an online upgrade moves a session only then, when all that is
//! under way is answered, so that what the session has set is all there is to tell.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use units::Time;

use super::inspection::Inspection;
use super::pinning::Pinning;
use super::portals::{Marked, Portals};
use super::restarting::Restarting;
use super::sql_statements::SqlStatements;
use super::unseen::Unseen;
use super::{Journal, Tracker};
use crate::parameters::Reported;
use crate::state::State;

/// A tracker on its way to another process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MovedTracker {
    unseen: Unseen,
    now: State,
    first: State,
    reverted: BTreeSet<Box<[u8]>>,
    statements: SqlStatements,
    unread: BTreeSet<Box<[u8]>>,
    has_restarted: bool,
    pinning: Pinning,
    unnamed: Option<Marked>,
    reported_at_login: Option<Reported>,
}

impl MovedTracker {
    /// `None`: something is under way, or it has a place at its pool's listener, which stays.
    pub fn of(tracker: &Tracker) -> Option<MovedTracker> {
        let is_at_rest = tracker.under_way.is_empty()
            && !tracker.inspection.is_under_way()
            && !tracker.long_text.is_passing()
            && !tracker.restarting.is_any()
            && !tracker.journal.is_open()
            && tracker.meaning.parameters().is_none()
            && tracker.portals.is_empty()
            && tracker.split.is_none()
            && tracker.announcement.is_none();
        if !is_at_rest || !tracker.notifications.is_silent() {
            return None;
        }
        let (now, first, reverted) = tracker.journal.settled();
        Some(MovedTracker {
            unseen: tracker.unseen,
            now: now.clone(),
            first: first.clone(),
            reverted: reverted.clone(),
            statements: tracker.statements.clone(),
            unread: tracker.inspection.still_unread().clone(),
            has_restarted: tracker.restarting.is_done(),
            pinning: tracker.pinning.clone(),
            unnamed: tracker.portals.unnamed_statement().map(|marked| Marked::clone(marked)),
            reported_at_login: tracker.reported_at_login.as_deref().cloned(),
        })
    }

    /// Come from another process `now`, as if the session had asked for its role now. Its pool counts it anew.
    pub fn into_tracker(self, now: Time) -> Tracker {
        Tracker {
            rights_asked_at: now,
            unseen: self.unseen,
            journal: Journal::of_settled(self.now, self.first, self.reverted),
            statements: self.statements,
            inspection: Inspection::with_unread(self.unread),
            restarting: Restarting::with_done(self.has_restarted),
            pinning: self.pinning,
            portals: Portals::with_unnamed(self.unnamed.map(Arc::new)),
            reported_at_login: self.reported_at_login.map(Arc::new),
            ..Tracker::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::base::LOGIN;
    use crate::state::{Effect, Effects, Pins, SettingChange};

    fn tracker() -> Tracker {
        let mut first = State::default();
        first.begin_with(b"search_path", b"app");
        let mut tracker = Tracker::starting(Time::ZERO, first);
        tracker.journal.change(&SettingChange::Set { name: (*b"work_mem").into(), again: None }, &LOGIN);
        tracker.journal.committed();
        tracker.pinning.pin(Pins::TEMPORARY, b"create temp table t ()");
        tracker
    }

    #[test]
    fn a_tracker_is_the_same_in_the_other_process() {
        let before = tracker();
        let after = MovedTracker::of(&before).expect("nothing is under way").into_tracker(Time::ZERO);
        assert_eq!(before.state(), after.state());
        assert_eq!((before.pinning.pins(), before.has_temporary()), (after.pinning.pins(), after.has_temporary()));
        assert!(!after.journal.is_open(), "it is between two transactions there too");
        // What it began with is brought back there as it would have been here.
        let reset = |mut tracker: Tracker| {
            tracker.journal.change(&SettingChange::ResetAll, &LOGIN);
            tracker.journal.committed();
            (State::clone(tracker.state()), tracker.is_reverted())
        };
        assert_eq!(reset(before), reset(after));
    }

    #[test]
    fn a_tracker_stays_while_something_is_under_way() {
        let mut sent = tracker();
        sent.sent(Effects::of_one(Effect::DiscardAll), b"discard all");
        assert!(MovedTracker::of(&sent).is_none());
        let mut listening = tracker();
        listening.notifications.subscriptions_mut();
        assert!(MovedTracker::of(&listening).is_none());
        let mut open = tracker();
        open.journal.change(&SettingChange::ResetAll, &LOGIN);
        assert!(MovedTracker::of(&open).is_none(), "its transaction is not over");
    }
}
