//! Requests of the ledger's clients, and their ends as the clients learned them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Ids of one client, which has a request every 300 ms or so.
pub(crate) const IDS_OF_A_CLIENT: u64 = 1_000_000;
/// transaction_resolution_unknown: the transaction may have been committed.
pub(crate) const UNKNOWN: &str = "08007";

/// A client's occupation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Block,
    Call,
    Idle,
}

impl Kind {
    pub(crate) fn of(client: usize) -> Self {
        [Kind::Block, Kind::Call, Kind::Idle][client % 3]
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Block => "block",
            Kind::Call => "call",
            Kind::Idle => "idle",
        }
    }
}

/// A request's result, as its client has learned it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    Committed,
    /// A certain failure. `first`: the error answered the first statement (08007 in answer to a lone one is [`Told::Unknown`]), so that
    /// the request had not begun.
    Failed {
        code: String,
        first: bool,
    },
    /// The connection ended within the block, before its COMMIT was sent.
    Ended {
        code: String,
    },
    /// 08007, or the connection ended while a commit was under way.
    Unknown {
        code: String,
    },
    /// It had no answer when the run ended, and no commit was under way.
    Nothing,
}

/// A request and its end.
#[derive(Clone, Debug)]
pub struct Request {
    pub client: usize,
    pub id: u64,
    pub kind: Kind,
    /// Seconds since the run began.
    pub sent: f64,
    pub told_at: f64,
    pub told: Told,
}

/// One client's requests and failures.
#[derive(Debug, Default)]
pub struct Seen {
    pub requests: Vec<Request>,
    /// By SQLSTATE, or by a word where there was none.
    pub login_errors: BTreeMap<String, u64>,
    /// Connections that ended.
    pub dropped: u64,
    /// Connections that were open, and which an application's pool threw away; by the SQLSTATE of the error before, or a word.
    pub evicted: BTreeMap<String, u64>,
    /// An idle client whose connection was no longer there, or no longer served.
    pub idle_lost: bool,
    /// It waited for an answer until the run was cut short.
    pub hung: bool,
}

/// The time of each client's last commit, in ms since the run began and 1; 0: never.
#[derive(Debug)]
pub struct Commits(Vec<AtomicU64>);

impl Commits {
    pub(crate) fn none(clients: usize) -> Self {
        Self((0..clients).map(|_| AtomicU64::new(0)).collect())
    }

    /// A commit of this client was told at this time, in seconds since the run began.
    pub(crate) fn note(&self, client: usize, told_at: f64) {
        self.0[client].store((told_at * 1000.0) as u64 + 1, Ordering::Relaxed);
    }

    /// The number of clients without a commit since then; of idle ones, without any.
    #[must_use]
    pub fn missing_since(&self, time: f64) -> usize {
        let is_missing = |(number, told): (usize, &AtomicU64)| {
            let told = told.load(Ordering::Relaxed);
            told == 0 || (Kind::of(number) != Kind::Idle && told as f64 / 1000.0 <= time)
        };
        self.0.iter().enumerate().filter(|client| is_missing(*client)).count()
    }
}
