//! At which host a lookup's connection is opened, where its database has several, and when it is left.
//!
//! | [`Standing`] | |
//! |---|---|
//! | right | no reason against it is known |
//! | other | up, but not what `target_session_attrs` wants: a standby, which may lag behind |
//! | down | connections fail, or it is silent |
//! | never | of another database system than the primary, or accepts writes while another one is the primary: a password that was changed may be valid there |
//!
//! Promises that no user is looked up at a host that is known as the last, and that the next host is tried when one has failed. Decides by what the
//! coordinator sends ([`machine::upstreams`]), and by which connections of its own were lost.

use std::sync::Arc;

use connections::databases::{Address, Database, TargetSessionAttrs};
use machine::primaries::{Decision, Why};
use machine::upstreams::{HostRole, HostState, Observed, Upstreams};
use units::Time;

use super::end::LookupEnd;
use super::target::Target;
use super::{Lookups, Loss, Site, Turn};

/// How well a host fits, the best first.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    Right,
    Other,
    Down,
    Never,
}

impl Standing {
    fn of(database: &Database, host: &Address, upstreams: &Upstreams, now: Time) -> Standing {
        use TargetSessionAttrs::{Any, PreferStandby, Primary, ReadOnly, ReadWrite, Standby};
        let (hosts, upstream) = (&database.hosts, upstreams.get(host));
        let primary = upstreams.primary(hosts);
        let [is_primary, is_not] =
            [true, false].map(|wanted| primary.is_some_and(|primary| (**primary == *host) == wanted));
        let is_former = is_not && upstream.role() == Some(HostRole::Primary);
        if upstreams.is_foreign(hosts, host) || is_former && database.target_session_attrs != Any {
            return Standing::Never;
        }
        if upstream.is_silent() || upstream.has_failed(now) {
            return Standing::Down;
        }
        let is_other = match database.target_session_attrs {
            Any => false,
            ReadWrite | Primary => is_not,
            Standby | PreferStandby | ReadOnly => is_primary,
        };
        if is_other { Standing::Other } else { Standing::Right }
    }
}

/// The host of a site's next connection. `None`: none may be asked.
pub(super) fn choose(site: &mut Site, upstreams: &Upstreams, now: Time) -> Option<Arc<Address>> {
    let Site { database, lost, .. } = site;
    let standing = |host: &&Address| Standing::of(database, host, upstreams, now);
    let candidates: Vec<&Address> = database.hosts.iter().filter(|host| standing(host) != Standing::Never).collect();
    if candidates.iter().all(|host| was_lost(lost, host, now)) {
        lost.clear();
    }
    // The first of the best.
    let best = candidates.into_iter().min_by_key(|host| (was_lost(lost, host, now), standing(host)));
    best.map(|host| Arc::new(host.clone()))
}

/// Whether a connection to a host was lost lately.
fn was_lost(lost: &[(Address, Time)], host: &Address, now: Time) -> bool {
    lost.iter().any(|(other, until)| other == host && now < *until)
}

/// Whether the connection of a site is left for a better host; why, if so.
fn is_left(site: &Site, host: &Address, upstreams: &Upstreams, now: Time) -> Option<LookupEnd> {
    let standing = |host: &Address| Standing::of(&site.database, host, upstreams, now);
    let is_right = |other: &Address| standing(other) == Standing::Right && !was_lost(&site.lost, other, now);
    match standing(host) {
        Standing::Never => Some(LookupEnd::WrongHost),
        Standing::Other if site.database.hosts.iter().any(is_right) => Some(LookupEnd::WrongHost),
        Standing::Down if upstreams.get(host).is_silent() => Some(LookupEnd::HostSilent),
        Standing::Right | Standing::Other | Standing::Down => None,
    }
}

impl Lookups {
    /// A host was observed.
    pub(crate) fn observed(&mut self, turn: &mut Turn<'_>, observed: &Observed) {
        self.upstreams.note(observed);
        if matches!(self.upstreams.get(&observed.host).state, HostState::Alive { .. }) {
            self.sites.values_mut().for_each(|site| site.lost.retain(|(host, _)| *host != *observed.host));
        }
        self.leave_hosts(turn);
    }

    /// Which host of a list is written to was decided.
    pub(crate) fn decided(&mut self, turn: &mut Turn<'_>, decision: &Decision) {
        if !self.upstreams.follow(decision) {
            return;
        }
        // Hosts of another system have other users of the same names.
        if matches!(&decision.why, Why::Foreign { hosts } if !hosts.is_empty()) {
            let there = self.sites.iter().filter(|(_, site)| site.database.hosts == *decision.hosts);
            for target in there.map(|(target, _)| Arc::clone(target)).collect::<Vec<_>>() {
                self.cache.forget(&target);
            }
        }
        self.leave_hosts(turn);
    }

    /// Before a lookup: leaves a host that was only the second best, if a better one can be used again.
    pub(super) fn leave_host(&mut self, turn: &mut Turn<'_>, target: &Arc<Target>) {
        let Lookups { sites, connections, upstreams, .. } = self;
        let site = &sites[target];
        let Some(conn) = site.conn.filter(|conn| connections[*conn].is_at_rest()) else { return };
        if let Some(why) = is_left(site, &connections[conn].address, upstreams, turn.now) {
            self.lost(turn, conn, &why, Loss::Left);
        }
    }

    /// Closes the connections to hosts that are left. Their open lookups are sent again to another host.
    fn leave_hosts(&mut self, turn: &mut Turn<'_>) {
        let Lookups { sites, connections, upstreams, .. } = self;
        let left = sites.values().filter_map(|site| {
            let conn = site.conn?;
            Some((conn, is_left(site, &connections[conn].address, upstreams, turn.now)?))
        });
        for (conn, why) in left.collect::<Vec<_>>() {
            self.lost(turn, conn, &why, Loss::Left);
        }
    }
}
