//! A session that keeps its server between transactions, at the limits of its class: what of its messages goes on to that
//! server, and what is held until it may.
//!
//! Promises: it is spoken to between its server's messages only; what PostgreSQL would not begin a transaction for needs no
//! leave. Does not decide who may go: [`super::admission`] does.

use connections::server::Overdue;
use link::ending::checked_header;
use link::session::{Admission, Rest};
use link::unlinked::{Begun, Unlinked};
use machine::Step;
use units::{ConnId, limits};
use wire::HEADER_LEN;
use wire::backend::Status;
use wire::frontend::tag;

use crate::limits::admission;
use crate::limits::admission::Goes;
use crate::limits::limiters::Limiters;
use crate::tables::{Tables, backpressure};

/// A session that keeps its server has more at hand.
pub(crate) fn go_on_linked(tables: &mut Tables, conn: ConnId, server: ConnId) {
    let attends = tables.view().waits_for_listener(conn);
    let waits = matches!(tables.sessions[conn].claim.admission, Admission::Waits { .. });
    // Closed in this step, whose end is its session's too.
    let Some(server) = tables.servers.get_mut(server) else { return };
    // A cancel that is under way could strike what comes next.
    let is_struck = server.cancel.overdue == Overdue::Answered;
    if server.hold.is_on && !attends && !waits && !is_struck && server.is_between_transactions() {
        server.hold.is_on = false;
        tables.agenda.go_on(conn);
    }
}

/// A linked session's messages, from `at`: where they go on to its server. `None`: they are dealt with, or kept. Only who
/// keeps its server from an earlier transaction comes to limits here, or to the end of a batch that was refused.
pub(crate) fn admit_linked(
    tables: &mut Tables,
    limiters: &mut Limiters,
    step: &mut Step<'_>,
    conn: ConnId,
    bytes: &[u8],
    mut at: usize,
) -> Option<usize> {
    loop {
        let session = tables.sessions.get_mut(conn)?;
        let server_id = session.server()?;
        let server = tables.servers.get_mut(server_id)?;
        let is_over = server.ledger.is_clear() && server.transaction.status == Status::Idle;
        let discards = session.incoming.skip == 0 || session.incoming.rest == Rest::Discard;
        if matches!(session.claim.admission, Admission::Waits { .. }) {
            // Something else has ended the hold.
            return hold_linked(tables, step, conn, server_id, &bytes[at..]);
        }
        let is_in = matches!(session.claim.admission, Admission::In { .. });
        if !session.incoming.skipping && (is_in || !is_over || !discards) {
            return Some(at);
        }
        if !server.is_between_transactions() || !session.incoming.inbox.is_empty() {
            // Its server is within a message, or its own message began while the transaction before was under way.
            tables.agenda.reconsider(conn);
            return hold_linked(tables, step, conn, server_id, &bytes[at..]);
        }
        let mut held = Unlinked { conn, session, mapped: false, actions: step.actions };
        match held.read_refused(&bytes[at..]) {
            Ok(Begun::Needs(count)) => at += count,
            Ok(Begun::Incomplete(count)) => return hold_linked(tables, step, conn, server_id, &bytes[at + count..]),
            Err(ending) => {
                tables.agenda.end_by_request(conn, ending);
                return None;
            }
        }
        if limiters.is_none() {
            return Some(at);
        }
        let rest = &bytes[at..];
        let header = match checked_header(rest) {
            Ok(Some(header)) => header,
            Ok(None) if !rest.is_empty() => return hold_linked(tables, step, conn, server_id, rest),
            // It is told by whoever reads it.
            Ok(None) | Err(_) => return Some(at),
        };
        match header.tag {
            tag::TERMINATE => return Some(at),
            tag::SYNC | tag::FLUSH | tag::COPY_DATA | tag::COPY_DONE | tag::COPY_FAIL => {
                // As of a session without a server. A client may learn late that its COPY failed.
                held.pass_over(header);
                at += HEADER_LEN;
                server.transaction.query_at = step.now;
                continue;
            }
            _ => {}
        }
        if rest.len() < header.total_len().min(limits::CHUNK_LEN_MAX) {
            return hold_linked(tables, step, conn, server_id, rest);
        }
        match admission::admit(tables, limiters, step, conn, rest) {
            Goes::On => return Some(at),
            Goes::Later => return hold_linked(tables, step, conn, server_id, rest),
            Goes::PassedOver => {}
        }
    }
}

/// Keeps what a linked session has sent, until it may go on. Always `None`.
fn hold_linked(tables: &mut Tables, step: &mut Step<'_>, conn: ConnId, server: ConnId, bytes: &[u8]) -> Option<usize> {
    let waits = matches!(tables.sessions[conn].claim.admission, Admission::Waits { .. });
    tables.servers[server].hold.is_on |= waits || !bytes.is_empty();
    backpressure::stash(tables, step, conn, bytes);
    None
}
