//! Why a session keeps its server: the kinds of state that exist on one server and can be set on no other, one row a kind.
//!
//! From the rows follow which texts are looked at, which wait for `max_pinned`, which side effects pin, what a check is asked
//! for, what lasts, and what SHOW PINS, SHOW FIDELITY_REASONS and the log call it. Whether a session has it is known elsewhere
//! ([`crate::tracker`]).

use std::fmt;
use std::ops::{BitAnd, BitOr, BitOrAssign, Not};

use Stays::{AsTracked, ForLife, UntilGone};
use Told::{Nothing, Statement, Tag, Word};
use sql::Marks;
use units::Time;

use crate::side_effects::SideEffects;

/// A session that keeps its server.
#[derive(Clone, Debug)]
pub struct PinSnapshot {
    pub since: Time,
    pub kinds: Pins,
    /// The beginning of the statement that was the reason.
    pub statement: String,
}

/// A set of kinds.
#[derive(Copy, Clone, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Pins(u32);

/// A row of the table.
struct PinKind {
    pin: Pins,
    words: &'static str,
    told: Told,
    /// Of functions and their like that leave it.
    side_effect: SideEffects,
    stays: Stays,
}

/// What tells that a text leaves it.
enum Told {
    /// A word, wherever it stands: in a function's body too.
    Word(Marks),
    /// A statement, before it has run.
    Statement(Marks),
    /// A statement, once its command tag has come: its effect says so (`state/effects.rs`).
    Tag(Marks),
    /// Nothing: it is found otherwise.
    Nothing,
}

/// How long it stays.
enum Stays {
    /// Until a check finds it gone (`state/check.rs`): behind texts with these marks it is looked for, and behind any DISCARD
    /// and ROLLBACK.
    UntilGone(Marks),
    /// As long as the server does.
    ForLife,
    /// As long as the tracker says. Mostly it is carried to other servers, and pins nobody.
    AsTracked,
}

