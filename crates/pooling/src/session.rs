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

use queueing::classes::{ClassId, Standing};
use session_state::parameters::Parameters;
use session_state::prepared::Names;
use session_state::state::Wait;
use session_state::tracker::Tracker;
use session_state::unnamed::Unnamed;
use units::deadline::Armed;
use units::{ConnId, PoolId, Time};

use crate::arrival::{ConsoleRights, Identity};
use crate::experience::Origin;
use crate::flow::Flow;

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
pub(crate) enum Admission {
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
pub(crate) enum Rest {
    Forward,
    Discard,
}

/// One client after login.
#[derive(Debug)]
pub struct Session {
    pub(crate) state: State,
    pub(crate) pool: PoolId,
    pub(crate) identity: Arc<Identity>,
    pub(crate) parameters: Arc<Parameters>,
    /// What a RESET brings back, where its client has begun with parameters of its own.
    pub(crate) reset_to: Option<Arc<Parameters>>,
    /// A server has accepted these parameters once; before that they are set and waited for, not just sent ahead.
    pub(crate) confirmed: bool,
    pub(crate) rest: Rest,
    /// Bytes of the current message still to come.
    pub(crate) skip: u32,
    /// A batch of its was refused: what comes up to its Sync is thrown away.
    pub(crate) skipping: bool,
    /// How long it can wait for a server, as its startup packet says where settings are not followed; 0: it does not say.
    pub(crate) begun_deadline_ms: u32,
    pub(crate) flow: Flow,
    /// Received and undecided: part of a message, or what waits for a server.
    pub(crate) inbox: Vec<u8>,
    pub(crate) names: Option<Box<Names>>,
    pub(crate) unnamed: Option<Box<Unnamed>>,
    /// Where there is session state to follow.
    pub(crate) tracker: Option<Box<Tracker>>,
    /// As of when it last asked for a server.
    pub(crate) class: ClassId,
    /// What the rules of classes say of it, and of whom with these parameters.
    pub(crate) standing: Option<Box<(Arc<Parameters>, Arc<Standing>)>>,
    pub(crate) admission: Admission,
    /// It is told how much its limits leave.
    pub(crate) reports_limits: bool,
    /// How that transaction began, where classes ask for it.
    pub(crate) origin: Option<Origin>,
    /// The secret half of its cancel key.
    pub(crate) secret: i32,
    pub(crate) request_at: Time,
    /// The last byte that moved, in either direction.
    pub(crate) progress_at: Time,
    pub(crate) armed: Armed,
}

impl Session {
    /// Since when it has waited, at gates before this one too.
    pub(crate) fn asked_at(&self) -> Option<Time> {
        match self.admission {
            Admission::Halfway { since } | Admission::In { since, .. } => Some(since),
            Admission::Not | Admission::Waits { .. } => None,
        }
    }

    pub(crate) fn server(&self) -> Option<ConnId> {
        match self.state {
            State::Linked { server } => Some(server),
            _ => None,
        }
    }

    pub(crate) fn is_leaving(&self) -> bool {
        matches!(self.state, State::Leaving { .. })
    }

    /// What it has sent is not dealt with before its pool's listener is ready for it.
    pub(crate) fn waits_for_listener(&self) -> bool {
        let wait = self.tracker.as_ref().map_or(Wait::Nothing, |tracker| tracker.notifications.wait());
        matches!(wait, Wait::ToSend { .. } | Wait::ToBeReady)
    }

    /// A message of which the server has the beginning only.
    pub(crate) fn is_torn(&self) -> bool {
        self.skip > 0 && self.rest == Rest::Forward
    }
}

/// The pid a client is told: its worker and slot, above every pid that a kernel gives out (2²²), so that
/// `pg_terminate_backend` with it hits nobody.
///
/// ```text
/// 0 1 wwwwwwwww ssssssssssssssssssss     9 bits of worker, 20+1 bits of slot
/// ```
#[must_use]
pub fn virtual_pid(conn: ConnId) -> i32 {
    (1 << 30) | i32::from(conn.owner()) << 21 | (conn.slot() as i32 & 0x1f_ffff)
}

/// Worker and slot that a pid of a CancelRequest names, if it is one of ours.
#[must_use]
pub fn from_virtual_pid(pid: i32) -> Option<(u16, usize)> {
    let ours = pid >> 30 == 1;
    ours.then_some(((pid >> 21 & 0x1ff) as u16, (pid & 0x1f_ffff) as usize))
}

/// Whether a kernel may give out this pid: those of Linux lie below 2²².
#[must_use]
pub fn may_be_real_pid(pid: i32) -> bool {
    (1..=1 << 22).contains(&pid)
}

#[cfg(test)]
mod tests {
    use units::Kind;

    use super::*;

    #[test]
    fn a_virtual_pid_tells_worker_and_slot_and_is_no_real_pid() {
        for (owner, slot) in [(0, 0), (511, 0x1f_ffff), (3, 70_000)] {
            let pid = virtual_pid(ConnId::new(Kind::Client, owner, slot, 9));
            assert!(pid > 1 << 22);
            assert_eq!(from_virtual_pid(pid), Some((owner, slot as usize)));
        }
        assert_eq!(from_virtual_pid(4711), None);
        assert_eq!(from_virtual_pid(-1), None);
    }

    #[test]
    fn an_idle_session_is_small() {
        assert!(size_of::<Session>() <= 224, "{}", size_of::<Session>());
    }
}
