//! What a server answers a statement with when it has done it: the tag in CommandComplete.
//!
//! A tracker that counts answers holds each against its statement by these: if they do not fit, it has lost count. There
//! is one CommandComplete for each [`crate::Statement`] of a text, in their order, until one fails or suspends.
//! //= pg18 protocol-message-formats#PROTOCOL-MESSAGE-FORMATS-COMMANDCOMPLETE

use crate::kind::{Discarded, Kind, Which};

impl Kind<'_> {
    /// The tag if the server did what the statement says, without the count that some have; `None` if the kind alone does
    /// not tell. COMMIT and PREPARE TRANSACTION of a transaction that had failed roll it back, and are answered so.
    pub fn tag(&self) -> Option<&'static [u8]> {
        match (self, self.tags()) {
            (_, [tag]) | (Kind::Commit { .. } | Kind::PrepareTransaction, [tag, ..]) => Some(tag),
            _ => None,
        }
    }

    /// Whether the server may answer such a statement with this tag, when it does not fail.
    pub fn may_answer(&self, tag: &[u8]) -> bool {
        let (tags, tag) = (self.tags(), if self.is_counted() { without_count(tag) } else { tag });
        tags.is_empty() || tags.contains(&tag)
    }

    /// All that there may be; empty if there are others.
    fn tags(&self) -> &'static [&'static [u8]] {
        match self {
            Kind::Begin(_) => &[b"BEGIN", b"START TRANSACTION"],
            Kind::Commit { .. } => &[b"COMMIT", b"ROLLBACK"],
            Kind::Rollback { .. } | Kind::RollbackTo(_) => &[b"ROLLBACK"],
            Kind::Savepoint(_) => &[b"SAVEPOINT"],
            Kind::Release(_) => &[b"RELEASE"],
            Kind::PrepareTransaction => &[b"PREPARE TRANSACTION", b"ROLLBACK"],
            Kind::CommitPrepared => &[b"COMMIT PREPARED"],
            Kind::RollbackPrepared => &[b"ROLLBACK PREPARED"],
            Kind::Set(_) | Kind::SetCharacteristics { .. } => &[b"SET"],
            Kind::SetTransaction => &[b"SET", b"SET CONSTRAINTS"],
            Kind::Reset(_) => &[b"RESET"],
            Kind::Discard(Discarded::All) => &[b"DISCARD ALL"],
            Kind::Discard(Discarded::Plans) => &[b"DISCARD PLANS"],
            Kind::Discard(Discarded::Sequences) => &[b"DISCARD SEQUENCES"],
            Kind::Discard(Discarded::Temporary) => &[b"DISCARD TEMP"],
            Kind::Prepare { .. } => &[b"PREPARE"],
            Kind::Deallocate(Which::All) => &[b"DEALLOCATE ALL"],
            Kind::Deallocate(Which::One(_)) => &[b"DEALLOCATE"],
            Kind::Declare { .. } => &[b"DECLARE CURSOR"],
            Kind::Close(Which::All) => &[b"CLOSE CURSOR ALL"],
            Kind::Close(Which::One(_)) => &[b"CLOSE CURSOR"],
            Kind::Fetch => &[b"FETCH", b"MOVE"],
            Kind::Listen(_) => &[b"LISTEN"],
            Kind::Unlisten(_) => &[b"UNLISTEN"],
            Kind::Notify(_) => &[b"NOTIFY"],
            Kind::Load { .. } => &[b"LOAD"],
            Kind::Copy => &[b"COPY"],
            Kind::Do => &[b"DO"],
            Kind::Call => &[b"CALL"],
            // Of what is executed, or EXPLAIN.
            Kind::Execute(_) | Kind::Plain | Kind::Unknown => &[],
        }
    }

    fn is_counted(&self) -> bool {
        matches!(self, Kind::Fetch | Kind::Copy)
    }
}

/// `FETCH 3` without its number.
fn without_count(tag: &[u8]) -> &[u8] {
    match tag.iter().rposition(|byte| !byte.is_ascii_digit()) {
        Some(at) if tag[at] == b' ' && at + 1 < tag.len() => &tag[..at],
        _ => tag,
    }
}
