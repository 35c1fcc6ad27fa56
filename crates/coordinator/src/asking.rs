//! Who gets the next token, and what is done where a cap leaves none: idle servers of others are taken first, whoever's
//! they are; if there are none, whoever is above its share gives one back at its next release ([`super::sharing`]).
//!
//! ```text
//!   Ask ──► room ──────────────────────────────────────────────► Granted, to whoever is furthest behind
//!            └─ a cap is in the way ─► Recall (idle) of each holder ─► Freed ──┘
//!                                        └─ NothingIdle from all ─► Inquire the asker, if it asked a while ago
//!                                                                     └─ Wants ─► Recall (busy) of one ─► Freed …
//! ```
//!
//! An ask stays until it is granted. Its waiter may be served or gone meanwhile, so before somebody's server is taken for
//! an old one, the worker is asked whether it still wants it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use machine::action::Actions;
use machine::mail::ToWorker;
use queueing::classes::{ClassId, ClassSet};
use units::{PoolId, Time, WorkerId, limits};

use super::sharing::{Claim, Group, SLICE};
use super::{Coordinator, Entry};

/// A class's weight is divided among so many pools without being rounded much, and all of them together are no overflow.
const WEIGHT_PARTS: u32 = 1 << 12;

/// A worker that wants one more server.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) pool: PoolId,
    pub(super) worker: WorkerId,
    pub(super) reserve: bool,
    /// When it was last known that somebody waits for it.
    confirmed_at: Time,
    /// Its worker is asked whether somebody still does.
    inquired: bool,
}

impl Ask {
    pub(super) fn new(pool: PoolId, worker: WorkerId, reserve: bool, now: Time) -> Ask {
        Ask { pool, worker, reserve, confirmed_at: now, inquired: false }
    }

    fn is_fresh(&self, now: Time) -> bool {
        now < self.confirmed_at + limits::RECALL
    }
}

/// A worker was told to give a server back.
#[derive(Copy, Clone, Debug)]
pub(super) struct Yield {
    pub(super) worker: WorkerId,
    at: Time,
}

/// How much pools ask for beyond what is granted, and which cap is in the way; `None`: nothing is, it is to be granted now.
type Hunger = BTreeMap<PoolId, (u32, Option<Cap>)>;

/// What pools may share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cap {
    Database(Arc<str>),
    User(Arc<str>),
    Process,
}

/// What stands in the way of one more server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    None,
    PoolSize,
    Full(Cap),
}

/// A cap at which somebody is hungry.
#[derive(Debug, Default)]
pub(super) struct Contest {
    group: Group,
    sweep: Sweep,
}

/// Asking one holder after the other whether it has an idle server.
#[derive(Debug, Default)]
struct Sweep {
    left: Vec<(PoolId, WorkerId)>,
    /// Asked, and not answered yet.
    open: Vec<(PoolId, WorkerId)>,
    began_at: Option<Time>,
}

impl Sweep {
    /// Nobody has anything idle, as far as that was asked within [`limits::RECALL`].
    fn is_done(&self) -> bool {
        self.left.is_empty() && self.open.is_empty()
    }

    fn is_old(&self, now: Time) -> bool {
        self.began_at.is_none_or(|began| began + limits::RECALL <= now)
    }
}

impl Contest {
    #[cfg(test)]
    pub(super) fn behind_us(&self, pool: PoolId) -> i64 {
        self.group.behind_us(pool)
    }
}

impl Coordinator {
    /// By how much of a cap each pool's share is measured against the others': each class's weight is divided evenly among the
    /// pools in which it has work, so it has its share of the cap wherever it works.
    fn weigh(&self, claims: &mut [Claim]) {
        let classes = &self.settings.classes;
        if classes.is_single() {
            return;
        }
        let at_work = |claim: &Claim| {
            let sets = &self.pools[claim.pool.0 as usize].at_work;
            sets.iter().fold(ClassSet::default(), |all, some| all.union(*some))
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
            // Nobody knows whose work it is in a pool that has not asked since its last client: it is no more than the least.
            claim.weight = weight.max(1);
        }
    }

    /// Whether one more server may be opened in a pool.
    pub(super) fn has_room(&self, pool: PoolId) -> bool {
        self.obstacle(pool, false) == Obstacle::None
    }

    fn obstacle(&self, pool: PoolId, reserve: bool) -> Obstacle {
        let entry = &self.pools[pool.0 as usize];
        let size = entry.size + if reserve { entry.reserve } else { 0 };
        if entry.tokens() >= size {
            return Obstacle::PoolSize;
        }
        let full = caps(entry).into_iter().find(|cap| {
            let (limit, count) = self.level(entry, cap);
            limit > 0 && count >= limit
        });
        full.map_or(Obstacle::None, Obstacle::Full)
    }

