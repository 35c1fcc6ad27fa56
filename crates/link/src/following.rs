//! What a client's statements do to its session, noted as they are sent; and what its server needs before it reads them.
//!
//! Nothing is held back for it, but where a statement of SQL's PREPARE has to be prepared first: that goes in front, in
//! one piece with the client's message, and if it fails, the server passes over the message and its error is the answer.

use std::collections::BTreeSet;
use std::sync::Arc;

use connections::server::{Answerer, Expect, Server};
use session_state::parameters::{Parameters, Tracked};
use session_state::prepared::Statement;
use session_state::state::{Effect, Effects, OnServer, Pins, Reading, Remedy};
use session_state::tracker::{Marked, Seen, Tracker};
use session_state::{own_settings, prepared};
use sql::{Pieces, Rules, Text};
use units::limits;
use wire::backend::Status;
use wire::frontend::{Bind, BindNames, Close, Execute, Parse, Query, Target, tag};
use wire::{HEADER_LEN, frontend};

use crate::requests::{Renamed, Requests};
use crate::{pacing, vacating};

/// The name of what is run aside. No client has it: their statements are called otherwise on servers.
pub const ASIDE: &[u8] = b"aside_of_pgweir";

/// Is an error. Names of ours are nobody's to prepare, execute or deallocate: others use what they stand for.
pub const REFUSE_NAME: &[u8] = b"DO $$BEGIN RAISE USING ERRCODE = '42939', \
    MESSAGE = 'names of prepared statements that begin with pgweir are reserved'; END$$";

const DISCARD_SEQUENCES: &[u8] = b"DISCARD SEQUENCES";

/// What `bring` finds that a server needs first. `None`: there is something, and what is under way may keep the server from
/// carrying it out; nothing is noted then.
fn settled(server: &mut Server, bring: impl FnOnce(&mut OnServer) -> Remedy) -> Option<Remedy> {
    let is_failed = server.transaction.status == Status::Failed;
    if is_failed && server.ledger.depth() == 0 {
        // The server refuses the text whatever there is.
        return Some(Remedy::new());
    }
    if !is_failed && !server.ledger.awaits_own_ready() {
        return Some(bring(&mut server.kept.on_server));
    }
    let before = server.kept.on_server.clone();
    let remedy = bring(&mut server.kept.on_server);
    if !remedy.is_empty() {
        server.kept.on_server = before;
        return None;
    }
    Some(remedy)
}

