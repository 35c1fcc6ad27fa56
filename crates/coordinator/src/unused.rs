//! Pools that nobody has used for long are forgotten: those of databases that nobody configured by name (those made from `*`)
//! after autodb_idle_timeout, so that their number is that of the databases in use, and all but those with a min_pool_size after
//! pool_idle_timeout. No more than [`limits::UNUSED_POOLS_MAX`] of the former are kept: a client that names one database after
//! another that does not exist makes the oldest ones go.
//!
//! ```text
//!   Used ◄──► Unused ──(a timeout, or too many)──► Retired ──(every home has forgotten it)──► Free: its id is used again
//! ```
//!
//! A retired pool is found by no login: the same database gets a pool of another id meanwhile.
//!
//! //= pgbouncer config.md#autodb_idle_timeout
//! //= pgbouncer config.md#pool_idle_timeout

use std::collections::BTreeSet;
use std::time::Duration;

use machine::Settings;
use machine::action::Actions;
use machine::observe::{About, Fact, Level, Topic};
use units::names::shown;
use units::{PoolId, Time, limits};

use crate::CONSOLE;
use crate::entry::{Entry, Life};

/// While there are too many unused ones, they are looked at this often,
const PAUSE: Duration = Duration::from_millis(100);
/// and at once when they are so many more: requests for servers are gone through once for all of these.
const BATCH: usize = limits::UNUSED_POOLS_MAX / 4;

/// Pools that are forgotten unless a client comes.
#[derive(Debug, Default)]
pub(crate) struct Unused {
    /// Those that some timeout is for, by when it is over.
    due: BTreeSet<(Time, PoolId)>,
    /// Those made from `*`, which are not to be too many: those that have been unused for longest first.
    automatic: BTreeSet<(Time, PoolId)>,
    /// When to look for those that are to be forgotten.
    look_at: Option<Time>,
}

/// When pool_idle_timeout is over for an unused pool.
fn idle_until(settings: &Settings, entry: &Entry, since: Time) -> Option<Time> {
    settings.global.pools.pool_idle_timeout.filter(|_| !entry.rules.has_minimum).map(|timeout| since + timeout)
}

fn is_automatic(settings: &Settings, entry: &Entry) -> bool {
    !settings.databases.contains_key(&*entry.key.database)
}

/// An unused pool is about to be forgotten: the log says so if it is because of pool_idle_timeout.
pub(crate) fn tell_if_idle(now: Time, settings: &Settings, entry: &Entry, actions: &mut Actions) {
    let Life::Unused { since, .. } = entry.life else { return };
    if idle_until(settings, entry, since).is_some_and(|at| at <= now) {
        let text = format!("cleaning up idle pool {}/{}", shown(&entry.key.database), shown(&entry.key.user));
        actions.tell(Fact::new(Level::Log, Topic::General, About::Pooler, text));
    }
}

impl Unused {
    /// A session or a token has come.
    pub(crate) fn comes_into_use(&mut self, pool: PoolId, entry: &mut Entry) {
        if let Life::Unused { since, until } = entry.life {
            self.due.remove(&(until, pool));
            self.automatic.remove(&(since, pool));
        }
        entry.life = Life::Used;
    }

    /// A session or a token has come or gone.
    pub(crate) fn note(&mut self, now: Time, settings: &Settings, pool: PoolId, entry: &mut Entry) {
        if pool == CONSOLE {
            return;
        }
        match (entry.life, entry.is_empty()) {
            (Life::Used, true) => {
                entry.life = Life::Unused { since: now, until: Time::NEVER };
                self.list_one(settings, pool, entry);
                self.look_again(now);
            }
            (Life::Unused { .. }, false) => self.comes_into_use(pool, entry),
            _ => {}
        }
    }

    /// Of an unused pool: when it is to be forgotten.
    fn list_one(&mut self, settings: &Settings, pool: PoolId, entry: &mut Entry) {
        let Life::Unused { since, .. } = entry.life else { return };
        let automatic = is_automatic(settings, entry);
        let timeout = settings.global.pools.autodb_idle_timeout.filter(|_| automatic);
        let until = timeout.map(|timeout| since + timeout).into_iter().chain(idle_until(settings, entry, since)).min();
        entry.life = Life::Unused { since, until: until.unwrap_or(Time::NEVER) };
        self.due.extend(until.map(|until| (until, pool)));
        self.automatic.extend(automatic.then_some((since, pool)));
    }

    /// What is configured by name, and for how long the rest is kept, may have changed.
    pub(crate) fn list<'p>(
        &mut self,
        now: Time,
        settings: &Settings,
        pools: impl Iterator<Item = (PoolId, &'p mut Entry)>,
    ) {
        self.due.clear();
        self.automatic.clear();
        for (pool, entry) in pools.filter(|(pool, _)| *pool != CONSOLE) {
            self.list_one(settings, pool, entry);
        }
        self.look_again(now);
    }

    /// Sees to it that the next one is retired in time.
    fn look_again(&mut self, now: Time) {
        let by_time = self.due.first().map(|(until, _)| *until);
        let by_number = match self.automatic.len().checked_sub(limits::UNUSED_POOLS_MAX) {
            None | Some(0) => None,
            Some(1..BATCH) => Some(now + PAUSE),
            Some(_) => Some(now),
        };
        let soonest = by_time.into_iter().chain(by_number).min();
        let earlier = self.look_at.filter(|at| *at > now);
        self.look_at = soonest.map(|at| earlier.map_or(at, |earlier| earlier.min(at)));
    }

    pub(crate) fn look_at(&self) -> Option<Time> {
        self.look_at
    }

    /// What has been unused for long enough, and the oldest of what is too many. They are listed no more.
    pub(crate) fn take_old(&mut self, now: Time, lives: impl Fn(PoolId) -> Life) -> BTreeSet<PoolId> {
        let mut old = BTreeSet::new();
        if self.look_at.is_none_or(|at| now < at) {
            return old;
        }
        self.look_at = None;
        loop {
            let over = self.due.first().filter(|(until, _)| *until <= now).copied();
            let too_many = self.automatic.len() > limits::UNUSED_POOLS_MAX;
            let surplus = self.automatic.first().filter(|_| too_many).copied();
            let Some((_, pool)) = over.or(surplus) else { break };
            let Life::Unused { since, until } = lives(pool) else { unreachable!("only unused pools are listed") };
            self.due.remove(&(until, pool));
            self.automatic.remove(&(since, pool));
            old.insert(pool);
        }
        self.look_again(now);
        old
    }
}
