//! What the pooler itself asks a server: which question it is. Does not know the texts.

/// What the pooler itself asks a server.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Chore {
    /// `connect_query`
    Setup,
    /// `server_check_query`
    Check,
    /// Ends a transaction whose client is gone.
    Rollback,
    /// `server_reset_query`
    Reset,
    /// `chaos_poison`
    Poison,
    /// `chaos_check`
    Compare,
    /// Whether side effects of functions, triggers and views have changed.
    Poll,
    /// Side effects of functions, triggers and views.
    Catalogue,
    /// The same, of a pool that knows nothing yet: its clients wait for it.
    First,
    /// A session that has left it listened.
    Unlisten,
    /// What the pool's servers wait for.
    WaitEvents,
}

impl Chore {
    /// Whether it reads the catalogue for side effects.
    pub fn is_of_names(self) -> bool {
        matches!(self, Chore::Poll | Chore::Catalogue | Chore::First)
    }

    /// Whether its answer's rows are read.
    pub fn reads_rows(self) -> bool {
        self.is_of_names() || self == Chore::WaitEvents
    }

    /// As the log says it.
    pub fn words(self) -> &'static str {
        match self {
            Chore::Setup => "connect query",
            Chore::Check => "server check",
            Chore::Rollback => "rollback",
            Chore::Reset => "reset query",
            Chore::Poison => "chaos_poison",
            Chore::Compare => "chaos_check",
            Chore::Poll => "catalogue poll",
            Chore::Catalogue => "catalogue query",
            Chore::First => "first catalogue query",
            Chore::Unlisten => "unlisten",
            Chore::WaitEvents => "question about waits",
        }
    }
}
