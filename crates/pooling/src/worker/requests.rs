//! What a client's bytes mean, and what of them goes to its server.
//!
//! Only headers are read, except where a message names a prepared statement or must be answered here. Whatever passes
//! is sent as it lies; a message whose beginning has been sent keeps its server until it is whole.
//!
//! //= pg18 protocol-flow

use std::sync::Arc;

use wire::backend::ErrorResponse;
use wire::frontend::{self, BindNames, Close, Describe, Parse, Target, tag};
use wire::{HEADER_LEN, Header, SqlState, backend, sqlstate};

use super::pool::Pool;
use super::stream::Stream;
use super::{Turn, Worker};
use crate::action::{Actions, Source};
use crate::id::ConnId;
use crate::limits;
use crate::prepared::{self, Catalog, Statement, StatementId};
use crate::server::{Answerer, Expect, Server};
use crate::session::{Debt, Rest, Session, State};

/// Why a client's conversation ends because of what it sent.
#[derive(Debug)]
pub(super) enum Ending {
    /// It said goodbye.
    Terminate,
    /// It is told this, and closed.
    Refuse(SqlState, String),
}

impl Ending {
    pub(super) fn violation(text: impl Into<String>) -> Ending {
        Ending::Refuse(sqlstate::PROTOCOL_VIOLATION, text.into())
    }
}

impl From<wire::Error> for Ending {
    fn from(error: wire::Error) -> Ending {
        Ending::violation(error.to_string())
    }
}

/// Checks a header against what PostgreSQL accepts of a client after login.
pub(super) fn checked_header(bytes: &[u8]) -> Result<Option<Header>, Ending> {
    let Some(&first) = bytes.first() else { return Ok(None) };
    let Some(len_max) = frontend::len_max(first).filter(|_| first != tag::PASSWORD) else {
        return Err(Ending::violation(format!("invalid frontend message type {first}")));
    };
    let Some(header) = Header::parse(bytes)? else { return Ok(None) };
    if header.body_len() > len_max {
        return Err(Ending::violation("invalid message length"));
    }
    Ok(Some(header))
}

