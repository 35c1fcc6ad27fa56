//! A server's messages on their way to its client, and the functions that pass them on or replace them.

use machine::action::Actions;
use session_state::tracker::Tracker;
use session_state::unnamed::Unnamed;
use units::{ConnId, Time};

use crate::caches::Caches;
use crate::findings::Findings;
use crate::notifiers::Notifiers;
use crate::other_workers::OtherWorkers;
use crate::pool::Pool;
use crate::server::{Answerer, Server};
use crate::session::Session;
use crate::stream::Stream;

/// A server's messages on their way to its client, if it has one.
pub struct Answers<'a> {
    pub now: Time,
    pub server_id: ConnId,
    pub server: &'a mut Server,
    pub session: Option<(ConnId, &'a mut Session)>,
    pub pool: &'a mut Pool,
    pub caches: &'a mut Caches,
    pub others: OtherWorkers,
    pub notifiers: Notifiers,
    pub actions: &'a mut Actions,
    pub stream: Stream<'a>,
    pub findings: Findings,
}

impl Answers<'_> {
    pub fn flush(&mut self) {
        if let Some((conn, _)) = self.session {
            self.pool.counts.totals.sent += self.stream.flush(conn, self.actions) as u64;
        }
    }

    /// Passes bytes of the stream on, or discards them.
    pub(crate) fn consume(&mut self, count: usize, forward: bool) {
        match &self.session {
            Some(_) if forward => {
                self.server.lease.tally.sent(count);
                self.stream.pass(count);
            }
            Some((conn, _)) => self.pool.counts.totals.sent += self.stream.skip(count, *conn, self.actions) as u64,
            None => self.stream.drop(count),
        }
    }

    /// Whether the message that begins now is for the client.
    pub(crate) fn is_clients(&self) -> bool {
        let owner = self.server.ledger.owner();
        self.session.is_some() && matches!(owner, None | Some(Answerer::Client))
    }

    /// Sends bytes that do not lie in the stream.
    pub(crate) fn send_apart(&mut self, bytes: &[u8], forward: bool) {
        self.flush();
        if let (Some((conn, _)), true) = (&self.session, forward) {
            self.actions.send_new(*conn, |out| out.extend_from_slice(bytes));
            self.server.lease.tally.sent(bytes.len());
            self.pool.counts.totals.sent += bytes.len() as u64;
        }
    }

    /// Keeps the beginning of a message for later. Always returns false: reading cannot go on.
    pub(crate) fn keep(&mut self, rest: &[u8]) -> bool {
        self.server.incoming.inbox.extend_from_slice(rest);
        self.consume(rest.len(), false);
        false
    }

    pub fn tracker(&mut self) -> Option<&mut Tracker> {
        self.session.as_mut().and_then(|(_, session)| session.tracker_mut())
    }

    /// Whether an error answers a message of the client.
    pub(crate) fn is_error_answer(&self) -> bool {
        let owner = self.server.ledger.owner();
        self.session.is_some() && matches!(owner, Some(Answerer::Client | Answerer::Prepare | Answerer::Prelude))
    }

    pub(crate) fn unnamed(&mut self) -> Option<&mut Unnamed> {
        self.session.as_mut().and_then(|(_, session)| session.statements.unnamed.as_deref_mut())
    }
}
