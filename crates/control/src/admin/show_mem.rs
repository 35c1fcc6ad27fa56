//! `SHOW MEM`: what the objects of each kind take. PgBouncer shows its caches of objects; here an object has its place in a table, and none is
//! kept for use again, so that `free` is 0. `memtotal` is the whole of a row; that of `iobuf_cache` is what the buffers of all connections hold.
//= pgbouncer usage.md#show-mem

use crate::show_input::ShowInput;
use crate::table::{Column, Table, count, int, text, words};

const COLUMNS: &[Column] = &[text("name"), int("size"), int("used"), int("free"), int("memtotal")];

pub(super) fn table(input: &ShowInput<'_>) -> Table {
    let sizes = input.snapshots.first().map(|snapshot| snapshot.sizes).unwrap_or_default();
    let clients: usize = input.snapshots.iter().map(|snapshot| snapshot.clients.len()).sum();
    let servers: usize = input.snapshots.iter().map(|snapshot| snapshot.servers.len()).sum();
    let pools: usize = input.snapshots.iter().map(|snapshot| snapshot.pools.len()).sum();
    let buffers: u64 = input.snapshots.iter().map(|snapshot| snapshot.sizes.buffers).sum();
    let mut table = Table::new(COLUMNS);
    for (name, size, used) in [
        ("pool_cache", sizes.pool, pools),
        ("client_cache", sizes.session, clients),
        ("server_cache", sizes.server, servers),
    ] {
        let total = u64::from(size).saturating_mul(used as u64);
        table.push(vec![words(name), count(size), count(used), count(0), count(total)]);
    }
    table.push(vec![words("iobuf_cache"), count(1), count(buffers), count(0), count(buffers)]);
    table
}
