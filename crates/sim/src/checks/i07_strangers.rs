//! I7, between workers: a session that has waited longer than another worker's waiter, by four times that worker's
//! patience (1 ms and a mean service time), is served first. It is served sooner if its worker has fewer servers for
//! its waiters; that is not checked here.
//!
//! Checked is what a worker does with a server, by the board as the worker had read it. It must pass over a waiter of
//! its own for another worker's waiter that is so much older. It must pass over a session that has just come once an
//! exchange of mailboxes has passed. A server that is on its way to the other worker, or is being checked there, counts
//! as given to that waiter. A server that came from the other worker for waiters here serves one of them first.

use std::collections::BTreeMap;

use machine::{Mail, Snapshot, ToWorker};
use units::{ConnId, Kind, PoolId, Time, WorkerId};

use super::WorldView;
use crate::course::{Finding, Stage};
use crate::machines::{FIRST_WORKER, Letter};

/// After a full mailbox nothing is lent for so long.
const REFUSED_US: u64 = 2_000;

/// Servers on their way between workers, and each worker's last check.
#[derive(Debug, Default)]
pub(crate) struct Strangers {
    flights: BTreeMap<(PoolId, u16, u16), Flights>,
    looks: BTreeMap<u16, Look>,
    /// Servers that came from another worker and have not served a session since, and when they came.
    came: BTreeMap<ConnId, u64>,
}

/// Servers on their way from one worker to another.
#[derive(Copy, Clone, Debug, Default)]
struct Flights {
    under_way: u32,
    refused_at: Option<u64>,
}

/// One check of a worker.
#[derive(Clone, Debug, Default)]
struct Look {
    waiting: BTreeMap<ConnId, Time>,
    linked: Vec<ConnId>,
    patience: BTreeMap<PoolId, u64>,
    rounds: u64,
}

impl Strangers {
    /// A letter is posted.
    pub(crate) fn departed(&mut self, from: u16, to: u16, mail: &Mail) {
        if let Some(lent) = mail.lent() {
            self.flights.entry((lent.pool(), from, to)).or_default().under_way += 1;
        }
    }

    /// A connection has come from another machine.
    pub(crate) fn adopted(&mut self, conn: ConnId, now: u64) {
        if conn.kind() == Kind::Server {
            self.came.insert(conn, now);
        }
    }

    /// A letter was refused, since the other mailbox is full. `machines`: the number of machines.
    pub(crate) fn refused(&mut self, from: u16, machines: u16, mail: &Mail, now: u64) {
        let Some(lent) = mail.lent() else { return };
        for other in 0..machines {
            self.flights.entry((lent.pool(), from, other)).or_default().refused_at = Some(now);
        }
    }

    /// A letter is read. Once a lender knows that its server has arrived, it may lend another.
    pub(crate) fn arrived(&mut self, to: u16, letter: &Letter) {
        if let Mail::ToWorker(_, ToWorker::Received { pool, .. }) = letter.mail
            && let Some(flights) = self.flights.get_mut(&(pool, to, letter.from))
        {
            flights.under_way -= 1;
        }
    }

    pub(super) fn check(&mut self, view: &WorldView<'_>, worker: u16, snapshot: &Snapshot) -> Result<(), Finding> {
        let judged = self.judge(view, worker, snapshot);
        for server in snapshot.servers.iter().filter(|server| server.link.is_some()) {
            self.came.remove(&server.conn);
        }
        judged
    }

    fn judge(&mut self, view: &WorldView<'_>, worker: u16, snapshot: &Snapshot) -> Result<(), Finding> {
        let Some((node, machine)) = view.machines.worker_node(worker).and_then(|node| Some((node, node.worker()?)))
        else {
            return Ok(());
        };
        let shared: Vec<PoolId> = machine.shared_pools().to_vec();
        // With several classes, age alone does not decide.
        if shared.is_empty() || !view.plan.settings.classes.is_single() {
            return Ok(());
        }
        let patience =
            shared.iter().filter_map(|&pool| Some((pool, machine.view().patience(pool)?.as_micros() as u64)));
        let patience: BTreeMap<PoolId, u64> = patience.collect();
        let waiting =
            snapshot.clients.iter().filter_map(|client| Some((client.conn, client.times.waiting_since?))).collect();
        let linked = snapshot.clients.iter().filter(|client| client.link.is_some()).map(|client| client.conn).collect();
        let look = Look { waiting, linked, patience, rounds: node.rounds };
        let before = self.looks.insert(worker, look.clone()).unwrap_or_default();
        // Several rounds at once, or rounds with a late board, are not checked: what the worker had read is not known.
        if look.rounds != before.rounds + 1 || node.board_is_late || view.stage != Stage::Working {
            return Ok(());
        }
        self.overtaken(view, worker, snapshot, [&before, &look]).map_or(Ok(()), |text| Err((7, text)))
    }

