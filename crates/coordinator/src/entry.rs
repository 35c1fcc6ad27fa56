//! One pool, as the coordinator knows it.

use std::collections::BTreeMap;
use std::sync::Arc;

use machine::sabotage::{Fault, does};
use machine::{Marks, Settings};
use queueing::classes::ClassSet;
use units::{ByHolder, Holder, PoolKey, Time, WorkerId};

use crate::announced::Announced;
use crate::auto::{self, Auto};
use crate::failures::Failures;
use crate::held::Held;
use crate::rules::Rules;

/// A pool.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) key: PoolKey,
    pub(crate) homes: Vec<WorkerId>,
    /// Sessions, by holder.
    pub(crate) sessions: ByHolder<u32>,
    /// The same, by the users that logged in too.
    users: BTreeMap<(Holder, Arc<str>), u32>,
    /// Classes with work at the last request, by holder.
    pub(crate) at_work: ByHolder<ClassSet>,
    pub(crate) rules: Rules,
    /// How many servers it may have, without its reserve.
    pub(crate) size: u32,
    /// Its size is found, not given.
    pub(crate) auto: Option<Box<Auto>>,
    pub(crate) held: Held,
    pub(crate) life: Life,
    pub(crate) emptying: Emptying,
    pub(crate) failures: Failures,
    /// Of what clients have proved last.
    pub(crate) marks: Marks,
    pub(crate) announced: Announced,
}

/// Its database is to be empty: DROP DATABASE and its like.
#[derive(Debug, Default)]
pub(crate) struct Emptying {
    /// Until when nothing is opened for min_pool_size.
    pub(crate) vacant_until: Time,
    /// When its servers last had to leave their database.
    pub(crate) vacated_at: Option<Time>,
}

impl Entry {
    /// A pool of this name, as the settings describe it, that lives nowhere yet.
    pub(crate) fn new(key: PoolKey, workers: u16, settings: &Settings) -> Entry {
        let mut entry = Entry {
            key,
            homes: Vec::new(),
            sessions: ByHolder::new(workers),
            users: BTreeMap::new(),
            at_work: ByHolder::new(workers),
            rules: Rules::default(),
            size: 0,
            auto: None,
            held: Held::new(workers),
            life: Life::Used,
            emptying: Emptying::default(),
            failures: Failures::default(),
            marks: Marks::default(),
            announced: Announced::default(),
        };
        entry.configure(settings);
        entry
    }

    pub(crate) fn configure(&mut self, settings: &Settings) {
        let Some(database) = settings.database(&self.key.database) else {
            (self.size, self.rules.reserve, self.rules.min, self.auto) = (0, 0, 0, None);
            return;
        };
        let own = settings.effective(&database, &self.key.user);
        let rules = &mut self.rules;
        rules.reserve = own.reserve_pool_size;
        rules.lifetime = own.server_lifetime;
        rules.is_paused = settings.orders.of(&self.key.database).paused;
        rules.has_minimum = own.min_pool_size > 0;
        rules.min = if rules.is_paused { 0 } else { own.min_pool_size };
        rules.min -= u32::from(rules.min > 0 && does(settings, Fault::OneTooFew));
        rules.forced = database.forced_user.is_some();
        rules.max_db = own.max_db_connections;
        if self.size == 0 || !does(settings, Fault::KeepUserLimit) {
            rules.max_user = own.max_user_connections;
        }
        (self.size, self.auto) =
            auto::found(self.auto.take(), &self.rules, self.sessions.workers().len(), settings, &own);
    }

    /// A session lives there from now on.
    pub(crate) fn session_came(&mut self, holder: Holder, user: &Arc<str>) {
        *self.sessions.of_mut(holder) += 1;
        *self.users.entry((holder, Arc::clone(user))).or_default() += 1;
    }

    /// Whether a session of this user is counted there.
    pub(crate) fn has_session(&self, holder: Holder, user: &Arc<str>) -> bool {
        self.users.contains_key(&(holder, Arc::clone(user)))
    }

    pub(crate) fn session_left(&mut self, holder: Holder, user: &Arc<str>) {
        *self.sessions.of_mut(holder) -= 1;
        let key = (holder, Arc::clone(user));
        let count = self.users.get_mut(&key).expect("a session leaves that has come");
        *count -= 1;
        if *count == 0 {
            self.users.remove(&key);
        }
    }

    /// A user for each session that lives there.
    pub(crate) fn users_of(&self, holder: Holder) -> Vec<Arc<str>> {
        let there = self.users.iter().filter(|((one, _), _)| *one == holder);
        there.flat_map(|((_, user), count)| (0..*count).map(|_| Arc::clone(user))).collect()
    }

    /// How many sessions there are, by the users that logged in.
    pub(crate) fn by_user(&self) -> Vec<(Arc<str>, u32)> {
        let mut all: BTreeMap<&Arc<str>, u32> = BTreeMap::new();
        self.users.iter().for_each(|((_, user), count)| *all.entry(user).or_default() += count);
        all.into_iter().map(|(user, count)| (Arc::clone(user), count)).collect()
    }

    /// Another process has found this size for it, where it is to be found.
    pub(crate) fn start_with(&mut self, size: u32) {
        if let Some(auto) = &mut self.auto {
            auto.start_with(size);
            self.size = auto.sizing.size();
        }
    }

    /// Servers that it may have, its reserve among them.
    pub(crate) fn most(&self) -> u32 {
        self.size + self.rules.reserve
    }

    /// Whether it lacks a server that min_pool_size requires, and that may be opened though no session waits. One whose lifetime
    /// is about to end does not count.
    pub(crate) fn is_short(&self, now: Time) -> bool {
        let inhabited = self.rules.forced || self.sessions.values().any(|sessions| sessions > 0);
        self.held.lasting(now, self.rules.lifetime) < self.rules.min && inhabited && self.emptying.vacant_until <= now
    }

    /// Of its homes, the one that has the fewest of its servers.
    pub(crate) fn poorest_home(&self) -> Option<WorkerId> {
        self.held.poorest(&self.homes)
    }

    /// A home for one more session: the one that has the fewest of its sessions.
    pub(crate) fn home_for_session(&self) -> WorkerId {
        let home = self.homes.iter().copied().min_by_key(|home| self.sessions.of(*home));
        home.expect("a pool has a home")
    }

    /// A login finds it, or it has not been said that it is to be forgotten.
    pub(crate) fn is_live(&self) -> bool {
        matches!(self.life, Life::Used | Life::Unused { .. })
    }

    /// Neither a session nor a token.
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_nothing() && self.sessions.values().all(|sessions| sessions == 0)
    }
}

/// Where a pool is in its life.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    Used,
    /// No session, no token. `until`: when it is to be forgotten; [`Time::NEVER`]: by no timeout.
    Unused {
        since: Time,
        until: Time,
    },
    /// Its homes have not forgotten it yet.
    Retired,
    Free,
}
