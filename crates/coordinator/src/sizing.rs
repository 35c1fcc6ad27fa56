//! `pool_size = auto`: asks a pool's homes what they have counted, tells its controller, and carries out what that decides.
//!
//! Growing is granting tokens up to the new size; shrinking is `Shrink`, as after a reload. A pool is looked at from when a
//! worker asks for a token that its size does not allow: before that, the size does not matter.
//!
//! ```text
//!   Ask, and the pool is at its size ──► every 200 ms: Count ──► homes ──► Counted ──► Sizing::observe ──► Shrink, or Granted
//!                                        (every second, where nobody waits)
//! ```
//!
//! While somebody waits, a home that is asked to count also asks PostgreSQL what the pool's servers wait for, between two
//! transactions of one of them; it tells when it counts the next time.

use std::sync::Arc;
use std::time::Duration;

use machine::Settings;
use machine::action::Actions;
use machine::mail::{Counted, ToWorker};
use queueing::sizing::{Account, LOOK, Seen, Sizing};
use queueing::waits::Waits;
use settings::{Effective, PoolMode, PoolSize};
use units::{PoolId, Time, WorkerId};

use super::{Coordinator, Entry};

/// How often a pool is looked at that nobody waits for.
const LOOK_SELDOM: Duration = Duration::from_secs(1);

/// How often PostgreSQL is asked what a pool's servers wait for whose size was found. Until then, at every look.
const WAITS_SELDOM: Duration = Duration::from_secs(2);

/// A home that has not answered for so long has lost the question.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// A pool whose size is found.
#[derive(Debug)]
pub(super) struct Auto {
    sizing: Sizing,
    /// What each worker has told last.
    told: Vec<Option<Counted>>,
    /// What was told since the last look, and by how many it is still to be told.
    seen: Seen,
    waits: Waits,
    /// When PostgreSQL is asked again what the pool's servers wait for.
    waits_at: Time,
    awaited: usize,
    asked_at: Time,
    look_at: Option<Time>,
    /// Somebody waited when it was looked at last.
    is_crowded: bool,
    /// What workers show of it.
    shown: Option<Arc<Account>>,
}

impl Auto {
    fn new(sizing: Sizing, workers: usize) -> Auto {
        Auto {
            sizing,
            told: vec![None; workers],
            seen: Seen::default(),
            waits: Waits::default(),
            waits_at: Time::ZERO,
            awaited: 0,
            asked_at: Time::ZERO,
            look_at: None,
            is_crowded: false,
            shown: None,
        }
    }

    /// Whether PostgreSQL is to be asked now: only while somebody waits, and more seldom once the size is found.
    fn asks_for_waits(&mut self, now: Time) -> bool {
        if !self.is_crowded || now < self.waits_at {
            return false;
        }
        let pause = if self.sizing.settled().is_some() { WAITS_SELDOM } else { Duration::ZERO };
        self.waits_at = now + pause;
        true
    }

    /// Adds what a worker has counted since it told last.
    fn add(&mut self, mut counted: Counted) {
        if let Some(waits) = counted.waits.take() {
            self.waits.beside(&waits);
        }
        let worker = usize::from(counted.worker.0);
        let before = self.told[worker].replace(counted.clone());
        let seen = &mut self.seen;
        seen.waiting += counted.waiting;
        seen.open += counted.open;
        let Some(before) = before else { return };
        let micros = |now: u64, then: u64| Duration::from_micros(now.saturating_sub(then));
        seen.span = seen.span.max(counted.at.since(before.at));
        seen.completed += counted.transactions.saturating_sub(before.transactions);
        seen.busy += micros(counted.transaction_us, before.transaction_us);
        seen.waited += micros(counted.wait_us, before.wait_us);
    }
}

/// A pool's size by the settings, and its controller if that is to be found. `entry.auto` goes on if nothing of it changes.
pub(super) fn apply(entry: &mut Entry, settings: &Settings, own: &Effective) {
    let pools = &settings.global.pools;
    entry.size = own.pool_size.most(pools);
    if own.pool_size != PoolSize::Auto || own.pool_mode == PoolMode::Session {
        entry.auto = None;
        return;
    }
    let limit = |max: u32| if max == 0 { u32::MAX } else { max };
    let ceiling = pools.auto_pool_size_max.min(limit(entry.max_db)).min(limit(entry.max_user)).max(1);
    let floor = pools.auto_pool_size_min.max(entry.min).clamp(1, ceiling);
    let same = |auto: &&mut Box<Auto>| auto.sizing.floor() == floor && auto.sizing.ceiling() == ceiling;
    if let Some(auto) = entry.auto.as_mut().filter(same) {
        entry.size = auto.sizing.size();
        return;
    }
    let start = entry.auto.as_ref().map_or(settings.auto_pool_size_start, |auto| auto.sizing.size());
    let sizing = Sizing::new(floor, ceiling, start);
    entry.size = sizing.size();
    entry.auto = Some(Box::new(Auto::new(sizing, entry.held.len())));
}

/// What to plan for: homes are chosen once. Half of the most, since a pool grows there only where that is of use.
pub(super) fn expected(entry: &Entry) -> u32 {
    entry.auto.as_ref().map_or(entry.size, |auto| auto.sizing.ceiling() / 2)
}

