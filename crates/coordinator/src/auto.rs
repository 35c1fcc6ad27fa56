//! A pool whose size is found: its controller, and the counts that its homes have reported.

use std::sync::Arc;
use std::time::Duration;

use machine::Settings;
use machine::mail::Counted;
use queueing::sizing::{Seen, Sizing, SizingSnapshot};
use queueing::wait_events::WaitCounts;
use settings::{Effective, PoolMode, PoolSize};
use units::{Time, WorkerId};

use crate::rules::Rules;

/// How often wait events are read of a pool whose size was found. Until then, at every look.
const WAITS_SELDOM: Duration = Duration::from_secs(2);

/// For so long after its last change a size may go on changing.
const RESIZED: Duration = Duration::from_secs(10);

/// A pool whose size is found.
#[derive(Debug)]
pub(crate) struct Auto {
    pub(crate) sizing: Sizing,
    /// What each worker has reported last.
    pub(crate) reported: Vec<Option<Counted>>,
    /// What was reported since the last look, and how many workers have not reported yet.
    pub(crate) seen: Seen,
    pub(crate) wait_counts: WaitCounts,
    /// When the pool's wait events are read again.
    wait_sampling_at: Time,
    pub(crate) awaited: usize,
    pub(crate) asked_at: Time,
    pub(crate) resized_at: Time,
    pub(crate) look_at: Option<Time>,
    /// Sessions waited when it was looked at last.
    pub(crate) is_crowded: bool,
    /// What workers show of it.
    pub(crate) shown: Option<Arc<SizingSnapshot>>,
}

impl Auto {
    /// Another process has found this size.
    pub(crate) fn start_with(&mut self, size: u32) {
        self.sizing = Sizing::new(self.sizing.floor(), self.sizing.ceiling(), size);
    }

    fn new(sizing: Sizing, workers: usize) -> Auto {
        Auto {
            sizing,
            reported: vec![None; workers],
            seen: Seen::default(),
            wait_counts: WaitCounts::default(),
            wait_sampling_at: Time::ZERO,
            awaited: 0,
            asked_at: Time::ZERO,
            resized_at: Time::ZERO,
            look_at: None,
            is_crowded: false,
            shown: None,
        }
    }

    /// Whether wait events are to be read now: while sessions wait, or where they have decided about the size; more seldom once it is found.
    pub(crate) fn samples_waits(&mut self, now: Time) -> bool {
        if !self.is_crowded && !self.sizing.waits.have_decided() || now < self.wait_sampling_at {
            return false;
        }
        let is_found = self.sizing.settled().is_some() && now.since(self.resized_at) >= RESIZED;
        let pause = if is_found { WAITS_SELDOM } else { Duration::ZERO };
        self.wait_sampling_at = now + pause;
        true
    }

    /// A worker has panicked: the next one counts from nothing, and is to show the size.
    pub(crate) fn worker_lost(&mut self, worker: WorkerId) {
        self.reported[usize::from(worker.0)] = None;
        self.shown = None;
    }

    /// Adds what a worker has counted since its last report.
    pub(crate) fn add(&mut self, mut counted: Counted) {
        if let Some(waits) = counted.wait_events.take() {
            self.wait_counts.beside(&waits);
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
