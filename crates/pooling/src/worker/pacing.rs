//! How much the pooler prepares on a server in one step.
//!
//! A Bind of thirty bytes may need a statement of two megabytes that its server lacks, and a packet has room for two thousand of
//! them. The server's unsent bytes would grow with each (I10). So the client's messages wait once enough is under way, until
//! the server has answered: by then it has read all of it.

use super::requests::Requests;
use crate::limits;

impl Requests<'_> {
    /// Whether a message that needs a text of this length on its server waits until the server has answered what it was sent.
    pub(super) fn must_pace(&mut self, len: usize) -> bool {
        let written = self.actions.written_len() - self.written_before;
        // A single one is always let through. Without an answer under way nothing would end the wait.
        let waits = written + len > limits::PREPARING_LEN_MAX && written > 0 && self.server.ledger.len() > 0;
        if waits {
            self.call_for_answers();
        }
        waits
    }
}
