//! The most frequent answer: messages that concern only the client, and the ReadyForQuery after which it is owed
//! nothing.
//!
//! It has the same effect as `Answers`, without building one. From the first other message on, the rest goes to
//! `Answers`.

use connections::server::{Overdue, Server};
use session_state::state::Defines;
use session_state::unnamed;
use settings::PoolMode;
use units::Time;
use wire::backend::{Status, tag};
use wire::{HEADER_LEN, Header};

use crate::pool::Pool;
use crate::session::Session;

/// A server and its session.
pub struct LoneAnswer<'a> {
    pub session: &'a mut Session,
    pub server: &'a mut Server,
    pub pool: &'a mut Pool,
}

impl LoneAnswer<'_> {
    /// Whether the server owes only answers to its client, and only the client waits for them.
    #[inline]
    pub fn is_expected(&self) -> bool {
        let LoneAnswer { session, server, pool } = self;
        let is_between = server.incoming.skip == 0 && server.incoming.inbox.is_empty();
        let flows = session.flow.is_reading() && session.flow.is_clear() && server.flow.is_reading();
        let waits = server.hold.is_on() || server.cancel.is_requested || server.cancel.overdue != Overdue::No;
        let defines = server.traces.is_unsettled || server.transaction.defines != Defines::Nothing;
        let is_free = session.tracker.is_none() && pool.rules.mode != PoolMode::Statement;
        is_between && flows && is_free && !waits && !defines && can_pass(server)
    }

    /// Reads a ReadyForQuery after which the client is owed nothing. `None`: it is another message, and stays unread.
    #[inline]
    pub fn ready(&mut self, now: Time, message: &[u8]) -> Option<Status> {
        let [tag::READY_FOR_QUERY, 0, 0, 0, 5, status] = *message else { return None };
        let status = match status {
            b'I' => Status::Idle,
            b'T' => Status::InTransaction,
            _ => return None,
        };
        let is_query = self.server.ledger.take_last_ready()?;
        let server = &mut *self.server;
        server.transaction.status = status;
        server.transaction.answer_failed = false;
        #[cfg(feature = "sabotage")]
        {
            server.transaction.status_seen = true;
        }
        if is_query {
            // PostgreSQL drops the unnamed statement at a simple query. //= pg18 protocol-flow#PROTOCOL-FLOW-EXT-QUERY
            server.statements.unnamed = unnamed::NONE;
            if let Some(unnamed) = &mut self.session.statements.unnamed {
                unnamed.forget();
            }
        }
        self.pool.counts.count_query(now, server.transaction.query_at);
        server.transaction.query_at = now;
        if status == Status::Idle {
            self.pool.counts.count_transaction(now, server.transaction.began_at.take().unwrap_or(now));
        }
        Some(status)
    }
}

/// Whether [`passed`] may be called.
#[inline]
pub(crate) fn can_pass(server: &Server) -> bool {
    server.ledger.is_plain() && server.transaction.emptying.is_none()
}

/// The length of the whole messages at the beginning that concern only the client; the ledger takes them as answered.
/// The session has no tracked state.
#[inline(always)]
pub fn passed(server: &mut Server, bytes: &[u8]) -> usize {
    let mut len = 0;
    while let Ok(Some(header)) = Header::parse(&bytes[len..])
        && let Some(message) = bytes[len..].get(..header.total_len())
        && (header.tag != tag::COMMAND_COMPLETE || says_little(message))
        && server.ledger.passes(header.tag)
    {
        len += message.len();
    }
    len
}

/// Whether a command tag does not change the state of sessions. //= pg18 protocol-message-formats
fn says_little(message: &[u8]) -> bool {
    let tag = &message[HEADER_LEN..];
    matches!(
        tag,
        [b'S' | b'I' | b'U' | b'B' | b'M' | b'F', ..] | [b'D', b'E', b'L', ..] | [b'C', b'O', b'M' | b'P', ..]
    )
}
