//! The hosts of databases, each a value with one owner: the coordinator. Every worker has a copy, by which its pools choose the host of
//! their next server, and so has the door, which looks users up there.
//!
//! ```text
//!   a connection fails, or a server logs in       worker: notes it in its copy at once
//!       worker ── ToCoordinator::Upstream ──► coordinator ── ToWorker::Upstream, ToDoor::Upstream ──► all workers, the door
//!       prober ───────────┘                      ▲
//!         ▲                                      │ asks PostgreSQL by a connection of its own
//!         └── Action::Probe ── worker: a login has failed, a server was lost, or an answer is long in coming
//! ```
//!
//! Promises: the later observation wins, in any order of arrival. So all copies are equal once no mail is under way.
//!
//! Workers observe hosts of databases with several, since nothing is decided by a login at an only host. The prober observes any host.

use std::collections::BTreeMap;
use std::sync::Arc;

use connections::databases::Address;
use settings::SplitBrain;
use units::Time;

use crate::Settings;
use crate::hint::Hint;
pub use crate::host_state::{HostRole, HostState, Observed, Upstream};
use crate::primaries::{Decision, Origin, Primaries, Primary, Writes};

/// The effect of an observation on a copy.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Noted {
    /// Nothing that others decide by has changed.
    Unchanged,
    Changed,
    /// The copy has a later observation, which differs.
    Outdated,
}

/// The hosts among which databases choose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Upstreams {
    hosts: BTreeMap<Address, Upstream>,
    /// One of them is silent. A flag, since the deadline of each session that waits asks for it.
    has_silent: bool,
    primaries: Primaries,
}

impl Upstreams {
    #[must_use]
    pub fn new(settings: &Settings) -> Upstreams {
        let mut upstreams = Upstreams::default();
        upstreams.configure(settings);
        upstreams
    }

    /// Takes the hosts of new settings. The state of those that stay is kept.
    pub fn configure(&mut self, settings: &Settings) {
        self.primaries.configure(settings);
        let before = std::mem::take(&mut self.hosts);
        let databases = settings.databases.values().chain(&settings.fallback);
        for database in databases {
            for host in &database.hosts {
                let known = before.get(host).copied();
                // Only the prober observes an only host.
                if let Some(kept) = known.or((database.hosts.len() > 1).then_some(Upstream::UNTRIED)) {
                    self.hosts.insert(host.clone(), kept);
                }
            }
        }
        self.note_silence();
    }

    fn note_silence(&mut self) {
        self.has_silent = self.hosts.values().any(|upstream| upstream.is_silent());
    }

    /// Whether any host is silent.
    #[inline]
    #[must_use]
    pub fn have_silent(&self) -> bool {
        self.has_silent
    }

    /// A host as it was observed last.
    #[must_use]
    pub fn get(&self, host: &Address) -> Upstream {
        self.hosts.get(host).copied().unwrap_or(Upstream::UNTRIED)
    }

    /// The host among these that is written to, as the coordinator has decided.
    #[must_use]
    pub fn primary(&self, hosts: &[Address]) -> Option<&Arc<Address>> {
        self.primaries.of(hosts)?.host()
    }

    /// Whether several of these hosts accept writes, and none of them was chosen.
    #[must_use]
    pub fn are_disputed(&self, hosts: &[Address]) -> bool {
        self.primaries.of(hosts).is_some_and(|primary| primary.writes == Writes::Disputed)
    }

    /// Whether that is so of any database's hosts.
    #[inline]
    #[must_use]
    pub fn have_disputes(&self) -> bool {
        self.primaries.have_disputes()
    }

    /// The decisions about primaries.
    #[must_use]
    pub fn primaries(&self) -> &Primaries {
        &self.primaries
    }

    /// Whether a host belongs to another database system than the primary among these.
    #[must_use]
    pub fn is_foreign(&self, hosts: &[Address], host: &Address) -> bool {
        self.primaries.of(hosts).is_some_and(|primary| primary.is_foreign(host))
    }

    /// The hosts to ask whether they still accept writes, since others do, too. Only the owner knows.
    pub fn contested(&self) -> impl Iterator<Item = &Arc<Address>> {
        self.primaries.contested()
    }

    /// Notes what the prober knows of a host. Only the owner is sent that.
    pub fn note_origin(&mut self, host: &Address, origin: Origin) {
        self.primaries.note_origin(host, origin);
    }

    /// Notes a hint: a host is the primary now, or is not any more. Only the owner takes hints.
    pub fn note_hint(&mut self, now: Time, hint: &Hint) {
        self.primaries.note_hint(now, hint);
    }

    /// Decides anew after an observation of a host. The result is the decisions that have changed. Only the owner decides.
    pub fn decide(&mut self, now: Time, host: &Address, policy: SplitBrain) -> Vec<Decision> {
        let Upstreams { hosts, primaries, .. } = self;
        let observed = |host: &Address| hosts.get(host).copied().unwrap_or(Upstream::UNTRIED);
        primaries.decide(now, host, &observed, policy)
    }

    /// Takes a decision of the process whose place this one takes. Only the owner does.
    pub fn inherit(&mut self, hosts: &[Address], primary: &Primary) -> Vec<Decision> {
        self.primaries.inherit(hosts, primary)
    }

    /// Follows a decision of the owner's. Whether it is another one.
    pub fn follow(&mut self, decision: &Decision) -> bool {
        self.primaries.follow(decision)
    }

