//! Named prepared statements in transaction and statement mode: a client's names, and one name a text on servers.
//!
//! A client's statement is known by a 128-bit digest of its text and parameter types, keyed by a secret of the process; its name on
//! every server derives from that, so nobody can tell it from a text, and clients that prepare the same text share it, and a server that comes from another worker is understood.
//! A server that lacks a statement gets it prepared right before it is used; each server keeps the most recently used `max_prepared_statements`.
//!
//! //= pgbouncer config.md#max_prepared_statements

mod constants;
mod dated;
mod moving;
mod on_server;
mod synonyms;

use std::cell::{Cell, OnceCell};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use sql::Rules;
use units::limits;
use wire::frontend::Parse;

use crate::catalogue::Known;
use crate::parameters::Parameters;
use crate::shape::{self, Fingerprint, Shape};
use crate::state::{self, Effect, KnownRow, Note, Reader, Reading, Sketch};
use crate::unnamed::Version;
use constants::Constants;

pub use moving::{MovedNames, MovedUnnamed};
pub use on_server::PreparedOnServer;
use synonyms::Synonyms;

/// The digest that stands for a statement everywhere. Bytes need no alignment, so what holds one stays small: a server's ledger has
/// an entry for each message.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct StatementId([u8; 16]);

impl From<u128> for StatementId {
    fn from(number: u128) -> StatementId {
        StatementId(number.to_be_bytes())
    }
}

impl StatementId {
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// In 32 hexadecimal digits.
impl fmt::Display for StatementId {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// A statement's text and types, shared by all clients of a worker that use it.
#[derive(Debug)]
pub struct Statement {
    pub id: StatementId,
    pub name: Box<[u8]>,
    query: Box<[u8]>,
    types: Box<[u8]>,
    sketch: Sketch,
    /// What it returns is not its own to say.
    pub varies: bool,
    /// A constant in it has the moment at which it was prepared: it is not shared.
    pub is_dated: bool,
    pub constants: Constants,
}

impl Statement {
    fn new(id: StatementId, parse: &Parse<'_>, read_by: Option<&Arc<Parameters>>, sketch: Sketch) -> Statement {
        let name = format!("pgweir_{id}").into_bytes().into();
        let (varies, is_dated) = (shape::varies(parse.query), dated::has_dated_constant(parse.query));
        let (query, types, constants) = (parse.query.into(), parse.types.into(), Constants::new(parse.query, read_by));
        Statement { id, name, query, types, sketch, varies, is_dated, constants }
    }

    pub fn query(&self) -> &[u8] {
        &self.query
    }

    pub fn marks(&self) -> sql::Marks {
        self.sketch.marks
    }

    /// Its columns are those of a statement that it names.
    pub fn executes(&self) -> bool {
        self.sketch.marks.any(sql::Marks::EXECUTE)
    }

    pub fn reading(&self, known: &Known) -> Reading {
        self.sketch.reading(known)
    }

    /// The Parse message that makes it known to a server.
    pub fn write_parse(&self, out: &mut Vec<u8>) {
        self.write_parse_as(&self.types, out);
    }

    /// As [`Statement::write_parse`], with the types that its parameters were found to have.
    pub fn write_parse_as(&self, types: &[u8], out: &mut Vec<u8>) {
        Parse { name: &self.name, query: &self.query, types }.encode(out);
    }

    /// Bytes of its text, its types and its name on servers.
    pub fn len(&self) -> usize {
        self.query.len() + self.types.len() + self.name.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Which statement a Parse message means, where `meaning` are the settings that decide what its text means: constants
/// are read, and names looked up, when it is parsed.
/// `generation`: which of the tables and types that its names mean: a client that prepares a text after they were changed
/// must not get what another prepared before.
pub fn identify<'m>(
    secret: &[u8],
    parse: &Parse<'_>,
    meaning: impl Iterator<Item = Option<&'m [u8]>>,
    generation: u64,
) -> StatementId {
    let mut digest = Sha256::new();
    digest.update(secret);
    digest.update(generation.to_be_bytes());
    for value in meaning {
        digest.update((value.map_or(u64::MAX, |value| value.len() as u64)).to_be_bytes());
        digest.update(value.unwrap_or_default());
    }
    digest.update((parse.query.len() as u64).to_be_bytes());
    digest.update(parse.query);
    digest.update(parse.types);
    let digest = digest.finalize();
    let half: [u8; 16] = digest[..16].try_into().expect("a SHA-256 digest has 32 bytes");
    StatementId(half)
}

/// One copy of each statement on a worker.
#[derive(Debug, Default)]
pub struct Catalog {
    /// What names depend on: the same on all workers, since servers are lent with what they have prepared.
    secret: Box<[u8]>,
    statements: BTreeMap<StatementId, Arc<Statement>>,
    sweep_at: usize,
    /// The last one given out.
    version: Version,
}

impl Catalog {
    pub fn set_secret(&mut self, secret: &[u8]) {
        self.secret = secret.into();
    }

