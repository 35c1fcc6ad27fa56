//! What a client's statements do to its session, noted as they are sent; and what its server needs before it reads them.
//!
//! Nothing is held back for it, but where a statement of SQL's PREPARE has to be prepared first: that goes in front, in
//! one piece with the client's message, and if it fails, the server passes over the message and its error is the answer.

use std::sync::Arc;

use sql::{Pieces, Summary, Text};
use wire::HEADER_LEN;
use wire::backend::Status;
use wire::frontend::{Bind, BindNames, Close, Execute, Parse, Query, Target, tag};

use super::requests::Requests;
use crate::limits;
use crate::parameters::Tracked;
use crate::prepared::{self, Statement, StatementId};
use crate::server::{Answerer, Expect};
use crate::state::{Effect, Marked, Pins, Reading, Remedy, Seen};

/// The name of what is run aside. No client has it: their statements are called otherwise on servers.
const ASIDE: &[u8] = b"aside_of_pgweir";

const DISCARD_SEQUENCES: &[u8] = b"DISCARD SEQUENCES";

/// Whether it begins as CREATE FUNCTION does: nothing but calls has to do with what it makes.
fn makes_routine(text: &[u8]) -> bool {
    let words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).map(<[u8]>::to_ascii_lowercase);
    let mut words = words.take(4).skip_while(|word| matches!(&word[..], b"create" | b"or" | b"replace"));
    words.next().is_some_and(|word| matches!(&word[..], b"function" | b"procedure" | b"aggregate"))
}

