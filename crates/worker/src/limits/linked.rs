//! The limits of a class for a session that keeps its server between transactions: which of its messages go on to that
//! server, and which are held until they may. While two hosts accept writes, none is sent on, and each gets an error.
//!
//! The pooler's own messages reach the client only between messages of its server. A message that begins no transaction
//! needs no permit. [`super::admission`] decides which transactions may begin.

use link::ending::checked_header;
use link::session::Admission;
use link::unlinked::{Begun, Unlinked};
use units::{ConnId, limits};
use wire::HEADER_LEN;
use wire::backend::Status;
use wire::frontend::tag;

use crate::limits::admission;
use crate::limits::admission::Goes;
use crate::limits::refusals;
use crate::tables::owners::{Servers, Sessions};
use crate::tables::step::Step;
use crate::tables::{Tables, backpressure, lookups};

/// A session that keeps its server may have more messages to send.
pub(crate) fn go_on_linked(
    sessions: &Sessions,
    servers: &mut Servers,
    step: &mut Step<'_>,
    conn: ConnId,
    server: ConnId,
) {
    let attends = lookups::waits_for_listener(sessions, conn);
    let waits = matches!(sessions[conn].claim().admission(), Admission::Waits { .. });
    // The server was closed in this step, which ends its session too.
    let Some(server) = servers.get_mut(server) else { return };
    if server.hold().is_on() && !attends && !waits && server.is_between_transactions() && server.end_hold() {
        step.agenda.go_on(conn);
    }
}

/// Applies limits to a linked session's messages from `at` on. Returns where the bytes begin that go to its server;
/// `None`: all are dealt with, or kept. This concerns only sessions that keep their server from an earlier transaction,
/// and batches that were refused.
pub(crate) fn admit_linked(
    tables: &mut Tables,
    step: &mut Step<'_>,
    conn: ConnId,
    bytes: &[u8],
    mut at: usize,
) -> Option<usize> {
    loop {
        let session = tables.sessions.get_mut(conn)?;
        let server_id = session.server()?;
        let server = tables.servers.get_mut(server_id)?;
        let is_over = server.ledger().is_clear() && server.transaction().status() == Status::Idle;
        let discards = session.incoming().forwards_nothing();
        if matches!(session.claim().admission(), Admission::Waits { .. }) {
            // The hold was ended for another reason.
            return hold_linked(&mut tables.sessions, &mut tables.servers, step, conn, server_id, &bytes[at..]);
        }
        let is_disputed = lookups::is_disputed(&tables.pools, server);
        let is_in = matches!(session.claim().admission(), Admission::In { .. }) && !is_disputed;
        if !session.incoming().discards_batch() && (is_in || !is_over || !discards) {
            return Some(at);
        }
        if !server.is_between_transactions() || !session.incoming().inbox().is_empty() {
            // The server is within a message, or the session's message began while the previous transaction was under
            // way.
            step.agenda.reconsider(conn);
            return hold_linked(&mut tables.sessions, &mut tables.servers, step, conn, server_id, &bytes[at..]);
        }
        let mut held = Unlinked { conn, session, mapped: false, actions: step.actions };
        match held.read_refused(&bytes[at..]) {
            Ok(Begun::Needs(count)) => at += count,
            Ok(Begun::Incomplete(count)) => {
                return hold_linked(
                    &mut tables.sessions,
                    &mut tables.servers,
                    step,
                    conn,
                    server_id,
                    &bytes[at + count..],
                );
            }
            Err(ending) => {
                step.agenda.end_by_request(conn, ending);
                return None;
            }
        }
        if tables.limiters.is_none() && !is_disputed {
            return Some(at);
        }
        let rest = &bytes[at..];
        let header = match checked_header(rest) {
            Ok(Some(header)) => header,
            Ok(None) if !rest.is_empty() => {
                return hold_linked(&mut tables.sessions, &mut tables.servers, step, conn, server_id, rest);
            }
            // The reader of the messages reports the error.
            Ok(None) | Err(_) => return Some(at),
        };
        match header.tag {
            tag::TERMINATE => return Some(at),
            tag::SYNC | tag::FLUSH | tag::COPY_DATA | tag::COPY_DONE | tag::COPY_FAIL => {
                // Skipped, as for a session without a server. They are left over from a COPY that has failed.
                held.pass_over(header);
                at += HEADER_LEN;
                server.transaction_mut().query_sent(step.now);
                continue;
            }
            _ => {}
        }
        if rest.len() < header.total_len().min(limits::CHUNK_LEN_MAX) {
            return hold_linked(&mut tables.sessions, &mut tables.servers, step, conn, server_id, rest);
        }
        if is_disputed {
            refusals::refuse_in_dispute(&mut tables.sessions, &mut tables.pools, step, conn, rest);
            continue;
        }
        match admission::admit(tables, step, conn, rest) {
            Goes::On => return Some(at),
            Goes::Later => return hold_linked(&mut tables.sessions, &mut tables.servers, step, conn, server_id, rest),
            Goes::PassedOver => {}
        }
    }
}

/// Keeps a linked session's messages until they may go on. Always `None`.
fn hold_linked(
    sessions: &mut Sessions,
    servers: &mut Servers,
    step: &mut Step<'_>,
    conn: ConnId,
    server: ConnId,
    bytes: &[u8],
) -> Option<usize> {
    let waits = matches!(sessions[conn].claim().admission(), Admission::Waits { .. });
    if waits || !bytes.is_empty() {
        servers[server].hold_mut().begin();
    }
    backpressure::stash(sessions, servers, step, conn, bytes);
    None
}
