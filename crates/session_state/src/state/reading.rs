//! What a client's text means for its session, asked of the worker's memo: one pass and one lookup for a text like one
//! that was seen before. The side effects of its names are noted there too, for as long as the pool learns nothing new.

use std::cell::Cell;
use std::sync::Arc;

use sql::{Encoding, Key, Marks, Memo, Rules, Text, Word};
use units::{PoolId, StatementRow};

use crate::access::Access;
use crate::catalogue::{Edition, Known, SideEffects};
use crate::parameters::{Parameters, Tracked};
use crate::pins::{self, Pins};

/// What is known of a text before it runs.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Reading {
    pub marks: Marks,
    /// What the names in it do besides, as far as is known now.
    pub side_effects: SideEffects,
    /// Its words tell that it only reads.
    pub only_reads: bool,
}

/// What definitions in a text change.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Defines {
    #[default]
    Nothing,
    /// Only its own session's objects if it has temporary ones, and otherwise what others see.
    Unclear,
    /// What others see.
    ForAll,
}

/// What a text says by itself, for as long as a statement lives: the side effects of its names may change meanwhile.
#[derive(Debug, Default)]
pub struct Sketch {
    pub marks: Marks,
    only_reads: bool,
    words: Box<[Word]>,
}

impl Sketch {
    pub(crate) fn reading(&self, known: &Known) -> Reading {
        let side_effects = known.side_effects(&self.words, self.marks);
        Reading { marks: self.marks, side_effects, only_reads: self.only_reads }
    }
}

/// Marks of statements whose effect on the session is noted when their tags come.
const NOTED: Marks = union(&[
    Marks::UNKNOWN,
    Marks::SET_CONFIG,
    Marks::SET,
    Marks::RESET,
    Marks::DISCARD,
    Marks::EXECUTE,
    Marks::DEALLOCATE,
    Marks::UNLISTEN,
    Pins::TAGGED,
]);

/// Marks of statements that speak of statements by name.
const NAMING: Marks = union(&[Marks::PREPARE, Marks::EXECUTE, Marks::DEALLOCATE, Marks::STATE_READ]);

const WITH_LOCAL_RIGHTS: Marks = union(&[Marks::LOCAL_RIGHTS, Marks::BLOCK, Marks::CALL, Marks::UNKNOWN]);

const DEFINING: Marks = union(&[Marks::RELATIONS, Marks::ROUTINES]);

/// Marks of texts that must be looked at whatever the session has done before.
const ACTIVE: Marks =
    union(&[NOTED, NAMING, DEFINING, Pins::SAID, Marks::BLOCK, Marks::CALL, Marks::EMPTY_DATABASE, Marks::NOTIFY]);

const fn union(marks: &[Marks]) -> Marks {
    let (mut all, mut index) = (Marks::NONE, 0);
    while index < marks.len() {
        all = all.and(marks[index]);
        index += 1;
    }
    all
}

impl Reading {
    /// Of what cannot be read.
    pub const UNKNOWN: Reading = Reading { marks: Marks::UNKNOWN, side_effects: SideEffects::NONE, only_reads: false };

    /// Its effects must be noted. `open`: something of the transaction may be taken back.
    pub fn is_noted(self, open: bool) -> bool {
        self.marks.any(NOTED) || open && self.marks.any(Marks::TRANSACTION | Marks::ALONE)
    }

    /// Whether it changes what tables, types or functions there are, for others too: what was prepared before may not hold.
    #[inline]
    pub fn defines(self) -> Defines {
        match self.marks {
            marks if marks.any(Marks::PERMANENT) => Defines::ForAll,
            marks if marks.any(DEFINING) => Defines::Unclear,
            _ => Defines::Nothing,
        }
    }

    /// It may have another's rights until the end of its transaction. What functions do is not known from it.
    #[inline]
    pub fn may_have_local_rights(self) -> bool {
        self.marks.any(WITH_LOCAL_RIGHTS)
    }

    pub fn names_statements(self) -> bool {
        self.marks.any(NAMING) || self.lists_statements() || self.may_name_statements()
    }

