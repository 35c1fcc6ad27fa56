//! The first messages of a session without a server: where they begin to need one, and what is kept of an incomplete
//! message.

use link::end_reason::EndReason;
use link::session::SessionState;
use link::unlinked::{Begun, Unlinked};
use units::{ConnId, heap, limits};

use crate::tables::backpressure;
use crate::tables::owners::{Pools, Servers, Sessions};
use crate::tables::step::Step;

/// Where the messages at hand begin to need a server. `None`: they need none, they were answered or kept.
#[inline(always)]
pub(crate) fn needs_server(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    bytes: &[u8],
    from: usize,
) -> Option<usize> {
    let session = &mut sessions[conn];
    let mapped = pools[session.pool()].rules().max_prepared_statements() > 0;
    let mut first = Unlinked { conn, session, mapped, actions: step.actions };
    match first.read(&bytes[from..]) {
        Ok(Begun::Needs(at)) => {
            sessions.halves.forget(conn);
            return Some(from + at);
        }
        Ok(Begun::Incomplete(at)) => keep_half(sessions, servers, step, conn, &bytes[from + at..]),
        Err(ending) => step.agenda.end_by_request(conn, ending),
    }
    None
}

/// Keeps an incomplete message.
fn keep_half(sessions: &mut Sessions, servers: &mut Servers, step: &mut Step<'_>, conn: ConnId, bytes: &[u8]) {
    if bytes.len() <= limits::HALF_ORDINARY {
        return backpressure::stash(sessions, servers, step, conn, bytes);
    }
    let session = &mut sessions.table[conn];
    if !session.incoming_mut().reserve(bytes.len()) {
        return step.agenda.refuse(conn, EndReason::OutOfMemory);
    }
    sessions.halves.keep(conn, step.now, heap::taken(session.incoming().capacity()));
    backpressure::stash(sessions, servers, step, conn, bytes);
    let max = limits::HALF_BYTES_MAX / usize::from(step.plan.settings.workers.max(1));
    let kept = |conn: ConnId| {
        let idle = sessions.table.get(conn).filter(|session| matches!(session.state(), SessionState::Idle { .. }));
        idle.map_or(0, |session| heap::taken(session.incoming().capacity()))
    };
    for conn in sessions.halves.shed(max, kept) {
        step.agenda.refuse(conn, EndReason::HalfMessages);
    }
}
