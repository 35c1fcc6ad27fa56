//! `SHOW LISTS`: how many there are of each thing.
//!
//! The last row is ours: how many lines could not be written to the log.
//!
//! PgBouncer's `free_…` are unused slots of its allocator, which we do not have: 0. So is what does not exist here.
//= pgbouncer usage.md#show-lists

use super::show_users;
use crate::table::{Column, Table, count, int, text, words};
use crate::view::View;

const COLUMNS: &[Column] = &[text("list"), int("items")];

pub(super) fn table(view: &View<'_>) -> Table {
    let clients: usize = view.snapshots.iter().map(|snapshot| snapshot.clients.len()).sum();
    let servers: usize = view.snapshots.iter().map(|snapshot| snapshot.servers.len()).sum();
    let items = [
        ("databases", view.databases().len()),
        ("users", show_users::names(view).len()),
        ("peers", 0),
        ("pools", view.pools().len()),
        ("peer_pools", 0),
        ("free_clients", 0),
        ("used_clients", clients),
        ("login_clients", 0),
        ("free_servers", 0),
        ("used_servers", servers),
        ("dns_names", 0),
        ("dns_zones", 0),
        ("dns_queries", 0),
        ("dns_pending", 0),
        ("log_lines_lost", usize::try_from(view.log_lines_lost).unwrap_or(usize::MAX)),
    ];
    let mut table = Table::new(COLUMNS);
    for (list, items) in items {
        table.push(vec![words(list), count(items)]);
    }
    table
}
