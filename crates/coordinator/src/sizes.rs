//! `pool_size = auto`: asks a pool's homes what they have counted, tells its controller, and carries out what that decides.
//!
//! Growing is granting tokens up to the new size; shrinking is `Shrink`, as after a reload. A pool is looked at from when a
//! worker requests a token that its size does not allow: before that, the size does not matter.
//!
//! ```text
//!   RequestServer, and the pool is at its size ──► every 200 ms: Count ──► homes ──► Counted ──► Sizing::observe ──► Shrink, or Granted
//!                                        (every second, where nobody waits)
//! ```
//!
//! While sessions wait, a home that is asked to count also reads the wait events of the pool's servers, between two
//! transactions of one of them; it tells when it counts the next time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use machine::action::Actions;
use machine::mail::{Counted, ToWorker};
use queueing::sizing::{LOOK, Seen};
use units::{PoolId, Time};

use crate::entry::Entry;
use crate::holders;
use crate::pools::Pools;

/// How often a pool is looked at that nobody waits for.
const LOOK_SELDOM: Duration = Duration::from_secs(1);

/// A home that has not answered for so long has lost the question.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// What to plan for: homes are chosen once. Half of the most, since a pool grows there only where that is of use.
pub(crate) fn expected(entry: &Entry) -> u32 {
    entry.auto.as_ref().map_or(entry.size, |auto| auto.sizing.ceiling() / 2)
}

/// Sees to it that a pool's workers can show its size, once they know the pool.
pub(crate) fn show(pool: PoolId, entry: &mut Entry, actions: &mut Actions) {
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

/// The pool's size is another one: tokens beyond it come back one by one, from the holder that has most.
pub(crate) fn resize(pool: PoolId, entry: &mut Entry, actions: &mut Actions) {
    let most = entry.most();
    // A worker that is to give up none is told so: an earlier size may have asked it for more.
    for (holder, count) in entry.held.shrink(most).filter(|(holder, count)| *count > 0 || holder.worker().is_some()) {
        holders::post(holder, &entry.key, ToWorker::Shrink { pool, count }, actions);
    }
}

/// Pools with a size that is to be looked at.
#[derive(Debug, Default)]
pub(crate) struct Sizes {
    looked_at: BTreeSet<PoolId>,
}

impl Sizes {
    /// A session needs a server, and the pool's size is in the way.
    pub(crate) fn note_need(&mut self, now: Time, pool: PoolId, entry: &mut Entry) {
        // A size that is given stays as it is.
        if let Some(auto) = &mut entry.auto {
            auto.look_at.get_or_insert(now);
            self.looked_at.insert(pool);
        }
    }

    /// Its id is another pool's, or nobody's.
    pub(crate) fn forget(&mut self, pool: PoolId) {
        self.looked_at.remove(&pool);
    }

    pub(crate) fn next_look(&self, pools: &Pools) -> Option<Time> {
        let looks = self.looked_at.iter().map(|pool| pools[*pool].auto.as_ref());
        looks.filter_map(|auto| auto?.look_at).min()
    }

    /// Asks the homes of every pool whose time has come.
    pub(crate) fn look(&self, now: Time, pools: &mut Pools, actions: &mut Actions) {
        for &pool in &self.looked_at {
            let entry = &mut pools[pool];
            let Some(auto) = entry.auto.as_mut().filter(|auto| auto.look_at.is_some_and(|at| at <= now)) else {
                continue;
            };
            if entry.rules.is_paused || auto.awaited > 0 && now.since(auto.asked_at) < ANSWER_MAX {
                auto.look_at = Some(now + LOOK);
                continue;
            }
            if auto.awaited > 0 {
                // A home that answers late is counted from then on.
                auto.reported.fill(None);
            }
            (auto.seen, auto.awaited, auto.asked_at) = (Seen::default(), entry.homes.len(), now);
            auto.look_at = Some(now + LOOK);
            let waits = auto.samples_waits(now);
            for &home in &entry.homes {
                actions.post_to_worker(home, ToWorker::Count { pool, with_wait_events: waits });
            }
        }
    }

    /// A home has reported what it has counted; `asked`: its pool waits for a token. Whether the size is another one now.
    pub(crate) fn counted(
        &mut self,
        now: Time,
        counted: Counted,
        asked: bool,
        entry: &mut Entry,
        actions: &mut Actions,
    ) -> bool {
        let (pool, most) = (counted.pool, entry.most());
        // A home may answer after a reload that gives the size, or so late that it is not awaited any more.
        let Some(auto) = entry.auto.as_mut().filter(|auto| auto.awaited > 0) else { return false };
        auto.add(counted);
        auto.awaited -= 1;
        if auto.awaited > 0 {
            return false;
        }
        let mut seen = std::mem::take(&mut auto.seen);
        auto.is_crowded = seen.waiting > 0;
        auto.sizing.add_wait_counts(&std::mem::take(&mut auto.wait_counts));
        let idle = seen.completed == 0 && seen.waiting == 0;
        // What is open of the reserve is not the size's.
        if seen.open <= most {
            seen.open = seen.open.min(entry.size);
        }
        let changed = !seen.span.is_zero() && auto.sizing.observe(now, seen);
        if changed {
            auto.resized_at = now;
        }
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
        show(pool, entry, actions);
        if changed {
            resize(pool, entry, actions);
        }
        changed
    }
}