    /// A cap, as this pool's settings say it, and how many tokens are out under it. 0 is no cap.
    fn level(&self, entry: &Entry, cap: &Cap) -> (u32, u32) {
        let count = |counts: &BTreeMap<Arc<str>, u32>, name: &Arc<str>| counts.get(name).copied().unwrap_or(0);
        match cap {
            Cap::Database(name) => (entry.max_db, count(&self.servers_by_database, name)),
            Cap::User(name) => (entry.max_user, count(&self.servers_by_user, name)),
            Cap::Process => (self.settings.global.pools.max_server_connections, self.servers),
        }
    }

    /// Grants what can be granted, first to whoever is furthest behind, else in order of asking; then sees to it that
    /// somebody gives back what others have a right to.
    pub(super) fn serve_asks(&mut self, now: Time, actions: &mut Actions) {
        if self.asks.is_empty() && self.contests.is_empty() {
            return;
        }
        if self.asks.len() > limits::ASKS_AT_ONCE {
            // Going through all of them at each event would be work in the square of their number.
            let next = self.served_at + Duration::from_micros(self.asks.len() as u64);
            if now < next {
                self.recall_at = Some(self.recall_at.map_or(next, |at| at.min(next)));
                return;
            }
            self.grant_in_order(now, actions);
            if self.contests.is_empty() && self.is_opening_enough(now) {
                // Nothing can be granted, and nobody is to give anything back.
                self.served_at = now;
                self.recall_at = Some(now + limits::RECALL);
                return;
            }
        }
        self.served_at = now;
        let mut hunger = self.measure(now);
        while let Some(index) = self.next_grant(now) {
            let Ask { pool, worker, .. } = self.asks.remove(index);
            self.grant(now, pool, worker, false, actions);
            hunger = self.measure(now);
        }
        let at_size = |ask: &&Ask| self.obstacle(ask.pool, ask.reserve) == Obstacle::PoolSize;
        for pool in self.asks.iter().filter(at_size).map(|ask| ask.pool).collect::<Vec<_>>() {
            self.note_want(now, pool);
        }
        let waits = !self.contests.is_empty() || self.is_opening_enough(now) && !self.asks.is_empty();
        self.recall_at = waits.then_some(now + limits::RECALL);
        for cap in self.contests.keys().cloned().collect::<Vec<_>>() {
            self.seek(now, &cap, &hunger, actions);
        }
    }

    /// Grants what no cap and no size is in the way of, in order of asking, as long as nothing is contended.
    fn grant_in_order(&mut self, now: Time, actions: &mut Actions) {
        if !self.contests.is_empty() {
            return;
        }
        let mut left = Vec::with_capacity(self.asks.len());
        let mut asks = std::mem::take(&mut self.asks).into_iter();
        while !self.is_opening_enough(now)
            && let Some(ask) = asks.next()
        {
            match self.obstacle(ask.pool, ask.reserve) {
                Obstacle::None => self.grant(now, ask.pool, ask.worker, false, actions),
                Obstacle::PoolSize | Obstacle::Full(_) => left.push(ask),
            }
        }
        left.extend(asks);
        self.asks = left;
    }

    /// Whether as many logins are under way as may be at once.
    pub(super) fn is_opening_enough(&self, now: Time) -> bool {
        let recent = self.opening.iter().rev().take_while(|(_, began)| now < *began + limits::OPENING_SLOW);
        recent.count() >= limits::OPENING_PROCESS_MAX
    }

    /// A login has come to an end, this or that way.
    pub(super) fn login_over(&mut self, pool: PoolId) {
        if let Some(index) = self.opening.iter().position(|(opening, _)| *opening == pool) {
            self.opening.remove(index);
        }
    }

    fn next_grant(&self, now: Time) -> Option<usize> {
        if self.is_opening_enough(now) {
            return None;
        }
        let may = (0..self.asks.len()).filter(|&index| {
            let ask = &self.asks[index];
            self.obstacle(ask.pool, ask.reserve) == Obstacle::None
        });
        if self.contests.is_empty() {
            return may.into_iter().next();
        }
        may.min_by_key(|&index| self.rank(self.asks[index].pool))
    }

