//! A fast path for messages that only have to be sent: most of those that follow a Bind.
//!
//! The result is the same as in [`Requests`]. The first message that is of another kind, or incomplete, is left to it.
//!
//! //= pg18 protocol-flow#PROTOCOL-FLOW-EXT-QUERY

use wire::frontend::{Describe, Target, tag};
use wire::{HEADER_LEN, Header};

use crate::requests::Requests;
use crate::server::Expect;
use crate::{attribution, malformed};

/// Longer messages are rare.
const LEN_MAX: usize = 256;

/// Sends such messages from the front of the stream.
pub(crate) fn pass(requests: &mut Requests<'_>) {
    let is_trying = requests.session.statements.names.as_ref().is_some_and(|names| names.trial.is_some());
    // A reload may have turned lines on since the link.
    let begins_to_hear = requests.pool.measured.hears_texts && requests.server.traces.asked.is_none();
    if requests.session.tracker.is_some() || is_trying || begins_to_hear || !requests.server.ledger.is_plain() {
        return;
    }
    while let Ok(Some(header)) = Header::parse(requests.stream.rest())
        && header.total_len() <= LEN_MAX
        && let Some(message) = requests.stream.rest().get(..header.total_len())
    {
        match header.tag {
            tag::EXECUTE => {
                attribution::note(requests, tag::EXECUTE, message);
                requests.queries += 1;
                requests.sent(Expect::Execute);
            }
            tag::SYNC if !malformed::has_surplus(header) => {
                requests.ended(Expect::Sync);
                if let Some(asked) = &mut requests.server.traces.asked {
                    asked.ended();
                }
            }
            tag::DESCRIBE if is_of_portal(&message[HEADER_LEN..]) => requests.sent(Expect::Describe),
            _ => return,
        }
        requests.stream.pass(message.len());
    }
}

fn is_of_portal(body: &[u8]) -> bool {
    Describe::decode(body).is_ok_and(|describe| describe.target == Target::Portal)
}
