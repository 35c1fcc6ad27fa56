//! A transaction block whose server is lost: the pooler answers in the server's place, as PostgreSQL does in a block that has failed, until the
//! client ends the block.
//!
//! Promises: no message of the block reaches a server. Only ROLLBACK, COMMIT and other statements that end a block have an effect.
//! The rest of a text that begins with one is sent to a server. Differences from PostgreSQL: a savepoint is gone, a block cannot be chained to
//! another, and a text or a statement is not parsed, so a syntax error in it is not found.
//!
//! ```text
//!   Query      ROLLBACK, COMMIT, END, ABORT, PREPARE TRANSACTION: `ROLLBACK`, I      nothing: EmptyQueryResponse, E     else 25P02, E
//!   Parse      of one of these, or nothing: ParseComplete                            else 25P02, and skips to the Sync
//!   Bind       of such a statement: BindComplete                                     else the same
//!   Describe   of such a statement or portal: NoData                                 else the same
//!   Execute    of such a portal: `ROLLBACK`                                          else the same
//!   Close      CloseComplete          Sync  ReadyForQuery E          Flush and COPY's messages  nothing          FunctionCall  25P02, E
//! ```
//!
//! //= pg18 protocol-flow#PROTOCOL-FLOW-EXT-QUERY
//! //= pg18 protocol-flow#PROTOCOL-COPY
//! //= pg18 protocol-flow#PROTOCOL-FLOW-FUNCTION-CALL

use std::collections::BTreeMap;
use std::sync::Arc;

use machine::action::Actions;
use session_state::prepared;
use session_state::state::State;
use sql::{Kind, Text};
use units::{ConnId, limits};
use wire::backend::{ErrorResponse, Status};
use wire::frontend::{BindNames, Close, Describe, Execute, Parse, Target, tag};
use wire::{HEADER_LEN, Header, SqlState, backend, sqlstate};

use crate::caches::Caches;
use crate::end_reason::EndReason;
use crate::ending::{Ending, checked_header};
use crate::loss::Told;
use crate::malformed;
use crate::pool::Pool;
use crate::request_refusal::RequestRefusal;
use crate::session::{Rest, Session};
use crate::texts;

/// The part of a lost block that is kept until its client ends it.
#[derive(Debug)]
pub struct LostBlock {
    told: Told,
    /// The error about the loss, an ErrorResponse: the first request that fails gets it.
    error: Box<[u8]>,
    /// ParameterStatus messages: what the rollback has changed and the client does not know yet.
    reports: Vec<u8>,
    /// Statements that were prepared within the block; `portals`: those that were bound.
    statements: BTreeMap<Box<[u8]>, Meaning>,
    portals: BTreeMap<Box<[u8]>, Meaning>,
}

/// The effect of a statement in a lost block.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Meaning {
    Empty,
    /// ROLLBACK or ABORT.
    Rollback,
    /// COMMIT, END or PREPARE TRANSACTION: an error if the client does not know yet that nothing is left to commit.
    Commit,
    /// ROLLBACK AND CHAIN or COMMIT AND CHAIN: there is no server on which another block could begin.
    Chain,
    RollbackTo(String),
    Other,
}

impl Meaning {
    /// PostgreSQL parses and binds it in a block that has failed.
    fn ends_block(&self) -> bool {
        !matches!(self, Meaning::Empty | Meaning::Other)
    }
}

/// How far a client's bytes were read.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// The bytes from here on are an incomplete message.
    Incomplete(usize),
    /// The block is over, and the bytes from here on are an ordinary session's.
    Over(usize),
}

/// Whether the block is over after a message.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Block {
    Goes,
    Over,
}

/// The messages of a session in such a block.
pub struct Reader<'a> {
    pub conn: ConnId,
    pub session: &'a mut Session,
    pub block: &'a mut LostBlock,
    pub pool: &'a mut Pool,
    pub caches: &'a mut Caches,
    pub actions: &'a mut Actions,
    /// Planted: a savepoint is taken to be there.
    pub keeps_savepoints: bool,
}

