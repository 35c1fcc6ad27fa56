//! Servers that log in: how many may at once, of all pools, and at a host that was lost.
//!
//! A host that has become the primary, or is back after it had failed, has one login at a time at first, and one more with each that succeeds: 1, 2,
//! 4, … in the time of a login each. So a PostgreSQL that has just recovered is not met by all pools at once.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use connections::databases::{Address, Database};
use machine::{Settings, Upstreams};
use units::{Holder, PoolId, PoolKey, Time, limits};

#[derive(Debug)]
struct Login {
    pool: PoolId,
    holder: Holder,
    began: Time,
    /// The host, if its logins were limited when this one began.
    limited_at: Option<Address>,
}

#[derive(Debug, Default)]
pub(crate) struct ServerLogins {
    /// In order of their grants.
    under_way: VecDeque<Login>,
    /// The ramps of hosts that were lost.
    ramps: BTreeMap<Address, Ramp>,
}

#[derive(Debug)]
struct Ramp {
    /// How many may log in at once.
    at_once: usize,
    /// Nobody has waited for it since, or it is over.
    until: Time,
}

impl ServerLogins {
    /// A host is the primary now, or is back.
    pub(crate) fn begin_ramp(&mut self, now: Time, host: &Address) {
        self.ramps.retain(|_, ramp| now < ramp.until);
        self.ramps.insert(host.clone(), Ramp { at_once: 1, until: now + limits::RAMP_LASTS });
        self.under_way.iter_mut().for_each(|login| _ = login.limited_at.take_if(|at| at == host));
    }

    /// Checks that no host has more logins than it may (I25).
    pub(crate) fn check(&self) -> Result<(), String> {
        let now = self.under_way.back().map_or(Time::ZERO, |login| login.began);
        for (host, Ramp { at_once, .. }) in self.ramps.iter().filter(|(_, ramp)| now < ramp.until) {
            let count = self.recent(now).filter(|login| login.limited_at.as_ref() == Some(host)).count();
            if count > *at_once {
                return Err(format!("{count} servers log in at {host} at once, and {at_once} may"));
            }
        }
        Ok(())
    }

    pub(crate) fn has_ramps(&self, now: Time) -> bool {
        self.ramps.values().any(|ramp| now < ramp.until)
    }

    /// A token was granted for a server.
    pub(crate) fn began(&mut self, now: Time, pool: PoolId, holder: Holder, host: Option<Address>) {
        let limited_at = host.filter(|host| self.ramps.contains_key(host));
        self.under_way.push_back(Login { pool, holder, began: now, limited_at });
    }

    /// A login has come to an end. `succeeded`: there may be one more at a time.
    pub(crate) fn over(&mut self, pool: PoolId, holder: Holder, succeeded: bool) {
        let index = self.under_way.iter().position(|login| (login.pool, login.holder) == (pool, holder));
        // A process that has joined may have begun it before.
        let Some(login) = index.and_then(|index| self.under_way.remove(index)) else { return };
        let Some(host) = login.limited_at.filter(|_| succeeded) else { return };
        // The ramp may be over, or another one have begun.
        if let Some(ramp) = self.ramps.get_mut(&host) {
            ramp.at_once += 1;
            if ramp.at_once >= limits::OPENING_PROCESS_MAX {
                self.ramps.remove(&host);
            }
        }
    }

    /// A holder is gone, and its logins with it.
    pub(crate) fn forget(&mut self, holder: Holder) {
        self.under_way.retain(|login| login.holder != holder);
    }

    /// Whether as many logins are under way as may be at once.
    pub(crate) fn are_enough(&self, now: Time) -> bool {
        self.recent(now).count() >= limits::OPENING_PROCESS_MAX
    }

    /// Whether as many logins are under way at this host as may be at once.
    pub(crate) fn are_enough_at(&self, now: Time, host: &Address) -> bool {
        let of_host = |login: &&Login| login.limited_at.as_ref() == Some(host);
        let ramp = self.ramps.get(host).filter(|ramp| now < ramp.until);
        ramp.is_some_and(|ramp| self.recent(now).filter(of_host).count() >= ramp.at_once)
    }

