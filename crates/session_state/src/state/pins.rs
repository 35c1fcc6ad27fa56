//! Why a session keeps its server: the kinds of state that exist on one server and can be set on no other.

use std::fmt;
use std::ops::{BitAnd, BitOr, BitOrAssign, Not};

use sql::Marks;
use units::Time;

use crate::catalogue::SideEffects;

/// A session that keeps its server.
#[derive(Clone, Debug)]
pub struct PinSnapshot {
    pub since: Time,
    pub kinds: Pins,
    /// The beginning of the statement that was the reason.
    pub statement: String,
}

/// A set of kinds.
#[derive(Copy, Clone, Default, PartialEq, Eq, Hash)]
pub struct Pins(u32);

macro_rules! pins {
    ($($(#[$doc:meta])* $name:ident = $bit:literal, $words:literal;)*) => {
        impl Pins {
            $($(#[$doc])* pub const $name: Pins = Pins(1 << $bit);)*
        }
        const WORDS: &[(Pins, &str)] = &[$((Pins::$name, $words)),*];
    };
}

pins! {
    /// Tables, views, sequences, functions, types in the session's temporary schema.
    TEMPORARY = 0, "temporary objects";
    /// A cursor that outlives its transaction.
    HOLD = 1, "cursor with hold";
    ADVISORY = 2, "advisory lock";
    LISTEN = 3, "listen";
    /// A setting whose value cannot be set again.
    SETTING = 4, "setting that cannot be replayed";
    /// A statement of PREPARE that is too long to be kept.
    PREPARED = 5, "prepared statement that cannot be replayed";
    /// A library that is loaded cannot be unloaded.
    LOAD = 6, "loaded library";
    /// `currval` and `lastval` answer from what the session did.
    SEQUENCE = 7, "sequence";
    DBLINK = 8, "dblink connection";
    BACKUP = 9, "backup";
    SLOT = 10, "replication slot";
    ORIGIN = 11, "replication origin";
    SEED = 12, "seed of random()";
    /// It asked for a real process id.
    BACKEND_PID = 13, "backend pid";
    /// Something ran of which nothing is known.
    UNKNOWN = 14, "unknown statement";
    /// Settings of the application's own may have been set out of sight, and cannot be listed.
    DYNAMIC = 16, "settings set out of sight";
    /// A statement that only the server keeps.
    LARGE = 17, "prepared statement too large to be kept";
    /// Not a reason to stay but to look: settings may have been changed out of sight.
    SETTINGS = 15, "settings";
}

impl Pins {
    pub const NONE: Pins = Pins(0);
    /// How many kinds there are.
    pub const KINDS: usize = WORDS.len();
    /// What a check can tell to be there or gone.
    pub(crate) const CHECKABLE: Pins =
        Pins(Pins::TEMPORARY.0 | Pins::HOLD.0 | Pins::ADVISORY.0 | Pins::SETTINGS.0 | Pins::UNKNOWN.0);
    /// What may have come about where nothing is known.
    pub(crate) const ANYTHING: Pins = Pins::CHECKABLE;
    /// Where a setting that the server lists may have been changed by something else than a call with its name.
    pub const LISTED: Pins = Pins::UNKNOWN;
    const LASTING: Pins = Pins(
        Pins::LOAD.0
            | Pins::DBLINK.0
            | Pins::BACKUP.0
            | Pins::SLOT.0
            | Pins::ORIGIN.0
            | Pins::SEED.0
            | Pins::BACKEND_PID.0
            | Pins::LARGE.0
            | Pins::DYNAMIC.0,
    );

    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[must_use]
    pub fn any(self, others: Pins) -> bool {
        self.0 & others.0 != 0
    }

    /// What a text with these marks may leave behind.
    pub fn of(marks: Marks) -> Pins {
        const KINDS: [(Marks, Pins); 10] = [
            (Marks::TEMPORARY, Pins::TEMPORARY),
            (Marks::HOLD, Pins::HOLD),
            (Marks::ADVISORY, Pins::ADVISORY),
            (Marks::DBLINK, Pins::DBLINK),
            (Marks::BACKUP, Pins::BACKUP),
            (Marks::SLOT, Pins::SLOT),
            (Marks::ORIGIN, Pins::ORIGIN),
            (Marks::SEED, Pins::SEED),
            (Marks::UNKNOWN, Pins::ANYTHING),
            (Marks::BLOCK, Pins::ANYTHING),
        ];
        let of_kinds = KINDS.iter().filter(|(mark, _)| marks.any(*mark)).fold(Pins::NONE, |sum, (_, pins)| sum | *pins);
        if marks.any(Marks::CALL) { of_kinds | Pins::ANYTHING } else { of_kinds }
    }

    /// What names with these side effects may leave on a server.
    pub fn of_side_effects(side_effects: SideEffects) -> Pins {
        const KINDS: [(SideEffects, Pins); 15] = [
            (SideEffects::SETTINGS, Pins(Pins::SETTINGS.0 | Pins::UNKNOWN.0)),
            (SideEffects::DYNAMIC_SETTINGS, Pins::DYNAMIC),
            (SideEffects::TEMPORARY, Pins::TEMPORARY),
            (SideEffects::ADVISORY, Pins::ADVISORY),
            (SideEffects::LISTEN, Pins::LISTEN),
            (SideEffects::HOLD, Pins::HOLD),
            (SideEffects::PREPARED, Pins::PREPARED),
            (SideEffects::LOAD, Pins::LOAD),
            (SideEffects::DBLINK, Pins::DBLINK),
            (SideEffects::SEED, Pins::SEED),
            (SideEffects::BACKUP, Pins::BACKUP),
            (SideEffects::SLOT, Pins::SLOT),
            (SideEffects::ORIGIN, Pins::ORIGIN),
            (SideEffects::DYNAMIC, Pins::ANYTHING),
            // Looked after, not kept: an operator or a type made in C would keep everybody's server for life.
            (SideEffects::UNKNOWN, Pins::ANYTHING),
        ];
        if side_effects.is_empty() {
            return Pins::NONE;
        }
        KINDS.iter().filter(|(kind, _)| side_effects.any(*kind)).fold(Pins::NONE, |sum, (_, pins)| sum | *pins)
    }

    /// What a text with these marks may have ended.
    pub(crate) fn ended_by(marks: Marks) -> Pins {
        const KINDS: [(Marks, Pins); 5] = [
            (Marks::RELATIONS, Pins::TEMPORARY),
            (Marks::ROUTINES, Pins::TEMPORARY),
            (Marks::CLOSE, Pins::HOLD),
            (Marks::DISCARD, Pins::CHECKABLE),
            (Marks::ROLLBACK, Pins::CHECKABLE),
        ];
        KINDS.iter().filter(|(mark, _)| marks.any(*mark)).fold(Pins::NONE, |sum, (_, pins)| sum | *pins)
    }

    /// Kinds that last as long as the server does.
    pub fn lasting(self) -> Pins {
        self & Pins::LASTING
    }

    /// Whether the kind at this index is among them, of [`Pins::KINDS`]; its words.
    pub fn kinds(self) -> impl Iterator<Item = (usize, &'static str)> {
        WORDS
            .iter()
            .enumerate()
            .filter(move |(_, (kind, _))| self.any(*kind))
            .map(|(index, (_, words))| (index, *words))
    }

    /// In words, of the kind at this index.
    #[must_use]
    pub fn words_at(index: usize) -> &'static str {
        WORDS[index].1
    }

    /// Each kind in words.
    pub fn words(self) -> impl Iterator<Item = &'static str> {
        WORDS.iter().filter(move |(kind, _)| self.any(*kind)).map(|(_, words)| *words)
    }
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

impl fmt::Debug for Pins {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_set().entries(self.words()).finish()
    }
}
