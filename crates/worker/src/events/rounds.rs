//! The end of a round: pools that changed are published on the board, and idle servers are lent or borrowed.

use machine::Step;

use crate::limits::classes;
use crate::servers::loans;
use crate::sessions::{cancel_requests, console, ends};
use crate::tables::Tables;

/// Publishes changed pools on the board, then looks whether servers should be lent or borrowed.
pub(crate) fn round_ended(tables: &mut Tables, step: &mut Step<'_>) {
    ends::close_leaving(tables, step);
    cancel_requests::tell_of_ends(tables, step);
    console::go_on_at_console(tables, step);
    classes::read_classes(tables, step.board);
    let pools = tables.agenda.take_unpublished();
    for &pool in &pools {
        loans::publish(tables, step, pool);
    }
    tables.agenda.published(pools);
    if !step.actions.is_empty() {
        // Something was published just now: the engine reads the board again and repeats this event.
        return;
    }
    for index in 0..tables.pools.shared().len() {
        let pool = tables.pools.shared()[index];
        loans::look_around(tables, step, pool);
    }
}
