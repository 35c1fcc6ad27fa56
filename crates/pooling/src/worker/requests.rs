//! What a client's bytes mean, and what of them goes to its server.
//!
//! Only headers are read, except where a message names a prepared statement or must be answered here. Whatever passes
//! is sent as it lies; a message whose beginning has been sent keeps its server until it is whole.
//!
//! //= pg18 protocol-flow

use std::sync::Arc;

use session_state::catalogue::Definition;
use session_state::unnamed;
use units::{ConnId, Time, limits};
use wire::backend::Status;
use wire::frontend::{BindNames, Parse, tag};
use wire::{HEADER_LEN, Header};

use super::announcing::OtherWorkers;
use super::caches::Caches;
use super::ending::{Ending, checked_header};
use super::lone_query::LoneQuery;
use super::plain_messages;
use super::pool::Pool;
use super::renaming::Renamed;
use super::stream::Stream;
use super::unlinked::{Begun, Unlinked};
use super::{Turn, Worker};
use crate::action::{Actions, Source};
use crate::server::{Answerer, Expect, Server};
use crate::session::{Rest, Session, State};

impl Worker {
    pub(super) fn client_received(&mut self, turn: &mut Turn<'_>, conn: ConnId, bytes: &[u8]) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        session.progress_at = turn.now;
        if let Some(pool) = self.pools.get_mut(session.pool.0 as usize).and_then(Option::as_deref_mut) {
            pool.totals.received += bytes.len() as u64;
        }
        match session.state {
            State::Linked { server } => {
                let gated = self.servers.get(server).is_some_and(Server::is_gated);
                if gated {
                    // It may be but for the rest of a message that it does not go on.
                    let stirs = session.skipping || !self.gates.is_none();
                    self.stash(turn, conn, bytes);
                    if stirs {
                        self.stirred.push(conn);
                    }
                } else {
                    self.requests(turn, conn, bytes, Source::Chunk, 0);
                }
            }
            State::Idle { .. } if session.inbox.is_empty() && !session.waits_for_listener() => {
                if !self.begin_lone_query(turn, conn, bytes) {
                    self.begin(turn, conn, bytes, Source::Chunk);
                }
            }
            State::Idle { .. } => {
                self.stash(turn, conn, bytes);
                if !self.waits_for_listener(conn) {
                    self.begin_from_inbox(turn, conn);
                }
            }
            State::Console { .. } => {
                self.stash(turn, conn, bytes);
                self.console_received(turn, conn);
                // What needed no answer of the control plane's made room at once.
                self.balance_if_paused(turn, conn);
            }
            State::Waiting { .. } | State::Welcoming { .. } => self.stash(turn, conn, bytes),
            State::Leaving { .. } => {}
        }
    }

