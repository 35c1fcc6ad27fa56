//! `SHOW PEERS`: the processes of `[peers]`, this one too if it is among them. `SHOW PEER_POOLS`: the cancel requests on their way to them.
//!
//! A request waits until its connection stands, as in PgBouncer. The client that has sent it does not: it is gone by then.
//= pgbouncer usage.md#show-peers
//= pgbouncer usage.md#show-peer_pools

use crate::show_input::{ShowInput, host};
use crate::table::{Column, Table, count, int, text, words};

const PEERS: &[Column] = &[int("peer_id"), text("host"), int("port"), int("pool_size")];
const POOLS: &[Column] = &[
    int("peer_id"),
    int("cl_active_cancel_req"),
    int("cl_waiting_cancel_req"),
    int("sv_active_cancel"),
    int("sv_login"),
];

pub(super) fn table(input: &ShowInput<'_>) -> Table {
    let mut table = Table::new(PEERS);
    for (id, peer) in &input.settings.peers {
        let address = &peer.address;
        table.push(vec![count(id.0), words(host(&address.host)), count(address.port), count(peer.pool_size)]);
    }
    table
}

pub(super) fn pools(input: &ShowInput<'_>) -> Table {
    let mut table = Table::new(POOLS);
    for pool in input.peer_pools {
        let waiting = pool.waiting.saturating_add(pool.opening);
        table.push(vec![count(pool.peer.0), count(pool.sent), count(waiting), count(pool.sent), count(pool.opening)]);
    }
    table
}
