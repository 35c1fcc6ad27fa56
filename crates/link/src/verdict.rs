//! What a server has answered about a prepared statement.

use session_state::prepared::StatementId;
use session_state::shape::Fingerprint;

/// A question about a prepared statement, or its answer.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    #[default]
    None,
    /// The server was asked to describe it: is its shape this one?
    Pending(Fingerprint),
    /// The shape of this one is not the one that its client knows.
    Differs(StatementId),
}
