//! Side effects of a database's functions, triggers and views: what a text may do to its session that its words do not say.
//!
//! `sql` reads what a text says. It cannot say what a function that the text calls does inside, what a trigger does on the
//! table that it writes to, what a view computes. So a server is asked, once and then whenever [`POLL`] says that
//! something changed, for all bodies and for which object depends on which ([`QUERY`]); [`CatalogueBuilder`] makes of the rows
//! a [`Catalogue`]; and that tells which side effects a text's words may have ([`SideEffects`]).
//!
//! ```text
//!   QUERY ──rows──► CatalogueBuilder ──finish──► Catalogue ──side_effects(words)──► SideEffects
//! ```
//!
//! # What it promises
//!
//! A text without side effects touches the session only as it says. Read are bodies in PL/pgSQL and SQL, and what
//! meets functions without a call: triggers, rules and views, defaults, identity and generated columns, CHECK constraints,
//! domains, indices, partition keys, policies, casts, aggregates, operators and operator classes, partitions and other
//! children, foreign keys that change the other table, event triggers. Other languages cannot be read and are
//! [`SideEffects::UNKNOWN`], as are functions in C but those of extensions that were looked through.
//!
//! Names are compared, not objects: what is found is too much rather than too little.
//!
//! # What it does not do
//!
//! * A function replaced past the pooler is seen at the next poll, and servers are reset then
//!   (`worker/src/servers/name_answers.rs`); what the pooler's own clients define all pools of the database learn before it is
//!   sent (`link/src/announcing.rs`). A session's own temporary functions and tables' triggers are
//!   seen at the next poll, if at all; but a session that has those is pinned anyway.
//! * A C function that a cast, an operator or a type's own functions call is taken for harmless if it is not known: nothing
//!   in a text names it, so all texts would be suspect. So are extended statistics, and what decodes a replication slot.
//! * A name beyond ASCII is found by its bytes: in a text in the encoding in which the catalogue was read.
//! * An operator has no word. If one has a side effect that is known, every text has it.
//! * What a deferred trigger does, it does at COMMIT: a text's side effects are to be expected until its transaction has ended.
//! * The text of a prepared statement names what EXECUTE of it does: the session that prepares it must remember its side effects. And a
//!   cursor does at FETCH what its DECLARE names.
//!
//! # What it costs
//!
//! Measured on PostgreSQL 15.18 over a Unix socket, everything in memory, two cores that others used too:
//!
//! ```text
//!                                                           QUERY    rows     building     POLL     kept
//!   5,000 functions of 1.4 kB, 2,000 tables, 2,000 views   200 ms   14,999   180 ms     27 ms   137 kB
//!   what PostgreSQL's regression scripts leave behind       28 ms    1,533     2 ms      5 ms     3 kB
//! ```
//!
//! A body of 1.4 kB takes 35 µs to be read, and each row is read by itself: so nobody waits for the whole. What flows
//! along the edges in the end takes 8 ms in the first of these, one time.
//!
//! [`Catalogue::side_effects`] looks at one bit for a word that is no name here: 40 ns for a text of seven words.

mod body;
mod built_in;
mod currval_callers;
mod defined;
mod definition;
mod known;
mod mentions;
mod news;
mod reading;
mod row;
mod schedule;
mod statement;
mod timetable;

#[cfg(test)]
mod tests;

pub use crate::side_effects::SideEffects;
pub use definition::Definition;
pub use definition::{Announcement, What, of_tag};
pub use known::CatalogueProgress;
pub use known::{Edition, Known, Next, Unanswered};
pub use news::News;
pub use reading::CatalogueBuilder;
pub use row::{Land, Row, Take};
pub use schedule::{Question, counts_changes};

use std::time::Duration;

use body::Body;
use reading::Finding;
use sql::Word;

/// Asks a server for everything that a [`CatalogueBuilder`] needs, as text, by a simple Query on a connection to the database in
/// question. Wants no rights. Takes no lock on anything but PostgreSQL's own catalogues, so it waits for nobody: stored
/// trees are searched for numbers rather than printed. Operators alone are written without their schema: where search_path
/// names `pg_catalog` behind a schema in which others may make operators, set it otherwise before. For PostgreSQL 13 and
/// later.
pub const QUERY: &str = include_str!("query.sql");

/// One row of two values that change when the catalogue should be read anew: a count, and a sum of hashes. Temporary
/// objects have no say in it. Transaction numbers wrap around, so their greatest would not tell. Each object's number and its
/// transaction's are hashed one after the other: PostgreSQL's hash of an int8 is that of its two halves XORed, and both numbers
/// are counted up side by side.
pub const POLL: &str = include_str!("poll.sql");

