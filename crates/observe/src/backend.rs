//! A row of pg_stat_activity.
//= pg18 monitoring-stats#MONITORING-PG-STAT-ACTIVITY-VIEW

use std::time::Duration;

/// What PostgreSQL says of one backend. `None`: it has no such thing, or the role that asks is not told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backend {
    pub pid: i32,
    /// `client backend`, `autovacuum worker` and others.
    pub kind: Option<String>,
    pub database: Option<String>,
    pub user: Option<String>,
    pub application_name: Option<String>,
    pub client_addr: Option<String>,
    pub state: Option<State>,
    pub wait: Option<WaitEvent>,
    pub ages: Ages,
    /// How many transactions ago its oldest snapshot was taken: what began to be dead since cannot be removed.
    pub xmin_age: Option<u32>,
    /// Where `compute_query_id` has one.
    pub query_id: Option<i64>,
    /// Its statement, or its last one; as much of it as `track_activity_query_size` keeps.
    pub query: Option<String>,
    /// PostgreSQL does not have it: it is read where its processes are seen.
    pub usage: Option<Usage>,
}

/// The memory and the processor time of a process.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of its own memory: without what it shares with others, such as shared_buffers, and without what is swapped out.
    pub memory: u64,
    /// Of processors, since it began.
    pub cpu_time: Duration,
    /// Thousandths of a processor since it was looked at before; `None`: it was not.
    pub cpu_thousandths: Option<u32>,
}

impl Backend {
    /// Whether it is an autovacuum worker that prevents wraparound: it gives way to nobody, and one that is ended begins again.
    //= pg18 routine-vacuuming#AUTOVACUUM
    #[must_use]
    pub fn prevents_wraparound(&self) -> bool {
        let is_autovacuum = self.kind.as_deref() == Some("autovacuum worker");
        is_autovacuum && self.query.as_deref().is_some_and(|text| text.ends_with("(to prevent wraparound)"))
    }
}

/// Whether `pg_terminate_backend` ends a process of this `backend_type`: PostgreSQL's own processes, such as a standby's `startup`, it does not.
//= pg18 functions-admin#FUNCTIONS-ADMIN-SIGNAL
#[must_use]
pub fn can_be_terminated(kind: &str) -> bool {
    matches!(kind, "client backend" | "walsender") || (kind.contains("worker") && kind != "io worker")
}

/// For how long.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Ages {
    pub backend: Option<Duration>,
    pub transaction: Option<Duration>,
    pub query: Option<Duration>,
    pub state: Option<Duration>,
}

/// What it is doing.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum State {
    Active,
    Idle,
    IdleInTransaction,
    IdleInFailedTransaction,
    FastpathFunctionCall,
    /// `track_activities` is off there.
    Disabled,
    /// Of a later version.
    Other,
}

impl State {
    #[must_use]
    pub fn of(word: &str) -> State {
        match word {
            "active" => State::Active,
            "idle" => State::Idle,
            "idle in transaction" => State::IdleInTransaction,
            "idle in transaction (aborted)" => State::IdleInFailedTransaction,
            "fastpath function call" => State::FastpathFunctionCall,
            "disabled" => State::Disabled,
            _ => State::Other,
        }
    }

    /// PostgreSQL's word for it; of a later version's, `other`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            State::Active => "active",
            State::Idle => "idle",
            State::IdleInTransaction => "idle in transaction",
            State::IdleInFailedTransaction => "idle in transaction (aborted)",
            State::FastpathFunctionCall => "fastpath function call",
            State::Disabled => "disabled",
            State::Other => "other",
        }
    }

    /// Whether it holds locks and a snapshot while its client says nothing.
    #[must_use]
    pub fn is_idle_in_transaction(self) -> bool {
        matches!(self, State::IdleInTransaction | State::IdleInFailedTransaction)
    }
}

/// What it waits for, in PostgreSQL's words.
//= pg18 monitoring-stats#WAIT-EVENT-TABLE
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WaitEvent {
    /// `Lock`, `LWLock`, `IO`, `Client` and others.
    pub class: String,
    pub event: String,
}
