//! How the door of a run is set up. The password that everybody has is in no input: only who answers honestly gives it.

use std::net::SocketAddr;
use std::sync::Arc;

use auth::{Md5Hash, Secret, Verifier};
use connections::databases::{Address, Database, Host};
use machine::Settings;
use machine::observe::Peer;
use settings::AuthType;

pub(super) const PASSWORD: &str = "Zw4-kTq8.vnR2";

/// Users by what is known of their password.
pub(super) const USERS: [&str; 8] = ["ann", "md", "sc", "empty", "nobody", "pgbouncer", "", "\u{7f}\u{e9}"];
pub(super) const DATABASES: [&str; 6] = ["db", "forced", "pgbouncer", "other", "", "full"];

pub(super) fn settings(choice: u8) -> Settings {
    let auth_type = [AuthType::Scram, AuthType::Md5, AuthType::Plain, AuthType::Trust, AuthType::Any];
    let mut settings = Settings { workers: 1 + u16::from(choice >> 7), ..Settings::default() };
    let global = &mut settings.global;
    global.login.auth_type = auth_type[usize::from(choice) % auth_type.len()];
    global.login.scram_iterations = 1;
    global.login.max_login_concurrency = if choice & 0x10 == 0 { 2 } else { 128 };
    global.startup.application_name_add_host = choice & 0x10 != 0;
    global.pools.max_client_conn = if choice & 0x20 == 0 { 3 } else { 0 };
    global.pools.max_user_client_connections = u32::from(choice >> 6 & 1);
    settings.global.console.admin_users.insert("ann".to_owned());
    settings.global.console.stats_users.insert("sc".to_owned());
    settings.global.startup.ignore_startup_parameters.insert("extra_float_digits");
    settings.secrets.insert("ann".to_owned(), Secret::parse(PASSWORD));
    settings.secrets.insert("md".to_owned(), Secret::Md5(Md5Hash::of(PASSWORD, "md")));
    settings.secrets.insert("sc".to_owned(), Secret::Scram(Verifier::derive(PASSWORD, b"salt", 1)));
    settings.secrets.insert("empty".to_owned(), Secret::parse(""));
    for name in ["db", "forced", "full"] {
        let forced_user = (name == "forced").then(|| "boss".to_owned());
        let mut database = Database { forced_user, ..database(name) };
        database.settings.max_db_client_connections = (name == "full").then_some(1);
        settings.databases.insert(name.to_owned(), Arc::new(database));
    }
    settings.fallback = (choice & 0x08 != 0).then(|| Arc::new(database("*")));
    settings
}

/// Whether somebody may come in without a password.
pub(super) fn trusts(settings: &Settings) -> bool {
    matches!(settings.global.login.auth_type, AuthType::Trust | AuthType::Any)
}

/// Somebody from another machine.
pub(crate) fn tcp() -> Peer {
    Peer::Tcp { from: SocketAddr::from(([10, 0, 0, 7], 4711)), to: SocketAddr::from(([10, 0, 0, 1], 6432)) }
}

pub(crate) fn database(name: &str) -> Database {
    Database::new(name, vec![Address { host: Host::Unix("/run".to_owned()), port: 5432 }])
}
