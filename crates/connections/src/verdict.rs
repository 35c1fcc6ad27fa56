//! What a server has said of a prepared statement.

use session_state::prepared::StatementId;
use session_state::shape::Fingerprint;

/// What a server was asked about a statement.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    #[default]
    None,
    /// Whether it is this.
    Asked(Fingerprint),
    /// This one is not what its client was told.
    Differs(StatementId),
}
