//! Which pool gets the next token, and what is done where a cap leaves none: idle servers of other pools are taken first, whichever
//! pools they are in; if there are none, a pool above its share gives one back at its next release ([`crate::sharing`]).
//!
//! ```text
//!   RequestServer ──► room ────────────────────────────────────────► Granted, to the pool that is furthest behind
//!            └─ a cap is in the way ─► Recall (idle) of each holder ─► Freed ──┘
//!                                        └─ NothingIdle from all ─► Inquire the asker, if it asked a while ago
//!                                                                     └─ Wants ─► Recall (busy) of one ─► Freed …
//! ```
//!
//! A request stays until it is granted. Its waiter may be served or gone meanwhile, so before a server is taken from another pool for
//! an old one, the worker is asked whether it still needs it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use machine::action::Actions;
use machine::mail::ToWorker;
use machine::sabotage::{Fault, does};
use machine::{Settings, Upstreams};
use queueing::classes::{ClassId, ClassSet};
use units::{Holder, PoolId, PoolKey, ProcessId, Time, limits};

use crate::holders;
use crate::pools::Pools;
use crate::server_logins::{self, ServerLogins};
use crate::sharing::{Claim, Group};
use crate::tokens::{Cap, Obstacle, Tokens};

/// A class's weight is divided among so many pools without being rounded much, and all of them together are no overflow.
const WEIGHT_PARTS: u32 = 1 << 12;

/// A holder's request for one more server.
#[derive(Debug)]
pub(crate) struct ServerRequest {
    pub(crate) pool: PoolId,
    pub(crate) holder: Holder,
    reserve: bool,
    /// When it was last known that a session waits for it.
    confirmed_at: Time,
    /// Its holder is asked whether a session still does.
    inquired: bool,
}

impl ServerRequest {
    pub(crate) fn new(pool: PoolId, holder: Holder, reserve: bool, now: Time) -> ServerRequest {
        ServerRequest { pool, holder, reserve, confirmed_at: now, inquired: false }
    }

    pub(crate) fn reserve(&self) -> bool {
        self.reserve
    }

    fn is_fresh(&self, now: Time) -> bool {
        now < self.confirmed_at + limits::RECALL
    }
}

/// How many tokens pools request beyond those granted, and which cap is in the way; `None`: nothing is, it is to be granted now.
pub(crate) type Demand = BTreeMap<PoolId, (u32, Option<Cap>)>;

/// A cap at which pools wait.
#[derive(Debug, Default)]
struct Contest {
    group: Group,
    sweep: Sweep,
}

/// Asking one holder after the other whether it has an idle server.
#[derive(Debug, Default)]
struct Sweep {
    left: Vec<(PoolId, Holder)>,
    /// Asked, and not answered yet.
    open: Vec<(PoolId, Holder)>,
    began_at: Option<Time>,
}

impl Sweep {
    /// No pool has an idle server, as far as was asked within [`limits::RECALL`].
    fn is_done(&self) -> bool {
        self.left.is_empty() && self.open.is_empty()
    }

    fn is_old(&self, now: Time) -> bool {
        self.began_at.is_none_or(|began| began + limits::RECALL <= now)
    }
}

/// What is out, and what may be.
#[derive(Copy, Clone, Debug)]
pub(crate) struct CapacityView<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) pools: &'a Pools,
    pub(crate) tokens: &'a Tokens,
    pub(crate) logins: &'a ServerLogins,
    pub(crate) upstreams: &'a Upstreams,
    pub(crate) now: Time,
}

