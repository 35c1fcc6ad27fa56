//! `SHOW LISTS`: how many there are of each kind of object.
//!
//! PgBouncer's `free_…` are unused objects of its allocator. pgweir has no such allocator and shows 0, as for
//! everything else that it does not have.
//= pgbouncer usage.md#show-lists

use super::show_users;
use crate::show_input::{Detail, ShowInput};
use crate::table::{Column, Table, count, int, text, words};

const COLUMNS: &[Column] = &[text("list"), int("items")];

/// As the pools count them: without clients of the console but one, and without servers on their way between workers.
fn counted(input: &ShowInput<'_>) -> (usize, usize) {
    let pools = input.pools();
    let clients: u64 =
        pools.values().map(|pool| u64::from(pool.clients.active) + u64::from(pool.clients.waiting)).sum();
    let servers: u64 = pools.values().map(|pool| u64::from(pool.open_servers)).sum();
    (clients as usize, servers as usize)
}

pub(super) fn table(input: &ShowInput<'_>) -> Table {
    let (clients, servers) = match input.detail {
        Detail::Connections => input.connections(),
        Detail::Pools | Detail::Busy | Detail::Statements | Detail::Nothing => counted(input),
    };
    let items = [
        ("databases", input.databases().len()),
        ("users", show_users::names(input).len()),
        ("peers", input.settings.peers.len()),
        ("pools", input.pools().len()),
        ("peer_pools", input.peer_pools.len()),
        ("free_clients", 0),
        ("used_clients", clients),
        ("login_clients", 0),
        ("free_servers", 0),
        ("used_servers", servers),
        ("dns_names", input.names.hosts.len()),
        ("dns_zones", input.names.zones.len()),
        ("dns_queries", input.names.lookups),
        ("dns_pending", 0),
    ];
    let mut table = Table::new(COLUMNS);
    for (list, items) in items {
        table.push(vec![words(list), count(items)]);
    }
    table
}
