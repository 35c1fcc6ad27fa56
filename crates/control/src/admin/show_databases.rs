//! `SHOW DATABASES`: one row for each database that clients can name, the console's among them.
//= pgbouncer usage.md#show-databases

use std::collections::BTreeMap;

use connections::databases::{CONSOLE_DATABASE, Database};

use crate::show_input::{ShowInput, clients, hosts, load_balance_hosts, seconds, servers};
use crate::table::{Column, Table, Value, count, int, text, words};

const COLUMNS: &[Column] = &[
    text("name"),
    text("host"),
    int("port"),
    text("database"),
    text("force_user"),
    int("pool_size"),
    int("min_pool_size"),
    int("reserve_pool_size"),
    int("server_lifetime"),
    text("pool_mode"),
    text("load_balance_hosts"),
    int("max_connections"),
    int("current_connections"),
    int("max_client_connections"),
    int("current_client_connections"),
    int("paused"),
    int("disabled"),
];

/// Connections of a database over all its pools.
#[derive(Copy, Clone, Default)]
struct Current {
    servers: u32,
    clients: u32,
}

pub(super) fn table(input: &ShowInput<'_>) -> Table {
    let mut current: BTreeMap<&str, Current> = BTreeMap::new();
    let pools = input.pools();
    for (key, pool) in pools {
        let sum = current.entry(&key.database).or_default();
        sum.servers = sum.servers.saturating_add(servers(pool));
        sum.clients = sum.clients.saturating_add(clients(pool));
    }
    let mut table = Table::new(COLUMNS);
    for (name, database) in input.databases() {
        let current = current.get(name.as_str()).copied().unwrap_or_default();
        table.push(match database {
            Some(database) => row(input, &database, current),
            None => console_row(input, current),
        });
    }
    table
}

fn row(input: &ShowInput<'_>, database: &Database, current: Current) -> Vec<Value> {
    let settings = input.settings;
    let orders = settings.orders.only_of(Some(&database.name));
    vec![
        words(&database.name),
        words(hosts(database)),
        count(database.hosts.first().map_or(0, |address| address.port)),
        words(database.dbname.as_ref().unwrap_or(&database.name)),
        database.forced_user.clone(),
        // A number even for `auto`, since programs expect one.
        count(
            database.settings.pool_size.unwrap_or(settings.global.pools.default_pool_size).most(&settings.global.pools),
        ),
        count(database.settings.min_pool_size.unwrap_or(settings.global.pools.min_pool_size)),
        count(database.settings.reserve_pool_size.unwrap_or(settings.global.pools.reserve_pool_size)),
        count(seconds(Some(database.settings.server_lifetime.unwrap_or(settings.global.servers.server_lifetime)))),
        database.settings.pool_mode.map(|mode| mode.as_str().to_owned()),
        load_balance_hosts(database),
        count(database.settings.max_db_connections.unwrap_or(settings.global.pools.max_db_connections)),
        count(current.servers),
        count(database.settings.max_db_client_connections.unwrap_or(settings.global.pools.max_db_client_connections)),
        count(current.clients),
        count(u8::from(orders.paused)),
        count(u8::from(orders.disabled)),
    ]
}

/// The console has no servers; its numbers are those that PgBouncer shows.
fn console_row(input: &ShowInput<'_>, current: Current) -> Vec<Value> {
    vec![
        words(CONSOLE_DATABASE),
        None,
        count(input.listen_port),
        words(CONSOLE_DATABASE),
        words(CONSOLE_DATABASE),
        count(2),
        count(0),
        count(0),
        count(seconds(Some(input.settings.global.servers.server_lifetime))),
        words("statement"),
        None,
        count(0),
        count(0),
        count(input.settings.global.pools.max_db_client_connections),
        count(current.clients),
        count(0),
        count(0),
    ]
}