    /// What it may leave behind.
    pub(crate) fn pins(self) -> Pins {
        Pins::of(self.marks) | Pins::of_side_effects(self.side_effects)
    }

    /// It may begin to listen.
    pub fn listens(self) -> bool {
        self.marks.any(Marks::LISTEN)
    }

    /// It may end a transaction.
    pub fn ends_transaction(self) -> bool {
        self.marks.any(Marks::TRANSACTION)
    }

    /// The text may run NOTIFY: itself, by the functions, tables and views that it names, or by EXECUTE.
    #[inline]
    pub fn may_notify(self) -> bool {
        self.marks.any(Marks::NOTIFY | Marks::BLOCK | Marks::UNKNOWN | Marks::EXECUTE)
            || self.side_effects.any(SideEffects::NOTIFYING)
    }

    /// As [`Reading::may_notify`], of this text, without the statements that it runs by EXECUTE.
    pub fn notifies(self, text: &[u8], known: &Known) -> bool {
        if self.marks.any(Marks::NOTIFY) || self.side_effects.any(SideEffects::NOTIFYING) {
            return true;
        }
        let says = || text.windows(6).any(|word| word.eq_ignore_ascii_case(b"notify"));
        let block = || known.side_effects_of_block(text).side_effects;
        self.marks.any(Marks::BLOCK) && block().any(SideEffects::NOTIFYING) || self.is_unknown() && says()
    }

    /// It may see what the session listens to.
    pub fn lists_channels(self) -> bool {
        self.marks.any(Marks::CHANNELS)
    }

    /// It may see which statements there are, whatever their names.
    pub fn lists_statements(self) -> bool {
        self.marks.any(Marks::STATE_READ) || self.side_effects.any(SideEffects::STATE_READ | SideEffects::PREPARED)
    }

    /// It may speak of statements in a string that is run, or to code that nobody can read.
    pub fn may_name_statements(self) -> bool {
        self.marks.any(Marks::BLOCK) || self.side_effects.any(SideEffects::DYNAMIC | SideEffects::UNKNOWN)
    }

    /// It runs texts that nobody has read, or code that cannot be read. `text`: its own.
    pub fn runs_unread(self, text: &[u8], known: &Known) -> bool {
        let block = if self.marks.any(Marks::BLOCK) {
            known.side_effects_of_block(text).side_effects
        } else {
            SideEffects::NONE
        };
        (self.side_effects | block).any(SideEffects::DYNAMIC | SideEffects::UNKNOWN)
    }

    /// Its columns are those of a statement that it names.
    pub fn executes(self) -> bool {
        self.marks.any(Marks::EXECUTE)
    }

    /// It calls set_config, and not for its transaction alone.
    pub fn sets_by_function(self) -> bool {
        self.marks.any(Marks::SET_CONFIG)
    }

    /// It may be anything.
    pub fn is_unknown(self) -> bool {
        self.marks.any(Marks::UNKNOWN)
    }

    /// It may make or change side effects of names, for itself alone or for others too.
    pub fn redefines(self) -> bool {
        self.marks.any(DEFINING)
    }

    #[inline]
    pub fn uses_sequences(self) -> bool {
        self.marks.any(Marks::NEXTVAL | Marks::CURRVAL)
            || self.side_effects.any(SideEffects::SEQUENCE | SideEffects::CURRVAL)
    }

    /// What it does makes `currval` its session's.
    pub fn advances_sequences(self) -> bool {
        self.marks.any(Marks::NEXTVAL) || self.side_effects.any(SideEffects::SEQUENCE)
    }

    /// It says itself that it draws from a sequence.
    pub fn draws(self) -> bool {
        self.marks.any(Marks::NEXTVAL)
    }

    pub fn calls_currval(self) -> bool {
        self.marks.any(Marks::CURRVAL) || self.side_effects.any(SideEffects::CURRVAL)
    }

