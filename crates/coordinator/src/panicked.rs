//! What a worker had that has panicked, and when it counts no more. Which servers are on their way from it is in `renewals`.

use machine::action::Actions;
use machine::mail::{Place, ToWorker};
use machine::processes::ToGranter;
use units::{Holder, Life, PoolId, Time, WorkerId};

use crate::renewals::Lender;
use crate::{Coordinator, entry, upstreams};

impl Coordinator {
    /// A worker is in the place of one that has panicked: nothing is left of what that one had, but servers on their way.
    pub(crate) fn renewed(&mut self, now: Time, worker: WorkerId, life: Life, actions: &mut Actions) {
        // Before anything that is meant for the new one.
        actions.post_to_worker(worker, ToWorker::RenewalNoted { life });
        self.hand_over_again(worker, actions);
        upstreams::tell(&self.upstreams, Place::Worker(worker), actions);
        let holder = Holder::Worker(worker);
        self.tell_granter_of_lost(holder, actions);
        self.renewals.begin(worker, life);
        self.drop_requests_of(holder, actions);
        for pool in self.pools.ids() {
            self.drop_sessions_of(holder, pool);
            let entry = &mut self.pools[pool];
            entry.held.lapse(worker, life);
            if let Some(auto) = &mut entry.auto {
                auto.worker_lost(worker);
            }
            match entry.life {
                entry::Life::Retired if entry.homes.contains(&worker) => self.pools.forgotten(pool, worker),
                entry::Life::Retired | entry::Life::Free => {}
                entry::Life::Used | entry::Life::Unused { .. } => self.note_use(now, pool),
            }
        }
        if self.renewals.has_all_arrived(worker) {
            self.release_lapsed(now, worker, actions);
        }
        self.grant_requests(now, actions);
    }

    /// A holder is gone: nothing is left of what it requested, of its logins and its permits.
    pub(crate) fn drop_requests_of(&mut self, holder: Holder, actions: &mut Actions) {
        self.requests.drop_of_holder(holder);
        self.logins.forget(holder);
        self.limits.holder_lost(holder, actions);
    }

    /// A holder is gone, and with it its sessions.
    pub(crate) fn drop_sessions_of(&mut self, holder: Holder, pool: PoolId) {
        for user in self.pools[pool].users_of(holder) {
            self.departed(pool, holder, &user);
        }
        let entry = &mut self.pools[pool];
        entry.at_work.take(holder);
        let left = entry.sessions.take(holder);
        debug_assert_eq!(left, 0, "I12: each session has a user");
    }

    /// What has lapsed with a worker, and is not held elsewhere, is free.
    fn release_lapsed(&mut self, now: Time, worker: WorkerId, actions: &mut Actions) {
        for pool in self.pools.ids() {
            let entry = &mut self.pools[pool];
            let count = entry.held.release_lapsed(worker);
            for _ in 0..count {
                self.tokens.freed(pool, &entry.key, entry.held.total());
                self.processes.tell_granter(ToGranter::Freed { key: entry.key.clone(), fresh: false }, actions);
            }
            if count > 0 {
                self.note_use(now, pool);
            }
        }
    }

    /// What workers before this life of `from` had lent to `to` has all arrived there.
    pub(crate) fn loans_arrived(&mut self, now: Time, from: WorkerId, life: Life, to: WorkerId, actions: &mut Actions) {
        self.renewals.arrived(from, life, to);
        if self.renewals.has_all_arrived(from) {
            self.release_lapsed(now, from, actions);
            self.grant_requests(now, actions);
        }
    }

    /// A lent server has arrived.
    pub(crate) fn moved(&mut self, pool: PoolId, from: WorkerId, to: WorkerId) {
        let held = &mut self.pools[pool].held;
        match self.renewals.lender(from, to) {
            Lender::Before => held.moved_from_lapsed(from, to),
            Lender::Present => held.moved(from, to),
            Lender::Later(life) => held.moved_from_later(from, life, to),
        }
    }
}