    fn rank(&self, pool: PoolId) -> (u8, i64) {
        let entry = &self.pools[pool.0 as usize];
        let contest = caps(entry).into_iter().find_map(|cap| self.contests.get(&cap));
        contest.map_or((0, i64::MIN), |contest| contest.group.rank(pool, entry.tokens()))
    }

    /// Brings the accounts of all caps that are contended up to date, and tells at which cap whose asks are held up.
    fn measure(&mut self, now: Time) -> Hunger {
        let mut hunger = Hunger::new();
        for ask in &self.asks {
            let cap = match self.obstacle(ask.pool, ask.reserve) {
                Obstacle::PoolSize => continue,
                Obstacle::None => None,
                Obstacle::Full(cap) => Some(cap),
            };
            hunger.entry(ask.pool).or_insert((0, cap)).0 += 1;
        }
        for cap in hunger.values().filter_map(|(_, cap)| cap.as_ref()) {
            if !self.contests.contains_key(cap) {
                self.contests.insert(cap.clone(), Contest::default());
            }
        }
        for cap in self.contests.keys().cloned().collect::<Vec<_>>() {
            let (limit, claims) = self.claims(now, &cap, &hunger);
            if let Some(contest) = self.contests.get_mut(&cap) {
                contest.group.settle(now, limit, &claims);
            }
        }
        self.contests.retain(|_, contest| !contest.group.is_over(now));
        hunger
    }

    /// The cap, and who holds or wants something under it: the hungry in order of asking, then the others.
    fn claims(&self, now: Time, cap: &Cap, hunger: &Hunger) -> (u32, Vec<Claim>) {
        let (mut limit, mut claims, mut seen) = (0, Vec::new(), BTreeSet::new());
        let asking = self.asks.iter().map(|ask| ask.pool).filter(|pool| seen.insert(*pool)).collect::<Vec<_>>();
        let others = self.holders.iter().copied().filter(|pool| !seen.contains(pool));
        for pool in asking.into_iter().chain(others) {
            let entry = &self.pools[pool.0 as usize];
            if !caps(entry).contains(cap) {
                continue;
            }
            limit = self.level(entry, cap).0;
            let tokens = entry.tokens();
            let here = hunger.get(&pool).filter(|(_, other)| other.as_ref().is_none_or(|other| other == cap));
            let asked = here.map_or(0, |(count, _)| *count);
            let coming = entry.yields.iter().filter(|told| now < told.at + SLICE).count();
            claims.push(Claim {
                pool,
                weight: 1,
                min: entry.min,
                tokens,
                wants: asked.min((entry.size + entry.reserve).saturating_sub(tokens)),
                coming: coming as u32,
                overdue: (entry.yields.len() - coming) as u32,
                tenured: entry.granted_at.iter().take_while(|at| **at + SLICE <= now).count() as u32,
            });
        }
        self.weigh(&mut claims);
        (limit, claims)
    }

    /// Somebody is hungry under a cap: idle servers are looked for, and if there are none, a turn may be due.
    fn seek(&mut self, now: Time, cap: &Cap, hunger: &Hunger, actions: &mut Actions) {
        if self.is_opening_enough(now) {
            // What would come back could not be used yet.
            return;
        }
        let (limit, claims) = self.claims(now, cap, hunger);
        let wants: u32 = claims.iter().map(|claim| claim.wants).sum();
        let missing = wants.saturating_sub(claims.iter().map(|claim| claim.coming).sum());
        // Nothing is taken from anybody before it is known that somebody still waits.
        let oldest = claims.iter().find(|claim| claim.wants > 0).map(|claim| claim.pool);
        let is_fresh = |claim: &Claim| claim.wants > 0 && self.is_fresh(now, claim.pool);
        let known = claims.iter().any(is_fresh) || oldest.is_some_and(|pool| self.inquire(now, pool, actions));
        if missing == 0 || !known || !self.sweep(now, cap, &claims, missing, actions) {
            return;
        }
        let turn = self.contests.get(cap).and_then(|contest| contest.group.turn(now, limit, &claims));
        let Some(turn) = turn.filter(|turn| self.inquire(now, turn.to, actions)) else { return };
        if let Some(contest) = self.contests.get_mut(cap) {
            contest.group.turned(now);
        }
        let entry = &mut self.pools[turn.from.0 as usize];
        let told = |worker: usize| entry.yields.iter().filter(|told| usize::from(told.worker.0) == worker).count();
        let richest = (0..entry.held.len()).max_by_key(|&worker| entry.held[worker] - told(worker) as i32);
        let worker = WorkerId(richest.expect("there is a worker") as u16);
        entry.yields.push(Yield { worker, at: now });
        actions.post_to_worker(worker, ToWorker::Recall { pool: turn.from, busy: true });
    }

