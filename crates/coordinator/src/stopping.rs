//! The end of the process: the stop that waits for clients comes from the door, and goes on to the workers.

use machine::action::{Action, Actions};
use machine::mail::{Stop, ToWorker};
use units::WorkerId;

use super::Coordinator;

impl Coordinator {
    pub(super) fn stop(&mut self, stop: Stop, actions: &mut Actions) {
        self.stop = self.stop.max(Some(stop));
        // Of any other stop everybody hears at once.
        if stop == Stop::WaitForClients {
            let workers = (0..self.homes.workers()).map(WorkerId);
            workers.for_each(|worker| actions.post_to_worker(worker, ToWorker::Stop(stop)));
        }
        actions.push(Action::Finished);
    }
}
