//! `SHOW PEERS` and `SHOW PEER_POOLS`: cancel requests are not passed on to other processes yet, so there are no rows.
//= pgbouncer usage.md#show-peers

use crate::show_input::ShowInput;
use crate::table::{Column, Table, int, text};

const PEERS: &[Column] = &[int("peer_id"), text("host"), int("port"), int("pool_size")];
const POOLS: &[Column] = &[
    int("peer_id"),
    int("cl_active_cancel_req"),
    int("cl_waiting_cancel_req"),
    int("sv_active_cancel"),
    int("sv_login"),
];

pub(super) fn table(_: &ShowInput<'_>) -> Table {
    Table::new(PEERS)
}

pub(super) fn pools(_: &ShowInput<'_>) -> Table {
    Table::new(POOLS)
}
