//! The coordinator's part as the owner of the hosts: it takes what workers observe, and sends what has changed to all of them.

use std::sync::Arc;

use machine::Settings;
use machine::action::Actions;
use machine::mail::ToWorker;
use machine::sabotage::{Fault, does};
use machine::upstreams::{Noted, Observed, Upstream, Upstreams};
use units::WorkerId;

/// A worker has observed a host. All `workers` are sent the state that holds now: also if there is a later observation than this one, which the
/// sender lacks.
pub(crate) fn note(
    upstreams: &mut Upstreams,
    settings: &Settings,
    observed: &Observed,
    workers: u16,
    actions: &mut Actions,
) {
    if upstreams.note(observed) == Noted::Unchanged || does(settings, Fault::WithholdFailedHosts) {
        return;
    }
    let known = upstreams.of(&observed.host);
    for worker in 0..workers {
        actions.post_to_worker(WorkerId(worker), ToWorker::Upstream(known.clone()));
    }
}

/// A worker in the place of one that has panicked is sent the state of each host that was tried.
pub(crate) fn tell(upstreams: &Upstreams, worker: WorkerId, actions: &mut Actions) {
    for (host, upstream) in upstreams.iter().filter(|(_, upstream)| *upstream != Upstream::UNTRIED) {
        let observed = Observed { host: Arc::new(host.clone()), upstream };
        actions.post_to_worker(worker, ToWorker::Upstream(observed));
    }
}