impl Coordinator {
    /// The size that a pool may have now, without its reserve.
    #[must_use]
    pub fn size(&self, pool: PoolId) -> u32 {
        self.pools.get(pool.0 as usize).map_or(0, |entry| entry.size)
    }

    /// What finds a pool's size, if that is to be found.
    #[must_use]
    pub fn sizing(&self, pool: PoolId) -> Option<&Sizing> {
        Some(&self.pools.get(pool.0 as usize)?.auto.as_ref()?.sizing)
    }

    /// Somebody wants a server, and the pool's size is in the way.
    pub(super) fn note_want(&mut self, now: Time, pool: PoolId) {
        let Some(auto) = &mut self.pools[pool.0 as usize].auto else { return };
        auto.look_at.get_or_insert(now);
        self.looked_at.insert(pool);
    }

    /// Sees to it that a pool's workers can show its size, once they know the pool.
    pub(super) fn show_size(&mut self, pool: PoolId, actions: &mut Actions) {
        let entry = &mut self.pools[pool.0 as usize];
        let Some(auto) = &mut entry.auto else { return };
        let account = auto.sizing.account();
        if auto.shown.as_deref() == Some(&account) {
            return;
        }
        let account = Arc::new(account);
        auto.shown = Some(Arc::clone(&account));
        for &home in &entry.homes {
            actions.post_to_worker(home, ToWorker::Sized { pool, account: Arc::clone(&account) });
        }
    }

    pub(super) fn next_look(&self) -> Option<Time> {
        let looks = self.looked_at.iter().map(|pool| self.pools[pool.0 as usize].auto.as_ref());
        looks.filter_map(|auto| auto?.look_at).min()
    }

    /// Asks the homes of every pool whose time has come.
    pub(super) fn look_at_sizes(&mut self, now: Time, actions: &mut Actions) {
        for &pool in &self.looked_at {
            let entry = &mut self.pools[pool.0 as usize];
            let Some(auto) = entry.auto.as_mut().filter(|auto| auto.look_at.is_some_and(|at| at <= now)) else {
                continue;
            };
            if auto.awaited > 0 && now.since(auto.asked_at) < ANSWER_MAX {
                auto.look_at = Some(now + LOOK);
                continue;
            }
            if auto.awaited > 0 {
                // Whoever answers late is counted from then on.
                auto.told.fill(None);
            }
            (auto.seen, auto.awaited, auto.asked_at) = (Seen::default(), entry.homes.len(), now);
            auto.look_at = Some(now + LOOK);
            let waits = auto.asks_for_waits(now);
            for &home in &entry.homes {
                actions.post_to_worker(home, ToWorker::Count { pool, waits });
            }
        }
    }

    /// A home has told what it has counted.
    pub(super) fn counted(&mut self, now: Time, counted: Counted, actions: &mut Actions) {
        let pool = counted.pool;
        let asked = self.asks.iter().any(|ask| ask.pool == pool);
        let entry = &mut self.pools[pool.0 as usize];
        let Some(auto) = entry.auto.as_mut().filter(|auto| auto.awaited > 0) else { return };
        auto.add(counted);
        auto.awaited -= 1;
        if auto.awaited > 0 {
            return;
        }
        let mut seen = std::mem::take(&mut auto.seen);
        auto.is_crowded = seen.waiting > 0;
        auto.sizing.hear(&std::mem::take(&mut auto.waits));
        let idle = seen.completed == 0 && seen.waiting == 0;
        // What is open of the reserve is not the size's.
        if seen.open <= entry.size + entry.reserve {
            seen.open = seen.open.min(entry.size);
        }
        let changed = !seen.span.is_zero() && auto.sizing.observe(now, seen);
        entry.size = auto.sizing.size();
        let calm = auto.sizing.settled().is_some_and(|size| size == entry.size) && seen.waiting == 0;
        auto.look_at = match (idle && !asked && calm, calm || idle) {
            (true, _) => None,
            (false, true) => Some(now + LOOK_SELDOM),
            (false, false) => Some(now + LOOK),
        };
        if auto.look_at.is_none() {
            self.looked_at.remove(&pool);
        }
        self.show_size(pool, actions);
        if changed {
            self.resize(pool, actions);
            self.serve_asks(now, actions);
        }
    }

    /// The pool's size is another one: tokens beyond it come back one by one, from whoever holds most.
    pub(super) fn resize(&mut self, pool: PoolId, actions: &mut Actions) {
        let entry = &mut self.pools[pool.0 as usize];
        let over = entry.tokens().saturating_sub(entry.size + entry.reserve);
        entry.over = over;
        let mut left = entry.held.clone();
        for _ in 0..over {
            if let Some(most) = left.iter_mut().max_by_key(|held| **held) {
                *most -= 1;
            }
        }
        for (worker, (held, left)) in entry.held.iter().zip(left).enumerate() {
            let count = u32::try_from(held - left).unwrap_or(0);
            actions.post_to_worker(WorkerId(worker as u16), ToWorker::Shrink { pool, count });
        }
    }
}
