//! `SHOW USERS`: one row for each user that can log in, is forced by a database, or has settings, and for those who were looked up and have
//! clients or a pool.
//= pgbouncer usage.md#show-users

use std::collections::{BTreeMap, BTreeSet};

use connections::databases::CONSOLE_DATABASE;

use crate::show_input::{ShowInput, servers};
use crate::table::{Column, Table, Value, count, int, text, words};

const COLUMNS: &[Column] = &[
    text("name"),
    text("pool_size"),
    text("reserve_pool_size"),
    text("pool_mode"),
    int("max_user_connections"),
    int("current_connections"),
    int("max_user_client_connections"),
    int("current_client_connections"),
];

/// Users by name. A failed login of an unknown user does not make it appear here.
pub(super) fn names<'a>(input: &'a ShowInput<'_>) -> BTreeSet<&'a str> {
    let settings = input.settings;
    let forced = settings.databases.values().filter_map(|database| database.forced_user.as_deref());
    let secrets = settings.secrets.keys().map(String::as_str);
    let users = settings.users.keys().map(String::as_str);
    let pools = input.snapshots.iter().flat_map(|snapshot| &snapshot.pools).map(|pool| &*pool.key.user);
    let clients = input.snapshots.iter().flat_map(|snapshot| &snapshot.clients).map(|client| &*client.user);
    forced.chain(secrets).chain(users).chain(pools).chain(clients).chain([CONSOLE_DATABASE]).collect()
}

pub(super) fn table(input: &ShowInput<'_>) -> Table {
    let mut servers_now: BTreeMap<&str, u32> = BTreeMap::new();
    let pools = input.pools();
    for (key, pool) in pools {
        let sum = servers_now.entry(&key.user).or_default();
        *sum = sum.saturating_add(servers(pool));
    }
    let mut clients_now: BTreeMap<&str, u32> = BTreeMap::new();
    for client in input.snapshots.iter().flat_map(|snapshot| &snapshot.clients) {
        *clients_now.entry(&client.user).or_default() += 1;
    }
    let mut table = Table::new(COLUMNS);
    for name in names(input) {
        let now = |counts: &BTreeMap<&str, u32>| count(counts.get(name).copied().unwrap_or(0));
        table.push(row(input, name, now(&servers_now), now(&clients_now)));
    }
    table
}

fn row(input: &ShowInput<'_>, name: &str, servers_now: Value, clients_now: Value) -> Vec<Value> {
    let settings = input.settings;
    let user = settings.users.get(name).cloned().unwrap_or_default();
    vec![
        words(name),
        padded(user.pool_size),
        padded(user.reserve_pool_size),
        user.pool_mode.map(|mode| mode.as_str().to_owned()),
        count(user.max_user_connections.unwrap_or(settings.global.pools.max_user_connections)),
        servers_now,
        count(user.max_user_client_connections.unwrap_or(settings.global.pools.max_user_client_connections)),
        clients_now,
    ]
}

/// A size as PgBouncer prints it here: text of nine characters, or none.
fn padded<T: ToString>(size: Option<T>) -> Value {
    words(size.map(|size| format!("{:>9}", size.to_string())).unwrap_or_default())
}
