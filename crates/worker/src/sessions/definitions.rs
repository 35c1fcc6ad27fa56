//! Functions, triggers and the like that clients define: which pools learn of them, and when the session may send the
//! statement.

use std::sync::Arc;

use link::findings::Findings;
use link::other_workers::OtherWorkers;
use machine::Step;
use machine::mail::ToWorker;
use session_state::catalogue::Definition;
use units::{ConnId, PoolId, WorkerId};

use crate::tables::open_definitions::OpenDefinitions;
use crate::tables::{Tables, backpressure};

pub(crate) fn other_workers(tables: &Tables) -> OtherWorkers {
    OtherWorkers::of(tables.plan.id, tables.plan.settings.workers)
}

/// Another worker's client defines something.
pub(crate) fn note_definition(
    tables: &mut Tables,
    definitions: &mut OpenDefinitions,
    step: &mut Step<'_>,
    definition: Arc<Definition>,
    session: Option<ConnId>,
) {
    definitions.note(tables.pools.iter_mut(), step.now, &definition);
    if let Some(session) = session {
        let (to, by) = (WorkerId(session.owner()), tables.plan.id);
        step.actions.post_to_worker(to, ToWorker::Noted { definition, session, by });
    }
}

/// Another worker has noted what a session here is about to define.
pub(crate) fn definition_noted(
    tables: &mut Tables,
    step: &mut Step<'_>,
    conn: ConnId,
    definition: &Arc<Definition>,
    by: WorkerId,
) {
    // The session may have ended meanwhile.
    let Some(session) = tables.sessions.get_mut(conn) else { return };
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
        && let Some(server) = tables.servers.get_mut(server).filter(|server| server.hold().is_on())
        && server.end_hold()
    {
        tables.agenda.go_on(conn);
        backpressure::balance_if_paused(tables, step, conn);
    }
}

/// A transaction that has defined something on this server is over, or the server is lost.
#[cold]
pub(crate) fn settle_definitions_of(
    tables: &mut Tables,
    definitions: &mut OpenDefinitions,
    step: &mut Step<'_>,
    id: PoolId,
    server: ConnId,
    lost: bool,
) {
    if definitions.is_of(server) {
        definitions.settle(tables.pools.iter_mut(), step.now, server, lost);
        other_workers(tables).post(step.actions, || ToWorker::Settled { server, lost });
    } else if let Some(pool) = tables.pools.get_mut(id) {
        // No other pool knows of it.
        pool.known_mut().settle(server, step.now, lost);
    }
}

/// Notes what was defined on a server, and whether its transaction is over.
pub(crate) fn act_on_definitions(
    tables: &mut Tables,
    definitions: &mut OpenDefinitions,
    step: &mut Step<'_>,
    conn: ConnId,
    findings: &mut Findings,
) {
    for definition in findings.words.iter_mut().flat_map(|words| std::mem::take(&mut words.definitions)) {
        definitions.note(tables.pools.iter_mut(), step.now, &definition);
    }
    if findings.settled {
        let id = tables.servers[conn].pool();
        settle_definitions_of(tables, definitions, step, id, conn, false);
    }
}
