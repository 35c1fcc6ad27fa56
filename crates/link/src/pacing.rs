//! How much the pooler prepares on a server in one step.
//!
//! A Bind of thirty bytes may need a statement of two megabytes that its server lacks, and a packet has room for two thousand of
//! them. The server's unsent bytes would grow with each (I10). So the client's messages wait once enough is under way, until
//! the server has answered: by then it has read all of it.

use session_state::state::Remedy;
use units::limits;

use crate::requests::Requests;

/// Whether a message that needs a text of this length on its server waits until the server has answered what it was sent.
pub fn must_pace(requests: &mut Requests<'_>, len: usize) -> bool {
    let written = requests.actions.written_len() - requests.written_before;
    // A single one is always let through. Without an answer under way nothing would end the wait.
    let waits = written + len > limits::PREPARING_LEN_MAX && written > 0 && requests.server.ledger.depth() > 0;
    if waits {
        requests.call_for_answers();
    }
    waits
}

/// Whether all that has to come in front of a message can be sent now. If not, only as much is sent as may be, and the
/// message waits.
pub fn paces(requests: &mut Requests<'_>, remedy: &mut Remedy) -> bool {
    // There is nothing to pace.
    let Some(first) = remedy.first() else { return true };
    let (first_len, mut len) = (first.len(), 0);
    let fitting = remedy.iter().take_while(|text| {
        len += text.len();
        len <= limits::PREPARING_LEN_MAX
    });
    let mut count = fitting.count().max(1);
    let is_all = count == remedy.len();
    if must_pace(requests, if is_all { len } else { first_len }) {
        count = 0;
    } else if is_all {
        return true;
    } else if requests.server.ledger.depth() > 0 {
        requests.call_for_answers();
        count = 0;
    }
    for _ in remedy.drain(count..) {
        requests.server.kept.on_server.take_back();
    }
    requests.sent_some = count > 0;
    if requests.sent_some {
        requests.run_aside(remedy);
        requests.call_for_answers();
    }
    false
}
