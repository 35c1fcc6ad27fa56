//! `[users]` and `[peers]`.
//!
//! An entry of `[users]` changes limits; it lets nobody in. Peers are checked and then left alone: passing cancel
//! requests on to them is not supported yet.
//= pgbouncer config.md#section-users

use pooling::settings::UserSettings;

use crate::entry::{Entry, Parameter, Parameters};
use crate::problem::{Problem, quoted};
use crate::value::whole;

const fn p(name: &'static str, doc: &'static str) -> Parameter {
    Parameter { name, doc }
}

#[rustfmt::skip]
pub const PARAMETERS: &[Parameter] = &[
    p("pool_mode", "In place of the database's and the global setting."),
    p("pool_fidelity", "In place of the database's and the global setting."),
    p("max_pinned", "In place of the database's and the global setting."),
    p("stable_backend_pid", "In place of the database's and the global setting."),
    p("pool_size", "In place of the database's and default_pool_size: a number, or auto."),
    p("reserve_pool_size", "In place of the database's and the global setting."),
    p("max_user_connections", "In place of the global setting."),
    p("max_user_client_connections", "In place of the global setting."),
    p("query_timeout", "In place of the global setting."),
    p("query_wait_timeout", "In place of the database's and the global setting."),
    p("idle_transaction_timeout", "In place of the global setting."),
    p("transaction_timeout", "In place of the global setting."),
    p("client_idle_timeout", "In place of the global setting."),
];

#[rustfmt::skip]
pub const PEER_PARAMETERS: &[Parameter] = &[
    p("host", "Address, name or socket directory of the peer."),
    p("port", "Default: 6432."),
    p("pool_size", "The most cancel requests on their way to the peer."),
];

/// Reads one entry of `[users]`.
pub fn read(entry: &Entry, problems: &mut Vec<Problem>) -> UserSettings {
    let mut user = UserSettings::default();
    let mut parameters = Parameters { entry, problems };
    for (key, value) in parameters.pairs() {
        let (key, value) = (key.as_str(), value.as_str());
        match key {
            "pool_mode" => user.pool_mode = parameters.pool_mode(value),
            "pool_fidelity" => user.pool_fidelity = parameters.pool_fidelity(value),
            "max_pinned" => user.max_pinned = parameters.count(key, value),
            "stable_backend_pid" => user.stable_backend_pid = parameters.flag(key, value),
            "pool_size" => user.pool_size = parameters.pool_size(value),
            "reserve_pool_size" => user.reserve_pool_size = parameters.count(key, value),
            "max_user_connections" => user.max_user_connections = parameters.count(key, value),
            "max_user_client_connections" => user.max_user_client_connections = parameters.count(key, value),
            "query_timeout" => user.query_timeout = parameters.limit(key, value),
            "query_wait_timeout" => user.query_wait_timeout = parameters.limit(key, value),
            "idle_transaction_timeout" => user.idle_transaction_timeout = parameters.limit(key, value),
            "transaction_timeout" => user.transaction_timeout = parameters.limit(key, value),
            "client_idle_timeout" => user.client_idle_timeout = parameters.limit(key, value),
            _ => parameters.unknown(key, PARAMETERS),
        }
    }
    user
}

/// Reads one entry of `[peers]`, for its mistakes only.
pub fn read_peer(entry: &Entry, problems: &mut Vec<Problem>) {
    let mut parameters = Parameters { entry, problems };
    let id = whole(&entry.name).filter(|id| (1..=16383).contains(id));
    if id.is_none() {
        parameters.error("", quoted(&entry.name), "a number from 1 to 16383, the peer's peer_id");
    }
    let mut has_host = false;
    for (key, value) in parameters.pairs() {
        match key.as_str() {
            "host" => has_host = !value.is_empty(),
            "port" => drop(parameters.port(&value)),
            "pool_size" => drop(parameters.count(&key, &value)),
            _ => parameters.unknown(&key, PEER_PARAMETERS),
        }
    }
    if !has_host {
        parameters.error("host", "nothing".to_owned(), "the peer's address");
    }
}
