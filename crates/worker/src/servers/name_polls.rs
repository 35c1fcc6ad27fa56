//! Asks an idle server for the side effects of its database's functions, triggers and views, when no session waits.
//!
//! No client waits for this as long as another server may be opened, except the first clients of a pool, which wait at
//! most [`units::limits::FIRST_NAMES`]. A failed poll does not stop a pool.

use link::server::Chore;
use machine::observe::{Level, Topic};
use session_state::catalogue;
use session_state::catalogue::{Question, Unanswered};
use units::{ConnId, PoolId};

use crate::servers::{chores, name_answers};
use crate::tables::lines;
use crate::tables::owners::{Pools, Servers};
use crate::tables::step::Step;

/// Asks an idle server, if it is time to.
pub(crate) fn poll_names(servers: &mut Servers, pools: &mut Pools, step: &mut Step<'_>, server_id: ConnId) {
    let server = &servers[server_id];
    let pool = &mut pools[server.pool()];
    if step.plan.stopping.has_begun() || !pool.known().is_due(step.now, pool.servers().idle().len() > 1) {
        return;
    }
    let chore = if pool.known().is_awaited() { Chore::First } else { Chore::Poll };
    if chore == Chore::Poll && is_asked_elsewhere(servers, pools, server_id) {
        return;
    }
    let pool = &mut pools[servers[server_id].pool()];
    let counts = pool.welcome().report().is_some_and(|report| report.counts_changes);
    let question = match pool.known_mut().begin(server_id, counts, step.now) {
        Question::Glance => catalogue::GLANCE,
        Question::Poll => catalogue::POLL,
    };
    query_server(servers, pools, step, server_id, chore, question);
}

/// Whether another pool of the same database is asking on this worker: it will pass on what it learns.
fn is_asked_elsewhere(servers: &Servers, pools: &Pools, server_id: ConnId) -> bool {
    let pool = &pools[servers[server_id].pool()];
    let mut others = pools.iter().filter(|other| other.id() != pool.id() && other.known().is_under_way());
    others.any(|other| name_answers::is_of_same_database(other.database(), pool.database()))
}

/// Like [`poll_names`], if the poll is overdue although sessions wait: the servers of a busy pool are never idle.
/// Whether the server is being asked.
pub(crate) fn poll_names_if_overdue(
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    id: PoolId,
    server_id: ConnId,
) -> bool {
    let is_overdue = pools[id].known().is_overdue(step.now);
    if is_overdue {
        poll_names(servers, pools, step, server_id);
    }
    is_overdue && pools[id].known().is_under_way()
}

/// Whether no session may have a server of the pool yet, because the side effects in its database are read first. Then
/// an idle server is asked.
pub(crate) fn must_learn(
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    id: PoolId,
    idle: ConnId,
) -> bool {
    let pool = &pools[id];
    if !pool.known().is_awaited() || step.plan.stopping.has_begun() {
        return false;
    }
    if !pool.known().is_under_way() {
        poll_names(servers, pools, step, idle);
    }
    true
}

/// The answer takes too long: sessions stop waiting for it.
pub(crate) fn names_late(servers: &mut Servers, pools: &mut Pools, step: &mut Step<'_>, server_id: ConnId) {
    let id = servers[server_id].pool();
    pools[id].known_mut().is_late();
    chores::turn_server(servers, pools, step, server_id, |server| server.ask(Chore::Catalogue));
    step.agenda.feed(id);
}

/// The answer is an error, or ends with one. If PostgreSQL took too long, the names stay in doubt, and are asked for again ever more
/// rarely; any other error says that they cannot be read.
pub(crate) fn names_refused(servers: &Servers, pools: &mut Pools, step: &mut Step<'_>, server_id: ConnId, words: &str) {
    let pool = servers[server_id].pool();
    match pools[pool].known_mut().refused(step.now) {
        Unanswered::TooLong => {
            let words = format!("reading the database's names takes too long: {words}; it is tried again later");
            lines::log_server(servers, pools, step, server_id, Level::Warning, Topic::General, words);
        }
        Unanswered::First => log_unreadable_names(servers, pools, step, server_id, words),
        Unanswered::Again => {}
    }
}

pub(crate) fn log_unreadable_names(
    servers: &Servers,
    pools: &Pools,
    step: &mut Step<'_>,
    server_id: ConnId,
    why: &str,
) {
    let words = format!(
        "the database's names cannot be read: {why}; side effects of functions, triggers and views are not tracked: what they leave \
         stays on the server, for whoever gets it next"
    );
    lines::log_server(servers, pools, step, server_id, Level::Warning, Topic::General, words);
}

pub(crate) fn query_server(
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    server_id: ConnId,
    chore: Chore,
    query: &str,
) {
    let text = [catalogue::PREFIX.as_bytes(), query.as_bytes()].concat();
    chores::start_chore(servers, pools, step, server_id, chore, &text);
}
