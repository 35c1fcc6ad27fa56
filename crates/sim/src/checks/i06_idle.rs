//! I6: no eligible session waits while a server of its pool is idle. Within a worker this holds at once; between
//! workers after 1 ms, a mean service time and one exchange of mailboxes, or several exchanges in worlds where
//! exchanges fail because a worker's view of the board is late or a mailbox is full. A pool's first clients wait until
//! side effects have been read from one of its servers. While SUSPEND is in force nobody is served, and a second after RESUME everybody is
//! again (I16): a wait before that does not count.

use std::collections::BTreeMap;

use machine::snapshot::PoolSnapshot;
use machine::{Look, Snapshot};
use units::{PoolId, Time};

use super::WorldView;
use crate::course::{Finding, Stage};
use crate::plan::Plan;
use crate::plan::hosts::LATE_LOAN_US;
use crate::promises::reserve;

/// The extra time for opening a server beyond its timeouts: late letters, late rounds.
const OPENING_US: u64 = 800_000;

/// The probability that a bound is exceeded by chance alone.
const RARE: f64 = 1e-9;

/// The pools of each worker at its last check, and what the coordinator has granted them.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    pools: BTreeMap<(PoolId, u16), IdleRecord>,
    full: BTreeMap<PoolId, Full>,
}

/// When a pool last had all servers that its size allows, and all including its reserve.
#[derive(Copy, Clone, Debug, Default)]
struct Full {
    size_at: u64,
    reserve_at: u64,
}

/// Since when a session waits there, and since when a server is idle there without being assigned.
#[derive(Copy, Clone, Debug, Default)]
struct IdleRecord {
    waiting_since: Option<u64>,
    idle_since: Option<u64>,
    /// Assignments and lends so far.
    given: u64,
    patience: u64,
}

/// The longest time of an exchange of mailboxes in this world: a letter each way, and the rounds that read them.
pub(crate) fn exchange_us(plan: &Plan) -> u64 {
    let loan = if plan.late_loans > 0 { LATE_LOAN_US } else { 0 };
    1_000 + loan + if plan.weather.late > 0 { 20_000 } else { 200 }
}

/// How often an exchange may have to be tried until it succeeds.
pub(crate) fn tries(plan: &Plan) -> u64 {
    let chance = |per_mille: u32| f64::from(per_mille) / 1000.0;
    let fails = 1.0 - (1.0 - chance(plan.faults.late_board)) * (1.0 - chance(plan.faults.full_mailbox));
    if fails == 0.0 { 1 } else { (RARE.ln() / fails.ln()).ceil() as u64 }
}

fn awaits_side_effects(view: &WorldView<'_>, worker: u16, pool: PoolId) -> bool {
    view.machines.worker(worker).is_some_and(|machine| machine.view().awaits_side_effects(pool))
}

/// The number of eligible waiters: those whose class is below its maximum.
fn eligible(pool: &PoolSnapshot) -> u32 {
    let beyond: u32 = pool.classes.iter().map(|class| class.waiting - class.eligible).sum();
    pool.clients.waiting.saturating_sub(beyond)
}

/// Whether nothing but its pool's size keeps a server from being opened in time.
pub(super) fn opens_in_time(view: &WorldView<'_>) -> bool {
    let (plan, settings) = (view.plan, &view.plan.settings);
    let capped = settings.global.pools.max_user_connections > 0
        || settings.global.pools.max_server_connections > 0
        || settings
            .databases
            .values()
            .chain(&settings.fallback)
            .any(|database| database.settings.max_db_connections.is_some());
    if capped || crate::classes::have_maximum(settings) || plan.is_changed() || view.stage != Stage::Working {
        return false;
    }
    // In bad weather a login may exceed its timeout again and again.
    let weather = &plan.weather;
    let slowest = weather.delay_max * if weather.late > 0 { 100 } else { 1 };
    let given = settings.global.servers.server_connect_timeout.unwrap_or_default().as_micros() as u64;
    weather.pieces < 300 && 40 * slowest <= given
}

impl Beside {
    /// When a pool last could not open another server.
    pub(super) fn full_at(&self, pool: PoolId) -> u64 {
        self.full.get(&pool).map_or(0, |full| full.size_at)
    }

    /// Whether the first clients of any pool wait until side effects have been read.
    pub(super) fn any_pool_reads_side_effects(&self, view: &WorldView<'_>) -> bool {
        self.pools.keys().any(|&(pool, worker)| awaits_side_effects(view, worker, pool))
    }

    /// After a round of the coordinator: notes which pools may have no more servers. A pool that replaces servers is
    /// full in between, and its clients wait for that.
    pub(super) fn note_full(&mut self, view: &WorldView<'_>) {
        let coordinator = view.machines.coordinator();
        for (id, key) in coordinator.pools() {
            let (held, size) = (coordinator.held(id), coordinator.size(id));
            if held < size {
                continue;
            }
            let full = self.full.entry(id).or_default();
            full.size_at = view.now;
            if held >= size + reserve(&view.plan.settings, &key.database, &key.user) {
                full.reserve_at = view.now;
            }
        }
    }