/// One row: a sum of PostgreSQL's counts of rows changed in its catalogues, and whether it counts. It changes some time after
/// anything else than a plain temporary table was defined. For PostgreSQL 15 and later.
pub const GLANCE: &str = include_str!("glance.sql");

/// How long PostgreSQL may take for one of them: [`PREFIX`] says so.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// What each is sent behind, in one Query, since a server may be asked that has a session's settings: names that the
/// session's encoding has not would be an error, an operator of somebody else's could be found first, the application may
/// allow its own statements another time, and without hash joins the answer takes minutes. So does a nested loop, which PostgreSQL
/// chooses for many objects of which it has no statistics yet; where there is no other way it takes one all the same, at a cost for which it
/// would compile the query for a second.
pub const PREFIX: &str = "SET LOCAL client_encoding = 'UTF8'; SET LOCAL search_path = pg_catalog; \
SET LOCAL statement_timeout = 10000; \
SET LOCAL enable_hashjoin TO DEFAULT; \
SET LOCAL enable_mergejoin TO DEFAULT; \
SET LOCAL enable_nestloop = off; SET LOCAL jit = off; \
SET LOCAL enable_hashagg TO DEFAULT; \
SET LOCAL enable_sort TO DEFAULT; \
SET LOCAL enable_material TO DEFAULT; \
SET LOCAL enable_seqscan TO DEFAULT; \
SET LOCAL enable_indexscan TO DEFAULT; \
SET LOCAL enable_indexonlyscan TO DEFAULT; \
SET LOCAL enable_bitmapscan TO DEFAULT; \
SET LOCAL work_mem TO DEFAULT; ";

/// The side effects of one database's names. Immutable; sessions of a pool share one.
#[derive(Debug)]
pub struct Catalogue {
    /// Bit by bit, by a name's hash: whether it may be an entry's. The length is a power of two.
    filter: Box<[u64]>,
    /// By name, in order.
    entries: Box<[Entry]>,
    everywhere: SideEffects,
    definitions: SideEffects,
    settings: Box<[Box<[u8]>]>,
    /// As `filter`, of the names that something here meets.
    mentioned: Box<[u64]>,
}

/// The side effects of a block.
#[derive(Debug)]
pub struct Block {
    pub side_effects: SideEffects,
    /// Those of the settings with a dot in their names that it names itself; see [`Catalogue::settings`] for the others.
    pub settings: Vec<Box<[u8]>>,
    /// The names in it.
    pub words: Vec<Word>,
}

/// Bits of the filter for one entry: one word in sixteen that is no entry's is looked for in vain.
const FILTER_BITS_PER_ENTRY: usize = 16;

/// What a keyword tells of a text.
#[derive(Clone, Copy, Debug, Default)]
struct Verb {
    writes: bool,
    fills: bool,
    defines: bool,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    name: Word,
    finding: Finding,
    verb: Verb,
}

impl Entry {
    fn new(name: Word, finding: Finding) -> Entry {
        Entry { name, finding, verb: Verb::default() }
    }
}

impl Catalogue {
    /// Of a database of which nothing is known yet, or too much: any text may have any side effect.
    pub fn unknown() -> Catalogue {
        Catalogue::of(Vec::new(), SideEffects::UNKNOWN, SideEffects::UNKNOWN, Vec::new(), &[])
    }

