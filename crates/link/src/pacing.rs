//! Limits how much the pooler prepares on a server in one step.
//!
//! A Bind of thirty bytes may need a statement of two megabytes that its server lacks, and a packet has room for two
//! thousand Binds. The bytes to be sent to the server would grow with each (I10). So once enough is under way, the
//! client's messages wait until the server has answered, and thus has read all of it.

use session_state::state::Remedy;
use units::limits;

use crate::requests::Requests;

/// Whether a message that needs a text of this length on its server must wait for answers under way.
pub(crate) fn must_pace(requests: &mut Requests<'_>, len: usize) -> bool {
    let written = requests.actions.written_len() - requests.written_before;
    // The first text always passes. Without an answer under way nothing would end the wait.
    let waits = written + len > limits::PREPARING_LEN_MAX && written > 0 && requests.link.server.ledger.depth() > 0;
    if waits {
        requests.call_for_answers();
    }
    waits
}

/// Whether all statements that must come before a message can be sent now. If not, as many as may be are sent, and the
/// message waits.
pub(crate) fn paces(requests: &mut Requests<'_>, remedy: &mut Remedy) -> bool {
    // There are none.
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
    } else if requests.link.server.ledger.depth() > 0 {
        requests.call_for_answers();
        count = 0;
    }
    for _ in remedy.drain(count..) {
        requests.link.server.kept.on_server.take_back();
    }
    requests.sent_some = count > 0;
    if requests.sent_some {
        requests.run_prelude(remedy);
        requests.call_for_answers();
    }
    false
}
