//! I17: all workers have the coordinator's state of each host, some time after it has changed.

use machine::{HostState, Place};
use pooling::{Coordinator, Worker};
use units::Time;

use super::WorldView;
use crate::census::CheckCounts;
use crate::course::Finding;
use crate::machines::Machinery;

/// How long after an observation all copies have it, late letters and long rounds included.
const KNOWN_US: u64 = 500_000;

pub(crate) fn check(
    view: &WorldView<'_>,
    worker: u16,
    found: &Worker,
    counts: &mut CheckCounts,
) -> Result<(), Finding> {
    // Nothing is left of the observations of a worker that has panicked.
    let Some(coordinator) = coordinator(view).filter(|_| view.plan.faults.panics == 0) else { return Ok(()) };
    let view_of_worker = found.view();
    let copies = view_of_worker.upstreams().iter().zip(coordinator.upstreams().iter());
    for ((host, copy), (owned_host, owned)) in copies {
        // A reload that changes hosts has not reached both.
        if host != owned_host {
            return Ok(());
        }
        let is_old = |at: Time| at.0 + KNOWN_US < view.now;
        if is_old(copy.at) && is_old(owned.at) {
            counts.hosts_compared += u64::from(matches!(owned.state, HostState::Failed { .. }));
            if copy.state != owned.state {
                return Err((17, format!("{host:?} is {copy:?} at worker {worker}, and {owned:?} at the coordinator")));
            }
        }
    }
    Ok(())
}

fn coordinator<'w>(view: &WorldView<'w>) -> Option<&'w Coordinator> {
    match &view.machines.node(view.machines.find(Place::Coordinator)?).machinery {
        Machinery::Coordinator(coordinator) => Some(coordinator),
        Machinery::Door(_) | Machinery::Worker(_) => None,
    }
}
