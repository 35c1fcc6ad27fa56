//! Side effects of a function, trigger or view: the kinds of session state that it may change, as a set.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

/// A set of kinds. What is in it may be touched, what is not in it is not, as far as bodies and definitions can tell.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct SideEffects(u32);

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $bit:literal;)*) => {
        impl SideEffects {
            $($(#[$doc])* pub const $name: SideEffects = SideEffects(1 << $bit);)*
        }
        const NAMES: &[(SideEffects, &str)] = &[$((SideEffects::$name, stringify!($name))),*];
    };
}

kinds! {
    /// Changes settings beyond the transaction, the role and the session's user among them. Those with a dot in their
    /// names are listed by [`super::Catalogue::settings`], if there is no DYNAMIC_SETTINGS; the others `pg_settings` lists.
    SETTINGS = 0;
    /// Changes settings whose names it makes up or is given.
    DYNAMIC_SETTINGS = 1;
    /// Temporary objects.
    TEMPORARY = 2;
    /// Advisory locks of the session.
    ADVISORY = 3;
    /// LISTEN and UNLISTEN.
    LISTEN = 4;
    /// Cursors WITH HOLD.
    HOLD = 5;
    /// Prepared statements: PREPARE and DEALLOCATE.
    PREPARED = 6;
    /// LOAD.
    LOAD = 7;
    /// dblink's connections.
    DBLINK = 8;
    /// Advances or sets a sequence: what another session may ask of `currval` there is no longer its own.
    SEQUENCE = 9;
    /// Asks for currval or lastval.
    CURRVAL = 10;
    /// Sets the seed of random().
    SEED = 11;
    /// A backup under way.
    BACKUP = 12;
    /// Replication slots, which may be temporary.
    SLOT = 13;
    /// A replication origin of the session.
    ORIGIN = 14;
    /// Asks for the server's process id.
    BACKEND_PID = 15;
    /// Looks at prepared statements, cursors, channels listened to, or the schema of temporary objects.
    STATE_READ = 16;
    /// Runs a text that is not written out where it is run. What stands in strings beside it was read; what comes from
    /// elsewhere may be anything.
    DYNAMIC = 17;
    /// Code that cannot be read. Anything may be there, and some of it no query can find.
    UNKNOWN = 18;
    /// Defines something that may have side effects itself, where a text calls it. What a trigger, a view or a default defines is
    /// left to the next poll: a trigger that makes a partition now and then would put every INSERT in doubt.
    DEFINES = 19;
}

impl SideEffects {
    pub const NONE: SideEffects = SideEffects(0);
    /// What has to be done something about where no sequence and no process id matters.
    pub(crate) const ACTIVE: SideEffects =
        SideEffects(!(SideEffects::SEQUENCE.0 | SideEffects::CURRVAL.0 | SideEffects::BACKEND_PID.0));
    /// What a check finds.
    pub(super) const CHECKED: SideEffects = SideEffects(
        SideEffects::SETTINGS.0
            | SideEffects::TEMPORARY.0
            | SideEffects::ADVISORY.0
            | SideEffects::HOLD.0
            | SideEffects::UNKNOWN.0,
    );
    /// What leaves nothing, or only what nobody is kept for at once.
    pub(super) const UNKEPT: SideEffects = SideEffects(
        SideEffects::SEQUENCE.0
            | SideEffects::CURRVAL.0
            | SideEffects::BACKEND_PID.0
            | SideEffects::STATE_READ.0
            | SideEffects::DEFINES.0,
    );

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether any of `others` is here.
    pub fn any(self, others: SideEffects) -> bool {
        self.0 & others.0 != 0
    }

    pub fn contains(self, others: SideEffects) -> bool {
        self.0 & others.0 == others.0
    }

    pub fn without(self, others: SideEffects) -> SideEffects {
        SideEffects(self.0 & !others.0)
    }
}

impl BitOr for SideEffects {
    type Output = SideEffects;

    fn bitor(self, other: SideEffects) -> SideEffects {
        SideEffects(self.0 | other.0)
    }
}

impl BitOrAssign for SideEffects {
    fn bitor_assign(&mut self, other: SideEffects) {
        self.0 |= other.0;
    }
}

impl fmt::Debug for SideEffects {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_set().entries(NAMES.iter().filter(|(kind, _)| self.contains(*kind)).map(|(_, name)| name)).finish()
    }
}
