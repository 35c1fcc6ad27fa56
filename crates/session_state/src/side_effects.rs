//! Side effects of a function, trigger or view: the kinds of session state that it may change, as a set. Which of them make a
//! session keep its server is in [`crate::pins`].

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

/// A set of kinds. Those in it may be changed; the others are not, as far as bodies and definitions show.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct SideEffects(u32);

macro_rules! side_effects {
    ($($(#[$doc:meta])* $name:ident = $bit:literal;)*) => {
        impl SideEffects {
            $($(#[$doc])* pub const $name: SideEffects = SideEffects(1 << $bit);)*
        }
        const NAMES: &[(SideEffects, &str)] = &[$((SideEffects::$name, stringify!($name))),*];
    };
}

side_effects! {
    /// Changes settings beyond the transaction, the role and the session's user among them. Those with a dot in their
    /// names are listed by [`crate::catalogue::Catalogue::settings`], if there is no DYNAMIC_SETTINGS; the others `pg_settings` lists.
    SETTINGS = 0;
    /// Changes settings whose names it computes or gets as arguments.
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
    /// Advances or sets a sequence: `currval` on that server no longer returns another session's own value.
    SEQUENCE = 9;
    /// Calls currval or lastval.
    CURRVAL = 10;
    /// Sets the seed of random().
    SEED = 11;
    /// A backup under way.
    BACKUP = 12;
    /// Replication slots, which may be temporary.
    SLOT = 13;
    /// A replication origin of the session.
    ORIGIN = 14;
    /// Reads the server's process id.
    BACKEND_PID = 15;
    /// Looks at prepared statements, cursors, channels listened to, or the schema of temporary objects.
    STATE_READ = 16;
    /// Runs a text that is not a constant. Strings near it were read; a text from elsewhere may be anything.
    DYNAMIC = 17;
    /// Code that cannot be read. It may do anything, and no query finds some of it.
    UNKNOWN = 18;
    /// Defines something that may itself have side effects, where a text calls it. What a trigger, a view or a default
    /// defines is left to the next poll: otherwise a trigger that sometimes makes a partition would put every INSERT in
    /// doubt.
    DEFINES = 19;
    /// Writes to tables. This is no session state; a statement that may write must not be cancelled while it may be committing.
    WRITES = 20;
    /// Runs NOTIFY. This is no session state; the notification gets the process id of the client that ran the statement.
    NOTIFIES = 21;
    /// Resets settings with a dot in their names, besides SETTINGS: PostgreSQL does not list which were set.
    RESETS = 22;
}

impl SideEffects {
    pub const NONE: SideEffects = SideEffects(0);
    /// Those that matter even where no sequence and no process id does.
    pub(crate) const ACTIVE: SideEffects = SideEffects(
        !(SideEffects::SEQUENCE.0
            | SideEffects::CURRVAL.0
            | SideEffects::BACKEND_PID.0
            | SideEffects::WRITES.0
            | SideEffects::NOTIFIES.0),
    );
    /// Those that a text may have which nothing has to be done about.
    pub(crate) const PLAIN: SideEffects = SideEffects(SideEffects::WRITES.0 | SideEffects::NOTIFIES.0);
    /// Those that leave nothing, or nothing that pins a session at once.
    pub(crate) const UNKEPT: SideEffects = SideEffects(
        SideEffects::SEQUENCE.0
            | SideEffects::RESETS.0
            | SideEffects::CURRVAL.0
            | SideEffects::BACKEND_PID.0
            | SideEffects::STATE_READ.0
            | SideEffects::DEFINES.0
            | SideEffects::WRITES.0
            | SideEffects::NOTIFIES.0,
    );
    /// Those of code that may write to tables: what runs a text, and what cannot be read, may do that too.
    pub(crate) const WRITING: SideEffects = SideEffects(
        SideEffects::WRITES.0
            | SideEffects::NOTIFIES.0
            | SideEffects::SEQUENCE.0
            | SideEffects::DBLINK.0
            | SideEffects::BACKUP.0
            | SideEffects::SLOT.0
            | SideEffects::ORIGIN.0
            | SideEffects::DYNAMIC.0
            | SideEffects::UNKNOWN.0
            | SideEffects::DEFINES.0
            | SideEffects::TEMPORARY.0,
    );

    /// Those of code that may run NOTIFY: what runs a text, and what cannot be read, may do that too.
    pub(crate) const NOTIFYING: SideEffects =
        SideEffects(SideEffects::NOTIFIES.0 | SideEffects::DYNAMIC.0 | SideEffects::UNKNOWN.0);

    #[cfg(test)]
    pub(crate) fn each() -> impl Iterator<Item = SideEffects> {
        NAMES.iter().map(|(side_effect, _)| *side_effect)
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// As `|`, where a constant is made.
    #[must_use]
    pub(crate) const fn and(self, others: SideEffects) -> SideEffects {
        SideEffects(self.0 | others.0)
    }

    /// Whether any of `others` is here.
    pub fn any(self, others: SideEffects) -> bool {
        self.0 & others.0 != 0
    }

    pub fn contains(self, others: SideEffects) -> bool {
        self.0 & others.0 == others.0
    }

    #[must_use]
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
