//! Messages whose body PostgreSQL refuses.
//!
//! ```text
//! Parse, Bind, Describe, Close, Execute, Flush   an error; the server skips to Sync
//! Query, FunctionCall, Sync                      an error and ReadyForQuery; a batch is not committed
//! CopyData, CopyDone, CopyFail                   a server outside COPY IN does not read their bodies
//! ```
//!
//! The server gets such a message unchanged and sends the error itself. The session lasts, as in PostgreSQL.
//!
//! Inside COPY IN the server ignores Sync and Flush with any body, and outside it does not. So these two wait until the
//! pooler knows where the server is. Inside, they stop the COPY like a message that does not belong to it.

use wire::frontend::tag;
use wire::{HEADER_LEN, Header};

use crate::requests::{Renamed, Requests};
use crate::server::Expect;

/// Sends a complete message of the extended protocol with a bad body.
#[cold]
pub(crate) fn send(requests: &mut Requests<'_>, message: u8, body: &[u8], in_stream: bool) -> Renamed {
    requests.sent(Expect::Malformed);
    requests.replace(HEADER_LEN + body.len(), in_stream, |out| {
        wire::message(out, message, |out| out.extend_from_slice(body));
    });
    Renamed::Yes
}

/// A Sync or a Flush that has a body.
#[inline]
pub(crate) fn has_surplus(header: Header) -> bool {
    matches!(header.tag, tag::SYNC | tag::FLUSH) && header.body_len() > 0
}

/// Whether a Sync or a Flush with a body waits for the answers under way. They show whether the server is in COPY IN.
#[cold]
pub(crate) fn waits(requests: &mut Requests<'_>) -> bool {
    let waits = requests.link.server.ledger.depth() > 0;
    if waits {
        requests.call_for_answers();
    }
    waits
}