impl Requests<'_> {
    /// Whether texts are read, and now: a server that skips to Sync, or reads COPY data, does not.
    pub fn follows(&self) -> bool {
        self.pool.rules.follows() && !self.is_unheard()
    }

    /// Whether a message must wait until what is under way has been answered: that decides how a text is to be read, or which
    /// statements there are by name.
    pub fn waits_for_answers(&self, message: u8, at_hand: &[u8]) -> bool {
        let Some(tracker) = &self.session.tracker else { return false };
        let is_text = matches!(message, tag::QUERY | tag::PARSE);
        let names = match message {
            tag::DESCRIBE | tag::CLOSE => at_hand.get(HEADER_LEN) == Some(&Target::Statement.byte()),
            _ => is_text || message == tag::BIND,
        };
        // What is brought within a batch is skipped with what comes behind it there.
        let is_brought = self.server.kept.on_server.is_changing() && self.server.ledger.awaits_own_ready();
        let in_doubt = names && (is_brought || tracker.is_naming() || self.must_mend(tracker))
            || is_text && tracker.is_deciding(&self.caches.tracked, message == tag::PARSE)
            || is_text && tracker.meaning().is_vague() && self.server.ledger.awaits_own_ready();
        in_doubt && self.server.ledger.depth() > 0 && self.follows()
    }

    /// Whether answers under way bring back what the session began with, of which its server is to be told first: between
    /// two ReadyForQuery.
    fn must_mend(&self, tracker: &Tracker) -> bool {
        let reverts = self.session.reset_to.is_some() && (tracker.is_reverting() || tracker.is_reverted());
        reverts && self.server.ledger.awaits_ready()
    }

    /// What is under way is to be answered before the client's messages go on, though its batch may not have ended.
    //= pg18 protocol-flow#PROTOCOL-FLOW-EXT-QUERY (Flush)
    pub fn call_for_answers(&mut self) {
        if self.server.ledger.is_open() && !std::mem::replace(&mut self.server.gate.flushed, true) {
            self.stream.flush(self.server_id, self.actions);
            self.actions.send_new(self.server_id, frontend::encode_flush);
        }
    }

    /// A Query is sent. `Yes`: in another form, or not at all.
    pub fn query(&mut self, at_hand: &[u8], whole: bool, in_stream: bool) -> Renamed {
        if self.is_rest_of_failed(at_hand.len(), in_stream) {
            return Renamed::Yes;
        }
        if !self.follows() {
            self.holds |= self.refuses_names(&at_hand[HEADER_LEN..]);
            self.ended(Expect::Query);
            return Renamed::No;
        }
        if !whole {
            self.begin_pieces(&at_hand[HEADER_LEN..]);
            self.ended(Expect::Query);
            return Renamed::No;
        }
        let text = Query::unchecked(&at_hand[HEADER_LEN..]).map(|query| query.text);
        let reading = self.read_text(text);
        if self.session.tracker.is_some() || reading.is_active() || reading.names_statements() {
            let split = self.split(text.unwrap_or_default(), reading, in_stream);
            if split != Renamed::No {
                return split;
            }
            return if self.query_followed(text, reading, false) { Renamed::No } else { Renamed::Later };
        }
        if self.sequences(reading, text.unwrap_or_default()) {
            return if self.query_followed(text, reading, true) { Renamed::No } else { Renamed::Later };
        }
        self.ended(Expect::Query);
        Renamed::No
    }

    #[cold]
    pub fn query_followed(&mut self, text: Option<&[u8]>, reading: Reading, discards: bool) -> bool {
        let bytes = text.unwrap_or_default();
        let is_open = self.session.tracker.get_or_insert_default().is_open();
        let is_noted = reading.is_noted(is_open) || reading.names_statements();
        let mut effects = if is_noted { self.effects(bytes) } else { Effects::default() };
        // Nothing else may be noted of what is not sent yet.
        if !self.may_define(text, reading) || !self.may_listen(&mut effects) {
            return false;
        }
        self.bring_channels(reading);
        let mut remedy = Remedy::new();
        if reading.names_statements() {
            let Some(brought) = self.remedy(reading, &effects, bytes) else {
                self.is_prepared_for();
                return false;
            };
            remedy = brought;
        }
        self.says(reading);
        if (discards || self.sequences(reading, bytes)) && !self.discard_apart() {
            remedy.push(DISCARD_SEQUENCES.to_vec());
        }
        self.defined();
        // It may call in the same breath what it has just defined.
        let calls_too = reading.redefines() && self.effects(bytes).statements() > 1;
        let reading = if calls_too { self.read_text(text) } else { reading };
        vacating::vacate(self, bytes, reading);
        self.suspect(reading, bytes);
        remedy.extend(self.raised(reading, bytes));
        if !remedy.is_empty() {
            self.run_aside(&remedy);
            self.holds = true;
        }
        if is_noted || reading.is_noted(is_open) {
            if !is_noted {
                effects = self.effects(bytes);
            }
            self.batch_ended();
            self.note(Expect::Query, effects, bytes);
        } else {
            self.ended(Expect::Query);
        }
        true
    }

    /// A Parse is sent that is not renamed: of the unnamed statement, or where no names are kept. False: not before what is
    /// under way has been answered.
    pub fn parse_followed(&mut self, parse: Option<&Parse<'_>>, is_mapped: bool) -> bool {
        if !self.follows() {
            return true;
        }
        let text = parse.map(|parse| parse.query);
        let reading = self.read_text(text);
        let is_followed = self.session.tracker.is_some() || reading.is_active();
        let kept = is_followed && is_mapped && !reading.is_plain();
        let marked = kept.then(|| self.marked(text.unwrap_or_default(), reading));
        if is_followed && !is_mapped && !self.may_define(text, reading) {
            return false;
        }
        if !self.remedy_before(marked.as_deref().filter(|marked| marked.reading.executes())) {
            return false;
        }
        if self.sequences(reading, text.unwrap_or_default()) {
            self.run_aside(&vec![DISCARD_SEQUENCES.to_vec()]);
        }
        if !is_followed {
            return true;
        }
        self.defined();
        self.bring_channels(reading);
        let tracker = self.session.tracker.get_or_insert_default();
        if !is_mapped && !reading.is_plain() {
            // Nobody knows when it is executed.
            tracker.suspect(reading.unseen(), text.unwrap_or_default(), &self.pool.names.known);
        } else {
            tracker.portals.parse_unnamed(marked);
        }
        true
    }

    /// A text is too long to be at hand at once: what it says is known when its end has passed. `text`: its beginning.
    #[cold]
    pub fn begin_pieces(&mut self, text: &[u8]) {
        if !self.follows() {
            return;
        }
        let rules = self.rules();
        let tracker = self.session.tracker.get_or_insert_default();
        let Some(rules) = rules else { return tracker.suspect(Reading::UNKNOWN, text, &self.pool.names.known) };
        let mut pieces = Box::new(Pieces::new(rules, limits::SHAPE_LEN_MAX));
        pieces.add(text);
        tracker.long_text.begin(pieces, text);
    }

    /// More of it passes, to its end if `is_last`.
    pub fn add_piece(&mut self, count: usize, is_last: bool) {
        let Some(tracker) = &mut self.session.tracker else { return };
        // A zero byte ends the text; the types of a Parse stand behind it.
        let piece = &self.stream.rest()[..count];
        let end = piece.iter().position(|&byte| byte == 0);
        let piece = &piece[..end.unwrap_or(count)];
        let Some(gathered) = tracker.long_text.add(piece, is_last || end.is_some()) else { return };
        let shape = gathered.finish();
        let reading = self.read_text(shape.as_deref());
        let Some(tracker) = &mut self.session.tracker else { return };
        if reading.is_noted(true) {
            // What it has set cannot be noted any more: its answers may be here already.
            tracker.suspect_unread();
        } else {
            tracker.suspect_again(reading, &self.pool.names.known);
        }
        if reading.redefines() || shape.is_none() {
            self.define_unread();
        }
    }

    /// Whether a Bind's parameters name settings: they are read.
    pub fn reads_parameters(&self, statement: &[u8]) -> bool {
        if !self.follows() {
            return false;
        }
        if statement.is_empty() {
            let unnamed = self.session.tracker.as_ref().and_then(|tracker| tracker.portals.unnamed_statement());
            return unnamed.is_some_and(|marked| marked.is_unbound());
        }
        let named = self.session.statements.names.as_ref().and_then(|names| names.get(statement));
        named.is_some_and(|statement| statement.reading(&self.pool.names.known).sets_by_function())
    }

    /// A Bind is about to be sent; `statement`: the named one and what it does, if it is known; `behind`: what there is
    /// behind its names. False: not before what is under way has been answered.
    pub fn bind_followed(
        &mut self,
        names: &BindNames<'_>,
        statement: Option<(&Statement, Reading)>,
        behind: &[u8],
    ) -> bool {
        let (name, reading) = (names.statement, statement.map_or(Reading::default(), |(_, reading)| reading));
        let statement = statement.map(|(statement, _)| statement);
        if let Some(statement) = statement.filter(|_| self.server.traces.heard.is_some()) {
            self.hear(statement.query());
        }
        if !self.follows() {
            return true;
        }
        let is_active = match statement {
            Some(_) => reading.is_active(),
            None => self.server.kept.on_server.has(name),
        };
        self.server.transaction.defines = self.server.transaction.defines.max(reading.defines());
        self.note_local_rights(reading);
        let mut followed = None;
        if self.session.tracker.is_some() || is_active {
            if statement.is_some() {
                self.bring_channels(reading);
            }
            let marked = match statement {
                Some(statement) if !reading.is_plain() => Some(self.marked(statement.query(), reading)),
                Some(_) => None,
                None if name.is_empty() => self
                    .session
                    .tracker
                    .as_ref()
                    .and_then(|tracker| tracker.portals.unnamed_statement())
                    .map(Arc::clone),
                None => return self.bring(name),
            };
            if !self.remedy_before(marked.as_deref()) {
                return false;
            }
            if let Some(marked) = &marked {
                let raised = self.raised(marked.reading, &marked.text);
                self.run_aside(&raised);
            }
            followed = Some(marked);
        }
        if self.sequences(reading, statement.map_or(b"", |statement| statement.query())) {
            self.run_aside(&vec![DISCARD_SEQUENCES.to_vec()]);
        }
        if let Some(marked) = followed {
            let marked = match marked {
                Some(marked) if marked.is_unbound() => Some(Arc::new(marked.bound(behind))),
                marked => marked,
            };
            let (awaited, _) = self.server.ledger.owing();
            self.session.tracker.get_or_insert_default().bind(names.portal, marked, awaited);
        }
        true
    }

    /// A Describe of the unnamed statement is about to be sent: what it executes must be there to be described. False: not
    /// before what is under way has been answered.
    pub fn describe_followed(&mut self) -> bool {
        let marked =
            self.session.tracker.as_ref().and_then(|tracker| tracker.portals.unnamed_statement()).map(Arc::clone);
        self.remedy_before(marked.filter(|_| self.follows()).as_deref())
    }

    /// Runs what a statement needs before its Bind or Describe. False: not before what is under way has been answered.
    fn remedy_before(&mut self, marked: Option<&Marked>) -> bool {
        let Some(marked) = marked.filter(|marked| marked.reading.names_statements()) else { return true };
        let Some(remedy) = self.remedy(marked.reading, &marked.effects, &marked.text) else { return false };
        self.run_aside(&remedy);
        true
    }

    /// An Execute is sent. False: not yet.
    pub fn execute(&mut self, at_hand: &[u8]) -> bool {
        let tracker = self.session.tracker.as_ref().filter(|tracker| !tracker.portals.is_empty());
        let execute = tracker.and_then(|_| Execute::decode(&at_hand[HEADER_LEN..]).ok());
        let marked = execute.and_then(|execute| tracker?.portals.get(execute.portal).map(Arc::clone));
        let Some(marked) = marked.filter(|_| self.follows()) else {
            self.sent(Expect::Execute);
            return true;
        };
        let is_open = self.session.tracker.as_ref().is_some_and(|tracker| tracker.is_open());
        let is_noted = marked.reading.is_noted(is_open);
        let mut effects = if is_noted { marked.effects.clone() } else { Effects::default() };
        if !self.may_define(Some(&marked.text), marked.reading) || !self.may_listen(&mut effects) {
            return false;
        }
        self.says(marked.reading);
        self.defined();
        vacating::vacate(self, &marked.text, marked.reading);
        self.suspect(marked.reading, &marked.text);
        if is_noted {
            self.note(Expect::Execute, effects, &marked.text);
        } else {
            self.sent(Expect::Execute);
        }
        true
    }

    /// A FunctionCall is sent: of a function by its oid.
    pub fn function_call(&mut self, at_hand: &[u8]) {
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
                self.session.tracker.get_or_insert_default().pinning.pin(Pins::DYNAMIC, b"function call");
            }
        }
        self.sent(Expect::Function);
    }

    /// Whether Executes must be read whole.
    pub fn reads_portals(&self) -> bool {
        self.session.tracker.as_ref().is_some_and(|tracker| !tracker.portals.is_empty())
    }

    /// A statement of SQL's PREPARE is named by the protocol. False: not before what is under way has been answered.
    pub fn bring(&mut self, name: &[u8]) -> bool {
        if !self.follows() || self.session.tracker.is_none() && !self.server.kept.on_server.has(name) {
            return true;
        }
        // A stranger's, where the session itself has none.
        let tracker = self.session.tracker.get_or_insert_default();
        let remedy = settled(self.server, |on_server| {
            let mut remedy = Remedy::new();
            tracker.bring(name, on_server, &mut remedy);
            remedy
        });
        match &remedy {
            Some(remedy) => self.run_aside(remedy),
            None => self.call_for_answers(),
        }
        remedy.is_some()
    }

    /// One is about to be closed by the protocol, if it is one: `No` if not. What comes of it is noted as of a DEALLOCATE.
    pub fn close_prepared(&mut self, name: &[u8]) -> Renamed {
        if !self.follows() || self.session.tracker.as_ref().is_none_or(|tracker| !tracker.has_prepared(name)) {
            return Renamed::No;
        }
        if !self.bring(name) {
            return Renamed::Later;
        }
        self.note(Expect::Close(None), Effects::of_one(Effect::Deallocate(name.into())), b"");
        Renamed::Yes
    }

    /// What the server will read texts by.
    pub fn meant(&self) -> &Arc<Parameters> {
        let meant = self.session.tracker.as_ref().and_then(|tracker| tracker.meaning().parameters());
        meant.unwrap_or(&self.server.kept.parameters)
    }

    pub fn read_text(&mut self, text: Option<&[u8]>) -> Reading {
        if self.server.traces.heard.is_some() {
            self.hear(text.unwrap_or_default());
        }
        let meant = self.session.tracker.as_ref().and_then(|tracker| tracker.meaning().parameters());
        let parameters = meant.unwrap_or(&self.server.kept.parameters);
        let (reader, known) = (&mut self.caches.reader, &mut self.pool.names.known);
        let reading = text.map_or(Reading::UNKNOWN, |text| reader.read(text, parameters, known));
        self.server.transaction.defines = self.server.transaction.defines.max(reading.defines());
        self.note_local_rights(reading);
        reading
    }

    /// Keeps the beginning of a text, to be named if its server turns out to be other than it is believed to be.
    #[cold]
    fn hear(&mut self, text: &[u8]) {
        if let Some(heard) = &mut self.server.traces.heard {
            heard.clear();
            heard.extend_from_slice(&text[..text.len().min(limits::PIN_TEXT_LEN_MAX)]);
        }
    }

    fn suspect(&mut self, reading: Reading, text: &[u8]) {
        self.session.tracker.get_or_insert_default().suspect(reading, text, &self.pool.names.known);
    }

    /// What raises the errors of a text that sets the pooler's own settings wrongly, to be run in front of it.
    fn raised(&mut self, reading: Reading, text: &[u8]) -> Remedy {
        if !reading.is_noted(false) || !own_settings::is_named_in(text) {
            return Remedy::new();
        }
        self.rules().map_or_else(Remedy::new, |rules| own_settings::raised(&Text::new(text, rules)))
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
            (&mut self.pool.names.known.askers, self.session.parameters.get(Tracked::APPLICATION_NAME));
        if asks {
            askers.add(application);
        }
        let matters = askers.any();
        let keeps = advances && (askers.has(application) || reading.draws() && matters);
        let misled = self.server.kept.sequences.mislead(self.conn, asks, !advances && self.is_first(), matters);
        let discards = misled && self.server.transaction.status != Status::Failed;
        if discards {
            self.server.kept.sequences.discarded();
        }
        if advances {
            self.server.kept.sequences.drawn(self.conn);
        }
        if keeps {
            self.session.tracker.get_or_insert_default().pinning.pin(Pins::SEQUENCE, text);
        }
        discards
    }

    /// Between two batches, by a message of its own: VACUUM and CREATE INDEX CONCURRENTLY, of which a word may look like that
    /// of a sequence's table, run in no batch with others.
    fn discard_apart(&mut self) -> bool {
        let ledger = &self.server.ledger;
        let between = self.server.transaction.status == Status::Idle && !ledger.awaits_own_ready() && !ledger.is_open();
        if between {
            self.stream.flush(self.server_id, self.actions);
            self.server.ledger.sent(Answerer::Mend, Expect::Query);
            self.server.statements.unnamed = session_state::unnamed::NONE;
            self.actions.send_new(self.server_id, |out| Query { text: DISCARD_SEQUENCES }.encode(out));
        }
        between
    }

    /// Nothing of the session has run on its server since it got it.
    fn is_first(&self) -> bool {
        let is_pinned = self.session.tracker.as_ref().is_some_and(|tracker| tracker.pinning.is_pinned());
        self.server.transaction.status == Status::Idle && !self.server.ledger.awaits_ready() && !is_pinned
    }

    fn marked(&mut self, text: &[u8], reading: Reading) -> Arc<Marked> {
        Arc::new(Marked { text: text.into(), reading, effects: self.effects(text).of_first() })
    }

    pub fn effects(&mut self, text: &[u8]) -> Effects {
        match self.rules() {
            Some(rules) => Effects::read(&Text::new(text, rules), &self.caches.tracked),
            None => Effects::default(),
        }
    }

    /// Whose rights what follows runs with may not be known any more, until the transaction ends.
    #[inline]
    fn note_local_rights(&mut self, reading: Reading) {
        if self.server.transaction.local_rights && self.server.is_clean() {
            self.server.transaction.local_rights = false;
        }
        self.server.transaction.local_rights |= reading.may_have_local_rights();
    }

    pub fn rules(&mut self) -> Option<Rules> {
        let parameters = Arc::clone(self.meant());
        self.caches.reader.rules(&parameters)
    }

    /// What has to come in front of a text that names statements. `None`: not before what is under way has been answered.
    pub fn remedy(&mut self, reading: Reading, effects: &Effects, text: &[u8]) -> Option<Remedy> {
        if effects.iter().filter_map(Effect::statement).any(|name| name.starts_with(prepared::RESERVED)) {
            return Some(vec![REFUSE_NAME.to_vec()]);
        }
        let names = self.session.statements.names.as_deref();
        let is_changing = |name: &[u8]| names.is_some_and(|names| names.is_changing(name));
        if self.server.ledger.awaits_ready() && effects.iter().filter_map(Effect::statement).any(is_changing) {
            // What it is depends on whether a batch under way fails, of which the rest is skipped.
            self.call_for_answers();
            return None;
        }
        let tracker = self.session.tracker.get_or_insert_default();
        let (known, seen) = (&self.pool.names.known, Seen::by(reading, text));
        let remedy = settled(self.server, |on_server| tracker.remedy(effects, names, on_server, known, &seen));
        let Some(mut remedy) = remedy else {
            self.call_for_answers();
            return None;
        };
        if !pacing::paces(self, &mut remedy) {
            return None;
        }
        let mut discards = false;
        let executed =
            effects.iter().filter_map(|effect| if let Effect::Execute(name) = effect { Some(name) } else { None });
        for name in executed.collect::<BTreeSet<_>>() {
            let text = self.session.tracker.as_ref().and_then(|tracker| tracker.prepared_text(name));
            let Some(text) = text else { continue };
            let reading = self.read_text(Some(&text));
            self.suspect(reading, &text);
            discards |= self.sequences(reading, &text);
        }
        if discards {
            remedy.push(DISCARD_SEQUENCES.to_vec());
        }
        Some(remedy)
    }

    fn note(&mut self, expect: Expect, mut effects: Effects, text: &[u8]) {
        if self.server.ledger.sent_noted(expect) {
            self.add_executed(&mut effects);
            self.session.tracker.get_or_insert_default().sent(effects, text);
        }
    }

    /// Runs statements in front of the client's next message. They are part of its transaction.
    pub fn run_aside(&mut self, remedy: &Remedy) {
        for text in remedy {
            if **text == *DISCARD_SEQUENCES || **text == *REFUSE_NAME || own_settings::is_raised(text) {
                self.server.kept.on_server.changes_nothing();
            }
            self.stream.flush(self.server_id, self.actions);
            if std::mem::take(&mut self.server.traces.aside_failed) {
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