    pub fn secret(&self) -> &[u8] {
        &self.secret
    }

    /// Names one more unnamed statement.
    pub fn next_version(&mut self) -> Version {
        self.version += 1;
        self.version
    }

    /// `read_by`: the parameters by which its server reads it.
    pub fn intern(
        &mut self,
        id: StatementId,
        parse: &Parse<'_>,
        read_by: Option<&Arc<Parameters>>,
        sketch: impl FnOnce() -> Sketch,
    ) -> Arc<Statement> {
        if let Some(known) = self.statements.get(&id) {
            return Arc::clone(known);
        }
        if self.statements.len() >= self.sweep_at {
            self.statements.retain(|_, statement| Arc::strong_count(statement) > 1);
            self.sweep_at = 256 + 2 * self.statements.len();
        }
        let statement = Arc::new(Statement::new(id, parse, read_by, sketch()));
        self.statements.insert(id, Arc::clone(&statement));
        statement
    }
}

/// One client's names.
///
/// They change when a Parse or a Close is sent, so that what follows in the pipeline finds them; an error may make
/// PostgreSQL skip those messages, and then the changes are taken back, newest first.
#[derive(Debug, Default)]
pub struct StatementNames {
    names: BTreeMap<Arc<[u8]>, Named>,
    /// The same the other way round.
    synonyms: Synonyms,
    /// Changes whose messages are not answered yet, oldest first, in the order of the server's ledger.
    pending: VecDeque<NameChange>,
    bytes: usize,
    /// What `pending` keeps besides: names, and texts that may come back.
    pending_bytes: usize,
    /// Names whose shapes have been requested, in the order of the server's ledger.
    shapes_requested: VecDeque<Box<[u8]>>,
    pub trial: Option<Box<Trial>>,
    /// Names that are not here are the server's: the session keeps it.
    pub passes: bool,
}

/// What a client's name stands for.
#[derive(Clone, Debug)]
pub struct Named {
    pub statement: Arc<Statement>,
    /// What it was when the client prepared it, or used it first; `None`: not known yet.
    shape: Option<Shape>,
    /// Its shape has been asked for.
    pub shape_requested: bool,
    /// Once SQL's EXECUTE has named it.
    in_sql: InSql,
    /// The side effects of its words when its client used it last.
    note: Cell<Note>,
    /// Its row in the statistics, once its client has used it.
    pub row: Cell<KnownRow>,
}

/// A statement of the protocol that SQL's EXECUTE names: made once, since one packet may name it thousands of times.
#[derive(Clone, Debug, Default)]
struct InSql {
    /// PREPARE of it.
    text: OnceCell<Arc<[u8]>>,
    /// What EXECUTE does, where its text is read by these rules.
    run: OnceCell<(Rules, Effect)>,
}

impl Named {
    pub fn fingerprint(&self) -> Fingerprint {
        self.shape.as_ref().map_or(shape::UNKNOWN, Shape::fingerprint)
    }

    pub fn shape(&self) -> Option<&Shape> {
        self.shape.as_ref()
    }

    /// What the statement does, as far as a pool knows.
    #[inline]
    pub fn reading(&self, reader: &mut Reader, known: &mut Known) -> Reading {
        reader.reading_of(&self.statement.sketch, &self.note, known)
    }
}

/// A statement that somebody else has prepared, perhaps before its tables were changed, is used by its client for the first
/// time: if that fails, it is prepared anew, and the client's messages are sent again.
#[derive(Debug)]
pub struct Trial {
    /// What it was tried for.
    pub name: Box<[u8]>,
    /// The client's messages, from that one on.
    pub bytes: Vec<u8>,
}

#[derive(Debug)]
struct NameChange {
    name: Box<[u8]>,
    before: Option<Named>,
}

impl NameChange {
    fn len(&self) -> usize {
        self.name.len() + self.before.as_ref().map_or(0, |before| before.statement.len())
    }
}

impl StatementNames {
    pub fn get(&self, name: &[u8]) -> Option<&Arc<Statement>> {
        self.names.get(name).map(|named| &named.statement)
    }