    /// Of a function that is called by its oid. //= pg18 protocol-flow#PROTOCOL-FLOW-FUNCTION-CALL
    pub fn of_function(oid: u32) -> Reading {
        let marks = match oid {
            // Large objects: what drivers call so. //= pg18 lo-interfaces
            715 | 764..=765 | 767 | 952..=958 | 964 | 1004 | 3170..=3172 | 3457..=3460 => Marks::NONE,
            2880..=2892 | 3089..=3096 => Marks::ADVISORY,
            1599 => Marks::SEED,
            1574 | 1576 | 1765 => Marks::NEXTVAL,
            1575 | 2559 => Marks::CURRVAL,
            _ => Marks::UNKNOWN,
        };
        Reading { marks, side_effects: SideEffects::NONE, only_reads: false }
    }

    /// Something has to be done about it, even in a session that has done nothing yet.
    #[inline]
    pub fn is_active(self) -> bool {
        self.marks.any(ACTIVE) || self.side_effects.any(SideEffects::ACTIVE)
    }

    /// Of a text of which nobody knows when it is executed: what its command tag would tell is taken to be done.
    #[must_use]
    pub fn unseen(self) -> Reading {
        let side_effects = self.side_effects | pins::of_tags(self.marks);
        Reading { marks: self.marks.and(Marks::UNKNOWN), side_effects, ..self }
    }

    /// Whether it may write or commit.
    #[inline(always)]
    pub fn access(self) -> Access {
        const UNCLEAR: Marks = union(&[Marks::UNKNOWN, Marks::CHAIN, Marks::ALONE]);
        const ENDING: Marks = union(&[Marks::COMMIT, Marks::ROLLBACK, Marks::TWO_PHASE]);
        let marks = self.marks;
        let only_reads = self.only_reads && !self.side_effects.any(SideEffects::WRITING);
        if !marks.any(union(&[UNCLEAR, ENDING, Marks::BEGIN])) {
            return if only_reads { Access::ReadOnly } else { Access::ReadWrite };
        }
        match (marks.any(ENDING), marks.any(Marks::BEGIN)) {
            _ if marks.any(UNCLEAR) => Access::Commit,
            (true, true) => Access::Commit,
            (true, false) if only_reads && !marks.any(Marks::COMMIT) => Access::Rollback,
            (true, false) => Access::End,
            (false, _) => Access::Begin,
        }
    }

    /// It may be a COPY, in either direction.
    #[inline]
    pub fn copies(self) -> bool {
        self.marks.any(Marks::COPY)
    }

    /// Nothing has to be done about it, whatever the session has done before.
    pub fn is_plain(self) -> bool {
        self.marks.is_empty() && self.side_effects.without(SideEffects::PLAIN).is_empty()
    }
}

/// The row of a text in the worker's statistics, for the pool that asked last.
#[derive(Copy, Clone, Debug)]
pub struct KnownRow {
    pub pool: PoolId,
    pub row: StatementRow,
}

impl Default for KnownRow {
    /// For no pool.
    fn default() -> KnownRow {
        KnownRow { pool: PoolId(u32::MAX), row: StatementRow::NONE }
    }
}

/// The side effects of a text's words in the pool that asked last.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Note {
    edition: Edition,
    side_effects: SideEffects,
    row: KnownRow,
}

impl Default for Note {
    fn default() -> Note {
        Note { edition: Edition::NEVER, side_effects: SideEffects::NONE, row: KnownRow::default() }
    }
}

/// Reads texts for one worker.
#[derive(Debug)]
pub struct Reader {
    memo: Memo<Note>,
    /// The last that one of the worker's pools got.
    edition: Edition,
    /// The parameters that texts were read by last, and what they mean.
    last: Option<(Arc<Parameters>, Option<Rules>)>,
}

impl Reader {
    /// `secret`: unpredictable; `bytes_max`: of the memo.
    pub fn new(secret: u64, bytes_max: usize) -> Reader {
        let memo = Memo::with_notes(Key::from_seed(secret), bytes_max);
        Reader { memo, edition: Edition::default(), last: None }
    }

    /// `parameters`: those that the server will read the text by.
    #[inline]
    pub fn read(&mut self, text: &[u8], parameters: &Arc<Parameters>, known: &mut Known) -> Reading {
        self.read_noted(text, parameters, known).0
    }

