//! COPY FROM STDIN that fails, or that the client leaves by another message: the client gets the same answers as from
//! PostgreSQL.
//!
//! A message that does not belong to a COPY under way ends a PostgreSQL session. If the COPY had failed before, the
//! message is read as usual. The pooler must know which it is before it sends the message, so it sends CopyFail first.
//! If the error is that of the CopyFail, the COPY was under way; any other error shows that it had failed before.
//!
//! //= pg18 protocol-flow#PROTOCOL-COPY

use wire::backend::Fields;
use wire::frontend::{CopyFail, tag};
use wire::{Header, SqlState, sqlstate};

use crate::answers::Answers;
use crate::ending::{Ending, checked_header};
use crate::findings::Astray;
use crate::malformed;
use crate::requests::Requests;
use crate::server::CloseReason;

/// The text of the CopyFail that stops a COPY; it comes back in the server's error.
const STOPPED: &[u8] = b"stopped by pgweir for a message that is not of a copy";

/// Deals with a message while it is not known whether the server is in COPY IN. `None`: it is sent like any other.
/// `Some(false)`: it waits until that is known.
#[cold]
pub(crate) fn guard(requests: &mut Requests<'_>, header: Header) -> Result<Option<bool>, Ending> {
    let belongs = matches!(
        header.tag,
        tag::COPY_DATA | tag::COPY_DONE | tag::COPY_FAIL | tag::FLUSH | tag::SYNC | tag::TERMINATE
    );
    if belongs && !malformed::has_surplus(header) {
        return Ok(None);
    }
    if requests.link.server.ledger.copying().is_open() {
        stop(requests);
    } else if requests.link.server.ledger.is_skipping() {
        // Whether the server skips this depends on whether it has answered a Sync, and a skipping server answers no
        // query that would show it.
        requests.link.server.facts.end.close_needed = Some(CloseReason::SyncLost);
        return Err(Ending::Refuse(CloseReason::SyncLost.into()));
    } else {
        // What was sent behind the Syncs in doubt tells, once the server answers it.
        requests.call_for_answers();
    }
    Ok(Some(false))
}

/// Whether a message that names a statement or a portal waits for the answers under way, since the server would read it inside COPY IN if
/// one of them is CopyInResponse. The pooler may answer such a message itself or send another message in front of it, and PostgreSQL ends
/// the session with an error that says which message it was.
#[inline]
pub(crate) fn waits(requests: &mut Requests<'_>, header: Header) -> bool {
    let ledger = &requests.link.server.ledger;
    let waits = ledger.copying().may_begin()
        && ledger.depth() > 0
        && requests.is_mapped()
        && matches!(header.tag, tag::PARSE | tag::BIND | tag::DESCRIBE | tag::CLOSE);
    if waits {
        requests.call_for_answers();
    }
    waits
}

/// Stops the COPY, so that its error shows whether it had failed before. The client's messages wait for that error.
#[cold]
pub(crate) fn stop(requests: &mut Requests<'_>) {
    requests.stream.flush(requests.link.server_id, requests.actions);
    requests.link.server.ledger.stop_copy();
    requests.link.server.facts.hold.flush();
    requests.actions.send_new(requests.link.server_id, |out| CopyFail { message: STOPPED }.encode(out));
}

/// PostgreSQL's error for this message of a client inside COPY IN.
pub fn error_within(message: &[u8]) -> (SqlState, String) {
    let tag = message.first().copied().unwrap_or_default();
    let belongs = matches!(tag, tag::COPY_DATA | tag::COPY_DONE | tag::COPY_FAIL | tag::FLUSH | tag::SYNC);
    if belongs && checked_header(message).is_err() {
        let text = "unexpected EOF on client connection with an open transaction";
        return (sqlstate::CONNECTION_FAILURE, text.to_owned());
    }
    (sqlstate::PROTOCOL_VIOLATION, format!("unexpected message type 0x{tag:02X} during COPY from stdin"))
}

/// Whether an error ends the session because of a COPY. `Some`: it does; the value says whether the error is passed on.
pub(crate) fn leads_astray(answers: &mut Answers<'_>, fields: &Fields<'_>) -> Option<bool> {
    let ledger = &answers.server.ledger;
    let astray = if ledger.copying().is_cut() && fields.sqlstate() == Some(sqlstate::PROTOCOL_VIOLATION) {
        Astray::Reported
    } else if ledger.copying().is_stopped() && fields.message().is_some_and(|message| message.ends_with(STOPPED)) {
        Astray::NoCopyData
    } else {
        return None;
    };
    answers.session.as_ref()?;
    answers.findings.words().astray = Some(astray);
    Some(astray == Astray::Reported)
}
