//! The kinds of queries that the pooler itself sends to a server. The texts are elsewhere.

use std::fmt;

/// A query of the pooler's own.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Chore {
    /// `connect_query`
    Setup,
    /// Asks a new server whether it is in hot standby. PostgreSQL before 14 does not report it.
    Role,
    /// Asks a new server for its base, after its `connect_query`.
    Base,
    /// Gives a server its base again after a reset: by `connect_query`, or by SET.
    Restore,
    /// `server_check_query`
    Check,
    /// Ends a transaction whose client is gone.
    Rollback,
    /// `server_reset_query`
    Reset,
    /// DISCARD ALL: the server may have state that the pooler does not know.
    Clear,
    /// `chaos_poison`
    Poison,
    /// `chaos_check`
    Compare,
    /// Whether side effects of functions, triggers and views have changed.
    Poll,
    /// Side effects of functions, triggers and views.
    Catalogue,
    /// The same, for a pool that knows none yet: its clients wait for the answer.
    First,
    /// UNLISTEN, after a session that listened.
    Unlisten,
    /// The wait events of the pool's servers.
    WaitEvents,
}

impl Chore {
    /// Whether it reads the catalogue for side effects.
    pub fn is_of_names(self) -> bool {
        matches!(self, Chore::Poll | Chore::Catalogue | Chore::First)
    }

    /// Whether the query may set parameters, or bring back values from before a transaction. The texts of [`Chore::Check`] and [`Chore::Reset`],
    /// which the configuration file has, are read for that.
    pub(crate) fn may_set(self) -> bool {
        match self {
            Chore::Setup | Chore::Restore | Chore::Rollback | Chore::Poison | Chore::Compare => true,
            Chore::Check | Chore::Reset => true,
            Chore::Role | Chore::Base | Chore::Clear | Chore::Unlisten | Chore::WaitEvents => false,
            Chore::Poll | Chore::Catalogue | Chore::First => false,
        }
    }

    /// Whether its answer's rows are read.
    pub(crate) fn reads_rows(self) -> bool {
        self.is_of_names() || matches!(self, Chore::WaitEvents | Chore::Role | Chore::Base)
    }
}

/// Its name in the log.
impl fmt::Display for Chore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Chore::Setup | Chore::Restore => "connect query",
            Chore::Role => "question about the server's role",
            Chore::Base => "question about what the server begins with",
            Chore::Check => "server check",
            Chore::Rollback => "rollback",
            Chore::Reset | Chore::Clear => "reset query",
            Chore::Poison => "chaos_poison",
            Chore::Compare => "chaos_check",
            Chore::Poll => "catalogue poll",
            Chore::Catalogue => "catalogue query",
            Chore::First => "first catalogue query",
            Chore::Unlisten => "unlisten",
            Chore::WaitEvents => "question about waits",
        })
    }
}