    /// Asks holders for idle servers, as many at a time as are wanted. True: all have been asked a moment ago, in vain.
    fn sweep(&mut self, now: Time, cap: &Cap, claims: &[Claim], missing: u32, actions: &mut Actions) -> bool {
        if self.contests.get(cap).is_some_and(|contest| contest.sweep.is_old(now)) {
            // Whoever has asked just now has nothing idle.
            let holders = claims.iter().filter(|claim| claim.wants == 0 || !self.is_fresh(now, claim.pool));
            let places = holders.flat_map(|claim| {
                let held = self.pools[claim.pool.0 as usize].held.iter().enumerate();
                held.filter(|(_, held)| **held > 0).map(|(worker, _)| (claim.pool, WorkerId(worker as u16)))
            });
            let left = places.collect();
            if let Some(contest) = self.contests.get_mut(cap) {
                contest.sweep = Sweep { left, open: Vec::new(), began_at: Some(now) };
            }
        }
        let Some(Contest { sweep, .. }) = self.contests.get_mut(cap) else { return false };
        while (sweep.open.len() as u32) < missing
            && let Some((pool, worker)) = sweep.left.pop()
        {
            sweep.open.push((pool, worker));
            actions.post_to_worker(worker, ToWorker::Recall { pool, busy: false });
        }
        sweep.is_done()
    }

    /// A holder was asked for an idle server, or to give one back, and has none.
    pub(super) fn nothing_idle(&mut self, pool: PoolId, worker: WorkerId, busy: bool) {
        let entry = &mut self.pools[pool.0 as usize];
        if busy && let Some(index) = entry.yields.iter().position(|told| told.worker == worker) {
            entry.yields.remove(index);
        } else {
            self.answered(pool, worker);
        }
    }

    /// A holder that may have been asked for an idle server has answered.
    pub(super) fn answered(&mut self, pool: PoolId, worker: WorkerId) {
        for contest in self.contests.values_mut() {
            contest.sweep.open.retain(|&open| open != (pool, worker));
        }
    }

    fn is_fresh(&self, now: Time, pool: PoolId) -> bool {
        self.asks.iter().any(|ask| ask.pool == pool && ask.is_fresh(now))
    }

    /// Whether somebody is known to wait for what this pool asks for. If that was long ago, its workers are asked.
    fn inquire(&mut self, now: Time, pool: PoolId, actions: &mut Actions) -> bool {
        if self.is_fresh(now, pool) {
            return true;
        }
        let mut told: Vec<WorkerId> = Vec::new();
        for ask in self.asks.iter_mut().filter(|ask| ask.pool == pool) {
            if !ask.inquired && !told.contains(&ask.worker) {
                told.push(ask.worker);
                actions.post_to_worker(ask.worker, ToWorker::Inquire { pool });
            }
            ask.inquired = true;
        }
        false
    }

    /// Nothing is opened any more for a database that is not configured: what was asked for it would stay for ever, and its pools with it.
    pub(super) fn drop_asks_of_removed(&mut self, now: Time, actions: &mut Actions) {
        let is_gone = |ask: &&Ask| self.settings.database(&self.pools[ask.pool.0 as usize].key.database).is_none();
        let gone: BTreeSet<(PoolId, WorkerId)> =
            self.asks.iter().filter(is_gone).map(|ask| (ask.pool, ask.worker)).collect();
        for (pool, worker) in gone {
            self.wants(now, pool, worker, 0, actions);
        }
    }

    /// So many of a worker's asks are still waited for; the newest others are dropped.
    pub(super) fn wants(&mut self, now: Time, pool: PoolId, worker: WorkerId, count: u32, actions: &mut Actions) {
        let (mut kept, mut dropped, mut reserve) = (0, 0, false);
        self.asks.retain_mut(|ask| {
            if (ask.pool, ask.worker) != (pool, worker) {
                return true;
            }
            if kept == count {
                dropped += 1;
                reserve |= ask.reserve;
                return false;
            }
            kept += 1;
            (ask.confirmed_at, ask.inquired) = (now, false);
            true
        });
        if dropped > 0 {
            actions.post_to_worker(worker, ToWorker::Dropped { pool, count: dropped, reserve });
        }
    }
}

fn caps(entry: &Entry) -> [Cap; 3] {
    [Cap::Database(Arc::clone(&entry.key.database)), Cap::User(Arc::clone(&entry.key.user)), Cap::Process]
}
