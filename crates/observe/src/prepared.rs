//! Prepared transactions: they hold locks, and no process has them.
//= pg18 view-pg-prepared-xacts
//!
//! Each has a negative id in place of a process id. People see 0 ([`pid_shown`]).

use std::time::Duration;

/// The id of a prepared transaction that pg_prepared_xacts does not have any more, or not yet.
pub const PREPARED_PID: i32 = 0;

/// A row of pg_prepared_xacts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prepared {
    /// The argument of COMMIT PREPARED and ROLLBACK PREPARED: a text that its client has chosen.
    pub gid: String,
    /// The role that has prepared it. Only this role and superusers may end it.
    pub owner: String,
    /// It can be ended only by a session that is connected to this database.
    pub database: String,
    /// Since PREPARE TRANSACTION.
    pub age: Duration,
}

impl Prepared {
    /// The statement that ends it: `ROLLBACK PREPARED 'gid';`.
    //= pg18 sql-rollback-prepared
    #[must_use]
    pub fn rollback(&self) -> String {
        // A gid with a backslash is no escape string, unless standard_conforming_strings is off: E'' is the same for both.
        let quoted = self.gid.replace('\'', "''");
        let literal =
            if quoted.contains('\\') { format!("E'{}'", quoted.replace('\\', "\\\\")) } else { format!("'{quoted}'") };
        format!("ROLLBACK PREPARED {literal};")
    }
}

/// Whether an id is one of a prepared transaction, and not a process id.
#[must_use]
pub fn is_prepared(pid: i32) -> bool {
    pid <= PREPARED_PID
}

/// The process id as a person may see it. 0 for a prepared transaction, as in `pg_blocking_pids`.
//= pg18 functions-info#FUNCTIONS-INFO-SESSION
#[must_use]
pub fn pid_shown(pid: i32) -> i32 {
    pid.max(PREPARED_PID)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gid_stays_one_text() {
        let rollback = |gid: &str| Prepared { gid: gid.to_owned(), ..Prepared::default() }.rollback();
        assert_eq!(rollback("order-7"), "ROLLBACK PREPARED 'order-7';");
        assert_eq!(rollback("it's"), "ROLLBACK PREPARED 'it''s';");
        assert_eq!(rollback("a\\'b"), "ROLLBACK PREPARED E'a\\\\''b';");
    }

    #[test]
    fn ids_of_prepared_transactions_are_shown_as_postgresql_shows_them() {
        assert_eq!([-725, PREPARED_PID, 4711].map(pid_shown), [0, 0, 4711]);
        assert_eq!([-725, PREPARED_PID, 4711].map(is_prepared), [true, true, false]);
    }
}
