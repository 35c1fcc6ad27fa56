//! The end of a round: pools that changed are published on the board, and idle servers are lent or borrowed.

use crate::limits::classes;
use crate::servers::loans;
use crate::sessions::{cancel_requests, console, ends};
use crate::tables::owners::{Pools, Servers, Sessions};
use crate::tables::step::Step;

/// Publishes changed pools on the board, then looks whether servers should be lent or borrowed.
pub(crate) fn round_ended(sessions: &mut Sessions, servers: &mut Servers, pools: &mut Pools, step: &mut Step<'_>) {
    ends::close_leaving(sessions, step);
    cancel_requests::tell_of_ends(servers, step);
    console::go_on_at_console(sessions, servers, step);
    classes::read_classes(pools, step.plan, step.board);
    let changed = step.agenda.take_unpublished();
    for &pool in &changed {
        loans::publish(pools, step, pool);
    }
    step.agenda.published(changed);
    if !step.actions.is_empty() {
        // Something was published just now: the engine reads the board again and repeats this event.
        return;
    }
    for index in 0..pools.shared().len() {
        let pool = pools.shared()[index];
        loans::look_around(sessions, servers, pools, step, pool);
    }
}