impl LostBlock {
    #[must_use]
    pub fn new(told: Told, error: Vec<u8>, reports: Vec<u8>) -> LostBlock {
        LostBlock { told, error: error.into(), reports, statements: BTreeMap::new(), portals: BTreeMap::new() }
    }
}

impl Reader<'_> {
    /// Answers messages until the block is over, or one is incomplete. The text behind the end of the block stays in its message.
    pub fn read(&mut self, bytes: &mut [u8]) -> Result<Read, Ending> {
        let mut at = 0;
        loop {
            let skip = self.session.incoming.skip as usize;
            if skip > 0 {
                let count = skip.min(bytes.len() - at);
                self.session.incoming.skip -= count as u32;
                at += count;
                if count < skip {
                    return Ok(Read::Incomplete(at));
                }
            }
            let Some(header) = checked_header(&bytes[at..])? else { return Ok(Read::Incomplete(at)) };
            if header.tag == tag::TERMINATE {
                return Err(Ending::Terminate);
            }
            let end = at + header.total_len();
            let is_whole = bytes.len() >= end;
            if !self.passes_over(header) && !is_whole && !is_enough(header, &bytes[at..])? {
                return Ok(Read::Incomplete(at));
            }
            let last = end.min(bytes.len());
            if let Some(block) = self.leftover(header, &mut bytes[at..last], is_whole) {
                debug_assert!(block == Block::Over, "what is left of a text comes after the end of the block");
                return Ok(Read::Over(at));
            }
            let block = if self.passes_over(header) {
                Block::Goes
            } else {
                self.message(header, &bytes[at + HEADER_LEN..last])
            };
            (self.session.incoming.skip, self.session.incoming.rest) = ((end - last) as u32, Rest::Discard);
            at = last;
            if block == Block::Over {
                return Ok(Read::Over(at));
            }
        }
    }

    /// Whether a message has no effect and no answer in a lost block.
    fn passes_over(&self, header: Header) -> bool {
        let is_ignored = matches!(header.tag, tag::COPY_DATA | tag::COPY_DONE | tag::COPY_FAIL | tag::FLUSH);
        is_ignored && !malformed::has_surplus(header) || self.session.incoming.skipping && header.tag != tag::SYNC
    }

    /// A text with more statements after the end of the block: the end is answered and blanked, and the rest is to be sent.
    fn leftover(&mut self, header: Header, message: &mut [u8], is_whole: bool) -> Option<Block> {
        if header.tag != tag::QUERY || !is_whole || self.session.incoming.skipping {
            return None;
        }
        let text = message[HEADER_LEN..].strip_suffix(b"\0")?;
        let rules = self.caches.reader.rules(texts::parameters(self.session)).unwrap_or_default();
        let parsed = Text::new(text, rules);
        let mut statements = parsed.statements();
        let first = statements.next()?;
        let rest = statements.next()?.start;
        let meaning = meaning_of(&first.kind);
        if !matches!(meaning, Meaning::Rollback | Meaning::Commit) || self.owes_error_for(&meaning) {
            return None;
        }
        self.end(&meaning);
        message[HEADER_LEN..HEADER_LEN + rest].fill(b' ');
        Some(Block::Over)
    }

    /// COMMIT fails if the client has had no error in the block yet: it looks at no command tag.
    fn owes_error_for(&self, meaning: &Meaning) -> bool {
        *meaning == Meaning::Commit && self.block.told == Told::Nothing
    }

    /// Answers one message. `body`: as much as is at hand.
    fn message(&mut self, header: Header, body: &[u8]) -> Block {
        match header.tag {
            tag::SYNC => {
                self.session.incoming.skipping = false;
                self.session.statements.batch_ended();
                if malformed::has_surplus(header) {
                    self.send_error();
                }
                self.ready(Status::Failed)
            }
            tag::QUERY => self.query(body),
            tag::PARSE => self.parse(body),
            tag::BIND => self.bind(body),
            tag::DESCRIBE => self.describe(body),
            tag::EXECUTE => self.execute(body),
            tag::CLOSE => self.close(body),
            tag::FUNCTION_CALL => {
                self.send_error();
                self.ready(Status::Failed)
            }
            _ => self.refuse(),
        }
    }

    fn query(&mut self, body: &[u8]) -> Block {
        if let Some(unnamed) = &mut self.session.statements.unnamed {
            unnamed.forget();
        }
        self.block.statements.remove(&b""[..]);
        self.block.portals.remove(&b""[..]);
        let rules = self.caches.reader.rules(texts::parameters(self.session)).unwrap_or_default();
        let text = Text::new(body.strip_suffix(b"\0").unwrap_or(body), rules);
        let first = text.statements().next().map_or(Meaning::Empty, |first| meaning_of(&first.kind));
        // An error at the first statement ends the whole text.
        let meaning = if self.owes_error_for(&first) { first } else { meaning_of_text(&text) };
        match meaning {
            Meaning::Empty => self.actions.send_new(self.conn, backend::encode_empty_query),
            Meaning::Rollback | Meaning::Commit => {
                self.end(&meaning);
                return self.ready(Status::Idle);
            }
            Meaning::RollbackTo(_) if self.keeps_savepoints => {
                self.actions.send_new(self.conn, |out| backend::encode_command_complete(out, "ROLLBACK"));
                return self.ready(Status::InTransaction);
            }
            _ => self.send_error_or(&refusal_of(&meaning)),
        }
        self.ready(Status::Failed)
    }

    fn parse(&mut self, body: &[u8]) -> Block {
        let Ok(parse) = Parse::decode(body) else { return self.refuse() };
        let meaning = self.meaning(parse.query);
        if !meaning.ends_block() && meaning != Meaning::Empty {
            return self.refuse();
        }
        if parse.name.is_empty() {
            if let Some(unnamed) = &mut self.session.statements.unnamed {
                unnamed.forget();
            }
        } else if self.pool.rules().max_prepared_statements() > 0 && !self.prepare(&parse) {
            return self.refuse();
        }
        keep(&mut self.block.statements, parse.name, meaning);
        self.actions.send_new(self.conn, backend::encode_parse_complete);
        Block::Goes
    }

    /// The client's name lasts for longer than the block. False: it is taken, or the client has too many.
    fn prepare(&mut self, parse: &Parse<'_>) -> bool {
        let initial = State::default();
        let tracker = self.session.facts.tracker.as_ref();
        if tracker.is_some_and(|tracker| tracker.statements.has(parse.name)) || parse.name.len() > limits::NAME_LEN_MAX
        {
            return false;
        }
        let state = tracker.map_or(&initial, |tracker| tracker.state());
        let parameters = texts::parameters(self.session);
        let meaning = parameters.meaning().chain(state.meaning());
        let secret = self.caches.catalog.secret();
        let id = prepared::identify(secret, parse, meaning, self.pool.names.generation);
        let (catalog, reader) = (&mut self.caches.catalog, &mut self.caches.reader);
        let statement = catalog.intern(id, parse, Some(parameters), || reader.sketch(parse.query, parameters));
        let names = self.session.statements.names.get_or_insert_default();
        if names.get(parse.name).is_some() || !names.insert(parse.name, Arc::clone(&statement)) {
            return false;
        }
        names.answered();
        true
    }

    fn bind(&mut self, body: &[u8]) -> Block {
        let Some(names) = BindNames::decode(body) else { return self.refuse() };
        let meaning = self.statement(names.statement);
        match meaning {
            Some(meaning) if meaning.ends_block() => {
                keep(&mut self.block.portals, names.portal, meaning);
                self.actions.send_new(self.conn, backend::encode_bind_complete);
                Block::Goes
            }
            Some(_) => self.refuse(),
            None => self.refuse_with(&RequestRefusal::NoStatement { name: shown(names.statement) }),
        }
    }

    fn describe(&mut self, body: &[u8]) -> Block {
        let Ok(describe) = Describe::decode(body) else { return self.refuse() };
        let meaning = match describe.target {
            Target::Statement => self.statement(describe.name),
            Target::Portal => self.block.portals.get(describe.name).cloned(),
        };
        match meaning {
            Some(meaning) if meaning.ends_block() || meaning == Meaning::Empty => {}
            Some(_) => return self.refuse(),
            None => {
                let name = shown(describe.name);
                return self.refuse_with(&match describe.target {
                    Target::Statement => RequestRefusal::NoStatement { name },
                    Target::Portal => RequestRefusal::NoPortal { name },
                });
            }
        }
        self.actions.send_new(self.conn, |out| {
            if describe.target == Target::Statement {
                backend::encode_parameter_description(out, &[]);
            }
            backend::encode_no_data(out);
        });
        Block::Goes
    }

    fn execute(&mut self, body: &[u8]) -> Block {
        let Ok(execute) = Execute::decode(body) else { return self.refuse() };
        match self.block.portals.get(execute.portal).cloned() {
            Some(meaning @ (Meaning::Rollback | Meaning::Commit)) => {
                self.session.incoming.skipping = self.owes_error_for(&meaning);
                self.end(&meaning);
                Block::Over
            }
            Some(meaning) => self.refuse_with(&refusal_of(&meaning)),
            None => self.refuse_with(&RequestRefusal::NoPortal { name: shown(execute.portal) }),
        }
    }

    fn close(&mut self, body: &[u8]) -> Block {
        let Ok(close) = Close::decode(body) else { return self.refuse() };
        let block = &mut *self.block;
        match close.target {
            Target::Portal => _ = block.portals.remove(close.name),
            Target::Statement => {
                block.statements.remove(close.name);
                let tracker = self.session.facts.tracker.as_ref();
                if tracker.is_some_and(|tracker| tracker.statements.has(close.name)) {
                    // A server would have to close what SQL has prepared.
                    return self.refuse();
                }
                let statements = &mut self.session.statements;
                if close.name.is_empty() {
                    statements.unnamed.iter_mut().for_each(|unnamed| unnamed.forget());
                } else if let Some(names) = &mut statements.names {
                    names.remove(close.name);
                    names.answered();
                }
            }
        }
        self.actions.send_new(self.conn, backend::encode_close_complete);
        Block::Goes
    }

    /// The effect of the client's statement of this name, if there is one.
    fn statement(&mut self, name: &[u8]) -> Option<Meaning> {
        if let Some(meaning) = self.block.statements.get(name) {
            return Some(meaning.clone());
        }
        let statements = &self.session.statements;
        let rules = self.caches.reader.rules(texts::parameters(self.session)).unwrap_or_default();
        if name.is_empty() {
            let parse = statements.unnamed.as_ref()?.parse()?;
            return Some(meaning_of_text(&Text::new(parse.query, rules)));
        }
        let statement = statements.names.as_ref()?.get(name)?;
        Some(meaning_of_text(&Text::new(statement.query(), rules)))
    }

    fn meaning(&mut self, text: &[u8]) -> Meaning {
        let rules = self.caches.reader.rules(texts::parameters(self.session)).unwrap_or_default();
        meaning_of_text(&Text::new(text, rules))
    }

    /// The block ends: by an error if the client has had none in it, and would take what it sent for a commit.
    fn end(&mut self, meaning: &Meaning) {
        if self.owes_error_for(meaning) {
            self.send_error();
        } else {
            self.actions.send_new(self.conn, |out| backend::encode_command_complete(out, "ROLLBACK"));
        }
        self.report();
    }

    /// Before a ReadyForQuery, as PostgreSQL.
    fn report(&mut self) {
        let reports = std::mem::take(&mut self.block.reports);
        if !reports.is_empty() {
            self.actions.send_new(self.conn, |out| out.extend_from_slice(&reports));
        }
    }

    /// A message of the extended protocol fails: what comes before the next Sync is skipped.
    fn refuse(&mut self) -> Block {
        self.refuse_with(&RequestRefusal::AbortedBlock)
    }

    fn refuse_with(&mut self, refusal: &RequestRefusal) -> Block {
        self.send_error_or(refusal);
        self.session.incoming.skipping = true;
        Block::Goes
    }

    fn send_error(&mut self) {
        self.send_error_or(&RequestRefusal::AbortedBlock);
    }

    /// The first error is that about the loss.
    fn send_error_or(&mut self, refusal: &RequestRefusal) {
        let (conn, actions) = (self.conn, &mut *self.actions);
        if std::mem::replace(&mut self.block.told, Told::Lost) != Told::Lost {
            return actions.send_new(conn, |out| out.extend_from_slice(&self.block.error));
        }
        actions.send_new(conn, |out| write_refusal(refusal, out));
    }

    fn ready(&mut self, status: Status) -> Block {
        self.report();
        self.actions.send_new(self.conn, |out| backend::encode_ready(out, status));
        if status == Status::Idle { Block::Over } else { Block::Goes }
    }
}

