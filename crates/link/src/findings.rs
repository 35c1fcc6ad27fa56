//! What reading a server's bytes brings to light beyond the bytes themselves, for the worker to act upon.

use std::sync::Arc;

use connections::server::Unexpected;
use session_state::catalogue::Definition;
use wire::SqlState;

/// A server that cannot be trusted any more, and why.
#[derive(Debug)]
pub struct Broken(pub String);

impl From<wire::Error> for Broken {
    fn from(error: wire::Error) -> Broken {
        Broken(format!("invalid message from server: {error}"))
    }
}

impl From<Unexpected> for Broken {
    fn from(Unexpected(message): Unexpected) -> Broken {
        Broken(format!("unexpected message from server: {}", message.escape_ascii()))
    }
}

/// What a client of a copy did wrong.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Astray {
    /// It has been told by the server.
    Reported,
    /// It has sent something else than data in the midst of a copy.
    NoCopyData,
}

/// What reading a server's bytes brought to light, for the worker to act upon.
#[derive(Debug, Default)]
pub struct Findings {
    /// The server accepted the session's parameters.
    pub replayed: bool,
    /// The session has reset what it began with, and the server may have something else.
    pub reverted: bool,
    /// A Query was passed over because of what was to come in front of it, and there is no Sync behind it.
    pub skipped_aside: bool,
    /// The error being read is of a statement that is tried: its client's messages will come again.
    pub tries_again: bool,
    /// The client's transaction is over, and it listens, or was about to.
    pub subscriptions: bool,
    /// The client's ReadyForQuery was not passed on: something has to come before it.
    pub withheld: bool,
    /// What was defined on the server is committed, or is not.
    pub settled: bool,
    /// ReadyForQuery inside a transaction, in statement mode.
    pub transaction_block: bool,
    /// Apart, because there is nothing of it in most answers.
    pub words: Option<Box<Words>>,
}

/// What a server said in words that concerns more than its client.
#[derive(Debug, Default)]
pub struct Words {
    /// The error with which a server refused them: the body of an ErrorResponse.
    pub replay_error: Option<Vec<u8>>,
    /// A chore failed, in the server's words.
    pub chore_error: Option<String>,
    /// What it said to a check: the bodies of its DataRows.
    pub rows: Vec<Vec<u8>>,
    /// Bodies of NotificationResponses that the pool's listener has received.
    pub notifications: Vec<Vec<u8>>,
    /// What its command tags say that it defines.
    pub definitions: Vec<Arc<Definition>>,
    /// An error outside of any answer: the server is about to close.
    pub dying: Option<String>,
    /// Something was read in a COPY that is not of it: what its client is owed is not known, and it ends.
    pub astray: Option<Astray>,
    /// A FATAL for the linked client, whose session outlives it.
    pub lost: Option<(SqlState, String)>,
}

impl Findings {
    pub fn words(&mut self) -> &mut Words {
        self.words.get_or_insert_default()
    }

    /// Nothing else that this server says is for its client.
    pub fn is_lost(&self) -> bool {
        self.words.as_ref().is_some_and(|words| words.lost.is_some() || words.astray.is_some())
    }
}
