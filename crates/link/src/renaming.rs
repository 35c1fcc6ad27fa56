//! Named statements on their way to a server: the client's name becomes the one that the text has on every server, and
//! a server that lacks the statement gets it first.
//!
//! //= pgbouncer config.md#max_prepared_statements

use std::sync::Arc;

use connections::server::{Answerer, Expect};
use session_state::prepared::{Statement, StatementId};
use session_state::shape::Fingerprint;
use session_state::state::{Reading, State};
use session_state::unnamed::Unnamed;
use session_state::{prepared, unnamed};
use units::limits;
use wire::frontend::{BindNames, Close, Describe, Parse, Target};
use wire::{HEADER_LEN, Header, backend, frontend};

use crate::ending::Ending;
use crate::matching::Match;
use crate::pacing;
use crate::requests::{Renamed, Requests};
use crate::session::Rest;

impl Requests<'_> {
    pub fn parse(&mut self, body: &[u8], in_stream: bool) -> Result<Renamed, Ending> {
        let parse = Parse::decode(body)?;
        let total = HEADER_LEN + body.len();
        if self.is_unheard() {
            self.sent(Expect::Parse(None));
            self.replace(total, in_stream, |out| parse.encode(out));
            return Ok(Renamed::Yes);
        }
        let base = State::default();
        let tracker = self.session.tracker.as_ref();
        let state = tracker.map_or(&base, |tracker| tracker.state());
        let parameters = tracker.and_then(|tracker| tracker.meaning().parameters()).unwrap_or(&self.session.parameters);
        let meaning = parameters.meaning().chain(state.meaning());
        let identified = prepared::identify(self.caches.catalog.secret(), &parse, meaning, self.pool.names.generation);
        // Where the name is in use, what has it decides.
        let id = self.id_of(parse.name).unwrap_or(identified);
        if self.must_wait(parse.name, Some(id)) {
            return Ok(Renamed::Later);
        }
        if parse.name.len() > limits::NAME_LEN_MAX {
            return Err(Ending::violation("name in Parse message is too long"));
        }
        if let Some(renamed) = self.parse_of_a_taken_name(&parse, total, in_stream) {
            return Ok(renamed);
        }
        if self.session.statements.names.as_ref().is_some_and(|names| names.passes) {
            return Ok(Renamed::No);
        }
        // Whoever else has the same text may be in a pool that reads it.
        let meant = Arc::clone(self.meant());
        let reader = &mut self.caches.reader;
        let mut statement = self.caches.catalog.intern(identified, &parse, || reader.sketch(parse.query, &meant));
        if statement.executes() {
            let id = self.identify_executing(&parse, &statement);
            if self.must_wait(parse.name, Some(id)) {
                return Ok(Renamed::Later);
            }
            let reader = &mut self.caches.reader;
            statement = self.caches.catalog.intern(id, &parse, || reader.sketch(parse.query, &meant));
        }
        let known = self.server.statements.prepared.touch(statement.id).is_some();
        let is_ours = known && self.is_sound();
        if !is_ours && !self.bring_executed(&statement) {
            return Ok(Renamed::Later);
        }
        let names = self.session.statements.names.get_or_insert_default();
        if !names.insert(parse.name, Arc::clone(&statement)) {
            return Ok(self.pass_or_refuse(&parse, total, in_stream));
        }
        if is_ours {
            self.sent(Expect::FakeParse);
            self.replace(total, in_stream, |_| ());
            self.answer_fakes();
            return Ok(Renamed::Yes);
        }
        self.make_way(&statement, known);
        self.server.statements.prepared.add(statement.id);
        self.sent(Expect::Parse(Some(statement.id)));
        self.pool.counts.totals.server_parses += 1;
        self.replace(total, in_stream, |out| statement.write_parse(out));
        self.describe_for(parse.name, &statement);
        Ok(Renamed::Yes)
    }

    /// A Parse under a name that the session has already, prepared by SQL or by the protocol. `None`: it is a new name.
    fn parse_of_a_taken_name(&mut self, parse: &Parse<'_>, total: usize, in_stream: bool) -> Option<Renamed> {
        let of_sql = self.session.tracker.as_ref().is_some_and(|tracker| tracker.has_prepared(parse.name));
        if of_sql && self.follows() {
            // The server has the statement, or gets it now, and refuses the Parse itself: 42P05.
            if !self.bring(parse.name) {
                return Some(Renamed::Later);
            }
            self.sent(Expect::Parse(None));
            self.replace(total, in_stream, |out| parse.encode(out));
            return Some(Renamed::Yes);
        }
        let taken = self.session.statements.names.get_or_insert_default().get(parse.name).map(Arc::clone)?;
        // The server has this name too, or gets it now, and says so itself: 42P05, and skips to Sync.
        if self.server.statements.prepared.touch(taken.id).is_none() {
            if pacing::must_pace(self, taken.len()) {
                return Some(Renamed::Later);
            }
            self.prepare_as(&taken, false, None);
        }
        self.sent(Expect::Parse(None));
        self.pool.counts.totals.server_parses += 1;
        let again = Parse { name: &taken.name, ..*parse };
        self.replace(total, in_stream, |out| again.encode(out));
        Some(Renamed::Yes)
    }

    /// Whether a Parse of what the server has is ours to answer.
    fn is_sound(&self) -> bool {
        // In a failed transaction PostgreSQL refuses a Parse, so it is not for us to answer. In one that goes on there is no
        // trying whether what another has prepared still holds.
        match self.server.transaction.status {
            backend::Status::Idle => !self.server.ledger.awaits_own_ready(),
            backend::Status::InTransaction => !self.pool.rules.follows() && !self.server.ledger.awaits_own_ready(),
            backend::Status::Failed => false,
        }
    }

    pub fn bind(&mut self, header: Header, at_hand: &[u8], in_stream: bool) -> Result<Renamed, Ending> {
        let body = &at_hand[HEADER_LEN..];
        let Some(names) = BindNames::decode(body) else { return Err(Ending::violation("invalid Bind message")) };
        if self.is_unheard() {
            return Ok(Renamed::No);
        }
        if names.statement.is_empty() {
            let recalled = self.recall_unnamed();
            let behind = &body[names.len..];
            let goes_on = recalled != Renamed::Later && self.bind_followed(&names, None, behind);
            return Ok(if goes_on { recalled } else { Renamed::Later });
        }
        // A name we do not know goes through as it is, and the server says 26000.
        let Some((statement, told, reading)) = self.named(names.statement) else {
            if self.must_wait(names.statement, None) {
                return Ok(Renamed::Later);
            }
            let goes_on = self.bind_followed(&names, None, &body[names.len..]);
            return Ok(if goes_on { Renamed::No } else { Renamed::Later });
        };
        if self.must_wait(names.statement, Some(statement.id)) {
            return Ok(Renamed::Later);
        }
        // What it executes must be there when it is parsed.
        let is_first = statement.varies || reading.names_statements();
        if is_first && !self.bind_followed(&names, Some((&statement, reading)), &body[names.len..]) {
            return Ok(Renamed::Later);
        }
        let rest_len = header.body_len() - names.len;
        let matched = self.matched(names.statement, &statement, told, header.total_len());
        match matched {
            Match::Yes | Match::Trial => {}
            Match::Later => return Ok(Renamed::Later),
            Match::Refused => {
                self.refuse(HEADER_LEN + names.len, in_stream);
                self.discard_rest(rest_len - if in_stream { 0 } else { body.len() - names.len });
                return Ok(Renamed::Yes);
            }
        }
        if !is_first {
            self.bind_followed(&names, Some((&statement, reading)), &body[names.len..]);
        }
        self.sent(if matched == Match::Trial { Expect::TrialBind } else { Expect::Bind });
        let mut prefix = Ok(());
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
        Ok(Renamed::Yes)
    }

    pub fn describe(&mut self, body: &[u8], in_stream: bool) -> Result<Renamed, Ending> {
        let describe = Describe::decode(body)?;
        if describe.target != Target::Statement || self.is_unheard() {
            return Ok(Renamed::No);
        }
        if describe.name.is_empty() {
            let recalled = self.recall_unnamed();
            let goes_on = recalled != Renamed::Later && self.describe_followed();
            return Ok(if goes_on { recalled } else { Renamed::Later });
        }
        if self.must_wait(describe.name, self.id_of(describe.name)) {
            return Ok(Renamed::Later);
        }
        let Some((statement, told, _)) = self.named(describe.name) else {
            return Ok(if self.bring(describe.name) { Renamed::No } else { Renamed::Later });
        };
        if !self.bring_executed(&statement) {
            return Ok(Renamed::Later);
        }
        let total = HEADER_LEN + body.len();
        match self.matched(describe.name, &statement, told, total) {
            Match::Yes => self.sent(Expect::Describe),
            Match::Trial => self.sent(Expect::TrialDescribe),
            Match::Later => return Ok(Renamed::Later),
            Match::Refused => {
                self.refuse(total, in_stream);
                return Ok(Renamed::Yes);
            }
        }
        let renamed = Describe { target: Target::Statement, name: &statement.name };
        self.replace(total, in_stream, |out| renamed.encode(out));
        Ok(Renamed::Yes)
    }

    pub fn close(&mut self, body: &[u8], in_stream: bool) -> Result<Renamed, Ending> {
        let close = Close::decode(body)?;
        if close.target != Target::Statement || close.name.is_empty() || self.is_unheard() {
            return Ok(Renamed::No);
        }
        if self.must_wait(close.name, None) {
            return Ok(Renamed::Later);
        }
        match self.close_prepared(close.name) {
            Renamed::No => {}
            Renamed::Yes => {
                self.replace(HEADER_LEN + body.len(), in_stream, |out| close.encode(out));
                return Ok(Renamed::Yes);
            }
            Renamed::Later => return Ok(Renamed::Later),
        }
        let names = self.session.statements.names.get_or_insert_default();
        if names.passes && names.get(close.name).is_none() {
            return Ok(Renamed::No);
        }
        if !names.remove(close.name) {
            self.call_for_answers();
            return Ok(Renamed::Later);
        }
        self.sent(Expect::FakeClose);
        self.replace(HEADER_LEN + body.len(), in_stream, |_| ());
        self.answer_fakes();
        Ok(Renamed::Yes)
    }

    /// An unnamed Parse is sent, as it is. False: not before what is under way has been answered.
    pub fn parse_unnamed(&mut self, at_hand: &[u8], whole: bool) -> Result<bool, Ending> {
        if self.is_unheard() {
            self.sent(Expect::Parse(None));
            return Ok(true);
        }
        let parse = if whole { Some(Parse::decode(&at_hand[HEADER_LEN..])?) } else { None };
        if whole && !self.parse_followed(parse.as_ref(), true) {
            return Ok(false);
        }
        if !whole {
            let text = at_hand[HEADER_LEN..].iter().position(|&byte| byte == 0).map_or(0, |end| HEADER_LEN + end + 1);
            self.begin_pieces(&at_hand[text..]);
            if let Some(tracker) = &mut self.session.tracker {
                // What it says is looked for from now on, whenever it is executed.
                tracker.portals.parse_unnamed(None);
            }
        }
        let version = self.caches.catalog.next_version();
        self.session.statements.unnamed.get_or_insert_default().parsed(version, parse.as_ref());
        self.sent(Expect::Unnamed);
        Ok(true)
    }

    /// A Close of the unnamed statement is sent.
    pub fn close_unnamed(&mut self) {
        if self.is_unheard() {
            return self.sent(Expect::Close(None));
        }
        self.session.statements.unnamed.get_or_insert_default().closed();
        self.sent(Expect::Unnamed);
    }

    /// The client uses its unnamed statement: a server that does not have it is told first, and one that has somebody
    /// else's, or an older one, lets go of that (I2).
    fn recall_unnamed(&mut self) -> Renamed {
        let unnamed = self.session.statements.unnamed.as_deref();
        if unnamed.is_some_and(Unnamed::is_in_batch) {
            return Renamed::No;
        }
        if unnamed.is_some_and(Unnamed::is_changing) || self.server.ledger.awaits_query() {
            return Renamed::Later;
        }
        let version = unnamed.map_or(unnamed::NONE, Unnamed::version);
        if self.server.statements.unnamed == version {
            return Renamed::No;
        }
        // What it executes must be there when it is parsed.
        if !self.describe_followed() {
            return Renamed::Later;
        }
        self.stream.flush(self.server_id, self.actions);
        match self.session.statements.unnamed.as_deref().and_then(Unnamed::parse) {
            Some(parse) => {
                self.server.statements.unnamed = version;
                self.pool.counts.totals.server_parses += 1;
                self.server.ledger.sent(Answerer::Prepare, Expect::Parse(None));
                self.actions.send_new(self.server_id, |out| parse.encode(out));
            }
            None => {
                self.server.statements.unnamed = unnamed::NONE;
                self.server.ledger.sent(Answerer::Prepare, Expect::Close(None));
                let close = Close { target: Target::Statement, name: b"" };
                self.actions.send_new(self.server_id, |out| close.encode(out));
            }
        }
        Renamed::No
    }

    /// Whether the server passes over statements' messages now: it skips to Sync, or reads COPY data.
    pub fn is_unheard(&self) -> bool {
        self.server.ledger.is_skipping() || self.server.ledger.is_copy_open()
    }

    /// What a name stands for, as what its client knows it, and what it does.
    fn named(&mut self, name: &[u8]) -> Option<(Arc<Statement>, Fingerprint, Reading)> {
        let named = self.session.statements.names.as_ref()?.named(name)?;
        let reading = named.reading(&mut self.caches.reader, &mut self.pool.names.known);
        Some((Arc::clone(&named.statement), named.fingerprint(), reading))
    }

    /// Prepares a statement on the server in front of the next message, with these types of its parameters if they are known.
    /// `is_there`: the server has it already.
    pub fn prepare_as(&mut self, statement: &Statement, is_there: bool, types: Option<&[u8]>) {
        self.make_way(statement, is_there);
        self.server.statements.prepared.add(statement.id);
        self.pool.counts.totals.server_parses += 1;
        self.server.ledger.sent(Answerer::Prepare, Expect::Parse(Some(statement.id)));
        self.stream.flush(self.server_id, self.actions);
        self.actions.send_new(self.server_id, |out| match types {
            Some(types) => statement.write_parse_as(types, out),
            None => statement.write_parse(out),
        });
    }

    /// Sees to it that a statement can be prepared: that there is room, or, if the server has it already and is to judge
    /// its text again, that it is gone.
    fn make_way(&mut self, statement: &Statement, is_there: bool) {
        if !is_there {
            return self.make_room();
        }
        self.server.ledger.sent(Answerer::Prepare, Expect::Close(Some(statement.id)));
        self.stream.flush(self.server_id, self.actions);
        let close = Close { target: Target::Statement, name: &statement.name };
        self.actions.send_new(self.server_id, |out| close.encode(out));
    }

    /// Whether it depends on answers under way what exists under a name, or what the server has prepared: a simple query
    /// may be DISCARD ALL, a batch may fail and what is in it be skipped. Then the message waits for them.
    pub fn must_wait(&self, name: &[u8], id: Option<StatementId>) -> bool {
        let ledger = &self.server.ledger;
        if !ledger.awaits_ready() {
            return false;
        }
        let renamed = self.session.statements.names.as_ref().is_some_and(|names| names.is_changing(name));
        let crowded =
            ledger.is_changing() && self.server.statements.prepared.is_full(self.pool.rules.max_prepared_statements);
        renamed || crowded || ledger.awaits_query() || id.is_some_and(|id| ledger.is_changing_of(id))
    }

    fn id_of(&self, name: &[u8]) -> Option<StatementId> {
        self.session.statements.names.as_ref()?.get(name).map(|statement| statement.id)
    }

    /// Closes the statement that was not used for longest, if the server has as many as it may.
    fn make_room(&mut self) {
        while let Some(evicted) = self.server.statements.prepared.surplus(self.pool.rules.max_prepared_statements) {
            self.evict(evicted);
        }
    }

    fn evict(&mut self, evicted: StatementId) {
        self.server.statements.prepared.remove(evicted);
        self.server.ledger.sent(Answerer::Prepare, Expect::Close(Some(evicted)));
        self.stream.flush(self.server_id, self.actions);
        let name = prepared::server_name(evicted);
        let close = Close { target: Target::Statement, name: name.as_bytes() };
        self.actions.send_new(self.server_id, |out| close.encode(out));
    }

    /// As [`Requests::expect_rest`], for a message that does not reach its server.
    pub fn discard_rest(&mut self, len: usize) {
        self.session.incoming.skip = len as u32;
        self.session.incoming.rest = Rest::Discard;
    }

    /// Answers in the server's stead what comes next and is ours to answer.
    pub fn answer_fakes(&mut self) {
        while let Some(fake) = self.server.ledger.next_fake() {
            super::confirming::answer_fake(self.conn, self.session, fake.expect, self.actions);
        }
    }
}
