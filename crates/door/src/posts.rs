//! What a door tells other machines besides its logins.

use std::sync::Arc;

use machine::action::Actions;
use machine::mail::{ToCoordinator, ToWorker};
use machine::pids;
use machine::upgrade::{ToOther, ToPredecessor};
use units::{Life, PoolId, WorkerId};

/// Passes a cancel request on to the workers that may know its key. `succeeds`: keys of another process may live on any of them, or there.
pub(super) fn forward_cancel(workers: u16, succeeds: bool, pid: i32, secret: &[u8], actions: &mut Actions) {
    if succeeds {
        let told = ToPredecessor::Cancel { pid, secret: secret.into() };
        actions.tell_other(ToOther::Predecessor(told));
    }
    let asked = match pids::from_virtual_pid(pid) {
        _ if succeeds => 0..workers,
        Some((worker, _)) => worker..(worker + 1).min(workers),
        // The process id may be a server's own, sent to a client on any worker.
        None if pids::may_be_real_pid(pid) => 0..workers,
        None => 0..0,
    };
    for worker in asked {
        actions.post_to_worker(WorkerId(worker), ToWorker::Cancel { pid, secret: secret.into() });
    }
}

/// Gives back a place at a worker.
pub(super) fn depart(pool: PoolId, worker: WorkerId, life: Life, user: Arc<str>, actions: &mut Actions) {
    actions.post_to_coordinator(ToCoordinator::Departed { pool, worker, life, user });
}
