//! A linked session's messages on their way to its server, and the functions that pass them on or replace them.

use std::sync::Arc;

use machine::action::{Actions, Source};
use session_state::catalogue::Definition;
use session_state::parameters::is_local_change;
use session_state::state::Remedy;
use session_state::{own_settings, unnamed};
use units::Time;
use wire::backend::Status;
use wire::frontend::{Bind, Close, Execute, Parse, Query, Target};
use wire::{Header, frontend};

use crate::caches::Caches;
use crate::fakes;
use crate::first_reading::FirstReading;
use crate::link::Link;
use crate::other_workers::OtherWorkers;
use crate::server::{Answerer, Expect};
use crate::session::Rest;
use crate::stream::Stream;

/// The statement and portal name of preludes. No client's statement has this name on a server.
pub(crate) const PRELUDE: &[u8] = b"aside_of_pgweir";

/// Raises an error. Clients may not prepare, execute or deallocate the pooler's names, since other sessions use them.
pub(crate) const REFUSE_NAME: &[u8] = b"DO $$BEGIN RAISE USING ERRCODE = '42939', \
    MESSAGE = 'names of prepared statements that begin with pgweir are reserved'; END$$";

pub(crate) const DISCARD_SEQUENCES: &[u8] = b"DISCARD SEQUENCES";

/// How a message that names a statement was dealt with.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Renamed {
    /// It was sent in another form, or answered.
    Yes,
    /// It is to be sent unchanged.
    No,
    /// It waits for answers under way.
    Later,
}

/// A linked session's messages on their way to its server.
pub struct Requests<'a> {
    pub now: Time,
    pub link: Link<'a>,
    pub caches: &'a mut Caches,
    /// The messages after the one just sent wait until it has been answered.
    pub holds: bool,
    /// Some of the statements that the message at hand needs have been sent, and it waits for the rest.
    pub sent_some: bool,
    /// The session waits for its pool's listener.
    pub attends: bool,
    /// What the texts define, for the other pools of the database.
    pub definitions: Vec<Arc<Definition>>,
    pub others: OtherWorkers,
    /// How much the step had written before.
    pub written_before: usize,
    /// How many statements were sent.
    pub queries: u32,
    /// The reading of the first Query, if its text was read before.
    pub(crate) first_reading: Option<FirstReading>,
    pub actions: &'a mut Actions,
    pub stream: Stream<'a>,
}

impl<'a> Requests<'a> {
    /// The client's messages in `bytes` of `source` from `at`, to be read.
    #[inline(always)]
    pub fn of(
        link: Link<'a>,
        now: Time,
        (bytes, source, at): (&'a [u8], Source, usize),
        caches: &'a mut Caches,
        others: OtherWorkers,
        actions: &'a mut Actions,
    ) -> Requests<'a> {
        Requests {
            now,
            link,
            caches,
            holds: false,
            sent_some: false,
            attends: false,
            definitions: Vec::new(),
            others,
            written_before: actions.written_len(),
            queries: 0,
            first_reading: None,
            actions,
            stream: Stream::new(bytes, source, at),
        }
    }
}