impl CapacityView<'_> {
    pub(crate) fn obstacle(&self, request: &ServerRequest) -> Obstacle {
        let entry = &self.pools[request.pool];
        match self.tokens.obstacle(self.settings, entry, request.reserve) {
            Obstacle::None if self.is_ramp_full(&entry.key) => Obstacle::Ramp,
            obstacle => obstacle,
        }
    }

    /// Whether as many log in at a pool's host as may at once.
    pub(crate) fn is_ramp_full(&self, key: &PoolKey) -> bool {
        let host = || server_logins::host_of(self.settings, self.upstreams, key);
        !does(self.settings, Fault::SkipRamp)
            && self.logins.has_ramps(self.now)
            && host().is_some_and(|host| self.logins.are_enough_at(self.now, &host))
    }

    /// By how much of a cap each pool's share is measured against the others': each class's weight is divided evenly among the
    /// pools in which it has work, so it has its share of the cap wherever it works.
    fn weigh(&self, claims: &mut [Claim]) {
        let classes = &self.settings.classes;
        if classes.is_single() {
            return;
        }
        let at_work = |claim: &Claim| {
            let sets = &self.pools[claim.pool].at_work;
            sets.values().fold(ClassSet::default(), ClassSet::union)
        };
        let sets: Vec<ClassSet> = claims.iter().map(at_work).collect();
        let mut weights = vec![0u32; claims.len()];
        for (index, class) in classes.all.iter().enumerate() {
            let id = ClassId(index as u8);
            let pools = sets.iter().filter(|set| set.contains(id)).count().max(1) as u32;
            let each = (class.weight.saturating_mul(WEIGHT_PARTS) / pools).max(1);
            for (weight, _) in weights.iter_mut().zip(&sets).filter(|(_, set)| set.contains(id)) {
                *weight = weight.saturating_add(each);
            }
        }
        for (claim, weight) in claims.iter_mut().zip(weights) {
            // The classes of the work are unknown in a pool that has requested nothing since its last client: it counts as the least.
            claim.weight = weight.max(1);
        }
    }
}

/// Requests for servers, and what is done where caps leave nothing.
#[derive(Debug, Default)]
pub(crate) struct ServerRequests {
    /// In order of arrival.
    requests: Vec<ServerRequest>,
    /// When they were last gone through, and are to be again.
    served_at: Time,
    serve_at: Option<Time>,
    /// Caps at which pools wait, or did a moment ago.
    contests: BTreeMap<Cap, Contest>,
}

impl ServerRequests {
    pub(crate) fn push(&mut self, request: ServerRequest) {
        self.requests.push(request);
    }

    pub(crate) fn has_requests(&self, pool: PoolId) -> bool {
        self.requests.iter().any(|request| request.pool == pool)
    }

    /// A cap keeps a worker from getting its first server of the pool. The workers that have one send it their login report, so that
    /// its clients can log in without a server. There is no such mail between processes: `balance` gets the sessions of each a server of
    /// their own.
    pub(crate) fn share_report(&self, pools: &Pools, pool: PoolId, to: Holder, actions: &mut Actions) {
        let (Holder::Worker(with), held) = (to, &pools[pool].held) else { return };
        if held.of(with) == 0 && self.has_requests(pool) {
            let workers = held.holders().filter_map(Holder::worker);
            workers.for_each(|worker| actions.post_to_worker(worker, ToWorker::ShareReport { pool, with }));
        }
    }

    pub(crate) fn serve_at(&self) -> Option<Time> {
        self.serve_at
    }

    /// Whether it is time to go through them for nothing but that it is time.
    pub(crate) fn is_due(&mut self, now: Time) -> bool {
        self.serve_at.take_if(|at| now >= *at).is_some()
    }

    /// There is nobody to be served.
    pub(crate) fn is_calm(&self) -> bool {
        self.requests.is_empty() && self.contests.is_empty()
    }

    /// Going through all of them at each event would be work in the square of their number.
    pub(crate) fn are_many(&self) -> bool {
        self.requests.len() > limits::ASKS_AT_ONCE
    }

    /// They were gone through just now, and are later again.
    pub(crate) fn put_off(&mut self, now: Time) -> bool {
        let next = self.served_at + Duration::from_micros(self.requests.len() as u64);
        let later = now < next;
        if later {
            self.serve_at = Some(self.serve_at.map_or(next, |at| at.min(next)));
        }
        later
    }

    pub(crate) fn is_contested(&self) -> bool {
        !self.contests.is_empty()
    }

    /// They were gone through; `waits`: and are again when a pool may have something to give back.
    pub(crate) fn served(&mut self, now: Time, waits: bool) {
        self.served_at = now;
        self.serve_at = waits.then_some(now + limits::RECALL);
    }

