//! Servers are asked for the side effects of their database's functions, triggers and views: one that is idle, when nobody waits.
//!
//! Promises: no client waits for it as long as another server may be opened, but a pool's very first ones, who wait for
//! [`units::limits::FIRST_NAMES`] at most; and no pool stands still because it fails.

use connections::server::Chore;
use machine::Step;
use machine::observe::{Level, Topic};
use session_state::catalogue;
use session_state::catalogue::Question;
use units::{ConnId, PoolId};

use crate::servers::chores;
use crate::tables::Tables;

/// An idle server that nobody waits for, or for which somebody waits though it is high time to ask.
pub(crate) fn poll_names(tables: &mut Tables, step: &mut Step<'_>, server_id: ConnId) {
    let server = &tables.servers[server_id];
    let pool = &mut tables.pools[server.pool];
    if tables.stopping.has_begun() || !pool.names.known.is_due(step.now, pool.servers.idle.len() > 1) {
        return;
    }
    let chore = if pool.names.known.is_awaited() { Chore::First } else { Chore::Poll };
    let counts = pool.welcome.base.as_ref().is_some_and(|base| base.counts_changes);
    let question = match pool.names.known.begin(server_id, counts, step.now) {
        Question::Glance => catalogue::GLANCE,
        Question::Poll => catalogue::POLL,
    };
    query_server(tables, step, server_id, chore, question);
}

/// As [`ask_for_names`], if it is high time: a pool whose servers are never idle is asked, too. Whether it is.
pub(crate) fn poll_names_if_overdue(tables: &mut Tables, step: &mut Step<'_>, id: PoolId, server_id: ConnId) -> bool {
    let is_overdue = tables.pools[id].names.known.is_overdue(step.now);
    if is_overdue {
        poll_names(tables, step, server_id);
    }
    is_overdue && tables.pools[id].names.known.is_under_way()
}

/// Whether the pool's servers are for nobody yet: the side effects in its database are read first. An idle one is asked.
pub(crate) fn must_learn(tables: &mut Tables, step: &mut Step<'_>, id: PoolId, idle: ConnId) -> bool {
    let pool = &tables.pools[id];
    if !pool.names.known.is_awaited() || tables.stopping.has_begun() {
        return false;
    }
    if !pool.names.known.is_under_way() {
        poll_names(tables, step, idle);
    }
    true
}

/// The answer is not waited for any longer.
pub(crate) fn names_late(tables: &mut Tables, step: &mut Step<'_>, server_id: ConnId) {
    let id = tables.servers[server_id].pool;
    tables.pools[id].names.known.is_late();
    chores::turn_server(tables, step, server_id, |server| server.ask(Chore::Catalogue));
    tables.agenda.feed(id);
}

/// An error is the answer, or its end.
pub(crate) fn names_refused(tables: &mut Tables, step: &mut Step<'_>, server_id: ConnId, words: &str) {
    let server = &tables.servers[server_id];
    let pool = &mut tables.pools[server.pool];
    if pool.names.known.refused() {
        log_unreadable_names(tables, step, server_id, words);
    }
}

pub(crate) fn log_unreadable_names(tables: &Tables, step: &mut Step<'_>, server_id: ConnId, why: &str) {
    let words = format!(
        "the database's names cannot be read: {why}; statements are followed by their own words only: what functions, triggers \
         and views do inside stays on the server, for whoever gets it next"
    );
    tables.view().log_server(step, server_id, Level::Warning, Topic::General, words);
}

pub(crate) fn query_server(tables: &mut Tables, step: &mut Step<'_>, server_id: ConnId, chore: Chore, query: &str) {
    let text = [catalogue::PREFIX.as_bytes(), query.as_bytes()].concat();
    chores::start_chore(tables, step, server_id, chore, &text);
}
