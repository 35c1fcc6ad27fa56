//! I7, between workers: whoever has waited longer than another worker's waiter, by four times that worker's patience (1 ms and
//! a mean service time), is served first; sooner, if its worker has fewer servers for its waiters, which is not judged here.
//!
//! Judged is what a worker does with a server, by the board as it had read it: a waiter of its own is passed over for a
//! stranger who is that much older; somebody who comes at that moment is, once an exchange of mailboxes has passed. A
//! server that is on its way to the stranger's worker, or is being checked there, is an answer to its hunger; one that has come
//! from there for those who waited here serves one of them first.

use std::collections::BTreeMap;

use pooling::{Mail, Snapshot, ToWorker};
use units::{ConnId, Kind, PoolId, Time, WorkerId};

use crate::rounds::Letter;
use crate::world::{Stage, World};

/// After a full mailbox nothing is lent for that long.
const REFUSED_US: u64 = 2_000;

/// Worker 0 is this node.
const FIRST_WORKER: u16 = 2;

/// Servers between workers, and what each worker's last look showed.
#[derive(Debug, Default)]
pub struct Strangers {
    flights: BTreeMap<(PoolId, u16, u16), Flights>,
    looks: BTreeMap<u16, Look>,
    /// Servers that came from another worker and have served nobody since, and when they came.
    came: BTreeMap<ConnId, u64>,
}

/// From one worker to another.
#[derive(Copy, Clone, Debug, Default)]
struct Flights {
    under_way: u32,
    refused_at: Option<u64>,
}

/// One look at a worker.
#[derive(Clone, Debug, Default)]
struct Look {
    waiting: BTreeMap<ConnId, Time>,
    linked: Vec<ConnId>,
    patience: BTreeMap<PoolId, u64>,
    rounds: u64,
}

impl World {
    /// A letter is posted.
    pub(crate) fn note_departure(&mut self, from: u16, to: u16, mail: &Mail) {
        if let Some(lent) = mail.lent() {
            self.checks.strangers.flights.entry((lent.pool(), from, to)).or_default().under_way += 1;
        }
    }

    /// A server has come from another worker.
    pub(crate) fn note_adoption(&mut self, conn: ConnId) {
        if conn.kind() == Kind::Server {
            self.checks.strangers.came.insert(conn, self.now);
        }
    }

    /// A letter was refused: the other mailbox is full.
    pub(crate) fn note_refusal(&mut self, from: u16, mail: &Mail) {
        let Some(lent) = mail.lent() else { return };
        let now = self.now;
        for other in 0..self.nodes.len() as u16 {
            self.checks.strangers.flights.entry((lent.pool(), from, other)).or_default().refused_at = Some(now);
        }
    }

    /// A letter is opened. Once a lender knows that its server has arrived, it may lend another.
    pub(crate) fn note_arrival(&mut self, to: u16, letter: &Letter) {
        if let Mail::ToWorker(_, ToWorker::Received { pool }) = letter.mail
            && let Some(flights) = self.checks.strangers.flights.get_mut(&(pool, to, letter.from))
        {
            flights.under_way -= 1;
        }
    }
}

pub fn check(world: &mut World, worker: u16, snapshot: &Snapshot) {
    judge(world, worker, snapshot);
    for server in snapshot.servers.iter().filter(|server| server.link.is_some()) {
        world.checks.strangers.came.remove(&server.conn);
    }
}

fn judge(world: &mut World, worker: u16, snapshot: &Snapshot) {
    let node = worker + FIRST_WORKER;
    let Some(machine) = world.nodes[usize::from(node)].worker() else { return };
    let shared: Vec<PoolId> = machine.shared_pools().to_vec();
    // Where classes are told apart, age alone does not decide.
    if shared.is_empty() || !world.plan.settings.classes.is_single() {
        return;
    }
    let patience = shared.iter().filter_map(|&pool| Some((pool, machine.patience(pool)?.as_micros() as u64)));
    let patience: BTreeMap<PoolId, u64> = patience.collect();
    let waiting = snapshot.clients.iter().filter_map(|client| Some((client.conn, client.waiting_since?))).collect();
    let linked = snapshot.clients.iter().filter(|client| client.link.is_some()).map(|client| client.conn).collect();
    let look = Look { waiting, linked, patience, rounds: world.nodes[usize::from(node)].rounds };
    let before = world.checks.strangers.looks.insert(worker, look.clone()).unwrap_or_default();
    // What happened in more rounds than one, or by an older board, is not judged: it is not known any more by which.
    let late = world.nodes[usize::from(node)].board_is_late;
    if look.rounds != before.rounds + 1 || late || world.stage != Stage::Working {
        return;
    }
    if let Some(text) = overtaken(world, worker, snapshot, &before, &look) {
        world.fail(7, text);
    }
}