impl Requests<'_> {
    /// The bytes are one Query, whose text was read before.
    #[must_use]
    pub fn with_reading(self, first_reading: Option<FirstReading>) -> Self {
        Requests { first_reading, ..self }
    }

    /// Whether texts are read now: not while the server skips to Sync or reads COPY data.
    pub(crate) fn follows(&self) -> bool {
        self.link.pool.rules.follows() && !self.is_passed_over()
    }

    /// Makes sure that answers under way come although the batch may not have ended: the client's messages wait for
    /// them.
    //= pg18 protocol-flow#PROTOCOL-FLOW-EXT-QUERY (Flush)
    pub(crate) fn call_for_answers(&mut self) {
        if self.link.server.ledger.is_open() && self.link.server.facts.hold.flush() {
            self.stream.flush(self.link.server_id, self.actions);
            self.actions.send_new(self.link.server_id, frontend::encode_flush);
        }
    }

    /// The server is in no transaction, and has all of the batches that it was sent.
    pub(crate) fn is_between_batches(&self) -> bool {
        let ledger = &self.link.server.ledger;
        self.link.server.transaction.status == Status::Idle && !ledger.owed().awaits_own_ready() && !ledger.is_open()
    }

    /// Sends a statement as a Query of its own between two batches. VACUUM, CREATE INDEX CONCURRENTLY, and COMMIT in code cannot
    /// run in a batch with others. False: it is not between two batches.
    pub(crate) fn run_apart(&mut self, text: &[u8]) -> bool {
        let between = self.is_between_batches();
        if between {
            self.send_apart(Answerer::Restore, text);
        }
        between
    }

    /// Sends a statement that may fail as a Query of its own, between two batches and outside a transaction.
    pub(crate) fn attempt(&mut self, text: &[u8]) {
        debug_assert!(self.is_between_batches(), "an error would end the client's transaction");
        self.send_apart(Answerer::Attempt, text);
    }

    fn send_apart(&mut self, answerer: Answerer, text: &[u8]) {
        self.stream.flush(self.link.server_id, self.actions);
        self.link.server.ledger.sent(answerer, Expect::Query);
        self.link.server.statements.unnamed = session_state::unnamed::NONE;
        self.actions.send_new(self.link.server_id, |out| Query { text }.encode(out));
    }

    /// Runs statements before the client's next message. They are part of its transaction.
    pub(crate) fn run_prelude(&mut self, remedy: &Remedy) {
        for text in remedy {
            let prepares_nothing = **text == *DISCARD_SEQUENCES
                || **text == *REFUSE_NAME
                || own_settings::is_raised(text)
                || is_local_change(text);
            if prepares_nothing {
                self.link.server.kept.on_server.changes_nothing();
            }
            self.stream.flush(self.link.server_id, self.actions);
            if std::mem::take(&mut self.link.server.facts.traces.prelude_failed) {
                self.link.server.ledger.sent(Answerer::Prelude, Expect::Close(None));
                self.actions.send_new(self.link.server_id, |out| {
                    Close { target: Target::Statement, name: PRELUDE }.encode(out);
                });
            }
            let steps = [Expect::Parse(None), Expect::Bind, Expect::Execute, Expect::Close(None), Expect::Close(None)];
            for step in steps {
                self.link.server.ledger.sent(Answerer::Prelude, step);
            }
            self.actions.send_new(self.link.server_id, |out| {
                Parse { name: PRELUDE, query: text, types: b"\0\0" }.encode(out);
                Bind::encode(out, PRELUDE, PRELUDE, []);
                Execute { portal: PRELUDE, rows_max: 0 }.encode(out);
                Close { target: Target::Portal, name: PRELUDE }.encode(out);
                Close { target: Target::Statement, name: PRELUDE }.encode(out);
            });
        }
    }

    /// Whether the messages after the one being sent have to wait for its answer.
    pub(crate) fn waits_for_notification(&self) -> bool {
        let tracker =
            self.link.session.facts.tracker.as_ref().filter(|tracker| tracker.notifications.subscriptions().is_some());
        tracker.is_some_and(|tracker| tracker.notifications.has_said()) && !self.link.server.ledger.copying().is_open()
    }

    /// Whether the server ignores statements now: it skips to Sync, or reads COPY data.
    pub(crate) fn is_passed_over(&self) -> bool {
        self.link.server.ledger.is_skipping() || self.link.server.ledger.copying().is_open()
    }

    /// Like [`Requests::expect_rest`], for a message that is not sent to the server.
    pub(crate) fn discard_rest(&mut self, len: usize) {
        self.link.session.incoming.skip = len as u32;
        self.link.session.incoming.rest = Rest::Discard;
    }

    /// Sends the answers that the pooler gives instead of the server, as far as they come next.
    pub(crate) fn answer_fakes(&mut self) {
        while let Some(fake) = self.link.server.ledger.next_fake() {
            fakes::answer_fake(self.link.conn, self.link.session, fake.expect, self.actions);
        }
    }

    /// Keeps the rest of the stream for later.
    pub(crate) fn stash_rest(&mut self) {
        if self.link.session.incoming.inbox.capacity() == 0 {
            self.link.session.incoming.inbox = self.caches.buffers.take();
        }
        let rest = self.stream.rest();
        self.link.session.incoming.inbox.extend_from_slice(rest);
        self.discard(rest.len());
    }

    /// Whether names are mapped for this session.
    pub(crate) fn is_mapped(&self) -> bool {
        self.link.pool.rules.max_prepared_statements > 0
    }

    /// Without mapping it is not known whose unnamed statement a server has; a reload may turn mapping on again.
    pub(crate) fn lose_track(&mut self, mapped: bool) {
        if mapped {
            return;
        }
        self.link.server.statements.unnamed = unnamed::UNKNOWN;
        self.link.session.statements.unnamed.take_if(|unnamed| !unnamed.is_changing());
    }

    /// Notes a message that ends a batch.
    pub(crate) fn ended(&mut self, expect: Expect) {
        self.batch_ended();
        self.sent(expect);
    }

    pub(crate) fn batch_ended(&mut self) {
        if let Some(unnamed) = &mut self.link.session.statements.unnamed {
            unnamed.batch_ended();
        }
        self.holds |= self.waits_for_notification();
    }

    pub(crate) fn sent(&mut self, expect: Expect) {
        self.link.server.ledger.sent(Answerer::Client, expect);
    }

    /// Sends what is at hand of a message as it is; the rest will follow by length.
    pub(crate) fn pass(&mut self, header: Header, at_hand: &[u8], in_stream: bool) {
        if in_stream {
            self.stream.pass(at_hand.len());
        } else {
            self.stream.flush(self.link.server_id, self.actions);
            self.actions.send_new(self.link.server_id, |out| out.extend_from_slice(at_hand));
        }
        self.expect_rest(header.total_len() - at_hand.len());
    }

    /// The rest of the message, so many bytes, is not at hand yet.
    pub(crate) fn expect_rest(&mut self, len: usize) {
        self.link.session.incoming.skip = len as u32;
        self.link.session.incoming.rest = Rest::Forward;
    }

    /// These bytes of the stream are not sent: they were dealt with.
    pub(crate) fn discard(&mut self, count: usize) {
        self.stream.skip(count, self.link.server_id, self.actions);
    }

    /// Sends other bytes in place of `replaced` bytes of the stream (or of the inbox).
    pub(crate) fn replace(&mut self, replaced: usize, in_stream: bool, write: impl FnOnce(&mut Vec<u8>)) {
        self.stream.flush(self.link.server_id, self.actions);
        self.actions.send_new(self.link.server_id, write);
        if in_stream {
            self.discard(replaced);
        }
    }
}
