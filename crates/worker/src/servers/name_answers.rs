//! What a server has answered about its database's names, and what follows where side effects were found that nobody knew of:
//! something was defined past the pooler.
//!
//! ```text
//!   the poll finds them ──► every server of the pool that has run anything since the last poll found nothing
//!                            idle ──► cleared ──► idle
//!                            linked, draining, busy ──► cleared when it is free
//!                            and closed instead, where they leave what cannot be cleared
//! ```
//!
//! What a session has set through the pooler is kept as ever: it is set again where it goes on. A setting that came out of such a
//! function, which its session never knew to be followed, is lost, since nobody can tell whose it was.

use connections::server::{Chore, Group, Server};
use machine::Step;
use machine::observe::{Level, Topic};
use session_state::catalogue;
use session_state::catalogue::{News, Next};
use session_state::state::Pins;
use units::{ConnId, PoolId};

use crate::servers::{closed_servers, free_servers, name_polls};
use crate::tables::Tables;

const WHY: &str = "something was defined past the pooler that leaves what cannot be cleared";

/// The answer has come to its end.
pub(crate) fn names_answered(tables: &mut Tables, step: &mut Step<'_>, server_id: ConnId) {
    let server = &tables.servers[server_id];
    let pool = &mut tables.pools[server.pool];
    let id = pool.id;
    match pool.names.known.answered(step.now) {
        Next::Poll => return name_polls::query_server(tables, step, server_id, Chore::Poll, catalogue::POLL),
        Next::Read => {
            let chore = if pool.names.known.is_awaited() { Chore::First } else { Chore::Catalogue };
            return name_polls::query_server(tables, step, server_id, chore, catalogue::QUERY);
        }
        Next::Complain => {
            name_polls::log_unreadable_names(tables, step, server_id, "the server's answer is not what was expected")
        }
        Next::Recovered => {
            let words =
                "the database's names can be read: what functions, triggers and views do is followed from now on";
            tables.view().log_server(step, server_id, Level::Log, Topic::General, words.to_owned());
            spread_names(tables, step, id);
        }
        Next::Nothing => spread_names(tables, step, id),
    }
    tables.agenda.feed(id);
    free_servers::free(tables, step, server_id);
}

/// What was learned by one pool is known to all of the same database here; and servers are cleared.
fn spread_names(tables: &mut Tables, step: &mut Step<'_>, id: PoolId) {
    let pool = &tables.pools[id];
    // Nothing was learned.
    let Some(lesson) = pool.names.known.lesson() else { return };
    let database = std::sync::Arc::clone(&pool.database);
    let mut swept = Vec::new();
    for pool in tables.pools.iter_mut() {
        let is_same =
            pool.database.hosts == database.hosts && pool.database.name_at_server() == database.name_at_server();
        if pool.id != id && is_same {
            pool.names.known.take_over(&lesson);
        }
        if let Some(news) = pool.names.known.take_news().filter(|_| pool.id == id || is_same) {
            swept.push((pool.id, news));
        }
    }
    for (pool, news) in swept {
        sweep(tables, step, pool, news);
    }
}

fn sweep(tables: &mut Tables, step: &mut Step<'_>, id: PoolId, news: News) {
    for conn in tables.servers.ids() {
        let server = &mut tables.servers[conn];
        if server.pool != id || !taint(server, news) || server.state().group() != Group::Idle {
            continue;
        }
        match server.end.close_needed {
            Some(why) => closed_servers::close_server(tables, step, conn, why),
            None => {
                (server.traces.tainted, server.traces.soiled) = (false, true);
                free_servers::reset_or_free(tables, step, conn);
            }
        }
    }
}

/// Marks a server that may have what was left behind. Whether it may.
pub(crate) fn taint(server: &mut Server, news: News) -> bool {
    let is_linked = server.session().is_some();
    if !is_linked && server.work.worked_at < news.since {
        return false;
    }
    // Settings made up inside are cleared with all others.
    let lasting = Pins::of_hidden(news.hidden).lasting() & !Pins::DYNAMIC;
    if !lasting.is_empty() {
        server.end.close_needed = Some(WHY);
    }
    server.traces.tainted = true;
    true
}
