//! A worker has panicked and was replaced: the messages of the new worker, and the handling at the other workers.
//!
//! The new worker notifies the coordinator and the other workers before anything else. Messages of the coordinator that
//! come before its answer are for the old worker. Servers on their way to the old worker reach the new one.
//!
//! No capacity is lost (I12), and no machine waits for an answer of the old worker.

use std::sync::Arc;

use machine::Step;
use machine::mail::{Lost, ToCoordinator, ToWorker};
use session_state::catalogue::{Definition, What};
use units::{Life, WorkerId};

use crate::sessions::definitions::other_workers;
use crate::tables::Tables;
use crate::tables::open_definitions::OpenDefinitions;

/// This worker replaces one that has panicked.
pub(crate) fn begin(tables: &mut Tables, step: &mut Step<'_>, life: Life, lost: Option<Lost>) {
    tables.begin_life(life);
    let worker = tables.plan.id;
    step.actions.post_to_coordinator(ToCoordinator::Renewed { worker, life });
    other_workers(tables).post(step.actions, || ToWorker::Renewed { worker, life });
    match lost {
        Some(Lost::Loan { pool, from, life }) => {
            // Its connection was closed with the old worker.
            step.actions.post_to_coordinator(ToCoordinator::Moved { pool, from, to: worker });
            step.actions.post_to_worker(from, ToWorker::Received { pool, life });
            step.actions.post_to_coordinator(ToCoordinator::Freed { pool, holder: worker.into(), fresh: false });
        }
        Some(Lost::Renewal { worker: other, life }) => {
            step.actions.post_to_coordinator(ToCoordinator::LoansArrived { from: other, life, to: worker });
        }
        Some(Lost::Home { .. }) | None => {}
    }
}

/// Another worker was replaced after a panic.
pub(crate) fn renewed(
    tables: &mut Tables,
    definitions: &mut OpenDefinitions,
    step: &mut Step<'_>,
    worker: WorkerId,
    life: Life,
) {
    let to = tables.plan.id;
    step.actions.post_to_coordinator(ToCoordinator::LoansArrived { from: worker, life, to });
    for pool in tables.pools.iter_mut() {
        pool.exchange_mut().worker_renewed(worker);
    }
    for server in definitions.of_worker(worker) {
        definitions.settle(tables.pools.iter_mut(), step.now, server, true);
    }
    // It must know the definitions of transactions that are open here, as the old worker did.
    for (server, database) in definitions.all_of_worker(to) {
        let definition = Arc::new(Definition { database, server, what: What::Anything });
        step.actions.post_to_worker(worker, ToWorker::Defines { definition, session: None });
    }
    for conn in tables.sessions.ids() {
        let announcement = tables.sessions[conn].tracker().and_then(|tracker| tracker.announcement.as_deref());
        if let Some(announcement) = announcement.filter(|announcement| announcement.missing.contains(&worker)) {
            let definition = Arc::clone(&announcement.definition);
            step.actions.post_to_worker(worker, ToWorker::Defines { definition, session: Some(conn) });
        }
    }
}
