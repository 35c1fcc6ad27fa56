//! The coordinator's part as the owner of the hosts: it takes what workers observe, and sends what has changed to all of them.

use std::sync::Arc;

use machine::action::Actions;
use machine::mail::ToWorker;
use machine::sabotage::{Fault, does};
use machine::upstreams::{Noted, Observed, Upstream};
use units::WorkerId;

use crate::Coordinator;

impl Coordinator {
    /// A worker has observed a host. All are sent the state that holds now: also if there is a later observation than this one, which the
    /// sender lacks.
    pub(crate) fn observed(&mut self, observed: &Observed, actions: &mut Actions) {
        if self.upstreams.note(observed) == Noted::Unchanged || does(&self.settings, Fault::WithholdFailedHosts) {
            return;
        }
        let known = self.upstreams.of(&observed.host);
        for worker in 0..self.homes.workers() {
            actions.post_to_worker(WorkerId(worker), ToWorker::Upstream(known.clone()));
        }
    }

    /// A worker in the place of one that has panicked is sent the state of each host that was tried.
    pub(crate) fn tell_upstreams(&self, worker: WorkerId, actions: &mut Actions) {
        for (host, upstream) in self.upstreams.iter().filter(|(_, upstream)| *upstream != Upstream::UNTRIED) {
            let observed = Observed { host: Arc::new(host.clone()), upstream };
            actions.post_to_worker(worker, ToWorker::Upstream(observed));
        }
    }
}
