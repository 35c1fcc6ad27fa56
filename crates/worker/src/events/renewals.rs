//! A worker that has panicked, and another in its place: what the new one tells, and what the others do about it.
//!
//! The coordinator and the other workers are told of it before anything else. All that the new one was sent by the coordinator
//! until that has answered was meant for the one before. Servers that are on their way to it find the new one.
//!
//! Promises: no capacity is lost (I12), and nobody waits for what the one before would have answered.

use std::sync::Arc;

use machine::Step;
use machine::mail::{Lost, ToCoordinator, ToWorker};
use session_state::catalogue::{Definition, What};
use units::{Life, WorkerId};

use crate::sessions::definitions::other_workers;
use crate::tables::Tables;
use crate::tables::open_definitions::OpenDefinitions;

/// This worker is in the place of one that has panicked.
pub(crate) fn begin(tables: &mut Tables, step: &mut Step<'_>, life: Life, lost: Option<Lost>) {
    tables.begin_life(life);
    let worker = tables.id;
    step.actions.post_to_coordinator(ToCoordinator::Renewed { worker, life });
    other_workers(tables).post(step.actions, || ToWorker::Renewed { worker, life });
    match lost {
        Some(Lost::Loan { pool, from, life }) => {
            // Its connection went with the one that it had arrived at.
            step.actions.post_to_coordinator(ToCoordinator::Moved { pool, from, to: worker });
            step.actions.post_to_worker(from, ToWorker::Received { pool, life });
            step.actions.post_to_coordinator(ToCoordinator::Freed { pool, worker, fresh: false });
        }
        Some(Lost::Renewal { worker: other, life }) => {
            step.actions.post_to_coordinator(ToCoordinator::LoansArrived { from: other, life, to: worker });
        }
        Some(Lost::Home { .. }) | None => {}
    }
}

/// Another worker is in the place of one that has panicked.
pub(crate) fn renewed(
    tables: &mut Tables,
    definitions: &mut OpenDefinitions,
    step: &mut Step<'_>,
    worker: WorkerId,
    life: Life,
) {
    let to = tables.id;
    step.actions.post_to_coordinator(ToCoordinator::LoansArrived { from: worker, life, to });
    for pool in tables.pools.iter_mut() {
        pool.exchange.begged.remove(&worker);
        pool.exchange.fed.remove(&worker);
    }
    for server in definitions.of_worker(worker) {
        definitions.settle(tables.pools.iter_mut(), step.now, server, true);
    }
    // What is defined here by transactions that are open it has to know, as it would if it had been told.
    for (server, database) in definitions.all_of_worker(to) {
        let definition = Arc::new(Definition { database, server, what: What::Anything });
        step.actions.post_to_worker(worker, ToWorker::Defines { definition, session: None });
    }
    for conn in tables.sessions.ids() {
        let announcement = tables.sessions[conn].tracker.as_ref().and_then(|tracker| tracker.announcement.as_deref());
        if let Some(announcement) = announcement.filter(|announcement| announcement.missing.contains(&worker)) {
            let definition = Arc::clone(&announcement.definition);
            step.actions.post_to_worker(worker, ToWorker::Defines { definition, session: Some(conn) });
        }
    }
}