    /// Keeps bytes until their time comes; a session that has too many is not read meanwhile.
    pub(super) fn stash(&mut self, turn: &mut Turn<'_>, conn: ConnId, bytes: &[u8]) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        if bytes.is_empty() {
            return;
        }
        if session.inbox.capacity() == 0 {
            session.inbox = Worker::spare_buffer(&mut self.spare);
        }
        session.inbox.extend_from_slice(bytes);
        if session.inbox.len() >= limits::CHUNK_LEN_MAX {
            self.balance_session(turn, conn);
        }
    }

    /// A session that is not linked has bytes at hand: does it need a server?
    pub(super) fn begin(&mut self, turn: &mut Turn<'_>, conn: ConnId, bytes: &[u8], source: Source) {
        if !self.gates.is_none() {
            return self.begin_at_gates(turn, conn, bytes, source);
        }
        if let Some(at) = self.needs_server(turn, conn, bytes, 0) {
            self.acquire_for(turn, conn, bytes, source, at);
        }
    }

    /// From where on a server is needed for what is at hand. `None`: for nothing, it is answered or kept.
    #[inline(always)]
    pub(super) fn needs_server(
        &mut self,
        turn: &mut Turn<'_>,
        conn: ConnId,
        bytes: &[u8],
        from: usize,
    ) -> Option<usize> {
        let session = self.sessions.get_mut(conn)?;
        let mapped =
            self.pools[session.pool.0 as usize].as_ref().is_some_and(|pool| pool.rules.max_prepared_statements > 0);
        let mut first = Unlinked { conn, session, mapped, actions: turn.actions };
        match first.read(&bytes[from..]) {
            Ok(Begun::Needs(at)) => {
                self.forget_half(conn);
                return Some(from + at);
            }
            Ok(Begun::Incomplete(at)) => self.keep_half(turn, conn, &bytes[from + at..]),
            Err(ending) => self.end_by_request(turn, conn, ending),
        }
        None
    }

    /// As [`Worker::begin`], with what was kept.
    pub(super) fn begin_from_inbox(&mut self, turn: &mut Turn<'_>, conn: ConnId) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        let inbox = std::mem::take(&mut session.inbox);
        let source = turn.actions.next_kept();
        // Reading goes on again if it had paused for want of room.
        let reading = session.flow.is_reading();
        self.begin(turn, conn, &inbox, source);
        turn.actions.keep(inbox);
        if !reading {
            self.balance_session(turn, conn);
        }
    }

    /// Feeds a linked session's kept bytes to its server.
    pub(super) fn requests_from_inbox(&mut self, turn: &mut Turn<'_>, conn: ConnId) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        let inbox = std::mem::take(&mut session.inbox);
        let source = turn.actions.next_kept();
        let reading = session.flow.is_reading();
        self.requests(turn, conn, &inbox, source, 0);
        turn.actions.keep(inbox);
        if !reading {
            self.balance_session(turn, conn);
        }
    }

    /// A linked session's bytes, from `at`.
    pub(super) fn requests(&mut self, turn: &mut Turn<'_>, conn: ConnId, bytes: &[u8], source: Source, at: usize) {
        let (mut at, others) = (at, self.other_workers());
        if !self.gates.is_none() {
            let Some(on) = self.gate_linked(turn, conn, bytes, at) else { return };
            at = on;
        }
        let Some(session) = self.sessions.get_mut(conn) else { return };
        let Some(server_id) = session.server() else { return };
        let Some(server) = self.servers.get_mut(server_id) else { return };
        let Some(pool) = self.pools[session.pool.0 as usize].as_deref_mut() else { return };
        let mut query = LoneQuery { session, server_id, server, pool, bytes, source, at };
        if self.gates.is_none() && query.is_lone(&mut self.caches) {
            return query.send(turn.now, turn.actions);
        }
        let (was_calm, was_done) = (server.ledger.is_clear(), server.ledger.owes_no_client());
        let mut requests = Requests {
            now: turn.now,
            conn,
            server_id,
            session,
            server,
            pool,
            caches: &mut self.caches,
            holds: false,
            sent_some: false,
            attends: false,
            definitions: Vec::new(),
            others,
            written_before: turn.actions.written_len(),
            queries: 0,
            spare: &mut self.spare,
            actions: turn.actions,
            stream: Stream::new(bytes, source, at),
        };
        let end = requests.read();
        requests.stream.flush(server_id, requests.actions);
        let Requests { definitions, attends, queries, .. } = requests;
        let attends = attends.then_some(pool.id);
        if was_done {
            server.query_at = turn.now;
        }
        if was_calm {
            server.transaction_at.get_or_insert(turn.now);
        }
        let crowded = server.gated && session.inbox.len() >= limits::CHUNK_LEN_MAX;
        let deep = server.ledger.len() >= limits::OWED_MAX || crowded;
        let may_be_done = server.is_clean() || server.close_needed.is_some() || cfg!(feature = "sabotage");
        let is_timed = pool.rules.times_links() || session.is_torn() || !session.flow.is_clear();
        if !definitions.is_empty() {
            definitions.iter().for_each(|definition| self.note_definition(turn.now, definition));
        }
        if let Err(ending) = end {
            self.end_by_request(turn, conn, ending);
            return;
        }
        if !self.gates.is_none() {
            self.count_in_gates(turn, conn, 0, queries);
        }
        if let Some(pool) = attends {
            self.attend(turn, pool);
            self.arm_session(conn);
        }
        if deep {
            self.balance_session(turn, conn);
        }
        let is_released = may_be_done && self.release_if_done(turn, server_id);
        if is_timed && !is_released {
            self.arm_session(conn);
        }
    }

    pub(super) fn end_by_request(&mut self, turn: &mut Turn<'_>, conn: ConnId, ending: Ending) {
        match ending {
            Ending::Terminate => self.client_left(turn, conn, "client close request"),
            Ending::Refuse(code, text) => self.refuse_session(turn, conn, code, &text),
        }
    }
}

/// How much of a message must be at hand before anything of it is sent.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Extent {
    Header,
    /// As much of a text as is read.
    Text,
    /// A Bind: its two names, and the rest where that names settings.
    Names,
    Whole,
}

