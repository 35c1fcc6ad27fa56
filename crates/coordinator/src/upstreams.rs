//! The coordinator's part as the owner of the hosts: it takes what workers and the prober observe, decides which host is written to, and sends what has
//! changed to all workers.

use std::sync::Arc;

use connections::databases::Address;
use machine::Settings;
use machine::action::Actions;
use machine::hint::Hint;
use machine::mail::ToWorker;
use machine::observe::{About, Fact, Level, Topic};
use machine::primaries::{Decision, Origin, Why, Writes};
use machine::sabotage::{Fault, does};
use machine::upstreams::{HostRole, HostState, Noted, Observed, Upstream, Upstreams};
use units::{Time, WorkerId};

/// A host was observed. All `workers` are sent the state that holds now: also if there is a later observation than this one, which the
/// sender lacks. Before it they are sent what it has decided, so that nobody opens a server at a host that is to be left.
pub(crate) fn note(
    upstreams: &mut Upstreams,
    settings: &Settings,
    now: Time,
    observed: &Observed,
    workers: u16,
    actions: &mut Actions,
) {
    let noted = upstreams.note(observed);
    decide(upstreams, settings, now, &observed.host, workers, actions);
    if noted != Noted::Unchanged && !does(settings, Fault::WithholdFailedHosts) {
        let known = upstreams.of(&observed.host);
        for worker in 0..workers {
            actions.post_to_worker(WorkerId(worker), ToWorker::Upstream(known.clone()));
        }
    }
}

fn decide(
    upstreams: &mut Upstreams,
    settings: &Settings,
    now: Time,
    host: &Address,
    workers: u16,
    actions: &mut Actions,
) {
    for decision in upstreams.decide(now, host, settings.global.servers.split_brain) {
        let level = if decision.primary.writes == Writes::Disputed { Level::Warning } else { Level::Log };
        actions.tell(Fact::new(level, Topic::General, About::Pooler, decision.to_string()));
        for worker in 0..workers {
            actions.post_to_worker(WorkerId(worker), ToWorker::Primary(Box::new(decision.clone())));
        }
    }
}

/// Somebody outside says that a host is the primary now, or is not any more.
pub(crate) fn hinted(
    upstreams: &mut Upstreams,
    settings: &Settings,
    now: Time,
    hint: &Hint,
    workers: u16,
    actions: &mut Actions,
) {
    upstreams.note_hint(now, &hint.host, hint.is_primary);
    decide(upstreams, settings, now, &hint.host, workers, actions);
}

/// The same, by the prober, which may know more of the host.
pub(crate) fn probed(
    upstreams: &mut Upstreams,
    settings: &Settings,
    now: Time,
    (mut observed, origin): (Observed, Option<Origin>),
    workers: u16,
    actions: &mut Actions,
) {
    // It answers, and does not let the prober in: its role stays what it was.
    if observed.upstream.state == (HostState::Alive { role: None }) {
        observed.upstream.state = HostState::Alive { role: upstreams.get(&observed.host).role() };
    }
    let origin = origin.map(|origin| match does(settings, Fault::ForgetTimelines) {
        true => Origin { timeline: None, ..origin },
        false => origin,
    });
    if let Some(origin) = origin
        && let Some(system) = upstreams.note_origin(&observed.host, origin)
    {
        let text = format!(
            "host {} is not written to: it belongs to another database system than the primary, {system}",
            observed.host
        );
        actions.tell(Fact::new(Level::Warning, Topic::General, About::Pooler, text));
    }
    note(upstreams, settings, now, &observed, workers, actions);
    if does(settings, Fault::TakeSilenceForPromotion) && observed.upstream.is_silent() {
        let state = HostState::Alive { role: Some(HostRole::Primary) };
        let others: Vec<Arc<Address>> = upstreams.iter().map(|(host, _)| Arc::new(host.clone())).collect();
        for host in others.into_iter().filter(|host| *host != observed.host) {
            note(upstreams, settings, now, &Observed { host, upstream: Upstream::new(now, state) }, workers, actions);
        }
    }
}

/// A worker in the place of one that has panicked is sent the state of each host that was tried, and what was decided.
pub(crate) fn tell(upstreams: &Upstreams, worker: WorkerId, actions: &mut Actions) {
    for (host, upstream) in upstreams.iter().filter(|(_, upstream)| *upstream != Upstream::UNTRIED) {
        let observed = Observed { host: Arc::new(host.clone()), upstream };
        actions.post_to_worker(worker, ToWorker::Upstream(observed));
    }
    for (hosts, primary) in upstreams.primaries().iter() {
        let decision = Decision { hosts: Arc::clone(hosts), primary: primary.clone(), why: Why::Settled };
        actions.post_to_worker(worker, ToWorker::Primary(Box::new(decision)));
    }
}
