//! Calls the built-in tests where servers are handed out and come back: see [`crate::chaos`].

use link::pool::Pool;
use link::server::{Chore, Expect, Server};
use machine::Settings;
use machine::observe::{About, Fact, Level, Topic};
use units::table::Table;
use units::{ConnId, PoolId, Time};
use wire::frontend::Query;

use crate::chaos::Idle;
use crate::servers::chores;
use crate::servers::idle_servers::is_expired;
use crate::tables::lines;
use crate::tables::owners::{Pools, Servers, Sessions};
use crate::tables::stale::is_stale;
use crate::tables::step::Step;

/// The idle server that a session gets instead of `chosen`.
pub(crate) fn rotate(
    servers: &mut Servers,
    pools: &Pools,
    step: &Step<'_>,
    pool: PoolId,
    session: ConnId,
    chosen: ConnId,
) -> ConnId {
    let Some(chaos) = &mut servers.chaos else { return chosen };
    let pool = &pools[pool];
    chaos.choose(session, chosen, pool, &mut usable(step.now, &step.plan.settings, &servers.table, pool))
}

/// A session is about to get a server.
#[cold]
pub(crate) fn observe_link(servers: &mut Servers, pools: &Pools, step: &mut Step<'_>, session: ConnId, conn: ConnId) {
    let chaos = servers.chaos.as_mut().expect("there is chaos: its caller has asked");
    let pool = &pools[servers.table[conn].pool()];
    let idle: Vec<Idle> = usable(step.now, &step.plan.settings, &servers.table, pool).collect();
    let server = &mut servers.table[conn];
    if let Some(text) = chaos.linked(session, (conn, server), pool, &mut idle.into_iter()) {
        step.actions.tell(Fact::new(Level::Fatal, Topic::General, About::Pooler, text));
    }
}

/// Sends a free server the built-in tests' query, if they have one. Whether they have.
#[cold]
pub(crate) fn is_disturbed(servers: &mut Servers, pools: &mut Pools, step: &mut Step<'_>, conn: ConnId) -> bool {
    let chaos = servers.chaos.as_mut().expect("there is chaos: its caller has asked");
    let server = &mut servers.table[conn];
    let pool = &pools[server.pool()];
    // There is no query this time.
    let Some(question) = chaos.freed(conn, server, pool, step.caches) else { return false };
    chores::turn_server(servers, pools, step, conn, |server| server.ask(question.chore));
    let server = &mut servers[conn];
    server.ledger_mut().sent(question.answerer, Expect::Query);
    server.statements_mut().unnamed_gone();
    step.actions.send_new(conn, |out| Query { text: &question.text }.encode(out));
    step.actions.watch(conn, server.flow_mut(), true);
    true
}

/// The server has answered that query.
pub(crate) fn disturbance_ended(
    sessions: &Sessions,
    servers: &mut Servers,
    pools: &Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    chore: Chore,
) {
    // A reload has turned the tests off meanwhile.
    let Some(chaos) = &mut servers.chaos else { return };
    let server = &mut servers.table[conn];
    // There is no fault.
    let Some((session, text)) = chaos.answered(chore, conn, server, step.caches) else { return };
    if sessions.get(session).is_some() {
        lines::log_session(sessions, step, session, Level::Fatal, Topic::General, text);
    } else {
        lines::log_server(servers, pools, step, conn, Level::Fatal, Topic::General, text);
    }
}

/// Idle servers that need no check before use.
pub(crate) fn usable(
    now: Time,
    settings: &Settings,
    servers: &Table<Server>,
    pool: &Pool,
) -> impl Iterator<Item = Idle> {
    pool.servers().idle().iter().filter_map(move |conn| {
        let server = servers.get(*conn)?;
        let fresh = settings.global.servers.server_check_query.0.is_none() || !is_stale(now, server, settings);
        (fresh && !is_expired(now, server, pool, settings)).then_some((*conn, server.backend().pid))
    })
}