    pub(super) fn check(&mut self, view: &WorldView<'_>, worker: u16, snapshot: &Snapshot) -> Result<(), Finding> {
        for pool in &snapshot.pools {
            // A server that is being checked will be given to a waiter.
            let awaits_side_effects = pool.servers.tested > 0 && awaits_side_effects(view, worker, pool.id);
            let waiting = eligible(pool);
            if waiting > pool.servers.tested && pool.servers.idle > 0 && !awaits_side_effects {
                let idle = pool.servers.idle;
                return Err((6, format!("worker {worker}: {:?} has {waiting} waiting beside {idle} idle", pool.key)));
            }
        }
        if let Some(text) = self.unopened(view, worker, snapshot) {
            return Err((6, text));
        }
        self.remember(view, worker, snapshot);
        if view.plan.workers == 1 || crate::classes::have_maximum(&view.plan.settings) {
            // With limits it is not known since when a waiter is eligible.
            return Ok(());
        }
        if self.lonely(view).is_none() {
            return Ok(());
        }
        // What was seen of other workers may be old: check all of them now.
        for other in 0..view.plan.workers {
            if let Some(fresh) = view.machines.worker(other) {
                self.remember(view, other, &fresh.snapshot(Time(view.now), Look::Pools));
            }
        }
        self.lonely(view).map_or(Ok(()), |text| Err((6, text)))
    }

    /// A session that has waited longer than it takes to open a server, although one may be opened and nothing went
    /// wrong meanwhile. For a server of the reserve, after reserve_pool_timeout.
    fn unopened(&self, view: &WorldView<'_>, worker: u16, snapshot: &Snapshot) -> Option<String> {
        if !opens_in_time(view) {
            return None;
        }
        let settings = &view.plan.settings;
        let opening = settings.global.servers.server_connect_timeout.unwrap_or_default()
            + settings.global.servers.server_login_retry;
        let limit = opening.as_micros() as u64 + OPENING_US;
        let coordinator = view.machines.coordinator();
        let reserve_us =
            settings.global.pools.reserve_pool_timeout.map_or(u64::MAX, |timeout| timeout.as_micros() as u64);
        let pool = snapshot.pools.iter().find(|pool| {
            let since = (view.now - pool.maxwait_us).max(view.trouble_at.unwrap_or(0));
            let full = self.full.get(&pool.id).copied().unwrap_or_default();
            let waited_since = |at: u64| view.now.saturating_sub(since.max(at));
            let awaits_side_effects = pool.servers.tested > 0 && awaits_side_effects(view, worker, pool.id);
            let (held, size) = (coordinator.held(pool.id), coordinator.size(pool.id));
            let room = held < size && waited_since(full.size_at) > limit;
            let spare = held < size + reserve(settings, &pool.key.database, &pool.key.user)
                && waited_since(full.reserve_at) > limit
                && waited_since(0).saturating_sub(limit) > reserve_us;
            pool.clients.waiting > 0 && (room || spare) && !awaits_side_effects
        })?;
        let (held, since) = (coordinator.held(pool.id), view.now - pool.maxwait_us);
        Some(format!("worker {worker}: {:?} waits since {since} and {held} servers are open: more may be", pool.key))
    }

    fn remember(&mut self, view: &WorldView<'_>, worker: u16, snapshot: &Snapshot) {
        let now = view.now;
        let Some(machine) = view.machines.worker(worker) else { return };
        // Drop the records of forgotten pools: the next pool with the same id is another one.
        self.pools.retain(|&(id, at), _| at != worker || snapshot.pools.iter().any(|pool| pool.id == id));
        for pool in &snapshot.pools {
            let seen = self.pools.entry((pool.id, worker)).or_default();
            let given = pool.totals.server_assignments + snapshot.lends;
            let idle_since = seen.idle_since.filter(|_| seen.given == given).unwrap_or(now);
            let awaits_side_effects = machine.view().awaits_side_effects(pool.id);
            *seen = IdleRecord {
                waiting_since: (pool.clients.waiting > 0 && !awaits_side_effects).then(|| now - pool.maxwait_us),
                idle_since: (pool.servers.idle > 0 && !awaits_side_effects).then_some(idle_since),
                given,
                patience: machine.view().patience(pool.id).unwrap_or_default().as_micros() as u64,
            };
        }
    }

    /// A session that has waited longer than patience and an exchange take, while a server of the pool was idle on
    /// another worker.
    fn lonely(&self, view: &WorldView<'_>) -> Option<String> {
        let (now, pools) = (view.now, &self.pools);
        if view.plan.is_spared(now) {
            return None;
        }
        let resumed = view.plan.promises.orders.spared_until;
        let (tries, exchange) = (tries(view.plan), exchange_us(view.plan));
        pools.iter().find_map(|(&(pool, waiting), seen)| {
            let since = seen.waiting_since?;
            // A worker that has stopped at once lends nothing, though the others do not know yet.
            let works = |at: u16| view.machines.worker_node(at).is_some_and(|node| !node.finished);
            let mut others = pools.iter().filter(|((other, at), _)| *other == pool && *at != waiting && works(*at));
            let (idle_at, idle_since) = others.find_map(|(&(_, at), other)| {
                let both = other.idle_since?.max(since).max(resumed);
                let limit = tries * (2 * seen.patience.max(other.patience) + exchange);
                (now.saturating_sub(both) > limit).then_some((at, both))
            })?;
            Some(format!(
                "{pool:?}: worker {waiting} waits since {since} while worker {idle_at} has idle since {idle_since}"
            ))
        })
    }
}
