//! Queries of the pooler itself on a server between two sessions.
//!
//! ```text
//!   Draining ──► Busy(Rollback) ──► Busy(Unlisten) ──► Busy(Reset) ──► Idle        each where there is something to do
//! ```

use link::server::{Answerer, Chore, Expect, Server, ServerState};
use units::ConnId;
use units::deadline::Owner;
use wire::frontend::Query;

use crate::tables::owners::{Pools, Servers};
use crate::tables::step::Step;
use crate::tables::timers::is_armed_idle;

pub(crate) fn start_chore(
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    server_id: ConnId,
    chore: Chore,
    query: &[u8],
) {
    turn_server(servers, pools, step, server_id, |server| server.ask(chore));
    let server = &mut servers[server_id];
    server.ledger_mut().sent(Answerer::Chore, Expect::Query);
    server.statements_mut().unnamed_gone();
    step.actions.send_new(server_id, |out| Query { text: query }.encode(out));
    step.actions.watch(server_id, server.flow_mut(), true);
}

/// Moves a server to another state, and updates its pool's counts.
pub(crate) fn turn_server(
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    way: impl FnOnce(&mut Server),
) {
    let server = &mut servers[conn];
    let pool = &mut pools[server.pool()];
    pool.turn(step.now, conn, server, way, step.agenda.unpublished());
    let armed = match server.state() {
        ServerState::Linked(_) | ServerState::Own(_) => true,
        ServerState::Idle => is_armed_idle(step.now, server, pool),
        _ => false,
    };
    if !armed {
        step.agenda.arm(Owner::Conn(conn));
    }
}