/// Appends the error.
pub fn write_refusal(refusal: &RequestRefusal, out: &mut Vec<u8>) {
    let message = &refusal.to_string();
    ErrorResponse { severity: "ERROR", code: refusal.code(), message, detail: None, hint: None }.encode(out);
}

/// The server's own SQLSTATEs for its end, which are no error of the client's.
//= pg18 errcodes-appendix
#[must_use]
pub fn is_loss(code: SqlState) -> bool {
    let ends = [sqlstate::ADMIN_SHUTDOWN, sqlstate::CRASH_SHUTDOWN, sqlstate::CANNOT_CONNECT_NOW];
    code.class() == *b"08" || ends.contains(&code)
}

/// Whether a message that is not complete can be answered: by its names, or by the beginning of its text.
fn is_enough(header: Header, at_hand: &[u8]) -> Result<bool, Ending> {
    if at_hand.len() < limits::CHUNK_LEN_MAX {
        return Ok(false);
    }
    let is_bound = header.tag != tag::BIND || BindNames::decode(&at_hand[HEADER_LEN..]).is_some();
    if is_bound { Ok(true) } else { Err(Ending::Refuse(EndReason::BindNamesTooLong)) }
}

fn meaning_of_text(text: &Text<'_>) -> Meaning {
    let mut statements = text.statements();
    let Some(first) = statements.next() else { return Meaning::Empty };
    if statements.next().is_some() { Meaning::Other } else { meaning_of(&first.kind) }
}