#[cfg(test)]
impl PinKind {
    fn mark(&self) -> Option<Marks> {
        match self.told {
            Word(mark) | Statement(mark) | Tag(mark) => Some(mark),
            Nothing => None,
        }
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $bit:literal, $words:literal, $told:expr, $side_effect:ident, $stays:expr;)*) => {
        impl Pins {
            $($(#[$doc])* pub const $name: Pins = Pins(1 << $bit);)*
        }
        const KINDS: &[PinKind] = &[$(PinKind {
            pin: Pins::$name, words: $words, told: $told, side_effect: SideEffects::$side_effect, stays: $stays
        }),*];
    };
}

// Another process gets these numbers in an online upgrade: a new kind comes last, or `handover::FORMAT` changes.
kinds! {
    /// Tables, views, sequences, functions, types in the session's temporary schema.
    TEMPORARY = 0, "temporary objects", Word(Marks::TEMPORARY), TEMPORARY, UntilGone(Marks::RELATIONS.and(Marks::ROUTINES));
    /// A cursor that outlives its transaction.
    HOLD = 1, "cursor with hold", Statement(Marks::HOLD), HOLD, UntilGone(Marks::CLOSE);
    ADVISORY = 2, "advisory lock", Word(Marks::ADVISORY), ADVISORY, UntilGone(Marks::NONE);
    LISTEN = 3, "listen", Tag(Marks::LISTEN), LISTEN, AsTracked;
    /// A setting whose value cannot be set again.
    SETTING = 4, "setting that cannot be replayed", Nothing, NONE, AsTracked;
    /// A statement of PREPARE that is too long to be kept.
    PREPARED = 5, "prepared statement that cannot be replayed", Tag(Marks::PREPARE), PREPARED, AsTracked;
    /// A library that is loaded cannot be unloaded.
    LOAD = 6, "loaded library", Tag(Marks::LOAD), LOAD, ForLife;
    /// `currval` and `lastval` answer from what the session did.
    SEQUENCE = 7, "sequence", Nothing, NONE, AsTracked;
    DBLINK = 8, "dblink connection", Word(Marks::DBLINK), DBLINK, ForLife;
    BACKUP = 9, "backup", Word(Marks::BACKUP), BACKUP, ForLife;
    SLOT = 10, "replication slot", Word(Marks::SLOT), SLOT, ForLife;
    ORIGIN = 11, "replication origin", Word(Marks::ORIGIN), ORIGIN, ForLife;
    SEED = 12, "seed of random()", Word(Marks::SEED), SEED, ForLife;
    /// It asked for a real process id.
    BACKEND_PID = 13, "backend pid", Nothing, NONE, ForLife;
    /// Something ran of which nothing is known.
    UNKNOWN = 14, "unknown statement", Nothing, UNKNOWN, UntilGone(Marks::NONE);
    /// Settings of the application's own may have been set out of sight, and cannot be listed.
    DYNAMIC = 15, "settings set out of sight", Nothing, DYNAMIC_SETTINGS, ForLife;
    /// A statement that only the server keeps.
    LARGE = 16, "prepared statement too large to be kept", Nothing, NONE, ForLife;
    /// Not a reason to stay but to look: settings may have been changed out of sight.
    SETTINGS = 17, "settings", Nothing, SETTINGS, UntilGone(Marks::NONE);
}

/// What texts and side effects leave of which nobody knows what it is, besides what their rows say.
const UNCLEAR_TEXTS: Marks = Marks::UNKNOWN.and(Marks::BLOCK).and(Marks::CALL);
const UNCLEAR_SIDE_EFFECTS: [(SideEffects, Pins); 3] = [
    (SideEffects::SETTINGS, Pins::UNKNOWN),
    (SideEffects::DYNAMIC, Pins::ANYTHING),
    // Looked after, not kept: an operator or a type made in C would keep everybody's server for life.
    (SideEffects::UNKNOWN, Pins::ANYTHING),
];

/// What follows from the rows.
struct Sums {
    checkable: Pins,
    lasting: Pins,
    checked: SideEffects,
    said: Marks,
    tagged: Marks,
}

const SUMS: Sums = sums();

const fn sums() -> Sums {
    let (mut checkable, mut lasting, mut checked) = (0, 0, SideEffects::RESETS);
    let (mut said, mut tagged, mut index) = (Marks::NONE, Marks::NONE, 0);
    while index < KINDS.len() {
        let kind = &KINDS[index];
        assert!(kind.pin.0 == 1 << index, "a kind's number is its place");
        match kind.stays {
            UntilGone(_) => (checkable, checked) = (checkable | kind.pin.0, checked.and(kind.side_effect)),
            ForLife => lasting |= kind.pin.0,
            AsTracked => {}
        }
        match (&kind.told, &kind.stays) {
            (Tag(mark), AsTracked) => tagged = tagged.and(*mark),
            (Tag(mark), UntilGone(_) | ForLife) => (tagged, said) = (tagged.and(*mark), said.and(*mark)),
            (Word(mark) | Statement(mark), _) => said = said.and(*mark),
            (Nothing, _) => {}
        }
        index += 1;
    }
    Sums { checkable: Pins(checkable), lasting: Pins(lasting), checked, said, tagged }
}

impl Pins {
    pub const NONE: Pins = Pins(0);
    /// How many kinds there are.
    pub const KINDS: usize = KINDS.len();
    /// What a check can tell to be there or gone.
    pub(crate) const CHECKABLE: Pins = SUMS.checkable;
    /// What may have come about where nothing is known.
    pub(crate) const ANYTHING: Pins = Pins::CHECKABLE;
    /// Where a setting that the server lists may have been changed by something else than a call with its name.
    pub const LISTED: Pins = Pins::UNKNOWN;
    /// Marks of texts that say of themselves: whoever runs this keeps its server.
    pub const SAID: Marks = SUMS.said;
    /// Marks of statements whose command tags tell of a kind.
    pub(crate) const TAGGED: Marks = SUMS.tagged;

    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[must_use]
    pub fn any(self, others: Pins) -> bool {
        self.0 & others.0 != 0
    }

    /// The kinds whose rows are so.
    fn which(is_it: impl Fn(&PinKind) -> bool) -> Pins {
        KINDS.iter().filter(|kind| is_it(kind)).fold(Pins::NONE, |sum, kind| sum | kind.pin)
    }

    /// What a text with these marks may leave behind, but for what its command tags tell.
    pub fn of(marks: Marks) -> Pins {
        let said = Pins::which(|kind| matches!(kind.told, Word(mark) | Statement(mark) if marks.any(mark)));
        if marks.any(UNCLEAR_TEXTS) { said | Pins::ANYTHING } else { said }
    }

    /// What names with these side effects may leave on a server.
    pub fn of_side_effects(side_effects: SideEffects) -> Pins {
        if side_effects.is_empty() {
            return Pins::NONE;
        }
        let unclear = UNCLEAR_SIDE_EFFECTS.iter().filter(|(side_effect, _)| side_effects.any(*side_effect));
        let left = Pins::which(|kind| side_effects.any(kind.side_effect));
        unclear.fold(left, |sum, (_, pins)| sum | *pins)
    }

    /// What a text with these marks may have ended.
    pub(crate) fn ended_by(marks: Marks) -> Pins {
        let ends_all = marks.any(Marks::DISCARD | Marks::ROLLBACK);
        Pins::which(|kind| matches!(kind.stays, UntilGone(ends) if ends_all || marks.any(ends)))
    }

    /// Kinds that last as long as the server does.
    pub fn lasting(self) -> Pins {
        self & SUMS.lasting
    }

    /// Whether the kind at this index is among them, of [`Pins::KINDS`]; its words.
    pub fn kinds(self) -> impl Iterator<Item = (usize, &'static str)> {
        KINDS.iter().enumerate().filter(move |(_, kind)| self.any(kind.pin)).map(|(index, kind)| (index, kind.words))
    }

    /// In words, of the kind at this index.
    #[must_use]
    pub fn words_at(index: usize) -> &'static str {
        KINDS[index].words
    }

    /// Each kind in words.
    pub fn words(self) -> impl Iterator<Item = &'static str> {
        self.kinds().map(|(_, words)| words)
    }
}

