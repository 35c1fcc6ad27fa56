//! A client's conversation: a value that refers to nothing of its worker but ids.
//!
//! ```text
//!              welcome                    first whole message
//!  Welcoming ───────────► Idle ─────────────────────────────────► Linked
//!      │                  ▲  │                                    ▲    │
//!      │                  │  └── no server free ──► Waiting ──────┘    │
//!      │                  └────────────── released ────────────────────┘
//!      └─────────── any of them ───► Leaving (last words unsent) ───► gone
//!  Console: for the admin database, never linked.
//! ```

use std::sync::Arc;

use connections::Origin;
use connections::flow::Flow;
use machine::arrival::{ConsoleRights, Identity};
use queueing::classes::{ClassId, Standing};
use session_state::parameters::Parameters;
use session_state::prepared::Names;
use session_state::state::Wait;
use session_state::tracker::Tracker;
use session_state::unnamed::Unnamed;
use units::deadline::Armed;
use units::{ConnId, PoolId, Time};

/// What a session is doing. What is not valid in a state is not a field of it.
#[derive(Debug)]
pub enum State {
    /// Logged in; the pool's parameters are not known yet, because no server ever logged in.
    Welcoming { since: Time },
    /// Between transactions, nothing at hand but perhaps part of a message.
    Idle { since: Time },
    /// A whole message is at hand and no server is free. The ticket is its place in the line; it can wait for so long, 0: for as
    /// long as the settings allow.
    Waiting { since: Time, ticket: u64, notified: bool, line: Line, deadline_ms: u32 },
    /// A server is this session's alone.
    Linked { server: ConnId },
    /// Talks to the control plane; `asked`: an answer is outstanding.
    Console { rights: ConsoleRights, asked: bool },
    /// Ended; only what it is still owed is being written.
    Leaving { until: Time },
}

/// What a session waits for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Line {
    Server,
    /// For a server, before it is let in: it is to be told that one's process id.
    Login,
    /// Not yet for a server, but for somebody to stop keeping one.
    Pin,
    /// Not yet for a server, but for its class, or its statement, to be within a limit.
    Limit,
}

/// Whether limits let its transaction run.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Admission {
    /// Nobody has asked.
    #[default]
    Not,
    /// It is in a line; the ticket is its place.
    Waits { ticket: u64 },
    /// One gate has let it through, after it had waited, and there is another.
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

/// One client after login.
#[derive(Debug)]
pub struct Session {
    pub state: State,
    pub pool: PoolId,
    pub identity: Arc<Identity>,
    pub parameters: Arc<Parameters>,
    /// What a RESET brings back, where its client has begun with parameters of its own.
    pub reset_to: Option<Arc<Parameters>>,
    /// A server has accepted these parameters once; before that they are set and waited for, not just sent ahead.
    pub confirmed: bool,
    pub rest: Rest,
    /// Bytes of the current message still to come.
    pub skip: u32,
    /// A batch of its was refused: what comes up to its Sync is thrown away.
    pub skipping: bool,
    /// How long it can wait for a server, as its startup packet says where settings are not followed; 0: it does not say.
    pub begun_deadline_ms: u32,
    pub flow: Flow,
    /// Received and undecided: part of a message, or what waits for a server.
    pub inbox: Vec<u8>,
    pub names: Option<Box<Names>>,
    pub unnamed: Option<Box<Unnamed>>,
    /// Where there is session state to follow.
    pub tracker: Option<Box<Tracker>>,
    /// As of when it last asked for a server.
    pub class: ClassId,
    /// What the rules of classes say of it, and of whom with these parameters.
    pub standing: Option<Box<(Arc<Parameters>, Arc<Standing>)>>,
    pub admission: Admission,
    /// It is told how much its limits leave.
    pub reports_limits: bool,
    /// How that transaction began, where classes ask for it.
    pub origin: Option<Origin>,
    /// The secret half of its cancel key.
    pub secret: i32,
    pub request_at: Time,
    /// The last byte that moved, in either direction.
    pub progress_at: Time,
    pub armed: Armed,
}

impl Session {
    /// Since when it has waited, at gates before this one too.
    pub fn asked_at(&self) -> Option<Time> {
        match self.admission {
            Admission::Halfway { since } | Admission::In { since, .. } => Some(since),
            Admission::Not | Admission::Waits { .. } => None,
        }
    }

    pub fn server(&self) -> Option<ConnId> {
        match self.state {
            State::Linked { server } => Some(server),
            _ => None,
        }
    }

    pub fn is_leaving(&self) -> bool {
        matches!(self.state, State::Leaving { .. })
    }

    /// What it has sent is not dealt with before its pool's listener is ready for it.
    pub fn waits_for_listener(&self) -> bool {
        let wait = self.tracker.as_ref().map_or(Wait::Nothing, |tracker| tracker.notifications.wait());
        matches!(wait, Wait::ToSend { .. } | Wait::ToBeReady)
    }

    /// A message of which the server has the beginning only.
    pub fn is_torn(&self) -> bool {
        self.skip > 0 && self.rest == Rest::Forward
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_session_is_small() {
        assert!(size_of::<Session>() <= 224, "{}", size_of::<Session>());
    }
}
