//! Pools of databases that nobody configured by name (those made from `*`) are forgotten once nobody has used them for
//! autodb_idle_timeout, so that their number is that of the databases in use. No more than [`limits::UNUSED_POOLS_MAX`] of them
//! are kept: whoever names one database after another that does not exist makes the oldest ones go.
//!
//! ```text
//!   Used ◄──► Unused ──(autodb_idle_timeout, or too many)──► Retired ──(every home has forgotten it)──► Free: its id is used again
//! ```
//!
//! A retired pool is found by no login: the same database gets a pool of another id meanwhile.
//!
//! //= pgbouncer config.md#autodb_idle_timeout

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use machine::action::Actions;
use machine::mail::ToWorker;
use units::{PoolId, Time, WorkerId, limits};

use super::{CONSOLE, Coordinator, Entry};

/// While there are too many unused ones, they are looked at this often,
const PAUSE: Duration = Duration::from_millis(100);
/// and at once when they are so many more: who waits for servers is gone through once for all of these.
const BATCH: usize = limits::UNUSED_POOLS_MAX / 4;

/// Where a pool is in its life.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Used,
    /// No session, no token.
    Unused {
        since: Time,
    },
    /// So many homes have not forgotten it yet.
    Retired {
        homes: usize,
    },
    Free,
}

impl Life {
    /// A session or a token has come.
    pub(super) fn comes_into_use(&mut self, pool: PoolId, unused: &mut BTreeSet<(Time, PoolId)>) {
        if let Life::Unused { since } = *self {
            unused.remove(&(since, pool));
        }
        *self = Life::Used;
    }
}

impl Entry {
    pub(super) fn is_live(&self) -> bool {
        matches!(self.life, Life::Used | Life::Unused { .. })
    }

    fn is_empty(&self) -> bool {
        self.held.iter().all(|&held| held == 0) && self.sessions.iter().all(|&sessions| sessions == 0)
    }
}

impl Coordinator {
    /// A session or a token has come or gone.
    pub(super) fn note_use(&mut self, now: Time, pool: PoolId) {
        if pool == CONSOLE {
            return;
        }
        let entry = &mut self.pools[pool.0 as usize];
        match (entry.life, entry.is_empty()) {
            (Life::Used, true) => {
                entry.life = Life::Unused { since: now };
                self.list_if_automatic(pool);
                self.look_at_unused(now);
            }
            (Life::Unused { .. }, false) => entry.life.comes_into_use(pool, &mut self.unused),
            _ => {}
        }
    }

    fn list_if_automatic(&mut self, pool: PoolId) {
        let entry = &self.pools[pool.0 as usize];
        if let Life::Unused { since } = entry.life
            && pool != CONSOLE
            && !self.settings.databases.contains_key(&*entry.key.database)
        {
            self.unused.insert((since, pool));
        }
    }

    /// What is configured by name, and for how long the rest is kept, may have changed.
    pub(super) fn list_unused(&mut self, now: Time) {
        self.unused.clear();
        for index in 0..self.pools.len() {
            self.list_if_automatic(PoolId(index as u32));
        }
        self.look_at_unused(now);
    }

    /// Sees to it that the next one is retired in time.
    fn look_at_unused(&mut self, now: Time) {
        let Some(&(since, _)) = self.unused.first() else {
            self.forget_at = None;
            return;
        };
        let by_time = self.settings.global.pools.autodb_idle_timeout.map(|timeout| since + timeout);
        let by_number = match self.unused.len().checked_sub(limits::UNUSED_POOLS_MAX) {
            None | Some(0) => None,
            Some(1..BATCH) => Some(now + PAUSE),
            Some(_) => Some(now),
        };
        let soonest = by_time.into_iter().chain(by_number).min();
        let earlier = self.forget_at.filter(|at| *at > now);
        self.forget_at = soonest.map(|at| earlier.map_or(at, |earlier| earlier.min(at)));
    }

    /// Retires what has been unused for long enough, and the oldest of what is too many.
    pub(super) fn forget_unused(&mut self, now: Time, actions: &mut Actions) {
        if self.forget_at.is_none_or(|at| now < at) {
            return;
        }
        self.forget_at = None;
        let timeout = self.settings.global.pools.autodb_idle_timeout;
        let mut old = BTreeSet::new();
        while let Some(&(since, pool)) = self.unused.first() {
            let is_old = timeout.is_some_and(|timeout| since + timeout <= now);
            if !is_old && self.unused.len() <= limits::UNUSED_POOLS_MAX {
                break;
            }
            self.unused.pop_first();
            old.insert(pool);
        }
        self.drop_asks(&old, actions);
        for pool in old {
            self.retire(pool, actions);
        }
        self.look_at_unused(now);
    }

    /// Nobody waits any more for what pools without sessions have asked for.
    fn drop_asks(&mut self, pools: &BTreeSet<PoolId>, actions: &mut Actions) {
        let mut dropped: BTreeMap<(PoolId, WorkerId), (u32, bool)> = BTreeMap::new();
        self.asks.retain(|ask| {
            let stays = !pools.contains(&ask.pool);
            if !stays {
                let (count, reserve) = dropped.entry((ask.pool, ask.worker)).or_default();
                *count += 1;
                *reserve |= ask.reserve;
            }
            stays
        });
        for ((pool, worker), (count, reserve)) in dropped {
            actions.post_to_worker(worker, ToWorker::Dropped { pool, count, reserve });
        }
    }

    fn retire(&mut self, pool: PoolId, actions: &mut Actions) {
        self.leave_homes(pool);
        self.looked_at.remove(&pool);
        let entry = &mut self.pools[pool.0 as usize];
        entry.life = Life::Retired { homes: entry.homes.len() };
        (entry.min, entry.forced, entry.auto) = (0, false, None);
        for &home in &entry.homes {
            actions.post_to_worker(home, ToWorker::Forget { pool });
        }
        self.ids.remove(&entry.key);
    }

    /// A home has nothing of this pool any more.
    pub(super) fn forgotten(&mut self, pool: PoolId) {
        let entry = &mut self.pools[pool.0 as usize];
        let Life::Retired { homes } = entry.life else {
            debug_assert!(false, "a pool is forgotten on request");
            return;
        };
        assert!(entry.is_empty(), "I12: a pool that is forgotten has neither sessions nor tokens");
        entry.life = if homes > 1 { Life::Retired { homes: homes - 1 } } else { Life::Free };
        if entry.life == Life::Free {
            self.free.push(pool);
        }
    }
}