/// Whether nothing but what a check finds is left by these.
pub(crate) fn are_checked(side_effects: SideEffects) -> bool {
    SUMS.checked.contains(side_effects)
}

/// The side effects of words with these marks.
pub(crate) fn of_words(marks: Marks) -> SideEffects {
    side_effects(|told| matches!(told, Word(mark) if marks.any(*mark)))
}

/// What the command tags of statements with these marks would tell, as side effects.
pub(crate) fn of_tags(marks: Marks) -> SideEffects {
    side_effects(|told| matches!(told, Tag(mark) if marks.any(*mark)))
}

fn side_effects(is_told: impl Fn(&Told) -> bool) -> SideEffects {
    KINDS.iter().filter(|kind| is_told(&kind.told)).fold(SideEffects::NONE, |all, kind| all | kind.side_effect)
}

/// Each kind that a text's marks tell of, with its mark and its side effect.
#[cfg(test)]
pub(crate) fn marked() -> impl Iterator<Item = (Pins, Marks, SideEffects)> {
    KINDS.iter().filter_map(|kind| Some((kind.pin, kind.mark()?, kind.side_effect)))
}

impl BitOr for Pins {
    type Output = Pins;

    fn bitor(self, other: Pins) -> Pins {
        Pins(self.0 | other.0)
    }
}

impl BitOrAssign for Pins {
    fn bitor_assign(&mut self, other: Pins) {
        self.0 |= other.0;
    }
}

impl BitAnd for Pins {
    type Output = Pins;

    fn bitand(self, other: Pins) -> Pins {
        Pins(self.0 & other.0)
    }
}

impl Not for Pins {
    type Output = Pins;

    fn not(self) -> Pins {
        Pins(!self.0)
    }
}

/// Each kind in words, with commas.
impl fmt::Display for Pins {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, words) in self.words().enumerate() {
            write!(to, "{}{words}", if at == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl fmt::Debug for Pins {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_set().entries(self.words()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_side_effect_is_one_kinds_or_pins_nobody() {
        for side_effect in SideEffects::each() {
            let kinds = KINDS.iter().filter(|kind| kind.side_effect == side_effect).count();
            let is_unkept = SideEffects::UNKEPT.contains(side_effect) || side_effect == SideEffects::DYNAMIC;
            assert_eq!(kinds, usize::from(!is_unkept), "{side_effect:?}");
        }
    }

    #[test]
    fn a_mark_tells_of_one_kind() {
        let marks = || KINDS.iter().filter_map(|kind| kind.mark());
        for mark in marks() {
            assert_eq!(marks().filter(|other| *other == mark).count(), 1, "{mark:?}");
        }
        assert!(!Pins::SAID.any(UNCLEAR_TEXTS) && !Pins::TAGGED.any(UNCLEAR_TEXTS));
    }

    #[test]
    fn what_users_read_explains_each_reason() {
        let page = include_str!("../../../docs/session-state.md");
        for kind in KINDS.iter().filter(|kind| kind.pin != Pins::SETTINGS) {
            assert!(page.contains(&format!("\n| {} |", kind.words)), "a row for {:?}", kind.words);
        }
    }
}
