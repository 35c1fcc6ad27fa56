//! Functions, triggers and the like that clients define: which pools learn of them, and when the session may send the
//! statement.

use std::sync::Arc;

use link::findings::Findings;
use link::other_workers::OtherWorkers;
use machine::mail::ToWorker;
use session_state::catalogue::Definition;
use units::{ConnId, PoolId, WorkerId};

use crate::tables::backpressure;
use crate::tables::owners::{Plan, Pools, Servers, Sessions};
use crate::tables::step::Step;

pub(crate) fn other_workers(plan: &Plan) -> OtherWorkers {
    OtherWorkers::of(plan.id, plan.settings.workers)
}

/// Another worker's client defines something.
pub(crate) fn note_definition(
    pools: &mut Pools,
    step: &mut Step<'_>,
    definition: Arc<Definition>,
    session: Option<ConnId>,
) {
    pools.note_definition(step.now, &definition);
    if let Some(session) = session {
        let (to, by) = (WorkerId(session.owner()), step.plan.id);
        step.actions.post_to_worker(to, ToWorker::Noted { definition, session, by });
    }
}

/// Another worker has noted what a session here is about to define.
pub(crate) fn definition_noted(
    sessions: &mut Sessions,
    servers: &mut Servers,
    step: &mut Step<'_>,
    conn: ConnId,
    definition: &Arc<Definition>,
    by: WorkerId,
) {
    // The session may have ended meanwhile.
    let Some(session) = sessions.get_mut(conn) else { return };
    let linked_to = session.server();
    // It has lost its server, and the statement with it.
    let Some(announcement) = session.tracker_mut().and_then(|tracker| tracker.announcement.as_mut()) else {
        return;
    };
    if !Arc::ptr_eq(&announcement.definition, definition) {
        return;
    }
    announcement.missing.remove(&by);
    if !announcement.missing.is_empty() || session.waits_for_listener() {
        return;
    }
    if let Some(server) = linked_to
        && let Some(server) = servers.get_mut(server).filter(|server| server.hold().is_on())
        && server.end_hold()
    {
        step.agenda.go_on(conn);
        backpressure::balance_if_paused(sessions, servers, step, conn);
    }
}

/// A transaction that has defined something on this server is over, or the server is lost.
#[cold]
pub(crate) fn settle_definitions_of(pools: &mut Pools, step: &mut Step<'_>, id: PoolId, server: ConnId, lost: bool) {
    if pools.definitions.is_of(server) {
        pools.settle_definitions(step.now, server, lost);
        other_workers(step.plan).post(step.actions, || ToWorker::Settled { server, lost });
    } else if let Some(pool) = pools.get_mut(id) {
        // No other pool knows of it.
        pool.known_mut().settle(server, step.now, lost);
    }
}

/// Notes what was defined on a server, and whether its transaction is over.
pub(crate) fn act_on_definitions(
    servers: &Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    findings: &mut Findings,
) {
    for definition in findings.words.iter_mut().flat_map(|words| std::mem::take(&mut words.definitions)) {
        pools.note_definition(step.now, &definition);
    }
    if findings.settled {
        let id = servers[conn].pool();
        settle_definitions_of(pools, step, id, conn, false);
    }
}
