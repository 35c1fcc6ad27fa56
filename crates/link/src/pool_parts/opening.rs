//! How a pool's servers are requested and opened: at which host, and after which pause when logins fail.

use std::sync::Arc;
use std::time::Duration;

use connections::databases::{Address, Database, LoadBalanceHosts, TargetSessionAttrs};
use connections::server_login::Derived;
use machine::{HostRole, Proved, Upstreams};
use units::{Time, limits};

/// After a failed login, the first pause before the next try.
const RETRY_FIRST: Duration = Duration::from_millis(50);

/// How more servers are asked for and opened.
#[derive(Debug, Default)]
pub struct Opening {
    /// Tokens requested and not granted yet.
    pub(crate) requested: u32,
    /// Since when some are requested without one being granted.
    pub(crate) requested_since: Time,
    pub(crate) requested_reserve: bool,
    /// A pause, if the last server that was opened did not log in.
    pub(crate) pause: Option<Pause>,
    /// No host can be used.
    hold: Option<HostHold>,
    /// A login was refused for good: nothing is opened for min_pool_size before this.
    pub(crate) spare_after: Time,
    /// The index of the next host.
    next_host: usize,
    /// Hosts that have not let this pool in lately. Other pools may be let in there. Hosts at which nobody is let in are in [`Upstreams`].
    refused_at: Vec<Refused>,
    /// Keys that a login has derived, so that the next one need not.
    pub(crate) derived: Option<Derived>,
    /// What a client has proved last, good for its user's servers.
    pub(crate) proved: Arc<Proved>,
}

impl Opening {
    /// No server is opened for now, because a login has failed.
    #[inline]
    pub fn is_paused(&self, now: Time) -> bool {
        self.pause.is_some_and(|pause| now < pause.until)
    }

    /// When the pause after a failed login ends, if there is one.
    pub fn pause_until(&self, now: Time) -> Option<Time> {
        self.pause.map(|pause| pause.until).filter(|until| *until > now)
    }

    /// A server that had begun to log in at `began` could not be opened, or its login has failed: a pause begins, of at most `longest`.
    /// `jitter`: 16 random bits.
    pub fn login_failed(&mut self, now: Time, began: Time, longest: Duration, jitter: u32) {
        debug_assert!(jitter < 1 << 16, "the pause is at most a quarter shorter");
        let (failures, failed_at) = match self.pause {
            // A login that had begun before the last failure does not count as another one.
            Some(last) if began < last.failed_at => (last.failures, last.failed_at),
            last => (last.map_or(0, |last| last.failures) + 1, now),
        };
        let pause = RETRY_FIRST.saturating_mul(1 << (failures - 1).min(16)).min(longest);
        // Up to a quarter shorter, so that pools whose PostgreSQL was down do not all retry at the same moment.
        let until = now + (pause - pause / 4 * jitter / (1 << 16));
        self.pause = Some(Pause { failures, failed_at, until });
    }

    /// A server has logged in.
    pub fn login_succeeded(&mut self) {
        (self.pause, self.hold) = (None, None);
    }

    /// A server can be opened, as far as is known: the pause ends.
    pub fn end_pause(&mut self, now: Time) {
        self.pause = None;
        if let Some(hold) = &mut self.hold {
            hold.next_try = hold.next_try.min(now);
        }
    }

    /// A login that had begun to log in at `began` has failed, and so would any other: clients are held.
    pub fn hold(&mut self, began: Time, why: &str) {
        let next_try = self.pause.map_or(began, |pause| pause.until);
        // Clients were served meanwhile, or none came.
        if self.hold.as_ref().is_some_and(|hold| hold.next_try + limits::HOLD_LASTS < began) {
            self.hold = None;
        }
        let hold = self.hold.get_or_insert_with(|| HostHold { since: began, next_try, why: Arc::default() });
        (hold.next_try, hold.why) = (next_try, why.into());
    }

    /// Why clients are held, if they are.
    #[must_use]
    pub fn held_for(&self) -> Option<&str> {
        self.hold.as_ref().map(|hold| &*hold.why)
    }

    /// Until when a client may be held that has waited since then. `None`: clients are not held, or this one waits for the next attempt, since it came
    /// after the last pause.
    #[must_use]
    pub fn held_until(&self, since: Time, failover_wait: Duration) -> Option<Time> {
        let hold = self.hold.as_ref().filter(|hold| since < hold.next_try)?;
        Some((hold.since + failover_wait).max(since))
    }

    /// A login was refused for good: no server is opened for min_pool_size before `until`.
    pub fn refuse_spares(&mut self, until: Time) {
        self.spare_after = until;
    }

