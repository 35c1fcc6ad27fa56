//! Pools of databases that nobody configured by name (those made from `*`) are forgotten once nobody has used them for
//! autodb_idle_timeout, so that their number is that of the databases in use.
//!
//! ```text
//!   Used ◄──► Unused ──(autodb_idle_timeout)──► Retired ──(every home has forgotten it)──► Free: its id is used again
//! ```
//!
//! A retired pool is found by no login: the same database gets a pool of another id meanwhile.
//!
//! //= pgbouncer config.md#autodb_idle_timeout

use super::{CONSOLE, Coordinator, Entry, post};
use crate::action::Actions;
use crate::id::PoolId;
use crate::mail::{Mail, Place};
use crate::time::Time;

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
                if let Some(timeout) = self.settings.autodb_idle_timeout {
                    let at = now + timeout;
                    self.forget_at = Some(self.forget_at.map_or(at, |earlier| earlier.min(at)));
                }
            }
            (Life::Unused { .. }, false) => entry.life = Life::Used,
            _ => {}
        }
    }

    /// Retires what has been unused for long enough.
    pub(super) fn forget_unused(&mut self, now: Time, actions: &mut Actions) {
        if self.forget_at.is_none_or(|at| now < at) {
            return;
        }
        self.forget_at = None;
        let Some(timeout) = self.settings.autodb_idle_timeout else { return };
        let mut next = Time::NEVER;
        for index in 0..self.pools.len() {
            let (pool, entry) = (PoolId(index as u32), &self.pools[index]);
            let Life::Unused { since } = entry.life else { continue };
            if self.settings.databases.contains_key(&*entry.key.database) {
                continue;
            }
            // An ask that nobody waits for any more is answered first.
            let asked = self.asks.iter().any(|ask| ask.pool == pool);
            if since + timeout <= now && !asked {
                self.retire(pool, actions);
            } else {
                next = next.min(if since + timeout <= now { now + timeout } else { since + timeout });
            }
        }
        self.forget_at = (next != Time::NEVER).then_some(next);
    }

    fn retire(&mut self, pool: PoolId, actions: &mut Actions) {
        let entry = &mut self.pools[pool.0 as usize];
        entry.life = Life::Retired { homes: entry.homes.len() };
        (entry.min, entry.forced, entry.auto) = (0, false, None);
        for &home in &entry.homes {
            post(actions, Place::Worker(home), Mail::Forget { pool });
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
