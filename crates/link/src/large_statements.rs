//! Named statements that the pooler does not keep: too long ([`limits::STATEMENT_LEN_MAX`]), or too many of one client.
//!
//! Where session state is followed, they go to the server under the client's own names, and the session keeps that
//! server until its client disconnects. Its new names are no longer mapped; names from before stay mapped. Where
//! session state is not followed, the Parse fails (54000), and the session goes on after its Sync.
//!
//! Such a text is not read for its effects on the session. So its server is closed when the client has disconnected.

use session_state::state::Pins;
use units::limits;
use wire::frontend::{Describe, Parse, Target};
use wire::{HEADER_LEN, Header};

use crate::end_reason::EndReason;
use crate::ending::Ending;
use crate::pool::Pool;
use crate::requests::{Renamed, Requests};
use crate::server::Expect;
use crate::session::Session;
use crate::{remedies, server_statements};

/// The error for a session that cannot keep its server.
pub(crate) const TOO_LARGE: &str = "named prepared statement too large, or too many of them in one session";

/// A named Parse of which only the beginning is at hand, since it is too long to be kept.
pub(crate) fn parse_large(
    requests: &mut Requests<'_>,
    header: Header,
    at_hand: &[u8],
    in_stream: bool,
) -> Result<Renamed, Ending> {
    if requests.is_passed_over() {
        return Ok(Renamed::No);
    }
    let body = &at_hand[HEADER_LEN..];
    let name = body.iter().position(|&byte| byte == 0).map(|end| &body[..end]);
    let Some(name) = name.filter(|name| name.len() <= limits::NAME_LEN_MAX) else {
        return Err(Ending::Refuse(EndReason::ParseNameTooLong));
    };
    if server_statements::must_wait(requests.link.server, requests.link.session, requests.link.pool, name, None)
        || !remedies::bring(requests, name)
    {
        return Ok(Renamed::Later);
    }
    let text = &body[name.len() + 1..];
    let is_mapped = requests.link.session.statements.names.as_ref().is_some_and(|names| names.get(name).is_some());
    if is_mapped || !passes(requests.link.session, requests.link.pool, text) {
        refuse_large(requests, at_hand.len(), in_stream);
        requests.discard_rest(header.total_len() - at_hand.len());
        return Ok(Renamed::Yes);
    }
    Ok(Renamed::No)
}

/// A complete Parse that is not kept.
pub(crate) fn pass_or_refuse(requests: &mut Requests<'_>, parse: &Parse<'_>, total: usize, in_stream: bool) -> Renamed {
    if passes(requests.link.session, requests.link.pool, parse.query) {
        return Renamed::No;
    }
    refuse_large(requests, total, in_stream);
    Renamed::Yes
}

/// From now on the session's new names are not mapped. False: the session cannot keep its server.
fn passes(session: &mut Session, pool: &mut Pool, text: &[u8]) -> bool {
    if !pool.rules.follows() {
        return false;
    }
    session.facts.tracker.get_or_insert_default().pinning.pin(Pins::LARGE, text);
    session.statements.names.get_or_insert_default().passes = true;
    true
}

/// Makes the server fail at the place of a Parse: its transaction fails, and it skips to Sync.
fn refuse_large(requests: &mut Requests<'_>, replaced: usize, in_stream: bool) {
    requests.sent(Expect::TooLarge);
    let unknown = Describe { target: Target::Statement, name: TOO_LARGE.as_bytes() };
    requests.replace(replaced, in_stream, |out| unknown.encode(out));
}
