//! A worker has panicked and was replaced: the messages of the new worker, and the handling at the other workers.
//!
//! The new worker notifies the coordinator and the other workers before anything else. Messages of the coordinator that
//! come before its answer are for the old worker. Servers on their way to the old worker reach the new one.
//!
//! No capacity is lost (I12), and no machine waits for an answer of the old worker.

use std::sync::Arc;

use machine::mail::{Lost, ToCoordinator, ToWorker};
use session_state::catalogue::{Definition, What};
use units::{Life, WorkerId};

use crate::sessions::definitions::other_workers;
use crate::tables::owners::{Pools, Servers, Sessions};
use crate::tables::step::Step;

/// This worker replaces one that has panicked.
pub(crate) fn begin(sessions: &mut Sessions, servers: &mut Servers, step: &mut Step<'_>, lost: Option<Lost>) {
    let (worker, life) = (step.plan.id, step.plan.life);
    // No id that is given out from now on was given out in an earlier life.
    sessions.begin_life(life);
    servers.begin_life(life);
    servers.cancels.begin_life(life);
    step.actions.post_to_coordinator(ToCoordinator::Renewed { worker, life });
    other_workers(step.plan).post(step.actions, || ToWorker::Renewed { worker, life });
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
pub(crate) fn renewed(sessions: &Sessions, pools: &mut Pools, step: &mut Step<'_>, worker: WorkerId, life: Life) {
    let to = step.plan.id;
    step.actions.post_to_coordinator(ToCoordinator::LoansArrived { from: worker, life, to });
    for pool in pools.iter_mut() {
        pool.exchange_mut().worker_renewed(worker);
    }
    for server in pools.definitions.of_worker(worker) {
        pools.settle_definitions(step.now, server, true);
    }
    // It must know the definitions of transactions that are open here, as the old worker did.
    for (server, database) in pools.definitions.all_of_worker(to) {
        let definition = Arc::new(Definition { database, server, what: What::Anything });
        step.actions.post_to_worker(worker, ToWorker::Defines { definition, session: None });
    }
    for conn in sessions.ids() {
        let announcement = sessions[conn].tracker().and_then(|tracker| tracker.announcement.as_deref());
        if let Some(announcement) = announcement.filter(|announcement| announcement.missing.contains(&worker)) {
            let definition = Arc::clone(&announcement.definition);
            step.actions.post_to_worker(worker, ToWorker::Defines { definition, session: Some(conn) });
        }
    }
}
