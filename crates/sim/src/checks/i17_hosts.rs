//! I17: all workers have the same state of each host, some time after it has changed.

use machine::HostState;
use pooling::Worker;
use units::{Life, Time};

use super::WorldView;
use crate::census::CheckCounts;
use crate::course::Finding;

/// How long after an observation all copies have it, late letters and long rounds included.
const KNOWN_US: u64 = 500_000;

/// Compares a worker's copy with the first worker's.
pub(crate) fn check(view: &WorldView<'_>, number: u16, counts: &mut CheckCounts) -> Result<(), Finding> {
    let (Some(worker), Some(first)) = (original(view, number), original(view, 0)) else { return Ok(()) };
    let (worker, first) = (worker.view(), first.view());
    for ((host, copy), (same_host, other)) in worker.upstreams().iter().zip(first.upstreams().iter()) {
        // A reload that changes hosts has not reached both.
        if host != same_host {
            return Ok(());
        }
        let is_old = |at: Time| at.0 + KNOWN_US < view.now;
        if is_old(copy.at) && is_old(other.at) {
            counts.hosts_compared += u64::from(matches!(other.state, HostState::Failed { .. }));
            if copy.state != other.state {
                return Err((17, format!("{host:?} is {copy:?} at worker {number}, and {other:?} at the first")));
            }
        }
    }
    Ok(())
}

/// One in the place of a worker that has panicked may not have been sent everything yet.
fn original<'w>(view: &WorldView<'w>, number: u16) -> Option<&'w Worker> {
    view.machines.worker_node(number).filter(|node| node.life == Life::default())?.worker()
}
