//! `SHOW WORKERS`: one row for each thread that owns sessions and servers. PgBouncer has none.
//!
//! A healthy pooler has few `lends` compared with its transactions, hardly any `epoll_ctls`, and no `panics`. `rotated`
//! and `rotations_missed` count only if a test has set `chaos_rotate`. The engine's counts are NULL for a worker that
//! did not answer in time.

use machine::Snapshot;
use machine::snapshot::{PoolSnapshot, Totals};

use crate::plane::WorkerFacts;
use crate::show_input::{ShowInput, clients, servers};
use crate::table::{Column, Table, big, count, int, numeric};

const COLUMNS: &[Column] = &[
    int("worker"),
    int("pools"),
    int("clients"),
    int("clients_waiting"),
    int("servers"),
    int("servers_idle"),
    numeric("xact_count"),
    numeric("query_count"),
    numeric("lends"),
    numeric("rotated"),
    numeric("rotations_missed"),
    numeric("steps"),
    numeric("rounds"),
    numeric("recvs"),
    numeric("sends"),
    numeric("epoll_ctls"),
    numeric("wakes"),
    numeric("returned"),
    numeric("panics"),
];

pub(super) fn table(input: &ShowInput<'_>) -> Table {
    let mut table = Table::new(COLUMNS);
    for snapshot in input.snapshots {
        let worker = snapshot.worker.map_or(0, |worker| worker.0);
        let facts = input.workers.iter().find(|facts| facts.worker == worker);
        let counted = |of: fn(&WorkerFacts) -> u64| facts.map(|facts| of(facts).to_string());
        table.push(vec![
            count(worker),
            count(snapshot.pools.len()),
            count(sum(snapshot, clients)),
            count(sum(snapshot, |pool| pool.clients.waiting)),
            count(sum(snapshot, servers)),
            count(sum(snapshot, |pool| pool.servers.idle.saturating_add(pool.servers.used))),
            big(totals(snapshot).map(|totals| totals.transactions).sum()),
            big(totals(snapshot).map(|totals| totals.queries).sum()),
            big(snapshot.lends),
            big(snapshot.rotations.rotated),
            big(snapshot.rotations.missed),
            big(snapshot.steps),
            counted(|facts| facts.rounds),
            counted(|facts| facts.recvs),
            counted(|facts| facts.sends),
            counted(|facts| facts.epoll_ctls),
            counted(|facts| facts.wakes),
            counted(|facts| facts.returned),
            counted(|facts| facts.panics),
        ]);
    }
    table
}

fn sum(snapshot: &Snapshot, of: impl Fn(&PoolSnapshot) -> u32) -> u32 {
    snapshot.pools.iter().fold(0, |sum, pool| sum.saturating_add(of(pool)))
}

/// Those of pools that were forgotten among them.
fn totals(snapshot: &Snapshot) -> impl Iterator<Item = &Totals> {
    snapshot.pools.iter().map(|pool| &pool.totals).chain(snapshot.past.iter().map(|(_, totals)| totals))
}