    /// Notes what was observed here. The result is `None` if nothing is decided by the state of this host.
    pub fn observe(&mut self, host: &Arc<Address>, upstream: Upstream) -> Option<Observed> {
        let known = self.hosts.get_mut(&**host)?;
        let before = std::mem::replace(known, known.merge(upstream));
        let known = *known;
        if before.is_silent() != known.is_silent() {
            self.note_silence();
        }
        (before.state != known.state).then(|| Observed { host: Arc::clone(host), upstream: known })
    }

    /// Notes what another machine has observed. The settings here may be older than those there.
    pub fn note(&mut self, observed: &Observed) -> Noted {
        let known = self.hosts.entry(Address::clone(&observed.host)).or_insert(Upstream::UNTRIED);
        let before = std::mem::replace(known, known.merge(observed.upstream));
        let known = *known;
        if before.is_silent() != known.is_silent() {
            self.note_silence();
        }
        match (before.state == observed.upstream.state, known.state == observed.upstream.state) {
            (true, _) => Noted::Unchanged,
            (false, true) => Noted::Changed,
            (false, false) => Noted::Outdated,
        }
    }

    /// The last observation of a host.
    #[must_use]
    pub fn of(&self, host: &Arc<Address>) -> Observed {
        Observed { host: Arc::clone(host), upstream: self.get(host) }
    }

    /// All hosts, by address.
    pub fn iter(&self) -> impl Iterator<Item = (&Address, Upstream)> {
        self.hosts.iter().map(|(host, upstream)| (host, *upstream))
    }
}

#[cfg(test)]
mod tests {
    use connections::databases::{Database, Host};

    use super::*;

    fn address(port: u16) -> Arc<Address> {
        Arc::new(Address { host: Host::Name("db".to_owned()), port })
    }

    /// Settings with one database for each list of ports.
    fn settings(databases: &[&[u16]]) -> Settings {
        let database = |(number, ports): (usize, &&[u16])| {
            let hosts = ports.iter().map(|port| Address::clone(&address(*port))).collect();
            (format!("d{number}"), Arc::new(Database::new("d", hosts)))
        };
        Settings { databases: databases.iter().enumerate().map(database).collect(), ..Settings::default() }
    }

    fn failed(at: u64, until: u64) -> Upstream {
        Upstream::new(Time(at), HostState::Failed { until: Time(until) })
    }

    fn alive(at: u64) -> Upstream {
        Upstream::new(Time(at), HostState::Alive { role: None })
    }

    #[test]
    fn only_hosts_among_which_a_database_chooses_are_observed() {
        let mut upstreams = Upstreams::new(&settings(&[&[1, 2], &[2], &[3]]));
        assert!(upstreams.observe(&address(2), failed(5, 9)).is_some());
        assert_eq!(upstreams.observe(&address(3), failed(5, 9)), None);
        let has_failed = |port, now| upstreams.get(&address(port)).has_failed(Time(now));
        assert_eq!(
            (has_failed(2, 8), has_failed(2, 9), has_failed(1, 8), has_failed(3, 8)),
            (true, false, false, false)
        );
    }

    #[test]
    fn an_observation_is_sent_if_it_changes_the_state() {
        let mut upstreams = Upstreams::new(&settings(&[&[1, 2]]));
        assert_eq!(upstreams.observe(&address(1), alive(1)), None);
        assert!(upstreams.observe(&address(1), failed(2, 9)).is_some());
        assert!(upstreams.observe(&address(1), failed(3, 10)).is_some());
        let back = upstreams.observe(&address(1), alive(4)).expect("a host that lives again is news");
        assert_eq!((back.host, back.upstream), (address(1), alive(4)));
    }

    #[test]
    fn copies_are_equal_in_whatever_order_they_receive_observations() {
        let all = [failed(3, 13), alive(5), failed(5, 15), failed(4, 14), failed(5, 16)];
        for first in 0..all.len() {
            let mut copy = Upstreams::new(&settings(&[&[1, 2]]));
            for turn in 0..all.len() {
                copy.note(&Observed { host: address(1), upstream: all[(first + turn) % all.len()] });
            }
            assert_eq!(copy.of(&address(1)).upstream, alive(5), "from {first} on");
        }
    }

    #[test]
    fn an_observation_that_comes_late_is_outdated_only_if_it_differs() {
        let mut copy = Upstreams::new(&settings(&[&[1, 2]]));
        let mut note = |upstream| copy.note(&Observed { host: address(1), upstream });
        let noted =
            [failed(3, 13), failed(3, 13), failed(2, 12), alive(6), alive(4), alive(7), failed(6, 16)].map(&mut note);
        use Noted::{Changed, Outdated, Unchanged};
        assert_eq!(noted, [Changed, Unchanged, Outdated, Changed, Unchanged, Unchanged, Outdated]);
    }

    #[test]
    fn a_reload_keeps_the_state_of_hosts_that_stay() {
        let mut copy = Upstreams::new(&settings(&[&[1, 2]]));
        // The coordinator has the settings with the third host already.
        for port in [1, 2, 3] {
            copy.note(&Observed { host: address(port), upstream: failed(3, 13) });
        }
        copy.configure(&settings(&[&[2, 3, 4]]));
        let known: Vec<_> = copy.iter().map(|(host, upstream)| (host.port, upstream)).collect();
        assert_eq!(known, [(2, failed(3, 13)), (3, failed(3, 13)), (4, Upstream::UNTRIED)]);
    }
}