    /// Whether requests wait for something else than their pool's size.
    pub(crate) fn waits_at_cap(&self, view: &CapacityView<'_>) -> bool {
        let is_ramp_full = || self.requests.iter().any(|request| view.obstacle(request) == Obstacle::Ramp);
        let waits = view.logins.are_enough(view.now) || view.logins.has_ramps(view.now) && is_ramp_full();
        self.is_contested() || waits && !self.requests.is_empty()
    }

    /// Takes out all, to be gone through in order; what is left comes back by [`Asks::put_back`].
    pub(crate) fn take(&mut self) -> Vec<ServerRequest> {
        std::mem::take(&mut self.requests)
    }

    pub(crate) fn put_back(&mut self, requests: Vec<ServerRequest>) {
        debug_assert!(self.requests.is_empty(), "nobody asks meanwhile");
        self.requests = requests;
    }

    /// Takes out the request that is to be granted next: of the pool that is furthest behind, else the oldest.
    pub(crate) fn next_grant(&mut self, now: Time, view: &CapacityView<'_>) -> Option<ServerRequest> {
        if view.logins.are_enough(now) {
            return None;
        }
        let mut may = (0..self.requests.len()).filter(|&index| view.obstacle(&self.requests[index]) == Obstacle::None);
        let index = if self.contests.is_empty() {
            may.next()
        } else {
            may.min_by_key(|&index| self.rank(self.requests[index].pool, view))
        };
        index.map(|index| self.requests.remove(index))
    }

    fn rank(&self, pool: PoolId, view: &CapacityView<'_>) -> (u8, i64) {
        let entry = &view.pools[pool];
        let contest = Cap::of(&entry.key).into_iter().find_map(|cap| self.contests.get(&cap));
        contest.map_or((0, i64::MIN), |contest| contest.group.rank(pool, entry.held.total()))
    }

    /// Pools whose requests are held up by their size.
    pub(crate) fn at_their_size(&self, view: &CapacityView<'_>) -> Vec<PoolId> {
        let at_size = self.requests.iter().filter(|request| view.obstacle(request) == Obstacle::PoolSize);
        at_size.map(|request| request.pool).collect()
    }

    /// Whether another process requests a server in a pool; `None`: whether a worker here does.
    pub(crate) fn are_of(&self, pool: PoolId, process: Option<ProcessId>) -> bool {
        self.requests.iter().any(|request| request.pool == pool && request.holder.process() == process)
    }

    /// Holders that request something.
    pub(crate) fn holders(&self) -> impl Iterator<Item = Holder> {
        self.requests.iter().map(|request| request.holder)
    }

    /// Brings the accounts of all caps that are contended up to date, and says which pools' requests are held up at which cap.
    pub(crate) fn measure(&mut self, now: Time, view: &CapacityView<'_>) -> Demand {
        let mut demand = Demand::new();
        for request in &self.requests {
            let cap = match view.obstacle(request) {
                Obstacle::PoolSize | Obstacle::Ramp => continue,
                Obstacle::None => None,
                Obstacle::Full(cap) => Some(cap),
            };
            demand.entry(request.pool).or_insert((0, cap)).0 += 1;
        }
        for cap in demand.values().filter_map(|(_, cap)| cap.as_ref()) {
            if !self.contests.contains_key(cap) {
                self.contests.insert(cap.clone(), Contest::default());
            }
        }
        for cap in self.contested() {
            let (limit, claims) = self.claims(now, &cap, &demand, view);
            if let Some(contest) = self.contests.get_mut(&cap) {
                contest.group.update_accounts(now, limit, &claims);
            }
        }
        self.contests.retain(|_, contest| !contest.group.is_over(now));
        demand
    }

    pub(crate) fn contested(&self) -> Vec<Cap> {
        self.contests.keys().cloned().collect()
    }