    /// The client's name of a statement; one of its names if it has several. The message that is being answered came
    /// before the changes under way: a name that is being closed still counts, and one that is being prepared counts last.
    pub fn of_statement(&self, id: StatementId) -> Option<&[u8]> {
        let closing = |change: &NameChange| change.before.as_ref().is_some_and(|before| before.statement.id == id);
        let closed = || self.pending.iter().find(|change| closing(change)).map(|change| &*change.name);
        let settled = self.synonyms.names_of(id).find(|name| !self.is_changing(name));
        settled.or_else(closed).or_else(|| self.synonyms.names_of(id).next())
    }

    /// Whether the client has several names for one statement.
    #[inline]
    pub fn has_synonyms(&self) -> bool {
        self.synonyms.are_any()
    }

    /// The statement of this name, and the name as it is kept.
    pub fn kept_name(&self, name: &[u8]) -> Option<(StatementId, Arc<[u8]>)> {
        let (name, named) = self.names.get_key_value(name)?;
        Some((named.statement.id, Arc::clone(name)))
    }

    /// A statement, and the PREPARE that makes SQL's EXECUTE find it.
    pub(crate) fn in_sql(&self, name: &[u8]) -> Option<(&Arc<Statement>, &Arc<[u8]>)> {
        let named = self.names.get(name)?;
        let text = || state::prepare_of_protocol(name, named.statement.query());
        Some((&named.statement, named.in_sql.text.get_or_init(text)))
    }

    /// What EXECUTE of a statement does, where its text is read by `rules`.
    pub(crate) fn executed(&self, name: &[u8], rules: Rules, run: impl Fn(&Statement) -> Effect) -> Option<Effect> {
        let named = self.names.get(name)?;
        let (read_by, effect) = named.in_sql.run.get_or_init(|| (rules, run(&named.statement)));
        Some(if *read_by == rules { effect.clone() } else { run(&named.statement) })
    }

    pub fn named(&self, name: &[u8]) -> Option<&Named> {
        self.names.get(name)
    }

    /// What this name stands for was asked for.
    pub fn request_shape(&mut self, name: &[u8]) {
        if let Some(named) = self.names.get_mut(name) {
            named.shape_requested = true;
        }
        self.pending_bytes += name.len();
        self.shapes_requested.push_back(name.into());
    }

    /// The oldest question was answered: a statement has this shape. `None`: nobody knows.
    pub fn described(&mut self, found: Option<(StatementId, &Shape)>) {
        let Some(name) = self.shapes_requested.pop_front() else { return };
        self.pending_bytes -= name.len();
        let Some(named) = self.names.get_mut(&*name) else { return };
        named.shape_requested = false;
        if let Some((statement, shape)) = found
            && named.statement.id == statement
            && named.shape.is_none()
        {
            named.shape = Some(shape.clone());
        }
    }

    /// What this name stands for is taken to be this, or to be found out.
    pub fn take_for(&mut self, name: &[u8], shape: Option<Shape>) {
        if let Some(named) = self.names.get_mut(name) {
            named.shape = shape;
        }
    }

    /// A Parse is sent. False: the client keeps too much already.
    pub fn insert(&mut self, name: &[u8], statement: Arc<Statement>) -> bool {
        let count = self.names.len() + self.pending.len();
        if !self.has_room(2 * name.len() + statement.len()) || count >= limits::STATEMENTS_PER_CLIENT_MAX {
            return false;
        }
        let before = self.set(
            name,
            Some(Named {
                statement,
                shape: None,
                shape_requested: false,
                in_sql: InSql::default(),
                note: Cell::default(),
                row: Cell::default(),
            }),
        );
        self.push(NameChange { name: name.into(), before });
        true
    }

    /// A Close is sent. False: the client keeps too much already, and changes wait for answers.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        if !self.pending.is_empty() && !self.has_room(name.len()) {
            return false;
        }
        let before = self.set(name, None);
        self.push(NameChange { name: name.into(), before });
        true
    }

