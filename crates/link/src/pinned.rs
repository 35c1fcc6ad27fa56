//! How many sessions of a pool keep their servers.

use session_state::tracker::Tracker;

use crate::pool::Pool;

/// A session gets a permit to keep its server.
pub fn take_pin_permit(tracker: &mut Tracker, pool: &mut Pool) {
    tracker.has_pin_permit = true;
    pool.pins.count += 1;
}

/// A session keeps its server, for reasons that may be new.
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
