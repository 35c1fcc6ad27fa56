//! What reading a server's bytes brings to light beyond the bytes themselves, for the worker to act upon.

use std::sync::Arc;

use session_state::catalogue::Definition;
use units::ConnId;
use wire::SqlState;

use super::copying::Astray;
use super::{Turn, Worker};
use crate::server::Unexpected;

/// A server that cannot be trusted any more, and why.
#[derive(Debug)]
pub(super) struct Broken(pub(super) String);

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

/// What reading a server's bytes brought to light, for the worker to act upon.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// The server accepted the session's parameters.
    pub(super) replayed: bool,
    /// The session has reset what it began with, and the server may have something else.
    pub(super) reverted: bool,
    /// A Query was passed over because of what was to come in front of it, and there is no Sync behind it.
    pub(super) skipped_aside: bool,
    /// The error being read is of a statement that is tried: its client's messages will come again.
    pub(super) tries_again: bool,
    /// The client's transaction is over, and it listens, or was about to.
    pub(super) ears: bool,
    /// The client's ReadyForQuery was not passed on: something has to come before it.
    pub(super) withheld: bool,
    /// What was defined on the server is committed, or is not.
    pub(super) settled: bool,
    /// ReadyForQuery inside a transaction, in statement mode.
    pub(super) transaction_block: bool,
    /// Apart, because there is nothing of it in most answers.
    pub(super) words: Option<Box<Words>>,
}

/// What a server said in words that concerns more than its client.
#[derive(Debug, Default)]
pub(super) struct Words {
    /// The error with which a server refused them: the body of an ErrorResponse.
    pub(super) replay_error: Option<Vec<u8>>,
    /// A chore failed, in the server's words.
    pub(super) chore_error: Option<String>,
    /// What it said to a check: the bodies of its DataRows.
    pub(super) rows: Vec<Vec<u8>>,
    /// What the pool's listener has heard: bodies of NotificationResponses.
    pub(super) heard: Vec<Vec<u8>>,
    /// What its command tags say that it defines.
    pub(super) definitions: Vec<Arc<Definition>>,
    /// An error outside of any answer: the server is about to close.
    pub(super) dying: Option<String>,
    /// Something was read in a COPY that is not of it: what its client is owed is not known, and it ends.
    pub(super) astray: Option<Astray>,
    /// A FATAL for the linked client, whose session outlives it.
    pub(super) lost: Option<(SqlState, String)>,
}

impl Findings {
    pub(super) fn words(&mut self) -> &mut Words {
        self.words.get_or_insert_default()
    }

    /// Nothing else that this server says is for its client.
    pub(super) fn is_lost(&self) -> bool {
        self.words.as_ref().is_some_and(|words| words.lost.is_some() || words.astray.is_some())
    }
}

impl Worker {
    /// Acts upon what a server said. True: nothing else is left to do.
    #[cold]
    pub(super) fn act_on_words(&mut self, turn: &mut Turn<'_>, conn: ConnId, words: Words) -> bool {
        if let Some(astray) = words.astray {
            self.end_astray(turn, conn, astray);
            return true;
        }
        if let Some((code, words)) = words.lost {
            self.server_lost(turn, conn, code, &words);
            return true;
        }
        if let Some(words) = words.dying {
            let Some(server) = self.servers.get_mut(conn) else { return true };
            (server.gone, server.close_needed) = (true, Some("server is shutting down"));
            if server.session().is_none() || server.last_words_told {
                // A client that was told so gets nothing more: what it sends until the connection ends is not answered.
                self.break_server(turn, conn, &words);
                return true;
            }
        }
        if let Some(error) = words.replay_error {
            self.replay_refused(turn, conn, &error);
            return true;
        }
        false
    }

    /// What was defined on a server, or is committed there.
    pub(super) fn act_on_definitions(&mut self, turn: &mut Turn<'_>, conn: ConnId, findings: &mut Findings) {
        for definition in findings.words.iter_mut().flat_map(|words| std::mem::take(&mut words.definitions)) {
            self.note_definition(turn.now, &definition);
        }
        if findings.settled
            && let Some(id) = self.servers.get(conn).map(|server| server.pool)
        {
            self.tell_settled(turn, id, conn, false);
        }
    }
}
