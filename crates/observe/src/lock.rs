//! A lock of PostgreSQL's lock manager, held or waited for, and which modes conflict.
//= pg18 explicit-locking#LOCKING-TABLES
//= pg18 view-pg-locks

use std::sync::Arc;
use std::time::Duration;

/// A row of pg_locks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    /// A prepared transaction has an id here that is not positive ([`crate::is_prepared`]).
    pub pid: i32,
    /// Of a parallel worker: its leader, with which it never conflicts.
    pub leader_pid: Option<i32>,
    pub object: Object,
    pub mode: LockMode,
    /// Since when it is waited for; none: it is held.
    pub waiting: Option<Duration>,
}

/// What is locked: equal for two locks on the same thing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Object {
    /// `relation`, `transactionid`, `tuple`, `advisory` and others.
    pub kind: Arc<str>,
    /// The columns that say which, as one text.
    pub key: Arc<str>,
    /// What a person calls it: a relation's name. Two names of one thing are still one thing.
    pub name: Option<Arc<str>>,
}

/// How a thing is locked, from the weakest.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockMode {
    AccessShare,
    RowShare,
    RowExclusive,
    ShareUpdateExclusive,
    Share,
    ShareRowExclusive,
    Exclusive,
    AccessExclusive,
}

impl LockMode {
    const ALL: [(LockMode, &'static str); 8] = [
        (LockMode::AccessShare, "AccessShareLock"),
        (LockMode::RowShare, "RowShareLock"),
        (LockMode::RowExclusive, "RowExclusiveLock"),
        (LockMode::ShareUpdateExclusive, "ShareUpdateExclusiveLock"),
        (LockMode::Share, "ShareLock"),
        (LockMode::ShareRowExclusive, "ShareRowExclusiveLock"),
        (LockMode::Exclusive, "ExclusiveLock"),
        (LockMode::AccessExclusive, "AccessExclusiveLock"),
    ];

    /// As pg_locks names it. `None`: predicate locks (`SIReadLock`) are waited for by nobody.
    #[must_use]
    pub fn of(name: &str) -> Option<LockMode> {
        LockMode::ALL.iter().find(|(_, other)| *other == name).map(|(mode, _)| *mode)
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        LockMode::ALL[self as usize].1
    }

    /// Whether two backends cannot have both at one time.
    //= pg18 explicit-locking#TABLE-LOCK-COMPATIBILITY
    #[must_use]
    pub fn conflicts_with(self, other: LockMode) -> bool {
        // A bit for each mode, in their order from the right.
        const CONFLICTS: [u8; 8] =
            [0b1000_0000, 0b1100_0000, 0b1111_0000, 0b1111_1000, 0b1110_1100, 0b1111_1100, 0b1111_1110, 0b1111_1111];
        CONFLICTS[self as usize] & (1 << other as u8) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of the manual: an X for each pair that conflicts.
    const TABLE: [&str; 8] =
        [".......X", "......XX", "....XXXX", "...XXXXX", "..XX.XXX", "..XXXXXX", ".XXXXXXX", "XXXXXXXX"];

    #[test]
    fn modes_conflict_as_in_the_manual() {
        for (row, (mode, name)) in LockMode::ALL.iter().enumerate() {
            assert_eq!((LockMode::of(name), mode.name()), (Some(*mode), *name));
            for (column, (other, _)) in LockMode::ALL.iter().enumerate() {
                let expected = TABLE[row].as_bytes()[column] == b'X';
                assert_eq!(mode.conflicts_with(*other), expected, "{mode:?} {other:?}");
                assert_eq!(other.conflicts_with(*mode), expected, "both ways");
            }
        }
        assert_eq!(LockMode::of("SIReadLock"), None);
    }
}
