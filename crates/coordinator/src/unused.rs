//! Pools of databases that nobody configured by name (those made from `*`) are forgotten once nobody has used them for
//! autodb_idle_timeout, so that their number is that of the databases in use. No more than [`limits::UNUSED_POOLS_MAX`] of them
//! are kept: a client that names one database after another that does not exist makes the oldest ones go.
//!
//! ```text
//!   Used ◄──► Unused ──(autodb_idle_timeout, or too many)──► Retired ──(every home has forgotten it)──► Free: its id is used again
//! ```
//!
//! A retired pool is found by no login: the same database gets a pool of another id meanwhile.
//!
//! //= pgbouncer config.md#autodb_idle_timeout

use std::collections::BTreeSet;
use std::time::Duration;

use machine::Settings;
use units::{PoolId, Time, limits};

use crate::CONSOLE;
use crate::entry::{Entry, Life};

/// While there are too many unused ones, they are looked at this often,
const PAUSE: Duration = Duration::from_millis(100);
/// and at once when they are so many more: requests for servers are gone through once for all of these.
const BATCH: usize = limits::UNUSED_POOLS_MAX / 4;

/// Pools that are forgotten unless a client comes, those that have been unused for longest first.
#[derive(Debug, Default)]
pub(crate) struct Unused {
    listed: BTreeSet<(Time, PoolId)>,
    /// When to look for those that are to be forgotten.
    look_at: Option<Time>,
}

impl Unused {
    /// A session or a token has come.
    pub(crate) fn comes_into_use(&mut self, pool: PoolId, entry: &mut Entry) {
        if let Life::Unused { since } = entry.life {
            self.listed.remove(&(since, pool));
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
                entry.life = Life::Unused { since: now };
                self.list_if_automatic(settings, pool, entry);
                self.look_again(now, settings);
            }
            (Life::Unused { .. }, false) => self.comes_into_use(pool, entry),
            _ => {}
        }
    }

    fn list_if_automatic(&mut self, settings: &Settings, pool: PoolId, entry: &Entry) {
        if let Life::Unused { since } = entry.life
            && pool != CONSOLE
            && !settings.databases.contains_key(&*entry.key.database)
        {
            self.listed.insert((since, pool));
        }
    }

    /// What is configured by name, and for how long the rest is kept, may have changed.
    pub(crate) fn list<'p>(
        &mut self,
        now: Time,
        settings: &Settings,
        pools: impl Iterator<Item = (PoolId, &'p Entry)>,
    ) {
        self.listed.clear();
        for (pool, entry) in pools {
            self.list_if_automatic(settings, pool, entry);
        }
        self.look_again(now, settings);
    }

    /// Sees to it that the next one is retired in time.
    fn look_again(&mut self, now: Time, settings: &Settings) {
        let Some(&(since, _)) = self.listed.first() else {
            self.look_at = None;
            return;
        };
        let by_time = settings.global.pools.autodb_idle_timeout.map(|timeout| since + timeout);
        let by_number = match self.listed.len().checked_sub(limits::UNUSED_POOLS_MAX) {
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

    /// Takes out what has been unused for long enough, and the oldest of what is too many.
    pub(crate) fn take_old(&mut self, now: Time, settings: &Settings) -> BTreeSet<PoolId> {
        let mut old = BTreeSet::new();
        if self.look_at.is_none_or(|at| now < at) {
            return old;
        }
        self.look_at = None;
        let timeout = settings.global.pools.autodb_idle_timeout;
        while let Some(&(since, pool)) = self.listed.first() {
            let is_old = timeout.is_some_and(|timeout| since + timeout <= now);
            if !is_old && self.listed.len() <= limits::UNUSED_POOLS_MAX {
                break;
            }
            self.listed.pop_first();
            old.insert(pool);
        }
        self.look_again(now, settings);
        old
    }
}
