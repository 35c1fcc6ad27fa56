//! The coordinator's part as the owner of the hosts: it takes what workers and the prober observe, decides which host is written to, and sends what has
//! changed to all workers and to the door.

use std::sync::Arc;

use connections::databases::Address;
use machine::Settings;
use machine::action::{Action, Actions};
use machine::hint::Hint;
use machine::mail::{Place, ToDoor, ToWorker};
use machine::observe::{About, Fact, Level, Topic};
use machine::primaries::{Decision, Origin, Primary, Why, Writes};
use machine::sabotage::{Fault, does};
use machine::upstreams::{HostRole, HostState, Noted, Observed, Upstream, Upstreams};
use units::{DoorId, Time, WorkerId};

use crate::server_logins::ServerLogins;

/// The machines with a copy of the hosts.
pub(crate) fn readers(workers: u16) -> impl Iterator<Item = Place> {
    (0..workers).map(|worker| Place::Worker(WorkerId(worker))).chain([Place::Door(DoorId(0))])
}

fn post_upstream(place: Place, observed: Observed, actions: &mut Actions) {
    match place {
        Place::Worker(worker) => actions.post_to_worker(worker, ToWorker::Upstream(observed)),
        Place::Door(door) => actions.post_to_door(door, ToDoor::Upstream(observed)),
        Place::Coordinator => {}
    }
}

fn post_decision(place: Place, decision: Decision, actions: &mut Actions) {
    let decision = Box::new(decision);
    match place {
        Place::Worker(worker) => actions.post_to_worker(worker, ToWorker::Primary(decision)),
        Place::Door(door) => actions.post_to_door(door, ToDoor::Primary(decision)),
        Place::Coordinator => {}
    }
}

/// The hosts, in a step.
pub(crate) struct Hosts<'a> {
    pub(crate) upstreams: &'a mut Upstreams,
    pub(crate) logins: &'a mut ServerLogins,
    pub(crate) settings: &'a Settings,
    pub(crate) workers: u16,
    pub(crate) now: Time,
    pub(crate) actions: &'a mut Actions,
}

impl Hosts<'_> {
    /// A host was observed. All readers are sent the state that holds now: also if there is a later observation than this one, which the
    /// sender lacks. Before it they are sent what it has decided, so that nobody opens a server at a host that is to be left.
    pub(crate) fn note(&mut self, observed: &Observed) {
        let before = self.upstreams.get(&observed.host).state;
        let noted = self.upstreams.note(observed);
        self.decide(&observed.host);
        let known = self.upstreams.of(&observed.host);
        let was_lost = matches!(before, HostState::Failed { .. } | HostState::Silent);
        if was_lost && matches!(known.upstream.state, HostState::Alive { .. }) {
            self.logins.begin_ramp(self.now, &observed.host);
        }
        if noted != Noted::Unchanged && !does(self.settings, Fault::WithholdFailedHosts) {
            readers(self.workers).for_each(|place| post_upstream(place, known.clone(), self.actions));
        }
    }

    fn decide(&mut self, host: &Address) {
        for decision in self.upstreams.decide(self.now, host, self.settings.global.servers.split_brain) {
            self.post(&decision);
            if let (Some(host), Why::Successor { .. }) = (decision.primary.host(), &decision.why) {
                self.logins.begin_ramp(self.now, host);
            }
        }
        for host in self.upstreams.contested() {
            self.actions.push(Action::Probe { host: Arc::clone(host), is_urgent: true });
        }
    }

    /// Logs a decision, and sends it to all readers.
    fn post(&mut self, decision: &Decision) {
        let is_foreign = matches!(&decision.why, Why::Foreign { hosts } if !hosts.is_empty());
        let is_bad = is_foreign || decision.primary.writes == Writes::Disputed;
        let level = if is_bad { Level::Warning } else { Level::Log };
        self.actions.tell(Fact::new(level, Topic::General, About::Pooler, decision.to_string()));
        readers(self.workers).for_each(|place| post_decision(place, decision.clone(), self.actions));
    }

    /// A hint has come: a host is the primary now, or is not any more.
    pub(crate) fn hinted(&mut self, hint: &Hint) {
        self.upstreams.note_hint(self.now, hint);
        self.decide(&hint.host);
    }

    /// This process takes the place of another one, and takes over its decisions. Each is made again by the observations here.
    pub(crate) fn inherit(&mut self, decided: Vec<(Vec<Address>, Primary)>) {
        for (hosts, primary) in decided {
            for decision in self.upstreams.inherit(&hosts, &primary) {
                self.post(&decision);
                decision.hosts.iter().for_each(|host| self.decide(host));
            }
        }
    }

    /// A host was observed by the prober, which may know more of it.
    pub(crate) fn probed(&mut self, (mut observed, origin): (Observed, Option<Origin>)) {
        // It answers, and does not let the prober in: its role stays what it was.
        if observed.upstream.state == (HostState::Alive { role: None }) {
            observed.upstream.state = HostState::Alive { role: self.upstreams.get(&observed.host).role() };
        }
        let origin = origin.map(|origin| match does(self.settings, Fault::ForgetTimelines) {
            true => Origin { timeline: None, ..origin },
            false => origin,
        });
        if let Some(origin) = origin {
            self.upstreams.note_origin(&observed.host, origin);
        }
        self.note(&observed);
        if does(self.settings, Fault::TakeSilenceForPromotion) && observed.upstream.is_silent() {
            let state = HostState::Alive { role: Some(HostRole::Primary) };
            let others: Vec<Arc<Address>> = self.upstreams.iter().map(|(host, _)| Arc::new(host.clone())).collect();
            for host in others.into_iter().filter(|host| *host != observed.host) {
                self.note(&Observed { host, upstream: Upstream::new(self.now, state) });
            }
        }
    }
}

/// A machine in the place of one that has panicked is sent the state of each host that was tried, and what was decided.
pub(crate) fn tell(upstreams: &Upstreams, place: Place, actions: &mut Actions) {
    for (host, upstream) in upstreams.iter().filter(|(_, upstream)| *upstream != Upstream::UNTRIED) {
        post_upstream(place, Observed { host: Arc::new(host.clone()), upstream }, actions);
    }
    tell_decisions(upstreams, place, actions);
}

/// A machine is sent what was decided.
pub(crate) fn tell_decisions(upstreams: &Upstreams, place: Place, actions: &mut Actions) {
    for (hosts, primary) in upstreams.primaries().iter() {
        let decision = Decision { hosts: Arc::clone(hosts), primary: primary.clone(), why: Why::Settled };
        post_decision(place, decision, actions);
    }
}
