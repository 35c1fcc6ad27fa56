//! The most frequent answer: messages that concern only the client, and the ReadyForQuery after which it is owed
//! nothing.
//!
//! It has the same effect as `Answers`, without building one. From the first other message on, the rest goes to
//! `Answers`.

use machine::histogram::Bucket;
use session_state::state::Defines;
use session_state::unnamed;
use settings::PoolMode;
use units::{PoolId, Time};
use wire::backend::{Status, tag};
use wire::{HEADER_LEN, Header};

use crate::pool::Pool;
use crate::server::Server;
use crate::session::Session;
use crate::slow;
use crate::statistics::Statistics;

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
        let waits = server.hold.is_on() || server.cancel.is_any();
        let defines = server.traces.is_unsettled || server.transaction.defines != Defines::Nothing;
        let is_free = session.tracker.is_none() && pool.rules.mode != PoolMode::Statement;
        is_between && flows && is_free && !waits && !defines && can_pass(server)
    }

    /// Reads a ReadyForQuery after which the client is owed nothing. `None`: it is another message, and stays unread.
    #[inline(always)]
    pub fn ready(&mut self, now: Time, message: &[u8], statistics: &mut Statistics) -> Option<Status> {
        let [tag::READY_FOR_QUERY, 0, 0, 0, 5, status] = *message else { return None };
        let status = match status {
            b'I' => Status::Idle,
            b'T' => Status::InTransaction,
            _ => return None,
        };
        let (is_query, statement) = self.server.ledger.last_ready()?;
        let server = &mut *self.server;
        if let Some(asked) = &mut server.traces.asked
            && !slow::goes_unseen(self.pool, asked, now.micros_since(server.transaction.query_at))
        {
            return None;
        }
        server.ledger.take_last_ready();
        server.transaction.status = status;
        server.transaction.answer_failed = false;
        #[cfg(debug_assertions)]
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
        let query_at = std::mem::replace(&mut server.transaction.query_at, now);
        let bucket = self.pool.counts.count_query(now, query_at);
        let ran_us = now.micros_since(query_at);
        server.transaction.tally.sent(message.len());
        if let Some(call) = server.transaction.tally.ready(is_query.then_some(statement), ran_us, now, query_at) {
            let bucket = if call.run_us == ran_us { bucket } else { Bucket::of(call.run_us) };
            statistics.count(self.pool.id, &call, bucket);
            self.session.last_statement = call.statement;
        }
        if status == Status::Idle {
            let began = server.transaction.began_at.take().unwrap_or(now);
            self.pool.counts.count_transaction(now, began, (query_at, bucket));
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
pub fn passed(server: &mut Server, bytes: &[u8], now: Time, statistics: &mut Statistics, pool: PoolId) -> usize {
    let mut len = 0;
    while let Ok(Some(header)) = Header::parse(&bytes[len..])
        && let Some(message) = bytes[len..].get(..header.total_len())
    {
        if header.tag != tag::COMMAND_COMPLETE {
            if !server.ledger.passes(header.tag) {
                break;
            }
            len += message.len();
            continue;
        }
        if !says_little(message) {
            break;
        }
        let Some((is_query, statement)) = server.ledger.passes_tag() else { break };
        len += message.len();
        let (tally, query_at) = (&mut server.transaction.tally, server.transaction.query_at);
        let tag = &message[HEADER_LEN..];
        if is_query {
            tally.completed(tag);
        } else if let Some(call) = tally.executed(statement, tag, len, now, query_at) {
            statistics.count(pool, &call, Bucket::of(call.run_us));
        }
    }
    server.transaction.tally.sent(len);
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
