//! A pool whose size is found: its controller, and what its homes have told.

use std::sync::Arc;
use std::time::Duration;

use machine::Settings;
use machine::mail::Counted;
use queueing::sizing::{Seen, Sizing, SizingSnapshot};
use queueing::waits::WaitCounts;
use settings::{Effective, PoolMode, PoolSize};
use units::Time;

use crate::rules::Rules;

/// How often PostgreSQL is asked what a pool's servers wait for whose size was found. Until then, at every look.
const WAITS_SELDOM: Duration = Duration::from_secs(2);

/// A pool whose size is found.
#[derive(Debug)]
pub(crate) struct Auto {
    pub(crate) sizing: Sizing,
    /// What each worker has told last.
    pub(crate) reported: Vec<Option<Counted>>,
    /// What was told since the last look, and by how many it is still to be told.
    pub(crate) seen: Seen,
    pub(crate) waits: WaitCounts,
    /// When PostgreSQL is asked again what the pool's servers wait for.
    waits_at: Time,
    pub(crate) awaited: usize,
    pub(crate) asked_at: Time,
    pub(crate) look_at: Option<Time>,
    /// Somebody waited when it was looked at last.
    pub(crate) is_crowded: bool,
    /// What workers show of it.
    pub(crate) shown: Option<Arc<SizingSnapshot>>,
}

impl Auto {
    fn new(sizing: Sizing, workers: usize) -> Auto {
        Auto {
            sizing,
            reported: vec![None; workers],
            seen: Seen::default(),
            waits: WaitCounts::default(),
            waits_at: Time::ZERO,
            awaited: 0,
            asked_at: Time::ZERO,
            look_at: None,
            is_crowded: false,
            shown: None,
        }
    }

    /// Whether PostgreSQL is to be asked now: only while somebody waits, and more seldom once the size is found.
    pub(crate) fn asks_for_waits(&mut self, now: Time) -> bool {
        if !self.is_crowded || now < self.waits_at {
            return false;
        }
        let pause = if self.sizing.settled().is_some() { WAITS_SELDOM } else { Duration::ZERO };
        self.waits_at = now + pause;
        true
    }

    /// Adds what a worker has counted since it told last.
    pub(crate) fn add(&mut self, mut counted: Counted) {
        if let Some(waits) = counted.waits.take() {
            self.waits.beside(&waits);
        }
        let worker = usize::from(counted.worker.0);
        let before = self.reported[worker].replace(counted.clone());
        let seen = &mut self.seen;
        seen.waiting += counted.waiting;
        seen.open += counted.open;
        // What a worker tells first is what it has counted since it began.
        let Some(before) = before else { return };
        let micros = |now: u64, then: u64| Duration::from_micros(now.saturating_sub(then));
        seen.span = seen.span.max(counted.at.since(before.at));
        seen.completed += counted.transactions.saturating_sub(before.transactions);
        seen.busy += micros(counted.transaction_us, before.transaction_us);
        seen.waited += micros(counted.wait_us, before.wait_us);
    }
}

/// A pool's size by the settings, and its controller if that is to be found. `before` goes on if nothing of it changes.
pub(crate) fn found(
    before: Option<Box<Auto>>,
    rules: &Rules,
    workers: usize,
    settings: &Settings,
    own: &Effective,
) -> (u32, Option<Box<Auto>>) {
    let pools = &settings.global.pools;
    if own.pool_size != PoolSize::Auto || own.pool_mode == PoolMode::Session {
        return (own.pool_size.most(pools), None);
    }
    let limit = |max: u32| if max == 0 { u32::MAX } else { max };
    let ceiling = pools.auto_pool_size_max.min(limit(rules.max_db)).min(limit(rules.max_user)).max(1);
    let floor = pools.auto_pool_size_min.max(rules.min).clamp(1, ceiling);
    let start = before.as_ref().map_or(settings.auto_pool_size_start, |auto| auto.sizing.size());
    let same = |auto: &Auto| auto.sizing.floor() == floor && auto.sizing.ceiling() == ceiling;
    let auto = before
        .filter(|auto| same(auto))
        .unwrap_or_else(|| Box::new(Auto::new(Sizing::new(floor, ceiling, start), workers)));
    (auto.sizing.size(), Some(auto))
}
