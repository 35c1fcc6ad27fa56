//! A server's answer about the side effects of its database's functions, triggers and views. If there are unknown ones,
//! something was defined past the pooler (by a connection that does not go through it), and servers are reset:
//!
//! ```text
//! the poll finds them ──► every server of the pool that has run anything since the last poll that found none
//! idle ──► reset ──► idle
//! linked, draining, busy ──► reset when it is free
//! and closed instead, if the side effects cannot be reset
//! ```
//!
//! What a session has set through the pooler is kept, and set again on its next server. A setting made by a function
//! whose side effects were not known yet is lost, since the pooler cannot tell which session it belongs to.

use connections::databases::Database;
use link::server::{Chore, CloseReason, Group, Server};
use machine::observe::{Level, Topic};
use session_state::catalogue;
use session_state::catalogue::{News, Next};
use session_state::state::Pins;
use units::{ConnId, PoolId};

use crate::servers::{closed_servers, free_servers, name_polls};
use crate::tables::lines;
use crate::tables::owners::{Pools, Servers};
use crate::tables::step::Step;

/// The answer is complete.
pub(crate) fn names_answered(servers: &mut Servers, pools: &mut Pools, step: &mut Step<'_>, server_id: ConnId) {
    let server = &servers[server_id];
    let pool = &mut pools[server.pool()];
    let id = pool.id();
    match pool.known_mut().answered(step.now) {
        Next::Poll => return name_polls::query_server(servers, pools, step, server_id, Chore::Poll, catalogue::POLL),
        Next::Read => {
            let chore = if pool.known().is_awaited() { Chore::First } else { Chore::Catalogue };
            return name_polls::query_server(servers, pools, step, server_id, chore, catalogue::QUERY);
        }
        Next::Complain => name_polls::log_unreadable_names(
            servers,
            pools,
            step,
            server_id,
            "the server's answer is not what was expected",
        ),
        Next::Recovered => {
            let words = "the database's names can be read: side effects of functions, triggers and views are tracked from now on";
            lines::log_server(servers, pools, step, server_id, Level::Log, Topic::General, words.to_owned());
            spread_names(servers, pools, step, id);
        }
        Next::Nothing => spread_names(servers, pools, step, id),
    }
    step.agenda.feed(id);
    free_servers::free(servers, pools, step, server_id);
}

/// Passes what one pool has learned on to all pools of the same database on this worker, and resets servers.
fn spread_names(servers: &mut Servers, pools: &mut Pools, step: &mut Step<'_>, id: PoolId) {
    let pool = &pools[id];
    // Nothing new was learned.
    let Some(lesson) = pool.known().lesson() else { return };
    let database = std::sync::Arc::clone(pool.database());
    let mut swept = Vec::new();
    for pool in pools.iter_mut() {
        let is_same = is_of_same_database(pool.database(), &database);
        if pool.id() != id && is_same {
            pool.known_mut().take_over(&lesson);
        }
        if let Some(news) = pool.known_mut().take_news().filter(|_| pool.id() == id || is_same) {
            swept.push((pool.id(), news));
        }
    }
    for (pool, news) in swept {
        sweep(servers, pools, step, pool, news);
    }
}

/// Whether two entries are of one database: its names are the same for both.
pub(crate) fn is_of_same_database(one: &Database, other: &Database) -> bool {
    one.hosts == other.hosts && one.name_at_server() == other.name_at_server()
}

fn sweep(servers: &mut Servers, pools: &mut Pools, step: &mut Step<'_>, id: PoolId, news: News) {
    for conn in servers.ids() {
        let server = &mut servers[conn];
        if server.pool() != id || !taint(server, news) || server.state().group() != Group::Idle {
            continue;
        }
        match server.end().close_needed().cloned() {
            Some(why) => closed_servers::close_server(servers, pools, step, conn, why),
            None => {
                server.traces_mut().take_taint();
                free_servers::reset_or_free(servers, pools, step, conn);
            }
        }
    }
}

/// Marks a server for reset if the side effects may have left state on it. Whether they may.
pub(crate) fn taint(server: &mut Server, news: News) -> bool {
    let is_linked = server.session().is_some();
    if !is_linked && server.work().worked_at() < news.since {
        return false;
    }
    // Settings with names made up inside a function are reset with all others.
    let lasting = Pins::of_side_effects(news.side_effects).lasting() & !Pins::DYNAMIC;
    if !lasting.is_empty() {
        server.end_mut().close_when_released(CloseReason::UnknownSideEffects);
    }
    server.traces_mut().taint();
    true
}