/// A linked session's messages on their way to its server.
pub(super) struct Requests<'a> {
    pub(super) now: Time,
    pub(super) conn: ConnId,
    pub(super) server_id: ConnId,
    pub(super) session: &'a mut Session,
    pub(super) server: &'a mut Server,
    pub(super) pool: &'a mut Pool,
    pub(super) caches: &'a mut Caches,
    /// What follows the message just sent waits until it has been answered.
    pub(super) holds: bool,
    /// Some of what the message at hand needs has been sent, and it waits for the rest.
    pub(super) sent_some: bool,
    /// It waits for its pool's listener.
    pub(super) attends: bool,
    /// What its texts define, for the other pools of its database.
    pub(super) definitions: Vec<Arc<Definition>>,
    pub(super) others: OtherWorkers,
    /// What the step had written before.
    pub(super) written_before: usize,
    /// Statements that were sent.
    pub(super) queries: u32,
    spare: &'a mut Vec<Vec<u8>>,
    pub(super) actions: &'a mut Actions,
    pub(super) stream: Stream<'a>,
}

impl Requests<'_> {
    fn read(&mut self) -> Result<(), Ending> {
        loop {
            if self.session.skip > 0 {
                let count = self.stream.left().min(self.session.skip as usize);
                match self.session.rest {
                    Rest::Forward => {
                        self.add_piece(count, count == self.session.skip as usize);
                        let piece = &self.stream.rest()[..count];
                        self.keep_for_trial(piece);
                        self.stream.pass(count);
                    }
                    Rest::Discard => self.discard(count),
                }
                self.session.skip -= count as u32;
                if self.session.skip > 0 {
                    return Ok(());
                }
            }
            if self.stream.left() == 0 {
                return Ok(());
            }
            let goes_on = if self.session.inbox.is_empty() { self.next()? } else { self.next_from_inbox()? };
            if !goes_on {
                return Ok(());
            }
        }
    }

    /// The next message lies in the stream. False: not enough of it.
    fn next(&mut self) -> Result<bool, Ending> {
        plain_messages::pass(self);
        let rest = self.stream.rest();
        if rest.is_empty() {
            return Ok(true);
        }
        let goes_on = match checked_header(rest)? {
            Some(header) if self.is_enough(header, rest)? => {
                let dealt_with = self.message(header, rest, true)?;
                self.server.gated = !dealt_with || std::mem::take(&mut self.holds);
                !self.server.gated
            }
            _ => false,
        };
        if !goes_on {
            self.stash_rest();
        }
        Ok(goes_on)
    }

    /// Keeps what has not been looked at for later.
    fn stash_rest(&mut self) {
        if self.session.inbox.capacity() == 0 {
            self.session.inbox = Worker::spare_buffer(self.spare);
        }
        let rest = self.stream.rest();
        self.session.inbox.extend_from_slice(rest);
        self.discard(rest.len());
    }

    /// The next message began in an earlier read. False: still not enough of it.
    fn next_from_inbox(&mut self) -> Result<bool, Ending> {
        loop {
            let header = checked_header(&self.session.inbox)?;
            let enough = match header {
                Some(header) => self.is_enough(header, &self.session.inbox)?,
                None => false,
            };
            if let (Some(header), true) = (header, enough) {
                let inbox = std::mem::take(&mut self.session.inbox);
                if !self.message(header, &inbox, false)? {
                    self.session.inbox = inbox;
                    self.server.gated = true;
                    self.stash_rest();
                    return Ok(false);
                }
                Worker::put_back(self.spare, inbox);
                if std::mem::take(&mut self.holds) {
                    self.server.gated = true;
                    self.stash_rest();
                    return Ok(false);
                }
                return Ok(true);
            }
            if self.stream.left() == 0 {
                return Ok(false);
            }
            // As much as is surely of this message: all of it, or its header first.
            let wanted = header.map_or(HEADER_LEN, Header::total_len) - self.session.inbox.len();
            let count = wanted.min(self.stream.left());
            let more = &self.stream.rest()[..count];
            self.session.inbox.extend_from_slice(more);
            self.discard(count);
        }
    }

    /// Whether names are mapped for this session.
    fn is_mapped(&self) -> bool {
        self.pool.rules.max_prepared_statements > 0
    }

    fn extent(&self, header: Header) -> Extent {
        let follows = self.pool.rules.follows();
        match header.tag {
            tag::QUERY | tag::FUNCTION_CALL if follows => Extent::Text,
            tag::QUERY if self.searches_names() => Extent::Text,
            tag::PARSE if follows && !self.is_mapped() => Extent::Text,
            tag::EXECUTE if self.reads_portals() => Extent::Whole,
            tag::BIND if self.is_mapped() => Extent::Names,
            tag::PARSE | tag::DESCRIBE | tag::CLOSE if self.is_mapped() => Extent::Whole,
            _ => Extent::Header,
        }
    }

    fn is_enough(&self, header: Header, at_hand: &[u8]) -> Result<bool, Ending> {
        let whole = at_hand.len() >= header.total_len();
        if whole && (header.tag != tag::BIND || header.body_len() <= 2 * limits::NAME_LEN_MAX) {
            return Ok(true);
        }
        match self.extent(header) {
            Extent::Header => {
                // Outside of a transaction no server is held by half a message, unless it is a large one.
                let streams = header.tag == tag::COPY_DATA || self.server.status != Status::Idle;
                Ok(streams || whole || at_hand.len() >= limits::CHUNK_LEN_MAX)
            }
            Extent::Text => Ok(whole || at_hand.len() >= limits::CHUNK_LEN_MAX),
            Extent::Whole if whole => Ok(true),
            Extent::Whole if header.tag == tag::EXECUTE => Ok(false),
            Extent::Whole => {
                // A long unnamed statement passes by length, however long.
                let named = at_hand.get(HEADER_LEN).map(|&first| first != 0);
                if named == Some(true) && header.tag == tag::PARSE && header.body_len() > limits::STATEMENT_LEN_MAX {
                    return Ok(at_hand.len() >= limits::CHUNK_LEN_MAX);
                }
                let long = header.body_len() > limits::UNNAMED_LEN_MAX;
                let passes = !self.pool.rules.follows() && !self.searches_names();
                let read = passes || at_hand.len() >= limits::CHUNK_LEN_MAX;
                Ok(header.tag == tag::PARSE && named == Some(false) && long && read)
            }
            Extent::Names => {
                let body = &at_hand[HEADER_LEN..at_hand.len().min(header.total_len())];
                let names = BindNames::decode(body);
                if names.is_none() && body.len() > 2 * limits::NAME_LEN_MAX {
                    return Err(Ending::violation("names in Bind message are too long"));
                }
                if whole || at_hand.len() >= limits::CHUNK_LEN_MAX {
                    return Ok(whole || names.is_some());
                }
                Ok(names.is_some_and(|names| !self.reads_parameters(names.statement)))
            }
        }
    }

    /// Deals with one message of which enough is at hand. False: not before what is under way has been answered.
    #[inline]
    fn message(&mut self, header: Header, at_hand: &[u8], in_stream: bool) -> Result<bool, Ending> {
        let at_hand = &at_hand[..at_hand.len().min(header.total_len())];
        if self.server.ledger.is_guarded()
            && let Some(dealt_with) = self.guard(header.tag)?
        {
            return Ok(dealt_with);
        }
        if self.waits_for_answers(header.tag, at_hand) {
            self.call_for_answers();
            return Ok(false);
        }
        let dealt_with = self.dispatch(header, at_hand, in_stream)?;
        if dealt_with && self.is_trying() {
            // The rest of a Bind may be at hand and is dealt with as what follows.
            let sent = header.total_len() - self.session.skip as usize;
            self.keep_for_trial(&at_hand[..sent.min(at_hand.len())]);
            // What comes behind must not be read before it is known whether this comes again.
            self.holds |= matches!(header.tag, tag::SYNC | tag::QUERY | tag::FUNCTION_CALL);
        }
        Ok(dealt_with)
    }

    fn dispatch(&mut self, header: Header, at_hand: &[u8], in_stream: bool) -> Result<bool, Ending> {
        let whole = at_hand.len() >= header.total_len();
        let mapped = self.is_mapped();
        match header.tag {
            tag::TERMINATE => return Err(Ending::Terminate),
            tag::QUERY => match self.query(at_hand, whole, in_stream) {
                Renamed::No => self.queries += 1,
                renamed => return Ok(renamed == Renamed::Yes),
            },
            tag::EXECUTE if !self.execute(at_hand) => return Ok(false),
            tag::EXECUTE => self.queries += 1,
            tag::SYNC => self.ended(Expect::Sync),
            tag::FUNCTION_CALL => self.function_call(at_hand),
            tag::COPY_DONE | tag::COPY_FAIL => self.sent(Expect::CopyEnd),
            tag::PARSE if self.refuses_names(&at_hand[HEADER_LEN..]) => self.sent(Expect::Parse(None)),
            tag::PARSE if whole && self.calls_listener(&at_hand[HEADER_LEN..]) => return Ok(false),
            tag::PARSE => {
                let named = at_hand.get(HEADER_LEN).is_some_and(|&first| first != 0);
                let renamed = match mapped && named {
                    true if whole => self.parse(&at_hand[HEADER_LEN..], in_stream)?,
                    true => self.parse_large(header, at_hand, in_stream)?,
                    false => Renamed::No,
                };
                if renamed == Renamed::Later {
                    return Ok(false);
                }
                let goes_on = renamed == Renamed::Yes
                    || if mapped && !named {
                        self.parse_unnamed(at_hand, whole)?
                    } else {
                        self.parse_unmapped(at_hand, whole, mapped)
                    };
                if !goes_on {
                    return Ok(false);
                }
                self.pool.totals.client_parses += 1;
                if renamed == Renamed::Yes {
                    return Ok(true);
                }
                self.pool.totals.server_parses += 1;
            }
            tag::BIND | tag::DESCRIBE | tag::CLOSE => {
                let renamed = match header.tag {
                    _ if !mapped => Renamed::No,
                    tag::BIND => self.bind(header, at_hand, in_stream)?,
                    tag::DESCRIBE => self.describe(&at_hand[HEADER_LEN..], in_stream)?,
                    _ => self.close(&at_hand[HEADER_LEN..], in_stream)?,
                };
                if renamed == Renamed::Later {
                    return Ok(false);
                }
                self.pool.totals.binds += u64::from(header.tag == tag::BIND);
                if renamed == Renamed::Yes {
                    return Ok(true);
                }
                match header.tag {
                    tag::BIND => self.sent(Expect::Bind),
                    tag::DESCRIBE => self.sent(Expect::Describe),
                    _ if mapped && at_hand[HEADER_LEN..] == *b"S\0" => self.close_unnamed(),
                    _ => {
                        self.lose_track(mapped);
                        self.sent(Expect::Close(None));
                    }
                }
            }
            _ => {} // CopyData and Flush have no answer.
        }
        self.pass(header, at_hand, in_stream);
        Ok(true)
    }

    /// Without mapping nobody knows whose unnamed statement a server has; a reload may turn mapping on again.
    fn lose_track(&mut self, mapped: bool) {
        if mapped {
            return;
        }
        self.server.unnamed = unnamed::UNKNOWN;
        self.session.unnamed.take_if(|unnamed| !unnamed.is_changing());
    }

    fn parse_unmapped(&mut self, at_hand: &[u8], whole: bool, mapped: bool) -> bool {
        self.lose_track(mapped);
        let parse = whole.then(|| Parse::decode(&at_hand[HEADER_LEN..]).ok()).flatten();
        let goes_on = self.parse_followed(parse.as_ref(), false);
        if goes_on {
            self.sent(Expect::Parse(None));
        }
        goes_on
    }

    /// A message is sent that ends a batch.
    pub(super) fn ended(&mut self, expect: Expect) {
        self.batch_ended();
        self.sent(expect);
    }

    pub(super) fn batch_ended(&mut self) {
        if let Some(unnamed) = &mut self.session.unnamed {
            unnamed.batch_ended();
        }
        self.holds |= self.is_to_hear_first();
    }

    pub(super) fn sent(&mut self, expect: Expect) {
        self.server.ledger.sent(Answerer::Client, expect);
    }

    /// Sends what is at hand of a message as it is; the rest will follow by length.
    fn pass(&mut self, header: Header, at_hand: &[u8], in_stream: bool) {
        if in_stream {
            self.stream.pass(at_hand.len());
        } else {
            self.stream.flush(self.server_id, self.actions);
            self.actions.send_new(self.server_id, |out| out.extend_from_slice(at_hand));
        }
        self.expect_rest(header.total_len() - at_hand.len());
    }

    /// The message goes on in bytes that are not at hand yet.
    pub(super) fn expect_rest(&mut self, len: usize) {
        self.session.skip = len as u32;
        self.session.rest = Rest::Forward;
    }

    /// These bytes of the stream were dealt with in another way than passing them.
    fn discard(&mut self, count: usize) {
        self.stream.skip(count, self.server_id, self.actions);
    }

    /// Sends bytes of our own in place of `replaced` bytes of the stream (or of the inbox).
    pub(super) fn replace(&mut self, replaced: usize, in_stream: bool, write: impl FnOnce(&mut Vec<u8>)) {
        self.stream.flush(self.server_id, self.actions);
        self.actions.send_new(self.server_id, write);
        if in_stream {
            self.discard(replaced);
        }
    }
}
