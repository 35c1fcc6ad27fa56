//! A text that is sent in two messages: how far it is.
//!
//! Does not know where it is parted.

/// How far a text is that was sent in two messages.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Split {
    /// Its first part is under way.
    UnderWay,
    /// Some of the statements that it needs are being prepared, and nothing of it is sent.
    Preparing,
    /// That has failed: the rest is not to be sent.
    Failed,
}
