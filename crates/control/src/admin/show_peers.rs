//! `SHOW PEERS`: the processes of `[peers]`, without this one. `SHOW PEER_POOLS`: cancel requests are not passed on to them yet, so there are no
//! pools and no rows.
//= pgbouncer usage.md#show-peers

use crate::show_input::ShowInput;
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
    for peer in input.peers {
        table.push(vec![count(peer.id), words(&peer.host), count(peer.port), count(peer.pool_size)]);
    }
    table
}

pub(super) fn pools(_: &ShowInput<'_>) -> Table {
    Table::new(POOLS)
}