    fn overtaken(
        &self,
        view: &WorldView<'_>,
        worker: u16,
        snapshot: &Snapshot,
        [before, look]: [&Look; 2],
    ) -> Option<String> {
        let exchange = super::i06_idle::exchange_us(view.plan);
        for client in snapshot.clients.iter().filter(|client| client.link.is_some()) {
            let Some(pool) = snapshot.pools.iter().find(|pool| pool.key == client.key).map(|pool| pool.id) else {
                continue;
            };
            let Some(&after) = look.patience.get(&pool) else { continue };
            let waited = before.waiting.get(&client.conn).copied();
            let came =
                waited.is_none() && !before.linked.contains(&client.conn) && client.times.request_at.0 == view.now;
            let (since, slack) = match waited {
                Some(since) => (since.0, 0),
                None if came => (view.now, exchange),
                None => continue,
            };
            // A server that came for waiters of this worker serves one of them first, even after a check.
            let came_at = client.link.and_then(|link| self.came.get(&link.conn));
            if waited.is_some() && came_at.is_some_and(|&at| since <= at) {
                continue;
            }
            // The mean changes with every server released in the round: twice the greater one covers that.
            let times = if came { 2 } else { 2 * u64::from(units::limits::LONG_PATIENCE) };
            let mut patience = times * after.max(before.patience.get(&pool).copied().unwrap_or(0)) + slack;
            let Some((other, stranger)) = self.oldest_elsewhere(view, worker, pool) else { continue };
            if came {
                // The other worker asks for an idle server only after its own patience.
                patience += 2 * patience_of(view, other, pool);
            }
            if stranger + patience < since && !is_being_answered(view, other, pool) {
                return Some(format!(
                    "{pool:?}: worker {worker} serves {:?}, waiting since {since}, before worker {other}'s waiter since {stranger}",
                    client.conn
                ));
            }
        }
        None
    }

    /// The other worker whose waiter has waited longest, by the board as this worker had read it, and to which no
    /// server is on its way.
    fn oldest_elsewhere(&self, view: &WorldView<'_>, worker: u16, pool: PoolId) -> Option<(u16, u64)> {
        let node = worker + FIRST_WORKER;
        let board = &view.machines.node(node).board;
        let others = (0..view.plan.workers).filter(|&other| other != worker);
        let waiting = others.filter_map(|other| {
            let since = board.cell(pool, WorkerId(other)).waiting_since;
            let flights = self.flights.get(&(pool, node, other + FIRST_WORKER));
            let flights = flights.copied().unwrap_or_default();
            let refused = flights.refused_at.is_some_and(|at| view.now <= at + REFUSED_US);
            (since != Time::NEVER && flights.under_way == 0 && !refused).then_some((other, since.0))
        });
        waiting.min_by_key(|&(_, since)| since)
    }
}

/// Whether a server is being checked for each session that waits there.
fn is_being_answered(view: &WorldView<'_>, worker: u16, pool: PoolId) -> bool {
    let machine = view.machines.worker(worker);
    let snapshot = machine.map(|machine| machine.snapshot(Time(view.now), machine::Look::Pools));
    let found = snapshot.and_then(|snapshot| snapshot.pools.into_iter().find(|found| found.id == pool));
    found.is_some_and(|found| found.servers.tested > 0 && found.clients.waiting <= found.servers.tested)
}

fn patience_of(view: &WorldView<'_>, worker: u16, pool: PoolId) -> u64 {
    let machine = view.machines.worker(worker);
    machine.and_then(|machine| machine.view().patience(pool)).map_or(0, |patience| patience.as_micros() as u64)
}
