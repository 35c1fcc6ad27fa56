//! A linked session's messages on their way to its server, and how a part of the code takes them, passes them or puts others in
//! their place.

use std::sync::Arc;

use connections::server::{Answerer, Expect, Server};
use machine::action::Actions;
use session_state::catalogue::Definition;
use session_state::unnamed;
use units::{ConnId, Time};
use wire::Header;

use crate::caches::Caches;
use crate::other_workers::OtherWorkers;
use crate::pool::Pool;
use crate::session::{Rest, Session};
use crate::stream::Stream;

/// What became of a message that names a statement.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Renamed {
    /// It is dealt with.
    Yes,
    /// It goes through as it is.
    No,
    /// Not before what is under way has been answered.
    Later,
}

/// A linked session's messages on their way to its server.
pub struct Requests<'a> {
    pub now: Time,
    pub conn: ConnId,
    pub server_id: ConnId,
    pub session: &'a mut Session,
    pub server: &'a mut Server,
    pub pool: &'a mut Pool,
    pub caches: &'a mut Caches,
    /// What follows the message just sent waits until it has been answered.
    pub holds: bool,
    /// Some of what the message at hand needs has been sent, and it waits for the rest.
    pub sent_some: bool,
    /// It waits for its pool's listener.
    pub attends: bool,
    /// What its texts define, for the other pools of its database.
    pub definitions: Vec<Arc<Definition>>,
    pub others: OtherWorkers,
    /// What the step had written before.
    pub written_before: usize,
    /// Statements that were sent.
    pub queries: u32,
    pub actions: &'a mut Actions,
    pub stream: Stream<'a>,
}

impl Requests<'_> {
    /// Keeps what has not been looked at for later.
    pub(crate) fn stash_rest(&mut self) {
        if self.session.incoming.inbox.capacity() == 0 {
            self.session.incoming.inbox = self.caches.buffers.take();
        }
        let rest = self.stream.rest();
        self.session.incoming.inbox.extend_from_slice(rest);
        self.discard(rest.len());
    }

    /// Whether names are mapped for this session.
    pub(crate) fn is_mapped(&self) -> bool {
        self.pool.rules.max_prepared_statements > 0
    }

    /// Without mapping nobody knows whose unnamed statement a server has; a reload may turn mapping on again.
    pub(crate) fn lose_track(&mut self, mapped: bool) {
        if mapped {
            return;
        }
        self.server.statements.unnamed = unnamed::UNKNOWN;
        self.session.statements.unnamed.take_if(|unnamed| !unnamed.is_changing());
    }

    /// A message is sent that ends a batch.
    pub fn ended(&mut self, expect: Expect) {
        self.batch_ended();
        self.sent(expect);
    }

    pub fn batch_ended(&mut self) {
        if let Some(unnamed) = &mut self.session.statements.unnamed {
            unnamed.batch_ended();
        }
        self.holds |= self.is_to_hear_first();
    }

    pub fn sent(&mut self, expect: Expect) {
        self.server.ledger.sent(Answerer::Client, expect);
    }

    /// Sends what is at hand of a message as it is; the rest will follow by length.
    pub(crate) fn pass(&mut self, header: Header, at_hand: &[u8], in_stream: bool) {
        if in_stream {
            self.stream.pass(at_hand.len());
        } else {
            self.stream.flush(self.server_id, self.actions);
            self.actions.send_new(self.server_id, |out| out.extend_from_slice(at_hand));
        }
        self.expect_rest(header.total_len() - at_hand.len());
    }

    /// The message goes on in bytes that are not at hand yet.
    pub fn expect_rest(&mut self, len: usize) {
        self.session.incoming.skip = len as u32;
        self.session.incoming.rest = Rest::Forward;
    }

    /// These bytes of the stream were dealt with in another way than passing them.
    pub(crate) fn discard(&mut self, count: usize) {
        self.stream.skip(count, self.server_id, self.actions);
    }

    /// Sends bytes of our own in place of `replaced` bytes of the stream (or of the inbox).
    pub fn replace(&mut self, replaced: usize, in_stream: bool, write: impl FnOnce(&mut Vec<u8>)) {
        self.stream.flush(self.server_id, self.actions);
        self.actions.send_new(self.server_id, write);
        if in_stream {
            self.discard(replaced);
        }
    }
}
