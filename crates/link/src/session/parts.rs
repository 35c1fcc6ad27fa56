//! The parts of a session: fields that change together.

use std::num::NonZeroU32;
use std::sync::Arc;

use queueing::classes::{ClassId, Standing};
use session_state::own_changes::OwnChanges;
use session_state::parameter_set::ParameterSet;
use session_state::parameters::Parameters;
use session_state::prepared::StatementNames;
use session_state::unnamed::Unnamed;
use units::Time;

use crate::charge::Origin;
use crate::permits::Permits;

/// Bytes that it has sent and that are not dealt with yet.
#[derive(Debug)]
pub struct Incoming {
    /// Received and kept: part of a message, or messages that wait for a server.
    pub inbox: Vec<u8>,
    /// Bytes of the current message still to come.
    pub skip: u32,
    pub rest: Rest,
    /// A batch was refused: its messages up to the Sync are discarded.
    pub skipping: bool,
}

/// The parameters that the session has set itself. All others follow its pool's servers.
#[derive(Copy, Clone, Debug, Default)]
pub struct OwnParameters {
    pub now: ParameterSet,
    /// In its startup packet.
    pub at_login: ParameterSet,
    /// The edition of the values that its pool's servers begin with, as far as it has followed them; `None`: it comes from another process, or
    /// follows a server that is being replaced.
    pub edition: Option<NonZeroU32>,
}

impl OwnParameters {
    #[must_use]
    pub fn begun(at_login: ParameterSet, edition: NonZeroU32) -> OwnParameters {
        OwnParameters { now: at_login, at_login, edition: Some(edition) }
    }

    /// Its statements have done this.
    pub fn change(&mut self, changes: OwnChanges) {
        self.now = changes.over(self.now, self.at_login);
    }
}

/// The statements that it has prepared, by its own names.
#[derive(Debug)]
pub struct ClientStatements {
    pub names: Option<Box<StatementNames>>,
    pub unnamed: Option<Box<Unnamed>>,
}

/// Its class, and what the limits allow it.
#[derive(Debug)]
pub struct Claim {
    /// The class it had when it last needed a server.
    pub class: ClassId,
    /// What the rules of classes give to it, and the parameters for which this holds.
    pub standing: Option<Box<(Arc<Parameters>, Arc<Standing>)>>,
    /// How that transaction began, if its class has a class for long ones.
    pub origin: Option<Origin>,
    pub admission: Admission,
    /// The permits of its transaction.
    pub permits: Option<Box<Permits>>,
    /// The client wants to be sent how much its limits leave.
    pub reports_limits: bool,
    /// Its deadline from the startup packet, where session state is not followed; 0: none.
    pub begun_deadline_ms: u32,
}

/// Whether the limits let its transaction run.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Admission {
    /// No transaction has been requested.
    #[default]
    Not,
    /// It waits in the queue of a limit; the ticket is its place.
    Waits { ticket: u64 },
    /// It has waited for one limit and passed it, and there may be another.
    HasWaited { since: Time },
    /// It runs, or waits for a server. `transactions` and `queries` were counted already and have not begun. `since`:
    /// when it was requested.
    In { since: Time, transactions: u8, queries: u8 },
}

/// What happens to the rest of a message whose beginning was dealt with.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Rest {
    Forward,
    Discard,
}