    /// The cap, and the pools that hold or request something under it: those with requests in their order, then the others.
    fn claims(&self, now: Time, cap: &Cap, demand: &Demand, view: &CapacityView<'_>) -> (u32, Vec<Claim>) {
        let (mut limit, mut claims, mut seen) = (0, Vec::new(), BTreeSet::new());
        let asking =
            self.requests.iter().map(|request| request.pool).filter(|pool| seen.insert(*pool)).collect::<Vec<_>>();
        let others = view.tokens.holders().filter(|pool| !seen.contains(pool));
        for pool in asking.into_iter().chain(others) {
            let entry = &view.pools[pool];
            if !Cap::of(&entry.key).contains(cap) {
                continue;
            }
            limit = view.tokens.level(view.settings, entry, cap).0;
            let tokens = entry.held.total();
            let here = demand.get(&pool).filter(|(_, other)| other.as_ref().is_none_or(|other| other == cap));
            let asked = here.map_or(0, |(count, _)| *count);
            let (coming, overdue) = entry.held.yielding(now);
            claims.push(Claim {
                pool,
                weight: 1,
                min: entry.rules.min,
                tokens,
                needed: asked.min(entry.most().saturating_sub(tokens)),
                coming,
                overdue,
                tenured: entry.held.tenured(now),
            });
        }
        view.weigh(&mut claims);
        (limit, claims)
    }

    /// A pool waits under a cap: idle servers are looked for, and if there are none, a transfer may be due. Returns the pool
    /// that is to give one back at its next release.
    pub(crate) fn seek(
        &mut self,
        now: Time,
        cap: &Cap,
        demand: &Demand,
        view: &CapacityView<'_>,
        actions: &mut Actions,
    ) -> Option<PoolId> {
        if view.logins.are_enough(now) {
            // What would come back could not be used yet.
            return None;
        }
        let (limit, claims) = self.claims(now, cap, demand, view);
        let needed: u32 = claims.iter().map(|claim| claim.needed).sum();
        let missing = needed.saturating_sub(claims.iter().map(|claim| claim.coming).sum());
        // Nothing is taken from a pool before it is known that another still waits.
        let oldest = claims.iter().find(|claim| claim.needed > 0).map(|claim| claim.pool);
        let is_fresh = |claim: &Claim| claim.needed > 0 && self.is_fresh(now, claim.pool);
        let known =
            claims.iter().any(is_fresh) || oldest.is_some_and(|pool| self.inquire(now, pool, view.pools, actions));
        if missing == 0 || !known || !self.sweep(now, cap, &claims, (missing, view.pools), actions) {
            return None;
        }
        let transfer = self.contests.get(cap).and_then(|contest| contest.group.next_transfer(now, limit, &claims))?;
        if !self.inquire(now, transfer.to, view.pools, actions) {
            return None;
        }
        if let Some(contest) = self.contests.get_mut(cap) {
            contest.group.transfer_made(now);
        }
        Some(transfer.from)
    }

    /// Asks holders for idle servers, as many at a time as are `missing`. True: all have been asked a moment ago, in vain.
    fn sweep(
        &mut self,
        now: Time,
        cap: &Cap,
        claims: &[Claim],
        (missing, pools): (u32, &Pools),
        actions: &mut Actions,
    ) -> bool {
        if self.contests.get(cap).is_some_and(|contest| contest.sweep.is_old(now)) {
            // A pool that has requested a server just now has nothing idle.
            let holders = claims.iter().filter(|claim| claim.needed == 0 || !self.is_fresh(now, claim.pool));
            let places = holders.flat_map(|claim| pools[claim.pool].held.holders().map(|holder| (claim.pool, holder)));
            let left = places.collect();
            if let Some(contest) = self.contests.get_mut(cap) {
                contest.sweep = Sweep { left, open: Vec::new(), began_at: Some(now) };
            }
        }
        // Nothing is contested here.
        let Some(Contest { sweep, .. }) = self.contests.get_mut(cap) else { return false };
        while (sweep.open.len() as u32) < missing
            && let Some((pool, holder)) = sweep.left.pop()
        {
            sweep.open.push((pool, holder));
            holders::post(holder, &pools[pool].key, ToWorker::Recall { pool, busy: false }, actions);
        }
        sweep.is_done()
    }

