//! The hosts of databases, each a value with one owner: the coordinator. Every worker has a copy, by which its pools choose the host of
//! their next server.
//!
//! ```text
//!   a connection fails, or a server logs in       worker: notes it in its copy at once
//!       worker ── ToCoordinator::Upstream ──► coordinator ── ToWorker::Upstream ──► all workers
//! ```
//!
//! Promises: the later observation wins, whatever the order in which copies receive them. So all copies are equal once no mail is under way.
//!
//! Only hosts of databases with several hosts are here, since nothing is decided by the state of an only host. The timeline of a host
//! and its lag belong into [`Upstream`] as well, once something observes them.

use std::collections::BTreeMap;
use std::sync::Arc;

use connections::databases::Address;
use units::Time;

use crate::Settings;

/// Whether a PostgreSQL is in hot standby. A connection's is that of its login: PostgreSQL becomes a standby only by a restart. It is promoted
/// without one.
//= pg18 runtime-config-preset#GUC-IN-HOT-STANDBY
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostRole {
    Standby,
    Primary,
}

impl HostRole {
    #[must_use]
    pub fn of(in_hot_standby: bool) -> HostRole {
        if in_hot_standby { HostRole::Standby } else { HostRole::Primary }
    }

    #[must_use]
    pub fn is_standby(self) -> bool {
        self == HostRole::Standby
    }

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            HostRole::Standby => "standby",
            HostRole::Primary => "primary",
        }
    }
}

/// Whether connections to a host succeed.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostState {
    /// A connection has failed: until then other hosts come first.
    Failed { until: Time },
    /// A server has logged in there, or nothing is known. `None`: its role is not known.
    Alive { role: Option<HostRole> },
}

/// A host, as it was observed last. The order is that of the observations; of two at the same time, a login counts more than a failure.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Upstream {
    /// When it was observed.
    pub at: Time,
    pub state: HostState,
    /// Since when it has been in this state.
    pub since: Time,
}

impl Upstream {
    /// No connection to it has been tried.
    pub const UNTRIED: Upstream =
        Upstream { at: Time::ZERO, state: HostState::Alive { role: None }, since: Time::ZERO };

    /// Observed now.
    #[must_use]
    pub fn new(at: Time, state: HostState) -> Upstream {
        Upstream { at, state, since: at }
    }

    /// The later of two observations. If both have seen the same, it has lasted since the earlier one.
    fn merge(self, later: Upstream) -> Upstream {
        if self == Upstream::UNTRIED || self.state != later.state {
            return self.max(later);
        }
        Upstream { at: self.at.max(later.at), ..self }
    }

    /// Whether other hosts come first.
    #[must_use]
    pub fn has_failed(self, now: Time) -> bool {
        matches!(self.state, HostState::Failed { until } if now < until)
    }

    /// What the last server that logged in there was.
    #[must_use]
    pub fn role(self) -> Option<HostRole> {
        match self.state {
            HostState::Alive { role } => role,
            HostState::Failed { .. } => None,
        }
    }
}

/// An observation of one host, as a letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    pub host: Arc<Address>,
    pub upstream: Upstream,
}

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
        let before = std::mem::take(&mut self.hosts);
        let databases = settings.databases.values().chain(&settings.fallback);
        let hosts = databases.filter(|database| database.hosts.len() > 1).flat_map(|database| &database.hosts);
        let kept = |host: &Address| before.get(host).copied().unwrap_or(Upstream::UNTRIED);
        self.hosts = hosts.map(|host| (host.clone(), kept(host))).collect();
    }

    /// A host as it was observed last.
    #[must_use]
    pub fn get(&self, host: &Address) -> Upstream {
        self.hosts.get(host).copied().unwrap_or(Upstream::UNTRIED)
    }

    /// The primary among these hosts: of several, the one that has been it for the longest time. A frozen primary that wakes up is not in
    /// recovery either, nor is a copy that was promoted by mistake.
    #[must_use]
    pub fn primary<'h>(&self, hosts: &'h [Address]) -> Option<&'h Address> {
        let of = |host: &&Address| self.get(host);
        let primaries = hosts.iter().filter(|host| of(host).role() == Some(HostRole::Primary));
        primaries.min_by_key(|host| of(host).since)
    }

    /// Notes what was observed here. The result is `None` if nothing is decided by the state of this host.
    pub fn observe(&mut self, host: &Arc<Address>, upstream: Upstream) -> Option<Observed> {
        let known = self.hosts.get_mut(&**host)?;
        let before = std::mem::replace(known, known.merge(upstream));
        (before.state != known.state).then(|| Observed { host: Arc::clone(host), upstream: *known })
    }

    /// Notes what another machine has observed. The settings here may be older than those there.
    pub fn note(&mut self, observed: &Observed) -> Noted {
        let known = self.hosts.entry(Address::clone(&observed.host)).or_insert(Upstream::UNTRIED);
        let before = std::mem::replace(known, known.merge(observed.upstream));
        match (before.state == observed.upstream.state, known.state == observed.upstream.state) {
            (true, _) => Noted::Unchanged,
            (false, true) => Noted::Changed,
            (false, false) => Noted::Outdated,
        }
    }

    /// As [`Upstreams::note`], of the owner's own copy: since when a state has lasted is what the owner says.
    pub fn follow(&mut self, observed: &Observed) -> Noted {
        let noted = self.note(observed);
        if let Some(known) = self.hosts.get_mut(&*observed.host)
            && known.state == observed.upstream.state
        {
            known.since = observed.upstream.since;
        }
        noted
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
    fn of_two_primaries_the_one_counts_that_the_owner_has_known_for_longer() {
        let primary = |at| Upstream::new(Time(at), HostState::Alive { role: Some(HostRole::Primary) });
        let hosts = [1, 2].map(|port| Address::clone(&address(port)));
        let observed = |port, upstream| Observed { host: address(port), upstream };
        let (mut owner, mut copy) = (Upstreams::new(&settings(&[&[1, 2]])), Upstreams::new(&settings(&[&[1, 2]])));
        assert_eq!(owner.primary(&hosts), None);
        owner.note(&observed(1, primary(3)));
        owner.note(&observed(2, primary(5)));
        // The copy has seen the first host later than others.
        copy.observe(&address(1), primary(7));
        copy.follow(&owner.of(&address(2)));
        assert_eq!(copy.primary(&hosts), Some(&hosts[1]));
        copy.follow(&owner.of(&address(1)));
        assert_eq!([&owner, &copy].map(|upstreams| upstreams.primary(&hosts)), [Some(&hosts[0]); 2]);
        owner.note(&observed(1, failed(8, 9)));
        owner.note(&observed(1, primary(10)));
        assert_eq!(owner.primary(&hosts), Some(&hosts[1]), "it was away");
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