impl Worker {
    pub(super) fn client_received(&mut self, turn: &mut Turn<'_>, conn: ConnId, bytes: &[u8]) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        session.progress_at = turn.now;
        let pool = session.pool;
        if let Some(pool) = self.pool_mut(pool) {
            pool.totals.received += bytes.len() as u64;
        }
        let Some(session) = self.sessions.get_mut(conn) else { return };
        match session.state {
            State::Linked { server } => {
                let gated = self.servers.get(server).is_some_and(Server::is_gated);
                if gated {
                    self.stash(turn, conn, bytes);
                } else {
                    self.requests(turn, conn, bytes, Source::Chunk, 0);
                }
            }
            State::Idle { .. } if session.inbox.is_empty() => self.begin(turn, conn, bytes, Source::Chunk),
            State::Idle { .. } => {
                self.stash(turn, conn, bytes);
                self.begin_from_inbox(turn, conn);
            }
            State::Console { .. } => {
                self.stash(turn, conn, bytes);
                self.console_received(turn, conn);
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
        let Some(session) = self.sessions.get_mut(conn) else { return };
        let mapped =
            self.pools[session.pool.0 as usize].as_ref().is_some_and(|pool| pool.rules.max_prepared_statements > 0);
        let mut first = Unlinked { conn, session, mapped, actions: turn.actions };
        match first.read(bytes) {
            Ok(Begun::Needs(at)) => self.acquire_for(turn, conn, bytes, source, at),
            Ok(Begun::Incomplete(at)) => self.stash(turn, conn, &bytes[at..]),
            Err(ending) => self.end_by_request(turn, conn, ending),
        }
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
        let Some(session) = self.sessions.get_mut(conn) else { return };
        let Some(server_id) = session.server() else { return };
        let Some(server) = self.servers.get_mut(server_id) else { return };
        let Some(pool) = self.pools[session.pool.0 as usize].as_deref_mut() else { return };
        let was_calm = server.ledger.is_clear();
        let mut requests = Requests {
            conn,
            server_id,
            session,
            server,
            pool,
            catalog: &mut self.catalog,
            spare: &mut self.spare,
            actions: turn.actions,
            stream: Stream::new(bytes, source, at),
        };
        let end = requests.read();
        requests.stream.flush(server_id, requests.actions);
        if was_calm {
            server.query_at = turn.now;
            server.transaction_at.get_or_insert(turn.now);
        }
        let deep = server.ledger.len() >= limits::OWED_MAX;
        if let Err(ending) = end {
            self.end_by_request(turn, conn, ending);
            return;
        }
        if deep {
            self.balance_session(turn, conn);
        }
        self.release_if_done(turn, server_id);
        self.arm_linked(turn, conn);
    }

    fn end_by_request(&mut self, turn: &mut Turn<'_>, conn: ConnId, ending: Ending) {
        match ending {
            Ending::Terminate => self.client_left(turn, conn, "client close request"),
            Ending::Refuse(code, text) => self.refuse_session(turn, conn, code, &text),
        }
    }
}

/// What a session that is not linked has at hand.
enum Begun {
    /// From here on a server is needed.
    Needs(usize),
    /// From here on it is only part of a message.
    Incomplete(usize),
}

/// The first messages of a session without a server: what PostgreSQL would ignore, or we can answer, needs none.
struct Unlinked<'a> {
    conn: ConnId,
    session: &'a mut Session,
    mapped: bool,
    actions: &'a mut Actions,
}

impl Unlinked<'_> {
    fn read(&mut self, bytes: &[u8]) -> Result<Begun, Ending> {
        let mut at = 0;
        loop {
            let rest = &bytes[at..];
            if self.session.skip > 0 {
                let count = rest.len().min(self.session.skip as usize);
                self.session.skip -= count as u32;
                at += count;
                if self.session.skip > 0 {
                    return Ok(Begun::Incomplete(at));
                }
                continue;
            }
            let Some(header) = checked_header(rest)? else { return Ok(Begun::Incomplete(at)) };
            match header.tag {
                tag::TERMINATE => return Err(Ending::Terminate),
                _ if self.session.debt != Debt::None => {
                    self.pay(header);
                    (self.session.skip, self.session.rest) = (header.body_len() as u32, Rest::Discard);
                    at += HEADER_LEN;
                    continue;
                }
                tag::COPY_DATA | tag::COPY_DONE | tag::COPY_FAIL | tag::FLUSH => {
                    // PostgreSQL ignores these outside of COPY: a client may learn late that its COPY failed.
                    (self.session.skip, self.session.rest) = (header.body_len() as u32, Rest::Discard);
                    at += HEADER_LEN;
                    continue;
                }
                _ => {}
            }
            if rest.len() < header.total_len().min(limits::CHUNK_LEN_MAX) {
                return Ok(Begun::Incomplete(at));
            }
            if rest.len() < header.total_len() || !self.answer(header, &rest[HEADER_LEN..header.total_len()])? {
                return Ok(Begun::Needs(at));
            }
            at += header.total_len();
        }
    }

    /// The session's server was lost: this request is answered with that, and not sent anywhere.
    fn pay(&mut self, header: Header) {
        let copies = matches!(header.tag, tag::COPY_DATA | tag::COPY_DONE | tag::COPY_FAIL | tag::FLUSH);
        let fails = self.session.debt == Debt::FailNext && !copies;
        let ends = match (header.tag, fails) {
            (tag::SYNC, _) | (tag::QUERY | tag::FUNCTION_CALL, true) => true,
            (_, true) => {
                self.session.debt = Debt::SkipToSync;
                false
            }
            _ => false,
        };
        let error = ErrorResponse {
            severity: "ERROR",
            code: sqlstate::CONNECTION_FAILURE,
            message: "server connection was lost in the middle of a transaction",
            detail: None,
            hint: None,
        };
        self.actions.send_new(self.conn, |out| {
            if fails {
                error.encode(out);
            }
            if ends {
                backend::encode_ready(out, backend::Status::Idle);
            }
        });
        if ends {
            self.session.debt = Debt::None;
        }
    }