    /// Whether a server may be opened for min_pool_size.
    #[must_use]
    pub fn may_open_spare(&self, now: Time) -> bool {
        now >= self.spare_after
    }

    /// How many tokens are requested and not granted yet.
    pub fn requested(&self) -> u32 {
        self.requested
    }

    /// Another token is requested.
    pub fn request(&mut self, now: Time) {
        if self.requested == 0 {
            self.requested_since = now;
        }
        self.requested += 1;
    }

    /// Another token is requested, of the reserve pool.
    pub fn request_reserve(&mut self) {
        debug_assert!(!self.requested_reserve, "the reserve is requested once at a time");
        self.requested_reserve = true;
        self.requested += 1;
    }

    /// A requested token is granted.
    pub fn granted(&mut self, now: Time) {
        self.requested = self.requested.saturating_sub(1);
        self.requested_since = now;
        self.requested_reserve = false;
    }

    /// The coordinator has dropped `count` requests.
    pub fn requests_dropped(&mut self, count: u32, reserve: bool) {
        self.requested = self.requested.saturating_sub(count);
        self.requested_reserve &= !reserve;
    }

    /// What a client has proved last, good for its user's servers.
    pub fn proved(&self) -> &Proved {
        &self.proved
    }

    /// A client has proved this, or another process passes it on. A later proof counts: an older one may be of a password that has changed.
    pub fn prove(&mut self, proved: Arc<Proved>) {
        self.proved = proved;
    }

    /// The host for the next server: of those that fit best the next in turn, or simply the next if none may fit.
    //= pgbouncer config.md#host
    //= pgbouncer config.md#load_balance_hosts
    pub(crate) fn take_host(&mut self, database: &Database, upstreams: &Upstreams, now: Time) -> Address {
        let hosts = &database.hosts;
        let in_turn = (0..hosts.len()).map(|step| (self.next_host + step) % hosts.len());
        let fits = in_turn.map(|index| (self.fit(database, &hosts[index], upstreams, now), index));
        let chosen = match fits.min_by_key(|(fit, _)| *fit) {
            Some((fit, index)) if fit != Fit::Unfit => index,
            _ => self.next_host % hosts.len(),
        };
        self.next_host = match database.load_balance_hosts {
            LoadBalanceHosts::RoundRobin => (chosen + 1) % hosts.len(),
            LoadBalanceHosts::Disable => chosen,
        };
        hosts[chosen].clone()
    }

    /// How well a host fits, as far as is known.
    fn fit(&self, database: &Database, host: &Address, upstreams: &Upstreams, now: Time) -> Fit {
        let (attrs, upstream) = (database.target_session_attrs, upstreams.get(host));
        if upstreams.is_foreign(&database.hosts, host) {
            return Fit::Unfit;
        }
        let refused = self.refused_at.iter().find(|refused| refused.host == *host && now < refused.until);
        let failed_at = upstream.has_failed(now).then_some(upstream.at).max(refused.map(|refused| refused.at));
        if let Some(failed_at) = failed_at {
            // A host that is restarted may be the one that is wanted.
            let is_old = attrs != TargetSessionAttrs::Any && now >= failed_at + limits::ROLE_HOLDS;
            return if is_old { Fit::MayBeBack } else { Fit::Unfit };
        }
        let is_recent = now < upstream.at + limits::ROLE_HOLDS;
        let is_known = now < upstream.at + limits::ROLE_IS_KNOWN;
        match (attrs, upstream.role()) {
            (TargetSessionAttrs::ReadWrite | TargetSessionAttrs::Primary, Some(HostRole::Primary)) => {
                match upstreams.primary(&database.hosts) {
                    _ if upstreams.are_disputed(&database.hosts) => Fit::Unfit,
                    Some(primary) if **primary == *host => Fit::Fits,
                    // The coordinator does not know of it yet.
                    None => Fit::Unknown,
                    Some(_) => Fit::MayHaveChanged,
                }
            }
            (TargetSessionAttrs::ReadWrite | TargetSessionAttrs::Primary, Some(HostRole::Standby)) => {
                if is_recent {
                    Fit::Unfit
                } else {
                    Fit::MayHaveChanged
                }
            }
            (TargetSessionAttrs::ReadWrite | TargetSessionAttrs::Primary, None) => Fit::Unknown,
            // One of before that has been frozen, and wakes up; or it is restarted as a standby.
            (TargetSessionAttrs::PreferStandby | TargetSessionAttrs::ReadOnly, Some(HostRole::Primary))
                if upstreams.primary(&database.hosts).is_some_and(|primary| **primary != *host) =>
            {
                if is_known {
                    Fit::Unfit
                } else {
                    Fit::Unknown
                }
            }
            (TargetSessionAttrs::PreferStandby, Some(HostRole::Primary)) if is_known => Fit::SecondBest,
            // Its sessions may be read-only by default.
            (TargetSessionAttrs::ReadOnly, Some(HostRole::Primary)) => Fit::Unknown,
            (TargetSessionAttrs::Standby, Some(HostRole::Primary)) if is_recent => Fit::Unfit,
            (TargetSessionAttrs::Standby, Some(HostRole::Primary)) if is_known => Fit::MayHaveChanged,
            _ => Fit::Fits,
        }
    }

