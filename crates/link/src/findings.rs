//! What the worker has to act on after a server's bytes were read.

pub use connections::Broken;
use std::sync::Arc;

use session_state::catalogue::Definition;
use wire::SqlState;

use crate::server::CloseReason;

/// What went wrong in a client's COPY.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Astray {
    /// The server's own error was passed on.
    Reported,
    /// The client has sent something other than data within a COPY.
    NoCopyData,
}

/// What the worker has to act on after a server's bytes were read.
#[derive(Debug, Default)]
pub struct Findings {
    /// The server has accepted the session's parameters.
    pub replayed: bool,
    /// The session has reset settings to the values that it began with, and the server may have others.
    pub reverted: bool,
    /// A Query was skipped because the pooler's statement before it failed, and no Sync follows it.
    pub prelude_skipped_query: bool,
    /// The error being read belongs to a trial: the client's messages will be sent again.
    pub tries_again: bool,
    /// The client's transaction is over, and the client has subscriptions.
    pub subscriptions: bool,
    /// The client's ReadyForQuery was held back: notifications must come before it.
    pub withheld: bool,
    /// A transaction that has defined something on the server is over.
    pub settled: bool,
    /// ReadyForQuery inside a transaction, in statement mode.
    pub transaction_block: bool,
    /// Boxed, because most answers have none of it.
    pub words: Option<Box<Words>>,
}

/// Messages of a server that concern more than its client.
#[derive(Debug, Default)]
pub struct Words {
    /// The error with which the server refused the session's settings: the body of an ErrorResponse.
    pub replay_error: Option<Vec<u8>>,
    /// The error with which the server refused the client's BEGIN that it got from the pooler, as that.
    pub begin_error: Option<Vec<u8>>,
    /// The error message of a failed chore.
    pub chore_error: Option<String>,
    /// The answer to `chaos_check`: the bodies of its DataRows.
    pub rows: Vec<Vec<u8>>,
    /// Bodies of NotificationResponses that the pool's listener has received.
    pub notifications: Vec<Vec<u8>>,
    /// What was defined, by its command tags.
    pub definitions: Vec<Arc<Definition>>,
    /// An error outside of any answer: the server is about to close.
    pub dying: Option<CloseReason>,
    /// PostgreSQL was a standby, and has been promoted.
    pub promoted: bool,
    /// A COPY went wrong in such a way that the session ends.
    pub astray: Option<Astray>,
    /// A FATAL of the server, whose session may survive it.
    pub lost: Option<(SqlState, CloseReason)>,
}

impl Findings {
    pub(crate) fn words(&mut self) -> &mut Words {
        self.words.get_or_insert_default()
    }

    /// No further message of this server is for its client.
    pub(crate) fn is_lost(&self) -> bool {
        self.words.as_ref().is_some_and(|words| words.lost.is_some() || words.astray.is_some())
    }
}
