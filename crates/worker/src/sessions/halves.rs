//! The first messages of a session without a server: where they begin to need one, and what is kept of an incomplete
//! message.

use link::end_reason::EndReason;
use link::session::SessionState;
use link::unlinked::{Begun, Unlinked};
use machine::Step;
use units::{ConnId, heap, limits};

use crate::tables::halves::Halves;
use crate::tables::{Tables, backpressure};

/// Where the messages at hand begin to need a server. `None`: they need none, they were answered or kept.
#[inline(always)]
pub(crate) fn needs_server(
    tables: &mut Tables,
    halves: &mut Halves,
    step: &mut Step<'_>,
    conn: ConnId,
    bytes: &[u8],
    from: usize,
) -> Option<usize> {
    let session = &mut tables.sessions[conn];
    let mapped = tables.pools[session.pool()].rules().max_prepared_statements() > 0;
    let mut first = Unlinked { conn, session, mapped, actions: step.actions };
    match first.read(&bytes[from..]) {
        Ok(Begun::Needs(at)) => {
            halves.forget(conn);
            return Some(from + at);
        }
        Ok(Begun::Incomplete(at)) => keep_half(tables, halves, step, conn, &bytes[from + at..]),
        Err(ending) => tables.agenda.end_by_request(conn, ending),
    }
    None
}

/// Keeps an incomplete message.
fn keep_half(tables: &mut Tables, halves: &mut Halves, step: &mut Step<'_>, conn: ConnId, bytes: &[u8]) {
    if bytes.len() <= limits::HALF_ORDINARY {
        return backpressure::stash(tables, step, conn, bytes);
    }
    let session = &mut tables.sessions[conn];
    if !session.incoming_mut().reserve(bytes.len()) {
        return tables.agenda.refuse(conn, EndReason::OutOfMemory);
    }
    halves.keep(conn, step.now, heap::taken(session.incoming().capacity()));
    backpressure::stash(tables, step, conn, bytes);
    let max = limits::HALF_BYTES_MAX / usize::from(tables.plan.settings.workers.max(1));
    let kept = |conn: ConnId| {
        let idle = tables.sessions.get(conn).filter(|session| matches!(session.state(), SessionState::Idle { .. }));
        idle.map_or(0, |session| heap::taken(session.incoming().capacity()))
    };
    for conn in halves.shed(max, kept) {
        tables.agenda.refuse(conn, EndReason::HalfMessages);
    }
}