    fn has_room(&self, len: usize) -> bool {
        self.bytes + self.pending_bytes + len <= limits::STATEMENT_BYTES_PER_CLIENT_MAX
    }

    fn push(&mut self, change: NameChange) {
        self.pending_bytes += change.len();
        self.pending.push_back(change);
    }

    /// The oldest Parse or Close under way was answered.
    pub fn answered(&mut self) {
        let change = self.pending.pop_front();
        debug_assert!(change.is_some(), "each answer has its change");
        self.pending_bytes -= change.map_or(0, |change| change.len());
    }

    /// The oldest `count` messages under way were skipped.
    pub fn undo(&mut self, count: usize) {
        let mut skipped: Vec<NameChange> = self.pending.drain(..count.min(self.pending.len())).collect();
        while let Some(change) = skipped.pop() {
            // A later batch may have changed the name again: then that one is undone to what was before this.
            match self.pending.iter_mut().find(|later| later.name == change.name) {
                Some(later) => later.before = change.before,
                None => drop(self.set(&change.name, change.before)),
            }
        }
        self.weigh_pending();
    }

    /// None of the messages under way will be answered.
    pub fn undo_all(&mut self) {
        self.trial = None;
        while !self.shapes_requested.is_empty() {
            self.described(None);
        }
        self.undo(self.pending.len());
    }

    /// The client discarded all its statements. What it has sent since is not answered yet, and stays.
    pub fn discard(&mut self) {
        self.passes = false;
        let sent_since: Vec<Box<[u8]>> = self.pending.iter().map(|change| change.name.clone()).collect();
        let is_gone = |name: &Arc<[u8]>| !sent_since.iter().any(|sent| **sent == **name);
        let gone: Vec<Arc<[u8]>> = self.names.keys().filter(|name| is_gone(name)).cloned().collect();
        gone.iter().for_each(|name| drop(self.set(name, None)));
        let mut seen: Vec<&[u8]> = Vec::new();
        for change in &mut self.pending {
            if !seen.contains(&&*change.name) {
                change.before = None;
                seen.push(&change.name);
            }
        }
        self.weigh_pending();
    }

    fn weigh_pending(&mut self) {
        let asked: usize = self.shapes_requested.iter().map(|name| name.len()).sum();
        self.pending_bytes = asked + self.pending.iter().map(NameChange::len).sum::<usize>();
    }

    /// SQL's DEALLOCATE of one statement was carried out.
    pub(crate) fn deallocated(&mut self, name: &[u8]) {
        if !self.is_changing(name) {
            self.set(name, None);
        }
    }

    /// Whether a Parse or Close of this name is under way.
    pub fn is_changing(&self, name: &[u8]) -> bool {
        self.pending.iter().any(|change| *change.name == *name)
    }

    fn set(&mut self, name: &[u8], named: Option<Named>) -> Option<Named> {
        match named {
            Some(named) => {
                self.bytes += name.len() + named.statement.len();
                let (name, id): (Arc<[u8]>, _) = (name.into(), named.statement.id);
                let before = self.names.insert(Arc::clone(&name), named);
                self.forget_statement(&name, before.as_ref());
                self.synonyms.insert(id, name);
                before
            }
            None => {
                let (name, before) = self.names.remove_entry(name)?;
                self.forget_statement(&name, Some(&before));
                Some(before)
            }
        }
    }

    /// A name does not stand for this any more.
    fn forget_statement(&mut self, name: &Arc<[u8]>, before: Option<&Named>) {
        if let Some(before) = before {
            self.bytes -= name.len() + before.statement.len();
            self.synonyms.remove(before.statement.id, name);
        }
    }

