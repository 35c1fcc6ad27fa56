//! `SHOW POOLS`: one row for each database and user.
//= pgbouncer usage.md#show-pools

use crate::show_input::{ShowInput, load_balance_hosts};
use crate::table::{Column, Table, count, int, text, words};

const COLUMNS: &[Column] = &[
    text("database"),
    text("user"),
    int("cl_active"),
    int("cl_waiting"),
    int("cl_active_cancel_req"),
    int("cl_waiting_cancel_req"),
    int("sv_active"),
    int("sv_active_cancel"),
    int("sv_being_canceled"),
    int("sv_idle"),
    int("sv_used"),
    int("sv_tested"),
    int("sv_login"),
    int("maxwait"),
    int("maxwait_us"),
    text("pool_mode"),
    text("load_balance_hosts"),
];

pub(super) fn table(input: &ShowInput<'_>) -> Table {
    let mut table = Table::new(COLUMNS);
    for (key, pool) in input.pools() {
        let database = input.settings.database(&key.database);
        table.push(vec![
            words(&*key.database),
            words(&*key.user),
            count(pool.clients.active),
            count(pool.clients.waiting),
            count(pool.clients.active_cancel_req),
            count(pool.clients.waiting_cancel_req),
            count(pool.servers.active),
            count(pool.servers.active_cancel),
            count(pool.servers.being_canceled),
            count(pool.servers.idle),
            count(pool.servers.used),
            count(pool.servers.tested),
            count(pool.servers.login),
            count(pool.maxwait_us / 1_000_000),
            count(pool.maxwait_us % 1_000_000),
            words(pool.mode.as_str()),
            database.and_then(|database| load_balance_hosts(&database)),
        ]);
    }
    table
}