    /// A host has not let this pool in: until then others go before it.
    pub fn host_refused(&mut self, host: &Address, now: Time, until: Time) {
        self.refused_at.retain(|refused| refused.host != *host && now < refused.until);
        self.refused_at.push(Refused { host: host.clone(), at: now, until });
    }

    /// A server could not be opened at this host: the next one is tried at another.
    pub(crate) fn leave_host(&mut self, database: &Database, host: &Address) {
        let is_next = database.hosts.get(self.next_host).is_some_and(|next| next == host);
        if is_next && database.load_balance_hosts == LoadBalanceHosts::Disable {
            // Also when all are down they take turns.
            self.next_host = (self.next_host + 1) % database.hosts.len();
        }
    }

    /// A server has logged in there.
    pub fn host_let_in(&mut self, host: &Address) {
        self.refused_at.retain(|refused| refused.host != *host);
    }

    /// Whether a server can be opened at another host, as far as is known. `None`: it cannot.
    #[must_use]
    pub(crate) fn other_host(
        &self,
        database: &Database,
        host: &Address,
        upstreams: &Upstreams,
        now: Time,
    ) -> Option<OtherHost> {
        let others = database.hosts.iter().filter(|other| *other != host);
        match others.map(|other| self.fit(database, other, upstreams, now)).min()? {
            Fit::Fits | Fit::Unknown | Fit::SecondBest => Some(OtherHost::Fits),
            Fit::MayHaveChanged | Fit::MayBeBack => Some(OtherHost::MayFit),
            Fit::Unfit => None,
        }
    }

    /// Whether another host has neither failed nor refused this pool lately.
    #[must_use]
    pub fn has_untried_host(&self, database: &Database, host: &Address, upstreams: &Upstreams, now: Time) -> bool {
        let has_refused = |other: &Address| self.refused_at.iter().any(|one| one.host == *other && now < one.until);
        let is_untried = |other: &Address| !has_refused(other) && !upstreams.get(other).has_failed(now);
        database.hosts.iter().any(|other| other != host && is_untried(other))
    }

    /// Whether one of the database's hosts fits, as far as is known.
    #[must_use]
    pub fn host_fits(&self, database: &Database, host: &Address, upstreams: &Upstreams, now: Time) -> bool {
        database.hosts.contains(host) && self.fit(database, host, upstreams, now) == Fit::Fits
    }

    /// Whether another host may be a standby.
    #[must_use]
    pub fn has_standby(&self, database: &Database, host: &Address, upstreams: &Upstreams, now: Time) -> bool {
        database.hosts.iter().any(|other| other != host && self.fit(database, other, upstreams, now) == Fit::Fits)
    }
}

/// Whether a server can be opened at a database's other hosts.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum OtherHost {
    Fits,
    /// The host did not fit a while ago, and may have changed.
    MayFit,
}

/// How well a host fits for a pool's next server. The first is the best.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    Fits,
    /// Its role is not known.
    Unknown,
    /// The primary, where a standby is preferred.
    SecondBest,
    /// It had the wrong role a while ago.
    MayHaveChanged,
    /// The host was down a while ago.
    MayBeBack,
    /// A failure or the wrong role was seen a moment ago.
    Unfit,
}

/// A host that has not let a pool in.
#[derive(Debug)]
struct Refused {
    host: Address,
    at: Time,
    /// Until then other hosts go before it.
    until: Time,
}

/// No server can be opened, whichever host is tried.
#[derive(Debug)]
struct HostHold {
    /// When the first attempt began that has failed.
    since: Time,
    /// When another attempt may be made.
    next_try: Time,
    /// Why the last one failed.
    why: Arc<str>,
}

/// No server is opened for a while after a login has failed.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Pause {
    /// How many have failed in a row; the pause doubles with each.
    failures: u32,
    /// When the last of them was counted.
    failed_at: Time,
    until: Time,
}