fn meaning_of(kind: &Kind<'_>) -> Meaning {
    match kind {
        Kind::Rollback { chain: false } => Meaning::Rollback,
        Kind::Commit { chain: false } | Kind::PrepareTransaction => Meaning::Commit,
        Kind::Rollback { chain: true } | Kind::Commit { chain: true } => Meaning::Chain,
        Kind::RollbackTo(name) => Meaning::RollbackTo(String::from_utf8_lossy(&name.to_vec()).into_owned()),
        _ => Meaning::Other,
    }
}

/// Why a statement fails in it.
fn refusal_of(meaning: &Meaning) -> RequestRefusal {
    match meaning {
        Meaning::RollbackTo(name) => RequestRefusal::NoSavepoint { name: name.clone() },
        Meaning::Chain => RequestRefusal::NoChain,
        _ => RequestRefusal::AbortedBlock,
    }
}

fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// The number of statements that are kept has a bound. Beyond it all are forgotten: Bind and Execute of them fail.
fn keep(names: &mut BTreeMap<Box<[u8]>, Meaning>, name: &[u8], meaning: Meaning) {
    if names.len() >= limits::NAMES_COUNTED_MAX && !names.contains_key(name) || name.len() > limits::NAME_LEN_MAX {
        names.clear();
    }
    names.insert(name.into(), meaning);
}