    /// As [`Reader::read`], with the text's row in the statistics, and the rules that it was read by. `None`: it cannot be
    /// read.
    #[inline(always)]
    pub fn read_noted(
        &mut self,
        text: &[u8],
        parameters: &Arc<Parameters>,
        known: &mut Known,
    ) -> (Reading, Option<(&mut KnownRow, Rules)>) {
        let Some(rules) = self.rules(parameters) else { return (Reading::UNKNOWN, None) };
        let (summary, note) = self.memo.entry(&Text::new(text, rules));
        let (marks, only_reads) = (summary.marks(), summary.only_reads());
        if note.edition != known.edition() {
            note.edition = known.publish(&mut self.edition);
            note.side_effects = known.side_effects(summary.words(), marks);
        }
        debug_assert_eq!(note.side_effects, known.side_effects(summary.words(), marks), "a note is of its edition");
        (Reading { marks, side_effects: note.side_effects, only_reads }, Some((&mut note.row, rules)))
    }

    /// The row of a text that is not read for its effects, and its reading as if its names may write. `None`: it cannot
    /// be read.
    #[inline]
    pub fn known_row(&mut self, text: &[u8], parameters: &Arc<Parameters>) -> Option<(&mut KnownRow, Rules, Reading)> {
        let rules = self.rules(parameters)?;
        let (summary, note) = self.memo.entry(&Text::new(text, rules));
        // What the names in it do is not looked up.
        let reading = Reading { marks: summary.marks(), side_effects: SideEffects::WRITES, only_reads: false };
        Some((&mut note.row, rules, reading))
    }

    /// As [`Reader::read`], of a text that was read before, with a note of what came out of it.
    #[inline]
    pub(crate) fn reading_of(&mut self, sketch: &Sketch, note: &Cell<Note>, known: &mut Known) -> Reading {
        let Note { edition, mut side_effects, row } = note.get();
        if edition != known.edition() {
            side_effects = known.side_effects(&sketch.words, sketch.marks);
            note.set(Note { edition: known.publish(&mut self.edition), side_effects, row });
        }
        debug_assert_eq!(side_effects, known.side_effects(&sketch.words, sketch.marks), "a note is of its edition");
        Reading { marks: sketch.marks, side_effects, only_reads: sketch.only_reads }
    }

    pub fn marks(&mut self, text: &[u8], parameters: &Arc<Parameters>) -> Marks {
        let rules = self.rules(parameters);
        rules.map_or(Marks::UNKNOWN, |rules| self.memo.summary(&Text::new(text, rules)).marks())
    }

    pub fn sketch(&mut self, text: &[u8], parameters: &Arc<Parameters>) -> Sketch {
        let Some(rules) = self.rules(parameters) else {
            return Sketch { marks: Marks::UNKNOWN, ..Sketch::default() };
        };
        let summary = self.memo.summary(&Text::new(text, rules));
        Sketch { marks: summary.marks(), only_reads: summary.only_reads(), words: summary.words().into() }
    }

    /// How a text is to be read; `None`: not for certain.
    #[inline]
    pub fn rules(&mut self, parameters: &Arc<Parameters>) -> Option<Rules> {
        match &self.last {
            Some((last, rules)) if Arc::ptr_eq(last, parameters) => *rules,
            _ => self.find_rules(parameters),
        }
    }

    #[cold]
    fn find_rules(&mut self, parameters: &Arc<Parameters>) -> Option<Rules> {
        let rules = rules_by(parameters);
        self.last = Some((Arc::clone(parameters), rules));
        rules
    }
}

/// How a text is to be read by these parameters; `None`: not for certain.
pub fn rules_by(parameters: &Parameters) -> Option<Rules> {
    // Every PostgreSQL reports both. What does not has no such setting.
    let encoding = parameters.get(Tracked::CLIENT_ENCODING).map_or(Some(Encoding::default()), Encoding::of)?;
    let standard_strings = match parameters.get(Tracked::STANDARD_STRINGS) {
        Some(b"on") | None => true,
        Some(b"off") => false,
        _ => return None,
    };
    Some(Rules { standard_strings, encoding })
}
