//! The end of a round: what changed is shown on the board, and who could help or be helped is looked for.

use machine::Step;

use crate::limits::classes;
use crate::servers::loans;
use crate::sessions::{console, ends};
use crate::tables::Tables;

/// The end of a round: show on the board what changed, then look who could help or be helped.
pub(crate) fn round_ended(tables: &mut Tables, step: &mut Step<'_>) {
    ends::bury_leaving(tables, step);
    console::go_on_at_console(tables, step);
    classes::read_classes(tables, step.board);
    let pools = tables.agenda.take_unpublished();
    for &pool in &pools {
        loans::publish(tables, step, pool);
    }
    tables.agenda.published(pools);
    if !step.actions.is_empty() {
        // Published just now: the board is read anew and this is told once more.
        return;
    }
    for index in 0..tables.pools.shared().len() {
        let pool = tables.pools.shared()[index];
        loans::look_around(tables, step, pool);
    }
}