    fn recent(&self, now: Time) -> impl Iterator<Item = &Login> {
        self.under_way.iter().rev().take_while(move |login| now < login.began + limits::OPENING_SLOW)
    }
}

/// The host at which a pool's next server will log in, if there is only one that it can be.
pub(crate) fn host_of(settings: &Settings, upstreams: &Upstreams, key: &PoolKey) -> Option<Address> {
    let database: Arc<Database> = settings.database(&key.database)?;
    match &database.hosts[..] {
        [only] => Some(only.clone()),
        _ if database.target_session_attrs.wants_primary() => {
            upstreams.primary(&database.hosts).map(|host| Address::clone(host))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use connections::databases::Host;
    use units::WorkerId;

    use super::*;

    const POOL: PoolId = PoolId(1);

    fn holder() -> Holder {
        WorkerId(0).into()
    }

    fn host(port: u16) -> Address {
        Address { host: Host::Name("db".to_owned()), port }
    }

    #[test]
    fn only_so_many_log_in_at_once_and_a_slow_one_counts_no_more() {
        let mut logins = ServerLogins::default();
        for _ in 0..limits::OPENING_PROCESS_MAX {
            assert!(!logins.are_enough(Time::ZERO));
            logins.began(Time::ZERO, POOL, holder(), Some(host(1)));
        }
        assert!(logins.are_enough(Time::ZERO) && !logins.are_enough_at(Time::ZERO, &host(1)));
        assert!(!logins.are_enough(Time::ZERO + limits::OPENING_SLOW));
        logins.over(POOL, holder(), true);
        assert!(!logins.are_enough(Time::ZERO));
    }

    /// How many may begin now.
    fn begin_all(logins: &mut ServerLogins, now: Time) -> usize {
        let mut begun = 0;
        while begun < 1_000 && !logins.are_enough_at(now, &host(1)) {
            logins.began(now, POOL, holder(), Some(host(1)));
            begun += 1;
        }
        begun
    }

    #[test]
    fn at_a_host_that_was_lost_logins_double_as_they_succeed() {
        let mut logins = ServerLogins::default();
        logins.began(Time::ZERO, POOL, holder(), Some(host(1)));
        logins.begin_ramp(Time::ZERO, &host(1));
        assert_eq!(begin_all(&mut logins, Time::ZERO), 1, "what was under way before does not count");
        logins.over(POOL, holder(), true);
        logins.over(POOL, holder(), true);
        let mut turns = Vec::new();
        while logins.has_ramps(Time::ZERO) {
            let begun = begin_all(&mut logins, Time::ZERO);
            turns.push(begun);
            (0..begun).for_each(|_| logins.over(POOL, holder(), true));
        }
        assert_eq!(turns, [2, 4, 8, 16]);
    }

    #[test]
    fn a_ramp_that_is_not_used_ends() {
        let mut logins = ServerLogins::default();
        logins.begin_ramp(Time::ZERO, &host(1));
        let over = Time::ZERO + limits::RAMP_LASTS;
        assert!(logins.has_ramps(Time(over.0 - 1)) && !logins.has_ramps(over));
        assert_eq!(begin_all(&mut logins, over), 1_000);
    }

    #[test]
    fn a_login_that_fails_is_followed_by_one() {
        let mut logins = ServerLogins::default();
        logins.begin_ramp(Time::ZERO, &host(1));
        for _ in 0..3 {
            assert_eq!(begin_all(&mut logins, Time::ZERO), 1);
            assert!(!logins.are_enough_at(Time::ZERO, &host(2)));
            logins.over(POOL, holder(), false);
        }
        assert_eq!(begin_all(&mut logins, Time::ZERO), 1);
        assert_eq!(begin_all(&mut logins, Time::ZERO + limits::OPENING_SLOW), 1, "nobody waits for a slow one");
        logins.forget(holder());
        assert_eq!(begin_all(&mut logins, Time::ZERO), 1);
    }
}
