//! COPY FROM STDIN that fails, or is left by a message that is not of it: a client is told what PostgreSQL tells it.
//!
//! A message that is not of a copy under way ends a session of PostgreSQL; where the copy had failed before, it is read as
//! ever. Which of both it is decides how the message is to be sent, so CopyFail goes in front: its error says that the copy was
//! whole until then, any other one that it was not.
//!
//! //= pg18 protocol-flow#PROTOCOL-COPY

use wire::backend::Fields;
use wire::frontend::{CopyFail, tag};
use wire::sqlstate;

use crate::answers::Answers;
use crate::ending::Ending;
use crate::findings::Astray;
use crate::requests::Requests;

/// PostgreSQL's words where it cannot tell any more what it has read.
pub const SYNC_LOST: &str = "terminating connection because protocol synchronization was lost";

/// With what a copy is stopped; it comes back in the server's error.
const STOPPED: &[u8] = b"stopped by pgweir for a message that is not of a copy";

/// A message comes where it is not known whether the server is in COPY IN. `None`: it is sent as any other. `Some(false)`:
/// not before that is known.
#[cold]
pub(crate) fn guard(requests: &mut Requests<'_>, message: u8) -> Result<Option<bool>, Ending> {
    if matches!(message, tag::COPY_DATA | tag::COPY_DONE | tag::COPY_FAIL | tag::FLUSH | tag::SYNC | tag::TERMINATE) {
        return Ok(None);
    }
    if requests.server.ledger.is_copy_open() {
        requests.stream.flush(requests.server_id, requests.actions);
        requests.server.ledger.stop_copy();
        requests.server.hold.flushed = true;
        requests.actions.send_new(requests.server_id, |out| CopyFail { message: STOPPED }.encode(out));
    } else if requests.server.ledger.is_skipping() {
        // Whether the server skips this depends on a Sync that it has answered or has not, and no question is answered then.
        requests.server.end.close_needed = Some(SYNC_LOST);
        return Err(Ending::violation(SYNC_LOST));
    }
    Ok(Some(false))
}

/// An error has come. `Some`: it ends the session; whether it is passed on.
pub(crate) fn leads_astray(answers: &mut Answers<'_>, fields: &Fields<'_>) -> Option<bool> {
    let ledger = &answers.server.ledger;
    let astray = if ledger.is_copy_cut() && fields.sqlstate() == Some(sqlstate::PROTOCOL_VIOLATION) {
        Astray::Reported
    } else if ledger.is_copy_stopped() && fields.message().is_some_and(|message| message.ends_with(STOPPED)) {
        Astray::NoCopyData
    } else {
        return None;
    };
    answers.session.as_ref()?;
    answers.findings.words().astray = Some(astray);
    Some(astray == Astray::Reported)
}
