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

pub use crate::session_parts::{Admission, Claim, ClientStatements, Incoming, Rest};
use connections::flow::Flow;
use machine::arrival::{ConsoleRights, Identity};
use session_state::parameters::Parameters;
use session_state::state::Wait;
use session_state::tracker::Tracker;
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
    pub flow: Flow,
    /// Where there is session state to follow.
    pub tracker: Option<Box<Tracker>>,
    /// The secret half of its cancel key.
    pub secret: i32,
    pub request_at: Time,
    /// The last byte that moved, in either direction.
    pub progress_at: Time,
    pub armed: Armed,
    pub incoming: Incoming,
    pub statements: ClientStatements,
    pub claim: Claim,
}

impl Session {
    /// Since when it has waited, at gates before this one too.
    pub fn asked_at(&self) -> Option<Time> {
        match self.claim.admission {
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
        self.incoming.skip > 0 && self.incoming.rest == Rest::Forward
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
