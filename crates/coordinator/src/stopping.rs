//! The end of the process: the stop that waits for clients comes from the door, and goes on to the workers.

use machine::action::{Action, Actions};
use machine::mail::{Stop, ToWorker};
use units::WorkerId;

/// The coordinator has nothing to wait for. `workers`: how many there are.
pub(super) fn finish(stop: Stop, workers: u16, actions: &mut Actions) {
    // The engine sends each other stop to all machines itself.
    if stop == Stop::WaitForClients {
        (0..workers).for_each(|worker| actions.post_to_worker(WorkerId(worker), ToWorker::Stop(stop)));
    }
    actions.push(Action::Finished);
}
