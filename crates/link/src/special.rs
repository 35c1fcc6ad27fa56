//! The facts that make a link special, one bit each: one comparison shows whether there is any.
//!
//! A part of a session or a server that has such facts is [`Watched`]. A mutable borrow marks it as unsure, and the next look at the link
//! reads its facts again. So no code can change a fact without the next look noticing it.
//!
//! | owner | facts |
//! |---|---|
//! | a session | [`SessionFacts::special`](crate::session::SessionFacts::special) |
//! | a server | [`ServerFacts::special`](crate::server::ServerFacts::special) |
//! | a pool | [`Rules`](crate::pool::Rules), when they are made of settings |
//!
//! A new field of the first two has to be dealt with where they are taken apart. A fact that is forgotten inside a part, or in a pool, is found by
//! simulated worlds only.
//!
//! Two kinds of conditions are no bits: those that change with every message (answers owed, bytes half read), and those that matter only at
//! the beginning or the end of a link. [`plain`](crate::plain) checks them where they matter.

use std::ops::{BitOr, Deref, DerefMut};

/// A set of such facts.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Special(u32);

impl Special {
    pub const NONE: Special = Special(0);

    // Of sessions.
    /// It has session state to follow.
    pub const TRACKED: Special = Special(1);
    /// A limit has let it in, or it waits for one.
    pub const LIMITED: Special = Special(1 << 1);
    /// It is not read, or its socket has not taken everything.
    pub const CLIENT_PAUSED: Special = Special(1 << 2);

    /// Its request is sent again, since a server was lost, or it is in a transaction block that no server has begun yet.
    pub const RETRIED: Special = Special(1 << 11);

    // Of servers.
    /// The client's messages wait.
    pub const HELD: Special = Special(1 << 3);
    /// A cancel is wanted or under way, or may hit what comes next.
    pub const CANCELLED: Special = Special(1 << 4);
    /// Statements under way define something, have another's rights, or need an empty database.
    pub const EFFECTS: Special = Special(1 << 5);
    /// It is to be closed when it is released.
    pub const CLOSES: Special = Special(1 << 6);
    /// It needs a reset, listens, or has temporary objects.
    pub const TRACES: Special = Special(1 << 7);
    /// The beginning of its last text is kept.
    pub const TEXT_KEPT: Special = Special(1 << 8);
    /// It is not read, or its socket has not taken everything.
    pub const SERVER_PAUSED: Special = Special(1 << 9);

    // Of pools.
    /// `pool_mode` is statement: transaction blocks are refused.
    pub const STATEMENT_MODE: Special = Special(1 << 10);
    /// `retry_reads`: requests are kept until they are answered.
    pub const READS_KEPT: Special = Special(1 << 12);

    /// A fact may have changed since the last look.
    const UNSURE: Special = Special(1 << 31);

    /// This fact, if it is so.
    #[inline(always)]
    #[must_use]
    pub fn if_so(self, is_so: bool) -> Special {
        if is_so { self } else { Special::NONE }
    }

    #[inline(always)]
    #[must_use]
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Whether the facts have to be read again.
    #[inline(always)]
    fn is_unsure(self) -> bool {
        self.0 & Special::UNSURE.0 != 0
    }
}

impl BitOr for Special {
    type Output = Special;

    #[inline(always)]
    fn bitor(self, other: Special) -> Special {
        Special(self.0 | other.0)
    }
}

/// Facts from which it follows whether something is special.
pub trait Facts {
    /// Reads all of them.
    fn special(&self) -> Special;
}

/// Facts, and their bits as they were read last.
#[derive(Debug)]
pub struct Watched<F> {
    facts: F,
    special: Special,
}

impl<F: Facts> Watched<F> {
    pub(crate) fn new(facts: F) -> Watched<F> {
        Watched { facts, special: Special::UNSURE }
    }

    /// The bits as they were read last; with `UNSURE` if a fact may have changed since.
    #[inline(always)]
    pub(crate) fn noted(&self) -> Special {
        self.special
    }

    /// Reads the facts, if one of them may have changed.
    #[inline]
    pub(crate) fn special(&mut self) -> Special {
        if self.special.is_unsure() {
            self.special = self.facts.special();
        }
        self.special
    }

    /// Planted: nothing is noted as special, whatever the facts are.
    #[cfg(debug_assertions)]
    pub(crate) fn overlook(&mut self) {
        self.special = Special::NONE;
    }

    /// Whether the noted bits follow from the facts (I18).
    pub(crate) fn is_in_step(&self) -> bool {
        self.special.is_unsure() || self.special == self.facts.special()
    }
}

impl<F> Deref for Watched<F> {
    type Target = F;

    #[inline(always)]
    fn deref(&self) -> &F {
        &self.facts
    }
}

impl<F> DerefMut for Watched<F> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut F {
        self.special = Special::UNSURE;
        &mut self.facts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fact(bool);

    impl Facts for Fact {
        fn special(&self) -> Special {
            Special::HELD.if_so(self.0)
        }
    }

    #[test]
    fn a_mutable_borrow_has_the_facts_read_again() {
        let mut watched = Watched::new(Fact(false));
        assert!(!watched.noted().is_none(), "nobody has looked yet");
        assert!(watched.special().is_none() && watched.noted().is_none());
        watched.0 = true;
        assert!(!watched.noted().is_none());
        assert_eq!(watched.special(), Special::HELD);
        assert!(watched.0 && watched.noted() == Special::HELD, "to read it changes nothing");
        watched.0 = false;
        assert!(watched.special().is_none() && watched.is_in_step());
    }
}
