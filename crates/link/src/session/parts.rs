//! What a session consists of, by what changes together.

use std::sync::Arc;

use connections::{Origin, Permits};
use queueing::classes::{ClassId, Standing};
use session_state::parameters::Parameters;
use session_state::prepared::StatementNames;
use session_state::unnamed::Unnamed;
use units::Time;

/// What it has sent and has not been dealt with.
#[derive(Debug)]
pub struct Incoming {
    /// Received and undecided: part of a message, or what waits for a server.
    pub inbox: Vec<u8>,
    /// Bytes of the current message still to come.
    pub skip: u32,
    pub rest: Rest,
    /// A batch of its was refused: what comes up to its Sync is thrown away.
    pub skipping: bool,
}

/// The statements that it has prepared, as it calls them.
#[derive(Debug)]
pub struct ClientStatements {
    pub names: Option<Box<StatementNames>>,
    pub unnamed: Option<Box<Unnamed>>,
}

/// Which class it is of, and what its limits let it do.
#[derive(Debug)]
pub struct Claim {
    /// What it was when it last needed a server.
    pub class: ClassId,
    /// What the rules of classes say of it, and of whom with these parameters.
    pub standing: Option<Box<(Arc<Parameters>, Arc<Standing>)>>,
    /// How that transaction began, where classes ask for it.
    pub origin: Option<Origin>,
    pub admission: Admission,
    /// What its transaction uses of its limits.
    pub permits: Option<Box<Permits>>,
    /// It is told how much its limits leave.
    pub reports_limits: bool,
    /// How long it can wait for a server, as its startup packet says where settings are not followed; 0: it does not say.
    pub begun_deadline_ms: u32,
}

/// Whether limits let its transaction run.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Admission {
    /// Nobody has asked.
    #[default]
    Not,
    /// It is in a line; the ticket is its place.
    Waits { ticket: u64 },
    /// One limit has let it through, after it had waited, and there is another.
    Halfway { since: Time },
    /// It runs, or waits for a server to; so many transactions and statements of it are counted that have not begun. `since`: as
    /// of when it asked.
    In { since: Time, transactions: u8, queries: u8 },
}

/// What happens to the rest of a message whose beginning was dealt with.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Rest {
    Forward,
    Discard,
}
