//! I17: all workers have the same state of each host, some time after it has changed.

use machine::HostState;
use pooling::Worker;
use units::{Life, Time};

use super::WorldView;
use crate::census::CheckCounts;
use crate::course::Finding;

/// How long after an observation all copies have it, late letters and long rounds included.
const KNOWN_US: u64 = 500_000;

/// How late an answer of the prober may be that is no news when it comes.
const LATE_US: u64 = 100_000;

/// An answer of the prober came long after its question, and is as old as that.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Late {
    until: u64,
}

impl Late {
    /// The coordinator gets an observation at that time.
    pub(crate) fn told(&mut self, at: u64, observed_at: u64) {
        if observed_at + LATE_US < at {
            self.until = self.until.max(at + KNOWN_US);
        }
    }

    pub(crate) fn check(&self, view: &WorldView<'_>, number: u16, counts: &mut CheckCounts) -> Result<(), Finding> {
        if view.now < self.until { Ok(()) } else { check(view, number, counts) }
    }
}

/// Compares a worker's copy with the first worker's.
fn check(view: &WorldView<'_>, number: u16, counts: &mut CheckCounts) -> Result<(), Finding> {
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
