//! Counts the pinned sessions of a pool.

use session_state::tracker::Tracker;

use crate::pool::Pool;

/// A session gets a permit to be pinned.
pub fn take_pin_permit(tracker: &mut Tracker, pool: &mut Pool) {
    tracker.has_pin_permit = true;
    pool.pins.permit_taken();
}

/// Counts a pinned session, and its new reasons.
pub fn count_pinned(tracker: &mut Tracker, pool: &mut Pool) {
    let (come, began) = tracker.pinning.news();
    pool.counts.fidelity.count_pins(come);
    pool.counts.fidelity.pins += u64::from(began);
    if !tracker.has_pin_permit {
        take_pin_permit(tracker, pool);
        let over = pool.pinned_max().is_some_and(|max| pool.pins.count > max);
        pool.counts.fidelity.over += u64::from(over);
    }
}