impl Requests<'_> {
    /// Whether texts are read, and now: a server that skips to Sync, or reads COPY data, does not.
    pub(super) fn follows(&self) -> bool {
        self.pool.rules.follows() && !self.is_unheard()
    }

    /// Whether a message must wait until what is under way has been answered.
    pub(super) fn waits_for_answers(&self, message: u8) -> bool {
        let is_text = matches!(message, tag::QUERY | tag::PARSE);
        let names = is_text || matches!(message, tag::BIND | tag::DESCRIBE | tag::CLOSE);
        names && (self.must_wait_for_names() || self.must_wait_to_mend()) || is_text && self.must_wait_to_read()
    }

    /// Whether answers under way bring back what the session began with, of which its server is to be told first.
    fn must_wait_to_mend(&self) -> bool {
        let tracker = self.session.tracker.as_ref().filter(|_| self.session.reset_to.is_some());
        let reverts = tracker.is_some_and(|tracker| tracker.is_reverting() || tracker.is_reverted());
        reverts && self.server.ledger.awaits_ready() && self.follows()
    }

    /// Whether answers under way decide how a text is to be read. In a batch without its Sync none will come: there it is
    /// not read.
    fn must_wait_to_read(&self) -> bool {
        let tracker = self.session.tracker.as_ref().filter(|_| self.server.ledger.awaits_ready());
        tracker.is_some_and(|tracker| tracker.doubts_rules(self.tracked)) && self.follows()
    }

    /// A Query is sent. False: not yet.
    pub(super) fn query(&mut self, at_hand: &[u8], whole: bool) -> bool {
        if !self.follows() {
            self.ended(Expect::Query);
            return true;
        }
        if !whole {
            self.begin_pieces(&at_hand[HEADER_LEN..]);
            self.ended(Expect::Query);
            return true;
        }
        let text = Query::unchecked(&at_hand[HEADER_LEN..]).map(|query| query.text);
        let reading = self.read_text(text);
        if self.session.tracker.is_none() && !reading.is_active() {
            let discards = self.sequences(reading, text.unwrap_or_default());
            if discards {
                return self.query_followed(text, reading, true);
            }
            self.ended(Expect::Query);
            return true;
        }
        self.query_followed(text, reading, false)
    }

    #[cold]
    fn query_followed(&mut self, text: Option<&[u8]>, reading: Reading, discards: bool) -> bool {
        let bytes = text.unwrap_or_default();
        let is_open = self.session.tracker.get_or_insert_default().is_open();
        let is_noted = reading.is_noted(is_open) || reading.names_statements() || discards;
        let mut effects = if is_noted { self.effects(bytes) } else { Vec::new() };
        // Nothing else may be noted of what is not sent yet.
        if !self.may_listen(reading, &mut effects) {
            return false;
        }
        let discards = discards || self.sequences(reading, bytes);
        self.bring_channels(reading);
        self.define(text, reading);
        // It may call in the same breath what it has just defined.
        let calls_too = reading.redefines() && self.effects(bytes).len() > 1;
        let reading = if calls_too { self.read_text(text) } else { reading };
        self.vacate(bytes, reading);
        self.suspect(reading, bytes);
        if !is_noted && !reading.is_noted(is_open) && !discards {
            self.ended(Expect::Query);
            return true;
        }
        if !is_noted {
            effects = self.effects(bytes);
        }
        let mut remedy = self.remedy(reading, &effects, bytes);
        if discards {
            remedy.push(DISCARD_SEQUENCES.to_vec());
        }
        if !remedy.is_empty() {
            self.run_aside(&remedy);
            self.holds = true;
        }
        self.batch_ended();
        self.note(Expect::Query, effects, bytes);
        true
    }

    /// A Parse is sent that is not renamed: of the unnamed statement, or where no names are kept.
    pub(super) fn parse_followed(&mut self, parse: Option<&Parse<'_>>, is_mapped: bool) {
        if !self.follows() {
            return;
        }
        let text = parse.map(|parse| parse.query);
        let reading = self.read_text(text);
        if self.sequences(reading, text.unwrap_or_default()) {
            self.run_aside(&vec![DISCARD_SEQUENCES.to_vec()]);
        }
        if self.session.tracker.is_none() && !reading.is_active() {
            return;
        }
        self.bring_channels(reading);
        let is_plain = reading.is_plain();
        let tracker = self.session.tracker.get_or_insert_default();
        if !is_mapped && !is_plain {
            // Nobody knows when it is executed.
            tracker.suspect(Reading::UNKNOWN, text.unwrap_or_default(), &self.pool.known);
            self.define(text, reading);
            return;
        }
        let marked = (!is_plain).then(|| self.marked(text.unwrap_or_default(), reading));
        if let Some(marked) = marked.as_ref().filter(|marked| marked.reading.executes()) {
            let remedy = self.remedy(marked.reading, &marked.effects, &marked.text);
            self.run_aside(&remedy);
        }
        if let Some(tracker) = &mut self.session.tracker {
            tracker.parse_unnamed(marked);
        }
    }

    /// A text is too long to be at hand at once: what it says is known when its end has passed. `text`: its beginning.
    #[cold]
    pub(super) fn begin_pieces(&mut self, text: &[u8]) {
        if !self.follows() {
            return;
        }
        let rules = self.reader.rules(&self.server.parameters);
        let tracker = self.session.tracker.get_or_insert_default();
        let Some(rules) = rules else { return tracker.suspect(Reading::UNKNOWN, text, &self.pool.known) };
        let mut pieces = Box::new(Pieces::new(rules, limits::SHAPE_LEN_MAX));
        pieces.add(text);
        tracker.gather(pieces, text);
    }

    /// More of it passes, to its end if `is_last`.
    pub(super) fn add_piece(&mut self, count: usize, is_last: bool) {
        let Some(tracker) = &mut self.session.tracker else { return };
        // The zero byte at its end is no part of a text.
        let piece = &self.stream.rest()[..count - usize::from(is_last)];
        let Some(gathered) = tracker.add_piece(piece, is_last) else { return };
        let shape = gathered.finish();
        let reading = self.read_text(shape.as_deref());
        let Some(tracker) = &mut self.session.tracker else { return };
        if reading.is_noted(true) {
            // What it has set cannot be noted any more: its answers may be here already.
            tracker.suspect_unread();
        } else {
            tracker.suspect_again(reading, &self.pool.known);
        }
        if reading.redefines() || shape.is_none() {
            self.define(None, reading);
        }
    }

    /// Whether a Bind's parameters name settings: they are read.
    pub(super) fn reads_parameters(&self, statement: &[u8]) -> bool {
        if !self.follows() {
            return false;
        }
        if statement.is_empty() {
            let unnamed = self.session.tracker.as_ref().and_then(|tracker| tracker.unnamed());
            return unnamed.is_some_and(|marked| marked.is_unbound());
        }
        let named = self.session.names.as_ref().and_then(|names| names.get(statement));
        named.is_some_and(|statement| statement.reading(&self.pool.known).sets_by_function())
    }

    /// A Bind is about to be sent; `statement`: the named one, if it is known; `behind`: what there is behind its names.
    pub(super) fn bind_followed(&mut self, names: &BindNames<'_>, statement: Option<&Statement>, behind: &[u8]) {
        let name = names.statement;
        if let Some(statement) = statement.filter(|_| self.server.heard.is_some()) {
            self.hear(statement.query());
        }
        if !self.follows() {
            return;
        }
        let reading = statement.map_or(Reading::default(), |statement| statement.reading(&self.pool.known));
        if self.sequences(reading, statement.map_or(b"", |statement| statement.query())) {
            self.run_aside(&vec![DISCARD_SEQUENCES.to_vec()]);
        }
        let is_active = match statement {
            Some(_) => reading.is_active(),
            None => self.server.on_server.has(name),
        };
        self.server.defines |= reading.defines();
        if self.session.tracker.is_none() && !is_active {
            return;
        }
        if statement.is_some() {
            self.bring_channels(reading);
        }
        let marked = match statement {
            Some(statement) if !reading.is_plain() => Some(self.marked(statement.query(), reading)),
            Some(_) => None,
            None if name.is_empty() => {
                self.session.tracker.as_ref().and_then(|tracker| tracker.unnamed()).map(Arc::clone)
            }
            None => return self.bring(name),
        };
        if let Some(marked) = marked.as_ref().filter(|marked| marked.reading.names_statements()) {
            let remedy = self.remedy(marked.reading, &marked.effects, &marked.text);
            self.run_aside(&remedy);
        }
        let marked = match marked {
            Some(marked) if marked.is_unbound() => Some(Arc::new(marked.bound(behind))),
            marked => marked,
        };
        let (awaited, _) = self.server.ledger.owing();
        self.session.tracker.get_or_insert_default().bind(names.portal, marked, awaited);
    }

    /// Which statement a Parse of EXECUTE means: its columns are those of what its name means now, to this session.
    #[cold]
    pub(super) fn identify_executing(&mut self, parse: &Parse<'_>, statement: &Statement) -> StatementId {
        let (tracker, names) = (self.session.tracker.as_ref(), self.session.names.as_ref());
        let of = |name: &[u8]| {
            let prepared = tracker.and_then(|tracker| tracker.prepared_text(name));
            let of_protocol = || names?.get(name).map(|statement| Arc::from(statement.query()));
            prepared.or_else(of_protocol)
        };
        let effects = self
            .reader
            .rules(&self.server.parameters)
            .map(|rules| Effect::read(&Text::new(parse.query, rules), self.tracked));
        let texts: Vec<Option<Arc<[u8]>>> = effects
            .iter()
            .flatten()
            .filter_map(|effect| if let Effect::Execute(name) = effect { Some(of(name)) } else { None })
            .collect();
        let first = statement.id.to_be_bytes();
        let meaning = std::iter::once(Some(&first[..])).chain(texts.iter().map(Option::as_deref));
        prepared::identify(parse, meaning, self.pool.generation)
    }

    /// A statement is about to be parsed or described that may name another: that must be there, or it has no columns.
    pub(super) fn bring_executed(&mut self, statement: &Statement) {
        if statement.executes() && self.follows() {
            let effects = self.effects(statement.query());
            let remedy = self.remedy(statement.reading(&self.pool.known), &effects, statement.query());
            self.run_aside(&remedy);
        }
    }

    /// A Describe of the unnamed statement is about to be sent: what it executes must be there to be described.
    pub(super) fn describe_followed(&mut self) {
        let marked = self.session.tracker.as_ref().and_then(|tracker| tracker.unnamed()).map(Arc::clone);
        if let Some(marked) = marked.filter(|marked| marked.reading.names_statements() && self.follows()) {
            let remedy = self.remedy(marked.reading, &marked.effects, &marked.text);
            self.run_aside(&remedy);
        }
    }

    /// An Execute is sent. False: not yet.
    pub(super) fn execute(&mut self, at_hand: &[u8]) -> bool {
        let tracker = self.session.tracker.as_ref().filter(|tracker| tracker.has_portals());
        let execute = tracker.and_then(|_| Execute::decode(&at_hand[HEADER_LEN..]).ok());
        let marked = execute.and_then(|execute| tracker?.portal(execute.portal));
        let Some(marked) = marked.filter(|_| self.follows()) else {
            self.sent(Expect::Execute);
            return true;
        };
        let is_open = self.session.tracker.as_ref().is_some_and(|tracker| tracker.is_open());
        let is_noted = marked.reading.is_noted(is_open);
        let mut effects = if is_noted { marked.effects.clone() } else { Vec::new() };
        if !self.may_listen(marked.reading, &mut effects) {
            return false;
        }
        self.define(Some(&marked.text), marked.reading);
        self.vacate(&marked.text, marked.reading);
        self.suspect(marked.reading, &marked.text);
        if is_noted {
            self.note(Expect::Execute, effects, &marked.text);
        } else {
            self.sent(Expect::Execute);
        }
        true
    }

    /// A FunctionCall is sent: of a function by its oid.
    pub(super) fn function_call(&mut self, at_hand: &[u8]) {
        if self.follows() {
            let oid = at_hand.get(HEADER_LEN..HEADER_LEN + 4).and_then(|oid| oid.try_into().ok());
            let reading = Reading::of_function(oid.map_or(u32::MAX, u32::from_be_bytes));
            if self.sequences(reading, b"function call") {
                self.run_aside(&vec![DISCARD_SEQUENCES.to_vec()]);
            }
            if self.session.tracker.is_some() || reading.is_active() {
                self.suspect(reading, b"function call");
            }
            if reading.is_unknown() {
                // As of a text that is not known.
                self.session.tracker.get_or_insert_default().pin(Pins::DYNAMIC, b"function call");
            }
        }
        self.sent(Expect::Function);
    }

    /// Whether it hangs on answers under way which statements there are by name. Within a batch there is no waiting for
    /// them: what is skipped there skips what comes behind it, too.
    pub(super) fn must_wait_for_names(&self) -> bool {
        let tracker = self.session.tracker.as_ref();
        let changes = tracker.is_some_and(|tracker| self.server.on_server.is_changing() || tracker.is_clearing());
        changes && self.server.ledger.awaits_ready() && !self.is_unheard()
    }

    /// Whether Executes must be read whole.
    pub(super) fn reads_portals(&self) -> bool {
        self.session.tracker.as_ref().is_some_and(|tracker| tracker.has_portals())
    }

    /// A statement of SQL's PREPARE is named by the protocol.
    pub(super) fn bring(&mut self, name: &[u8]) {
        if !self.follows() || self.server.status == Status::Failed {
            return;
        }
        if self.session.tracker.is_none() && !self.server.on_server.has(name) {
            return;
        }
        // A stranger's, where the session itself has none.
        let tracker = self.session.tracker.get_or_insert_default();
        if tracker.is_clearing() {
            return;
        }
        let mut remedy = Remedy::new();
        tracker.bring(name, &mut self.server.on_server, &mut remedy);
        self.run_aside(&remedy);
    }

    /// One is about to be closed by the protocol, if it is one: false if not. What comes of it is noted as of a DEALLOCATE.
    pub(super) fn close_prepared(&mut self, name: &[u8]) -> bool {
        if !self.follows() || self.session.tracker.as_ref().is_none_or(|tracker| !tracker.may_have_prepared(name)) {
            return false;
        }
        self.bring(name);
        self.note(Expect::Close(None), vec![Effect::Deallocate(name.into())], b"");
        true
    }

    pub(super) fn read_text(&mut self, text: Option<&[u8]>) -> Reading {
        if self.server.heard.is_some() {
            self.hear(text.unwrap_or_default());
        }
        let tracker = self.session.tracker.as_ref();
        let text = text.filter(|_| !tracker.is_some_and(|tracker| tracker.doubts_rules(self.tracked)));
        let (reader, known) = (&mut self.reader, &mut self.pool.known);
        let reading = text.map_or(Reading::UNKNOWN, |text| reader.read(text, &self.server.parameters, known));
        self.server.defines |= reading.defines();
        reading
    }

    /// Keeps the beginning of a text, to be named if its server turns out to be other than it is believed to be.
    #[cold]
    fn hear(&mut self, text: &[u8]) {
        if let Some(heard) = &mut self.server.heard {
            heard.clear();
            heard.extend_from_slice(&text[..text.len().min(limits::PIN_TEXT_LEN_MAX)]);
        }
    }

    fn suspect(&mut self, reading: Reading, text: &[u8]) {
        self.session.tracker.get_or_insert_default().suspect(reading, text, &self.pool.known);
    }

    /// A text is sent that may change what names hide.
    fn define(&mut self, text: Option<&[u8]>, reading: Reading) {
        let (known, now) = (&mut self.pool.known, self.now);
        let Some(text) = text.filter(|_| !reading.is_unknown()) else {
            self.server.is_unsettled = true;
            return known.doubt(self.server_id, now);
        };
        if !reading.redefines() {
            return;
        }
        self.server.is_unsettled = true;
        match self.reader.rules(&self.server.parameters) {
            Some(rules) => {
                let summary = Summary::of(&Text::new(text, rules));
                let only_calls = summary.statements() == 1 && makes_routine(text);
                known.define(text, summary.words(), only_calls, self.server_id, now);
            }
            None => known.doubt(self.server_id, now),
        }
    }

    /// Notes who has used a sequence here. Whether what others have done to sequences is to be forgotten first: `currval`
    /// would tell of it.
    #[inline]
    fn sequences(&mut self, reading: Reading, text: &[u8]) -> bool {
        reading.uses_sequences() && self.sequences_used(reading, text)
    }

    #[inline(never)]
    fn sequences_used(&mut self, reading: Reading, text: &[u8]) -> bool {
        let (advances, asks) = (reading.advances_sequences(), reading.asks_for_currval());
        let (askers, application) =
            (&mut self.pool.known.askers, self.session.parameters.get(Tracked::APPLICATION_NAME));
        if asks {
            askers.add(application);
        }
        let matters = askers.any();
        let keeps = advances && (askers.has(application) || reading.draws() && matters);
        let misled = self.server.sequences.mislead(self.conn, asks, !advances && self.is_first(), matters);
        let discards = misled && self.server.status != Status::Failed;
        if discards {
            self.server.sequences.discarded();
        }
        if advances {
            self.server.sequences.drawn(self.conn);
        }
        if keeps {
            self.session.tracker.get_or_insert_default().pin(Pins::SEQUENCE, text);
        }
        discards
    }

    /// Nothing of the session has run on its server since it got it.
    fn is_first(&self) -> bool {
        let is_pinned = self.session.tracker.as_ref().is_some_and(|tracker| tracker.is_pinned());
        self.server.status == Status::Idle && !self.server.ledger.awaits_ready() && !is_pinned
    }

    fn marked(&mut self, text: &[u8], reading: Reading) -> Arc<Marked> {
        Arc::new(Marked { text: text.into(), reading, effects: self.effects(text) })
    }

    pub(super) fn effects(&mut self, text: &[u8]) -> Vec<Effect> {
        match self.reader.rules(&self.server.parameters) {
            Some(rules) => Effect::read(&Text::new(text, rules), self.tracked),
            None => Vec::new(),
        }
    }

    fn remedy(&mut self, reading: Reading, effects: &[Effect], text: &[u8]) -> Remedy {
        // In a failed transaction the server refuses the text whatever there is.
        if !reading.names_statements() || self.server.status == Status::Failed {
            return Remedy::new();
        }
        let mut discards = false;
        for effect in effects {
            let Effect::Execute(name) = effect else { continue };
            let text = self.session.tracker.as_ref().and_then(|tracker| tracker.prepared_text(name));
            let Some(text) = text else { continue };
            let reading = self.read_text(Some(&text));
            self.suspect(reading, &text);
            discards |= self.sequences(reading, &text);
        }
        let tracker = self.session.tracker.get_or_insert_default();
        let on_server = &mut self.server.on_server;
        if tracker.is_clearing() {
            // In this very batch: behind it there is nothing left.
            return Remedy::new();
        }
        let (names, seen) = (self.session.names.as_deref(), Seen::by(reading, text));
        let mut remedy = tracker.remedy(effects, names, on_server, &self.pool.known, &seen);
        if discards {
            remedy.push(DISCARD_SEQUENCES.to_vec());
        }
        remedy
    }

    fn note(&mut self, expect: Expect, effects: Vec<Effect>, text: &[u8]) {
        if self.server.ledger.sent_noted(expect) {
            self.session.tracker.get_or_insert_default().sent(effects, text);
        }
    }

    /// Runs statements in front of the client's next message. They are part of its transaction.
    fn run_aside(&mut self, remedy: &Remedy) {
        for text in remedy {
            self.stream.flush(self.server_id, self.actions);
            if std::mem::take(&mut self.server.aside_failed) {
                self.server.ledger.sent(Answerer::Aside, Expect::Close(None));
                self.actions.send_new(self.server_id, |out| {
                    Close { target: Target::Statement, name: ASIDE }.encode(out);
                });
            }
            let steps = [Expect::Parse(None), Expect::Bind, Expect::Execute, Expect::Close(None), Expect::Close(None)];
            for step in steps {
                self.server.ledger.sent(Answerer::Aside, step);
            }
            self.actions.send_new(self.server_id, |out| {
                Parse { name: ASIDE, query: text, types: b"\0\0" }.encode(out);
                Bind::encode(out, ASIDE, ASIDE, []);
                Execute { portal: ASIDE, rows_max: 0 }.encode(out);
                Close { target: Target::Portal, name: ASIDE }.encode(out);
                Close { target: Target::Statement, name: ASIDE }.encode(out);
            });
        }
    }
}