fn overtaken(world: &World, worker: u16, snapshot: &Snapshot, before: &Look, look: &Look) -> Option<String> {
    let exchange = super::i06_idle::exchange_us(&world.plan);
    for client in snapshot.clients.iter().filter(|client| client.link.is_some()) {
        let Some(pool) = snapshot.pools.iter().find(|pool| pool.key == client.key).map(|pool| pool.id) else {
            continue;
        };
        let Some(&after) = look.patience.get(&pool) else { continue };
        let waited = before.waiting.get(&client.conn).copied();
        let came = waited.is_none() && !before.linked.contains(&client.conn) && client.request_at.0 == world.now;
        let (since, slack) = match waited {
            Some(since) => (since.0, 0),
            None if came => (world.now, exchange),
            None => continue,
        };
        // A server that came for those who waited here serves one of them first, though it had to be checked.
        let came_at = client.link.and_then(|server| world.checks.strangers.came.get(&server));
        if waited.is_some() && came_at.is_some_and(|&at| since <= at) {
            continue;
        }
        // The mean changes with every server that is released in the round: twice the greater one covers that.
        let times = if came { 2 } else { 2 * u64::from(units::limits::LONG_PATIENCE) };
        let mut patience = times * after.max(before.patience.get(&pool).copied().unwrap_or(0)) + slack;
        let Some((other, stranger)) = oldest_stranger(world, worker, pool) else { continue };
        if came {
            // It is the stranger's worker that asks for an idle server, once its own patience is over.
            patience += 2 * patience_of(world, other, pool);
        }
        if stranger + patience < since && !is_being_answered(world, other, pool) {
            return Some(format!(
                "{pool:?}: worker {worker} serves {:?}, waiting since {since}, before worker {other}'s waiter since {stranger}",
                client.conn
            ));
        }
    }
    None
}

/// Whether all who wait there have servers that are being checked for them.
fn is_being_answered(world: &World, worker: u16, pool: PoolId) -> bool {
    let machine = world.nodes[usize::from(worker + FIRST_WORKER)].worker();
    let snapshot = machine.map(|machine| machine.snapshot(Time(world.now), false));
    let found = snapshot.and_then(|snapshot| snapshot.pools.into_iter().find(|found| found.id == pool));
    found.is_some_and(|found| found.sv_tested > 0 && found.cl_waiting <= found.sv_tested)
}

fn patience_of(world: &World, worker: u16, pool: PoolId) -> u64 {
    let machine = world.nodes[usize::from(worker + FIRST_WORKER)].worker();
    machine.and_then(|machine| machine.patience(pool)).map_or(0, |patience| patience.as_micros() as u64)
}

/// Whoever else has waited longest by the board as this worker had read it, and no server is on its way to.
fn oldest_stranger(world: &World, worker: u16, pool: PoolId) -> Option<(u16, u64)> {
    let node = worker + FIRST_WORKER;
    let board = &world.nodes[usize::from(node)].board;
    let others = (0..world.plan.workers).filter(|&other| other != worker);
    let hungry = others.filter_map(|other| {
        let since = board.cell(pool, WorkerId(other)).hungry_since;
        let flights = world.checks.strangers.flights.get(&(pool, node, other + FIRST_WORKER));
        let flights = flights.copied().unwrap_or_default();
        let refused = flights.refused_at.is_some_and(|at| world.now <= at + REFUSED_US);
        (since != Time::NEVER && flights.under_way == 0 && !refused).then_some((other, since.0))
    });
    hungry.min_by_key(|&(_, since)| since)
}