    /// Answers what needs no server. False: it does.
    fn answer(&mut self, header: Header, body: &[u8]) -> Result<bool, Ending> {
        match header.tag {
            tag::SYNC => {
                self.actions.send_new(self.conn, |out| backend::encode_ready(out, backend::Status::Idle));
                Ok(true)
            }
            tag::CLOSE if self.mapped => {
                let close = Close::decode(body)?;
                if close.target != Target::Statement || close.name.is_empty() {
                    return Ok(false);
                }
                if let Some(names) = &mut self.session.names {
                    names.remove(close.name);
                }
                self.actions.send_new(self.conn, backend::encode_close_complete);
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}

/// How much of a message must be at hand before anything of it is sent.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Extent {
    Header,
    /// A Bind: its two names.
    Names,
    Whole,
}

/// A linked session's messages on their way to its server.
struct Requests<'a> {
    conn: ConnId,
    server_id: ConnId,
    session: &'a mut Session,
    server: &'a mut Server,
    pool: &'a mut Pool,
    catalog: &'a mut Catalog,
    spare: &'a mut Vec<Vec<u8>>,
    actions: &'a mut Actions,
    stream: Stream<'a>,
}

impl Requests<'_> {
    fn read(&mut self) -> Result<(), Ending> {
        loop {
            if self.session.skip > 0 {
                let count = self.stream.left().min(self.session.skip as usize);
                match self.session.rest {
                    Rest::Forward => self.stream.pass(count),
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
        let rest = self.stream.rest();
        let dealt_with = match checked_header(rest)? {
            Some(header) if self.is_enough(header, rest)? => self.message(header, rest, true)?,
            _ => false,
        };
        if !dealt_with {
            if self.session.inbox.capacity() == 0 {
                self.session.inbox = Worker::spare_buffer(self.spare);
            }
            self.session.inbox.extend_from_slice(rest);
            self.discard(rest.len());
        }
        Ok(dealt_with)
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
                let mut inbox = std::mem::take(&mut self.session.inbox);
                let dealt_with = self.message(header, &inbox, false)?;
                debug_assert!(dealt_with, "enough of the message is at hand");
                inbox.clear();
                self.spare.push(inbox);
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
        match header.tag {
            tag::BIND if self.is_mapped() => Extent::Names,
            tag::PARSE | tag::DESCRIBE | tag::CLOSE if self.is_mapped() => Extent::Whole,
            _ => Extent::Header,
        }
    }

    fn is_enough(&self, header: Header, at_hand: &[u8]) -> Result<bool, Ending> {
        let whole = at_hand.len() >= header.total_len();
        match self.extent(header) {
            Extent::Header => Ok(true),
            Extent::Whole if whole => Ok(true),
            Extent::Whole => {
                // An unnamed statement passes by length, however long.
                let named = at_hand.get(HEADER_LEN).map(|&first| first != 0);
                if named == Some(true) && header.body_len() > limits::STATEMENT_LEN_MAX {
                    return Err(too_long());
                }
                Ok(header.tag == tag::PARSE && named == Some(false))
            }
            Extent::Names => {
                let body = &at_hand[HEADER_LEN..at_hand.len().min(header.total_len())];
                let found = BindNames::decode(body).is_some();
                if !found && body.len() > 2 * limits::NAME_LEN_MAX {
                    return Err(Ending::violation("names in Bind message are too long"));
                }
                Ok(found || whole)
            }
        }
    }

    /// Deals with one message of which enough is at hand.
    fn message(&mut self, header: Header, at_hand: &[u8], in_stream: bool) -> Result<bool, Ending> {
        let whole = at_hand.len() >= header.total_len();
        let mapped = self.is_mapped();
        let at_hand = &at_hand[..at_hand.len().min(header.total_len())];
        match header.tag {
            tag::TERMINATE => return Err(Ending::Terminate),
            tag::QUERY => self.sent(Expect::Query),
            tag::SYNC => self.sent(Expect::Sync),
            tag::FUNCTION_CALL => self.sent(Expect::Function),
            tag::EXECUTE => self.sent(Expect::Execute),
            tag::COPY_DONE | tag::COPY_FAIL => self.sent(Expect::CopyEnd),
            tag::PARSE => {
                self.pool.totals.client_parses += 1;
                if mapped && whole && at_hand[HEADER_LEN..].first() != Some(&0) {
                    self.parse(&at_hand[HEADER_LEN..], in_stream)?;
                    return Ok(true);
                }
                self.pool.totals.server_parses += 1;
                self.sent(Expect::Parse(None));
            }
            tag::BIND => {
                self.pool.totals.binds += 1;
                if mapped && self.bind(header, at_hand, in_stream)? {
                    return Ok(true);
                }
                self.sent(Expect::Bind);
            }
            tag::DESCRIBE => {
                if mapped && self.describe(&at_hand[HEADER_LEN..], in_stream)? {
                    return Ok(true);
                }
                self.sent(Expect::Describe);
            }
            tag::CLOSE => {
                if mapped && self.close(&at_hand[HEADER_LEN..], in_stream)? {
                    return Ok(true);
                }
                self.sent(Expect::Close(None));
            }
            // CopyData and Flush have no answer.
            _ => {}
        }
        self.pass(header, at_hand, in_stream);
        Ok(true)
    }

    fn sent(&mut self, expect: Expect) {
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
    fn expect_rest(&mut self, len: usize) {
        self.session.skip = len as u32;
        self.session.rest = Rest::Forward;
    }

    /// These bytes of the stream were dealt with in another way than passing them.
    fn discard(&mut self, count: usize) {
        self.stream.skip(count, self.server_id, self.actions);
    }

    /// Sends bytes of our own in place of `replaced` bytes of the stream (or of the inbox).
    fn replace(&mut self, replaced: usize, in_stream: bool, write: impl FnOnce(&mut Vec<u8>)) {
        self.stream.flush(self.server_id, self.actions);
        self.actions.send_new(self.server_id, write);
        if in_stream {
            self.discard(replaced);
        }
    }

    fn parse(&mut self, body: &[u8], in_stream: bool) -> Result<(), Ending> {
        let parse = Parse::decode(body)?;
        let total = HEADER_LEN + body.len();
        if self.server.ledger.is_skipping() {
            self.replace(total, in_stream, |_| ());
            return Ok(());
        }
        if parse.name.len() > limits::NAME_LEN_MAX || body.len() > limits::STATEMENT_LEN_MAX {
            return Err(too_long());
        }
        let names = self.session.names.get_or_insert_default();
        if let Some(taken) = names.get(parse.name).map(Arc::clone) {
            // The server has this name too, or gets it now, and says so itself: 42P05, and skips to Sync.
            self.prepare(&taken);
            self.sent(Expect::Parse(None));
            self.pool.totals.server_parses += 1;
            let again = Parse { name: &taken.name, ..parse };
            self.replace(total, in_stream, |out| again.encode(out));
            return Ok(());
        }
        let statement = self.catalog.intern(&parse);
        if !names.insert(parse.name, Arc::clone(&statement)) {
            let text = "too many prepared statements in one session".to_owned();
            return Err(Ending::Refuse(sqlstate::PROGRAM_LIMIT_EXCEEDED, text));
        }
        let known = self.server.prepared.touch(statement.id);
        if known && !self.server.ledger.has_query() {
            self.sent(Expect::FakeParse(statement.id));
            self.replace(total, in_stream, |_| ());
            self.answer_fakes();
            return Ok(());
        }
        self.make_way(&statement, known);
        self.server.prepared.add(statement.id);
        self.sent(Expect::Parse(Some(statement.id)));
        self.pool.totals.server_parses += 1;
        self.replace(total, in_stream, |out| statement.write_parse(out));
        Ok(())
    }

    fn bind(&mut self, header: Header, at_hand: &[u8], in_stream: bool) -> Result<bool, Ending> {
        let body = &at_hand[HEADER_LEN..];
        let Some(names) = BindNames::decode(body) else { return Err(Ending::violation("invalid Bind message")) };
        if names.statement.is_empty() || self.server.ledger.is_skipping() {
            return Ok(false);
        }
        // A name we do not know goes through as it is, and the server says 26000.
        let Some(statement) = self.statement(names.statement) else { return Ok(false) };
        self.prepare(&statement);
        self.sent(Expect::Bind);
        let mut prefix = Ok(());
        let rest_len = header.body_len() - names.len;
        self.replace(HEADER_LEN + names.len, in_stream, |out| {
            prefix = frontend::encode_bind_prefix(out, names.portal, &statement.name, rest_len);
        });
        prefix?;
        if !in_stream {
            let more = &body[names.len..];
            self.actions.send_new(self.server_id, |out| out.extend_from_slice(more));
            self.expect_rest(rest_len - more.len());
        } else {
            self.expect_rest(rest_len);
        }
        Ok(true)
    }

    fn describe(&mut self, body: &[u8], in_stream: bool) -> Result<bool, Ending> {
        let describe = Describe::decode(body)?;
        let skipping = self.server.ledger.is_skipping();
        if describe.target != Target::Statement || describe.name.is_empty() || skipping {
            return Ok(false);
        }
        let Some(statement) = self.statement(describe.name) else { return Ok(false) };
        self.prepare(&statement);
        self.sent(Expect::Describe);
        let renamed = Describe { target: Target::Statement, name: &statement.name };
        self.replace(HEADER_LEN + body.len(), in_stream, |out| renamed.encode(out));
        Ok(true)
    }

    fn close(&mut self, body: &[u8], in_stream: bool) -> Result<bool, Ending> {
        let close = Close::decode(body)?;
        if close.target != Target::Statement || close.name.is_empty() {
            return Ok(false);
        }
        if !self.server.ledger.is_skipping() {
            if let Some(names) = &mut self.session.names {
                names.remove(close.name);
            }
            self.sent(Expect::FakeClose);
        }
        self.replace(HEADER_LEN + body.len(), in_stream, |_| ());
        self.answer_fakes();
        Ok(true)
    }

    fn statement(&self, name: &[u8]) -> Option<Arc<Statement>> {
        self.session.names.as_ref()?.get(name).map(Arc::clone)
    }

    /// Sees to it that the server knows a statement by the time it reads the next message.
    fn prepare(&mut self, statement: &Statement) {
        let known = self.server.prepared.touch(statement.id);
        if known && !self.server.ledger.has_query() {
            return;
        }
        self.make_way(statement, known);
        self.server.prepared.add(statement.id);
        self.pool.totals.server_parses += 1;
        self.server.ledger.sent(Answerer::Prepare, Expect::Parse(Some(statement.id)));
        self.stream.flush(self.server_id, self.actions);
        self.actions.send_new(self.server_id, |out| statement.write_parse(out));
    }

    /// Sees to it that a statement can be prepared. A simple query under way may be DISCARD ALL, so what is known now may
    /// be unknown then: closing it first is right in both cases.
    fn make_way(&mut self, statement: &Statement, known: bool) {
        if !known {
            return self.make_room();
        }
        self.server.ledger.sent(Answerer::Prepare, Expect::Close(None));
        self.stream.flush(self.server_id, self.actions);
        let close = Close { target: Target::Statement, name: &statement.name };
        self.actions.send_new(self.server_id, |out| close.encode(out));
    }

    /// Closes the statement that was not used for longest, if the server has as many as it may.
    fn make_room(&mut self) {
        while let Some(evicted) = self.server.prepared.surplus(self.pool.rules.max_prepared_statements) {
            self.evict(evicted);
        }
    }

    fn evict(&mut self, evicted: StatementId) {
        self.server.prepared.remove(evicted);
        self.server.ledger.sent(Answerer::Prepare, Expect::Close(Some(evicted)));
        self.stream.flush(self.server_id, self.actions);
        let name = prepared::server_name(evicted);
        let close = Close { target: Target::Statement, name: name.as_bytes() };
        self.actions.send_new(self.server_id, |out| close.encode(out));
    }

    /// Answers in the server's stead what comes next and is ours to answer.
    fn answer_fakes(&mut self) {
        while let Some(fake) = self.server.ledger.next_fake() {
            super::answers::answer_fake(self.conn, self.session, fake.expect, self.actions);
        }
    }
}

fn too_long() -> Ending {
    let text = format!("a named prepared statement may have {} bytes at most", limits::STATEMENT_LEN_MAX);
    Ending::Refuse(sqlstate::PROGRAM_LIMIT_EXCEEDED, text)
}
