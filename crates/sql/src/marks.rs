//! What a text does, as a set: one bit for each kind of statement in it, one for each thing that may change session
//! state unseen.
//!
//! A bit says that the thing may be there. That a bit is missing promises that it is not: but for what the functions,
//! tables, operators and types that the text names do inside, which a catalogue must tell by [`crate::Word`].

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

/// A set of marks. Empty for a text that changes and reads no session state by itself.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Marks(u64);

macro_rules! marks {
    ($($(#[$doc:meta])* $name:ident = $bit:literal;)*) => {
        impl Marks {
            $($(#[$doc])* pub const $name: Marks = Marks(1 << $bit);)*
        }
        impl Marks {
            /// Every mark that there is.
            pub const ALL: Marks = Marks(0 $(| 1 << $bit)*);
        }
        const NAMES: &[(Marks, &str)] = &[$((Marks::$name, stringify!($name))),*];
    };
}

marks! {
    /// A statement that is not known, or not written as any known server would take it, or a text that is no tokens.
    UNKNOWN = 0;
    /// BEGIN, START TRANSACTION.
    BEGIN = 1;
    /// COMMIT, END.
    COMMIT = 2;
    /// ROLLBACK, ABORT.
    ROLLBACK = 3;
    /// COMMIT or ROLLBACK begins another transaction at once.
    CHAIN = 4;
    /// SAVEPOINT, RELEASE, ROLLBACK TO.
    SAVEPOINT = 5;
    /// PREPARE TRANSACTION, COMMIT PREPARED, ROLLBACK PREPARED.
    TWO_PHASE = 6;
    /// SET that outlives the transaction, SET SESSION CHARACTERISTICS included.
    SET = 7;
    /// SET LOCAL, SET TRANSACTION, SET CONSTRAINTS, and set_config whose last argument is the word `true`: until the
    /// transaction's end.
    SET_LOCAL = 8;
    /// SET LOCAL ROLE and SESSION AUTHORIZATION, and set_config of whatever unless its last argument is the word `false`.
    LOCAL_RIGHTS = 46;
    RESET = 9;
    DISCARD = 10;
    /// PREPARE of a statement.
    PREPARE = 11;
    EXECUTE = 12;
    DEALLOCATE = 13;
    /// DECLARE CURSOR.
    DECLARE = 14;
    /// DECLARE CURSOR WITH HOLD.
    HOLD = 15;
    CLOSE = 16;
    /// FETCH, MOVE.
    FETCH = 17;
    LISTEN = 18;
    UNLISTEN = 19;
    /// NOTIFY, and pg_notify.
    NOTIFY = 20;
    LOAD = 21;
    COPY = 22;
    /// DO.
    BLOCK = 23;
    /// CALL.
    CALL = 24;
    /// Runs in no transaction block and shares no batch with anything: VACUUM, CREATE DATABASE and the like.
    ALONE = 25;
    /// Requires that no one else is connected to a database: DROP DATABASE, CREATE DATABASE (its template), ALTER
    /// DATABASE RENAME.
    EMPTY_DATABASE = 26;
    /// Makes or changes something temporary, or names the schema pg_temp. Not told by it: where search_path names pg_temp,
    /// whatever has the marks ROUTINES or RELATIONS may make something temporary; and that it does may stand in a string.
    TEMPORARY = 27;
    /// Changes what functions, operators, types, views and triggers do.
    ROUTINES = 28;
    /// Changes what tables there are or what hangs on them.
    RELATIONS = 29;
    /// ROUTINES or RELATIONS in a statement without TEMPORARY, which drops nothing and is about no index or statistics: what
    /// other sessions have prepared may mean something else.
    PERMANENT = 45;
    /// Changes what other sessions begin with: ALTER ROLE or DATABASE … SET, ALTER SYSTEM.
    DEFAULTS = 30;
    /// set_config, unless each of its calls has SET_LOCAL.
    SET_CONFIG = 31;
    /// Advisory locks that belong to the session.
    ADVISORY = 32;
    /// currval, lastval.
    CURRVAL = 33;
    /// nextval, setval.
    NEXTVAL = 34;
    /// pg_backend_pid.
    BACKEND_PID = 35;
    /// setseed, SET seed. Not told by it: set_config of seed, whose name stands in a string.
    SEED = 36;
    /// pg_listening_channels.
    CHANNELS = 37;
    /// pg_export_snapshot.
    SNAPSHOT = 38;
    /// pg_backup_start and its like.
    BACKUP = 39;
    /// Functions that make replication slots, which may be temporary.
    SLOT = 40;
    /// Replication origins of the session.
    ORIGIN = 41;
    /// The functions of dblink, but for `dblink` itself: that one opens no connection that it does not close.
    DBLINK = 42;
    /// Reads settings: current_setting, pg_settings, SHOW.
    SETTINGS_READ = 43;
    /// Reads other state: pg_prepared_statements, pg_cursors, pg_my_temp_schema.
    STATE_READ = 44;
}

impl Marks {
    pub const NONE: Marks = Marks(0);
    /// What ends or divides a transaction.
    pub const TRANSACTION: Marks = Marks(
        Marks::BEGIN.0 | Marks::COMMIT.0 | Marks::ROLLBACK.0 | Marks::CHAIN.0 | Marks::SAVEPOINT.0 | Marks::TWO_PHASE.0,
    );

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether any of `others` is here.
    pub fn any(self, others: Marks) -> bool {
        self.0 & others.0 != 0
    }

    pub fn contains(self, others: Marks) -> bool {
        self.0 & others.0 == others.0
    }

    /// As `|`, where a constant is made.
    #[must_use]
    pub const fn and(self, others: Marks) -> Marks {
        Marks(self.0 | others.0)
    }

    pub fn without(self, others: Marks) -> Marks {
        Marks(self.0 & !others.0)
    }
}

impl BitOr for Marks {
    type Output = Marks;

    fn bitor(self, other: Marks) -> Marks {
        Marks(self.0 | other.0)
    }
}

impl BitOrAssign for Marks {
    fn bitor_assign(&mut self, other: Marks) {
        self.0 |= other.0;
    }
}

impl fmt::Debug for Marks {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_set().entries(NAMES.iter().filter(|(mark, _)| self.contains(*mark)).map(|(_, name)| name)).finish()
    }
}

/// The mark of a word that is the name of a function or view of the server's own.
pub(crate) fn of_a_word(folded: &[u8]) -> Marks {
    match folded {
        b"set_config" => Marks::SET_CONFIG,
        b"currval" | b"lastval" => Marks::CURRVAL,
        b"nextval" | b"setval" => Marks::NEXTVAL,
        b"setseed" => Marks::SEED,
        b"current_setting" => Marks::SETTINGS_READ,
        _ if folded.starts_with(b"pg_") => of_a_system_word(folded),
        _ if folded.starts_with(b"dblink_") => Marks::DBLINK,
        _ => Marks::NONE,
    }
}

fn of_a_system_word(folded: &[u8]) -> Marks {
    match folded {
        b"pg_backend_pid" => Marks::BACKEND_PID,
        b"pg_notify" => Marks::NOTIFY,
        b"pg_listening_channels" => Marks::CHANNELS,
        b"pg_export_snapshot" => Marks::SNAPSHOT,
        b"pg_backup_start" | b"pg_backup_stop" | b"pg_start_backup" | b"pg_stop_backup" => Marks::BACKUP,
        b"pg_settings" | b"pg_show_all_settings" => Marks::SETTINGS_READ,
        b"pg_prepared_statements" | b"pg_prepared_statement" | b"pg_cursors" | b"pg_cursor" | b"pg_my_temp_schema" => {
            Marks::STATE_READ
        }
        _ if folded.starts_with(b"pg_replication_origin_") => Marks::ORIGIN,
        _ if folded.ends_with(b"_replication_slot") => Marks::SLOT,
        // Those named `_xact_` belong to the transaction.
        _ if folded.starts_with(b"pg_advisory_xact_") || folded.starts_with(b"pg_try_advisory_xact_") => Marks::NONE,
        _ if folded.starts_with(b"pg_advisory_") || folded.starts_with(b"pg_try_advisory_") => Marks::ADVISORY,
        _ if folded == b"pg_temp" || folded.starts_with(b"pg_temp_") => Marks::TEMPORARY,
        _ => Marks::NONE,
    }
}
