//! A set of tracked parameters, as bits by their numbers in [`Tracked`](crate::parameters::Tracked), which has a bound for that
//! ([`units::limits::TRACKED_MAX`]).

use std::ops::{BitAnd, BitOr, BitOrAssign, Not};

use units::limits;

const _: () = assert!(limits::TRACKED_MAX <= u32::BITS as usize, "each tracked parameter has a bit");

/// A set of tracked parameters.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ParameterSet(u32);

impl ParameterSet {
    pub const NONE: ParameterSet = ParameterSet(0);
    pub const ALL: ParameterSet = ParameterSet(u32::MAX);

    #[must_use]
    pub const fn one(index: usize) -> ParameterSet {
        debug_assert!(index < limits::TRACKED_MAX, "a tracked parameter's number is below the bound");
        ParameterSet(1 << index)
    }

    #[must_use]
    pub const fn all_but(indexes: [usize; 3]) -> ParameterSet {
        let [first, second, third] = indexes;
        let but = ParameterSet::one(first).0 | ParameterSet::one(second).0 | ParameterSet::one(third).0;
        ParameterSet(!but)
    }

    #[must_use]
    pub const fn contains(self, index: usize) -> bool {
        self.0 & ParameterSet::one(index).0 != 0
    }

    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn insert(&mut self, index: usize) {
        *self |= ParameterSet::one(index);
    }

    /// The numbers of its parameters.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..limits::TRACKED_MAX).filter(move |index| self.contains(*index))
    }

    /// The parameters of this set that are not in `other`.
    #[must_use]
    pub fn without(self, other: ParameterSet) -> ParameterSet {
        self & !other
    }
}

impl BitAnd for ParameterSet {
    type Output = ParameterSet;

    fn bitand(self, other: ParameterSet) -> ParameterSet {
        ParameterSet(self.0 & other.0)
    }
}

impl BitOr for ParameterSet {
    type Output = ParameterSet;

    fn bitor(self, other: ParameterSet) -> ParameterSet {
        ParameterSet(self.0 | other.0)
    }
}

impl BitOrAssign for ParameterSet {
    fn bitor_assign(&mut self, other: ParameterSet) {
        self.0 |= other.0;
    }
}

impl Not for ParameterSet {
    type Output = ParameterSet;

    fn not(self) -> ParameterSet {
        ParameterSet(!self.0)
    }
}

impl FromIterator<usize> for ParameterSet {
    fn from_iter<I: IntoIterator<Item = usize>>(indexes: I) -> ParameterSet {
        indexes.into_iter().fold(ParameterSet::NONE, |set, index| set | ParameterSet::one(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_the_parameters_that_were_put_into_it() {
        let mut set = ParameterSet::one(2);
        assert!(!set.contains(31));
        set.insert(31);
        assert_eq!(set, [2, 31].into_iter().collect());
        assert_eq!(set.without(ParameterSet::one(2)), ParameterSet::one(31));
        assert!(ParameterSet::NONE.is_empty() && (!ParameterSet::ALL).is_empty());
    }
}