    /// A holder that may have been asked for an idle server has answered.
    pub(crate) fn answered(&mut self, pool: PoolId, holder: Holder) {
        for contest in self.contests.values_mut() {
            contest.sweep.open.retain(|&open| open != (pool, holder));
        }
    }

    fn is_fresh(&self, now: Time, pool: PoolId) -> bool {
        self.requests.iter().any(|request| request.pool == pool && request.is_fresh(now))
    }

    /// Whether sessions are known to wait for what this pool requests. If that was long ago, its holders are asked.
    fn inquire(&mut self, now: Time, pool: PoolId, pools: &Pools, actions: &mut Actions) -> bool {
        if self.is_fresh(now, pool) {
            return true;
        }
        let mut inquired: Vec<Holder> = Vec::new();
        for request in self.requests.iter_mut().filter(|request| request.pool == pool) {
            if !request.inquired && !inquired.contains(&request.holder) {
                inquired.push(request.holder);
                holders::post(request.holder, &pools[pool].key, ToWorker::Inquire { pool }, actions);
            }
            request.inquired = true;
        }
        false
    }

    /// Nothing is opened any more for a database that is not configured: requests for it would stay for ever, and its pools with them.
    pub(crate) fn drop_of_removed(&mut self, now: Time, settings: &Settings, pools: &Pools, actions: &mut Actions) {
        let is_gone = |request: &&ServerRequest| settings.database(&pools[request.pool].key.database).is_none();
        let gone: BTreeSet<(PoolId, Holder)> =
            self.requests.iter().filter(is_gone).map(|request| (request.pool, request.holder)).collect();
        for (pool, holder) in gone {
            self.confirm(now, (pool, &pools[pool].key), holder, 0, actions);
        }
    }

    /// A holder is gone: nobody waits for what it has requested, and it answers nothing that it was asked.
    pub(crate) fn drop_of_holder(&mut self, holder: Holder) {
        self.requests.retain(|request| request.holder != holder);
        for contest in self.contests.values_mut() {
            contest.sweep.open.retain(|(_, asked)| *asked != holder);
            contest.sweep.left.retain(|(_, one)| *one != holder);
        }
    }

    /// Nobody waits any more for what pools without sessions have requested.
    pub(crate) fn drop_of_unused(&mut self, unused: &BTreeSet<PoolId>, pools: &Pools, actions: &mut Actions) {
        let mut dropped: BTreeMap<(PoolId, Holder), (u32, bool)> = BTreeMap::new();
        self.requests.retain(|request| {
            let stays = !unused.contains(&request.pool);
            if !stays {
                let (count, reserve) = dropped.entry((request.pool, request.holder)).or_default();
                *count += 1;
                *reserve |= request.reserve;
            }
            stays
        });
        for ((pool, holder), (count, reserve)) in dropped {
            holders::post(holder, &pools[pool].key, ToWorker::Dropped { pool, count, reserve }, actions);
        }
    }

    /// Of a holder's requests `count` are still waited for; the newest others are dropped.
    pub(crate) fn confirm(
        &mut self,
        now: Time,
        (pool, key): (PoolId, &PoolKey),
        holder: Holder,
        count: u32,
        actions: &mut Actions,
    ) {
        let (mut kept, mut dropped, mut reserve) = (0, 0, false);
        self.requests.retain_mut(|request| {
            if (request.pool, request.holder) != (pool, holder) {
                return true;
            }
            if kept == count {
                dropped += 1;
                reserve |= request.reserve;
                return false;
            }
            kept += 1;
            (request.confirmed_at, request.inquired) = (now, false);
            true
        });
        if dropped > 0 {
            holders::post(holder, key, ToWorker::Dropped { pool, count: dropped, reserve }, actions);
        }
    }

    /// By how much a pool is behind its share of the cap that is contended.
    #[cfg(test)]
    pub(crate) fn behind_us(&self, pool: PoolId) -> i64 {
        self.contests.values().next().map_or(0, |contest| contest.group.behind_us(pool))
    }
}