    /// From the rows that answer [`QUERY`].
    pub fn new<'a>(rows: impl IntoIterator<Item = Row<'a>>) -> Catalogue {
        let mut reading = CatalogueBuilder::new();
        rows.into_iter().for_each(|row| reading.row(&row));
        reading.finish()
    }

    fn of(
        mut entries: Vec<Entry>,
        everywhere: SideEffects,
        definitions: SideEffects,
        settings: Vec<Box<[u8]>>,
        mentioned: &[Word],
    ) -> Catalogue {
        // A catalogue without side effects needs no keywords either.
        if !entries.is_empty() || !definitions.is_empty() {
            let keywords = |words: &[&str], verb: Verb| {
                let entry = |word: &&str| Entry { verb, ..Entry::new(Word::of(word.as_bytes()), Finding::default()) };
                words.iter().map(entry).collect::<Vec<Entry>>()
            };
            entries.extend(keywords(&built_in::WRITES, Verb { writes: true, ..Verb::default() }));
            entries.extend(keywords(&built_in::FILLS, Verb { fills: true, ..Verb::default() }));
            entries.extend(keywords(&built_in::DEFINES, Verb { defines: true, ..Verb::default() }));
        }
        entries.sort_by_key(|entry| entry.name);
        entries.dedup_by(|next, kept| {
            let is_same = next.name == kept.name;
            if is_same {
                kept.finding.add(next.finding);
                kept.verb.add(next.verb);
            }
            is_same
        });
        let filter = filter_of(entries.len(), entries.iter().map(|entry| entry.name));
        let mentioned = filter_of(mentioned.len(), mentioned.iter().copied());
        let (entries, settings) = (entries.into(), settings.into());
        Catalogue { filter, entries, everywhere, definitions, settings, mentioned }
    }

    /// What a text with these words may do to its session beside what it says. The words are [`sql::Summary::words`].
    #[inline]
    pub fn side_effects(&self, words: &[Word]) -> SideEffects {
        if self.entries.is_empty() {
            return self.everywhere;
        }
        let (mut found, mut verb) = (Finding::default(), Verb::default());
        for word in words {
            let (at, bit) = place(*word, self.filter.len());
            if self.filter[at] & bit == 0 {
                continue;
            }
            let Some(entry) = self.entry(word.name()) else { continue };
            let called = if word.is_called() { entry.finding.called } else { SideEffects::NONE };
            found.add(Finding { called, ..entry.finding });
            verb.add(entry.verb);
        }
        let only = |is_so: bool, side_effects: SideEffects| if is_so { side_effects } else { SideEffects::NONE };
        self.everywhere
            | found.called
            | found.named
            | only(verb.writes, found.writing)
            | only(verb.fills, found.filling)
            | only(verb.defines, self.definitions)
    }

    /// Whether something here may meet this name: if the name gets side effects, so does that.
    pub(crate) fn mentions(&self, name: Word) -> bool {
        let (at, bit) = place(name, self.mentioned.len());
        self.mentioned[at] & bit != 0
    }

    /// Whether any text may have any side effect.
    pub fn is_unknown(&self) -> bool {
        self.everywhere.any(SideEffects::UNKNOWN)
    }

    /// All that these names may do, however a text meets them.
    pub fn touches(&self, words: &[Word]) -> SideEffects {
        let may_be_entry = |word: &&Word| {
            let (at, bit) = place(**word, self.filter.len());
            self.filter[at] & bit != 0
        };
        let found = words.iter().filter(may_be_entry).filter_map(|word| self.entry(word.name()));
        found.fold(self.everywhere, |sum, entry| sum | entry.finding.all())
    }

    /// What a text does that runs a body of its own, DO: read anew each time, since what it does stands in a string.
    pub fn side_effects_of_block(&self, text: &[u8]) -> Block {
        self.block(Body::read(text))
    }

    /// What the strings in a text may say that is given to code to run.
    pub fn side_effects_of_strings(&self, text: &[u8]) -> Block {
        self.block(Body::of_strings(text))
    }

    /// What a text may make others do that defines something: its strings may be functions' bodies.
    pub fn side_effects_of_definition(&self, text: &[u8]) -> Block {
        self.block(Body::of_definition(text))
    }

    fn block(&self, body: Body) -> Block {
        Block {
            side_effects: body.side_effects | self.side_effects(&body.words),
            settings: body.settings,
            words: body.words,
        }
    }

    /// What event triggers do, for a text that defines something without a word that says so: SELECT INTO, which has the
    /// mark RELATIONS.
    pub fn definitions(&self) -> SideEffects {
        self.definitions
    }

    /// The settings with a dot in their names that bodies change for the session, in lower case, in order: `pg_settings`
    /// does not list such, so each must be asked for.
    pub fn settings(&self) -> &[Box<[u8]>] {
        &self.settings
    }

    /// How many bytes it takes.
    pub fn bytes(&self) -> usize {
        let settings: usize = self.settings.iter().map(|name| name.len() + size_of::<Box<[u8]>>()).sum();
        let filters = size_of_val::<[u64]>(&self.filter) + size_of_val::<[u64]>(&self.mentioned);
        filters + size_of_val::<[Entry]>(&self.entries) + settings
    }

    fn entry(&self, name: Word) -> Option<&Entry> {
        self.entries.binary_search_by_key(&name, |entry| entry.name).ok().map(|at| &self.entries[at])
    }
}

impl Verb {
    fn add(&mut self, other: Verb) {
        self.writes |= other.writes;
        self.fills |= other.fills;
        self.defines |= other.defines;
    }
}

/// A filter that has so many names.
fn filter_of(count: usize, names: impl Iterator<Item = Word>) -> Box<[u64]> {
    let bits = (count * FILTER_BITS_PER_ENTRY).next_power_of_two().max(64);
    let mut filter = vec![0_u64; bits / 64];
    for name in names {
        let (at, bit) = place(name, filter.len());
        filter[at] |= bit;
    }
    filter.into()
}

/// Where a name's bit is in a filter of so many words.
#[inline(always)]
fn place(name: Word, filter_len: usize) -> (usize, u64) {
    // The lowest bit of a name's hash is not one; the next six choose the bit.
    let bits = name.bits() >> 1;
    ((bits >> 6) as usize & (filter_len - 1), 1 << (bits & 63))
}