    pub fn len(&self) -> usize {
        self.names.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What the names of statements on servers begin with.
pub const RESERVED: &[u8] = b"pgweir_";

/// The name that a statement has on servers, for closing it.
pub fn server_name(id: StatementId) -> String {
    format!("pgweir_{id}")
}

/// One that nobody else has.
#[cfg(test)]
pub(crate) fn statement_for_tests(parse: &Parse<'_>) -> Arc<Statement> {
    let id = identify(b"", parse, std::iter::empty(), 0);
    Catalog::default().intern(id, parse, None, Sketch::default)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(parse: &Parse<'_>) -> StatementId {
        identify(b"", parse, [].into_iter(), 0)
    }

    fn intern(catalog: &mut Catalog, parse: &Parse<'_>) -> Arc<Statement> {
        catalog.intern(id(parse), parse, None, Sketch::default)
    }

    fn parse(query: &'static [u8], types: &'static [u8]) -> Parse<'static> {
        Parse { name: b"whatever", query, types }
    }

    #[test]
    fn text_and_types_tell_statements_apart() {
        let plain = id(&parse(b"select 1", b"\0\0"));
        assert_eq!(plain, id(&Parse { name: b"", query: b"select 1", types: b"\0\0" }));
        assert_ne!(plain, id(&parse(b"select 1", b"\0\x01\0\0\0\x17")));
        assert_ne!(plain, id(&parse(b"select 2", b"\0\0")));
        assert_ne!(id(&parse(b"ab", b"c")), id(&parse(b"a", b"bc")));
        let keyed = |secret, value: Option<&'static [u8]>| {
            identify(&[secret; 32], &parse(b"select 1", b"\0\0"), [value].into_iter(), 0)
        };
        let with = |value| keyed(0, value);
        assert_ne!(keyed(1, None), with(None), "nobody can tell a name from a text");
        assert_ne!(with(Some(b"ISO, MDY")), with(Some(b"ISO, DMY")));
        assert_ne!(with(None), with(Some(b"")));
    }

    #[test]
    fn a_client_keeps_no_more_than_its_share() {
        let mut names = StatementNames::default();
        let mut catalog = Catalog::default();
        let big = vec![b'x'; 256 * 1024];
        let mut kept = 0;
        while names.insert(
            format!("s{kept}").as_bytes(),
            intern(&mut catalog, &Parse { name: b"", query: &big, types: b"\0\0" }),
        ) {
            kept += 1;
        }
        assert!(kept >= 60 && kept * big.len() <= limits::STATEMENT_BYTES_PER_CLIENT_MAX);
        (0..kept).for_each(|_| names.answered());
        for number in 0..kept {
            assert!(names.remove(format!("s{number}").as_bytes()));
            names.answered();
        }
        assert_eq!((names.len(), names.bytes, names.pending_bytes), (0, 0, 0));
    }

    #[test]
    fn changes_that_wait_for_answers_are_part_of_its_share() {
        let mut names = StatementNames::default();
        let long = |number: usize| format!("{number:010000}").into_bytes();
        let sent = (0..).take_while(|&number| names.remove(&long(number))).count();
        assert!(sent > 1000 && sent * long(0).len() <= limits::STATEMENT_BYTES_PER_CLIENT_MAX, "{sent}");
        let mut catalog = Catalog::default();
        assert!(!names.insert(&long(0), intern(&mut catalog, &parse(b"select 1", b"\0\0"))));
        names.undo(1);
        assert!(names.remove(&long(0)));
        names.undo_all();
        assert_eq!((names.len(), names.bytes, names.pending_bytes), (0, 0, 0));
    }

    #[test]
    fn skipped_messages_are_taken_back_newest_first() {
        let (mut names, mut catalog) = (StatementNames::default(), Catalog::default());
        let one = intern(&mut catalog, &parse(b"select 1", b"\0\0"));
        let two = intern(&mut catalog, &parse(b"select 2", b"\0\0"));
        names.insert(b"s", Arc::clone(&one));
        names.answered();
        names.remove(b"s");
        names.insert(b"s", two);
        names.undo(2);
        assert_eq!(names.get(b"s").map(|statement| statement.id), Some(one.id));
        names.remove(b"s");
        names.insert(b"s", Arc::clone(&one));
        names.undo(1);
        names.undo_all();
        assert_eq!(names.get(b"s").map(|statement| statement.id), Some(one.id));
    }

    #[test]
    fn what_is_sent_behind_a_discard_stays() {
        let (mut names, mut catalog) = (StatementNames::default(), Catalog::default());
        let one = intern(&mut catalog, &parse(b"select 1", b"\0\0"));
        names.insert(b"old", Arc::clone(&one));
        names.answered();
        names.insert(b"new", one);
        names.discard();
        assert!(names.get(b"old").is_none() && names.get(b"new").is_some());
        names.undo_all();
        assert_eq!((names.len(), names.bytes, names.pending_bytes), (0, 0, 0));
    }
}
