//! How the pooler of a run is set up.

use std::sync::Arc;
use std::time::Duration;

use auth::Secret;
use connections::databases::Database;
use machine::Settings;
use settings::{AuthType, PoolMode, PoolSize, SslMode};

use crate::door::setting::database;

pub(super) const DATABASES: [&str; 4] = ["one", "two", "fixed", "pgbouncer"];
pub(super) const USERS: [&str; 2] = ["ann", "bob"];

/// Of everybody, and of the user that database `fixed` is used as.
pub(super) const PASSWORDS: [&str; 2] = ["secret", "other"];

/// Every time-out is on: whoever waits must be told in the end.
pub(super) fn settings(first: u8, second: u8) -> Settings {
    let bit = |byte: u8, bit: u8| byte >> bit & 1 == 1;
    let second_s = |count: u64| Some(Duration::from_secs(count));
    let pool_mode = [PoolMode::Transaction, PoolMode::Transaction, PoolMode::Session, PoolMode::Statement];
    let mut settings = Settings { workers: 1 + u16::from(bit(first, 4)), ..Settings::default() };
    let global = &mut settings.global;
    global.login.auth_type = AuthType::Trust;
    // With most of the choices servers are in the clear, as at the time that the corpus was found.
    global.tls.server_tls_sslmode = if bit(first, 6) && bit(second, 7) { SslMode::Prefer } else { SslMode::Disable };
    global.pools.pool_mode = pool_mode[usize::from(first & 3)];
    // With sixteen a pool lives on both workers.
    global.pools.default_pool_size = PoolSize::Fixed([1, 2, 16, 3][usize::from(first >> 2 & 3)]);
    global.startup.max_prepared_statements = [200, 0, 2, 1][usize::from(first >> 5 & 3)];
    global.pools.min_pool_size = u32::from(bit(first, 7));
    global.pools.reserve_pool_size = u32::from(bit(second, 0));
    global.pools.reserve_pool_timeout = second_s(1);
    global.pools.max_db_connections = u32::from(bit(second, 1));
    global.servers.server_check_delay = Duration::from_secs(if bit(second, 2) { 0 } else { 5 });
    global.servers.server_reset_query_always = bit(second, 3);
    global.servers.server_round_robin = bit(second, 4);
    global.waiting.query_timeout = second_s(15).filter(|_| bit(second, 5));
    global.waiting.transaction_timeout = second_s(25).filter(|_| bit(second, 5));
    global.waiting.idle_transaction_timeout = second_s(20).filter(|_| bit(second, 6));
    global.waiting.client_idle_timeout = second_s(40).filter(|_| bit(second, 6));
    global.startup.login_notify_message = if bit(second, 7) { "hello".to_owned() } else { String::new() };
    global.waiting.query_wait_timeout = second_s(10);
    global.waiting.query_wait_notify = second_s(2);
    global.servers.server_idle_timeout = second_s(30);
    global.servers.server_lifetime = Duration::from_secs(60);
    global.servers.server_connect_timeout = second_s(5);
    global.servers.server_login_retry = Duration::from_secs(1);
    global.waiting.cancel_wait_timeout = second_s(3);
    global.login.scram_iterations = 1;
    settings.global.console.admin_users.insert("ann".to_owned());
    for user in USERS {
        settings.secrets.insert(user.to_owned(), Secret::parse(PASSWORDS[0]));
    }
    for name in ["one", "two", "fixed"] {
        let is_fixed = name == "fixed";
        let mut entry = Database {
            forced_user: is_fixed.then(|| "boss".to_owned()),
            password: is_fixed.then(|| Secret::parse(PASSWORDS[1])),
            connect_query: is_fixed.then(|| "select 1 0".to_owned()),
            ..database(name)
        };
        entry.settings.max_db_connections = is_fixed.then_some(1);
        settings.databases.insert(name.to_owned(), Arc::new(entry));
    }
    settings
}
