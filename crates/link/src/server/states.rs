//! The states of a server, with one function for each transition.
//!
//! `docs/states.md` has a drawing of them, which a test compares with the table. In builds with assertions each
//! function checks that its transition is in the table. The callers do what a transition means for the rest of the
//! server and for its pool's counts.

use connections::server_login::ServerLogin;
use units::{ConnId, Time};

use super::{Chore, Server};

/// The state of a server, with the fields that are valid in it.
#[derive(Debug)]
pub enum ServerState {
    /// Its connection is not open yet, or not encrypted yet.
    Connecting,
    LoggingIn(Box<ServerLogin>),
    /// It answers a query of the pooler's own.
    Busy(Chore),
    Idle,
    /// It belongs to this session.
    Linked(ConnId),
    /// It was opened for this session, which replicates, and serves no other: whatever the two say to each other passes.
    Own(ConnId),
    /// It is the listener of its pool on this worker.
    Listening,
    /// Its client is gone; the answers it owes are read and discarded. `read`: so many bytes so far; `cancelled`: its
    /// query was cancelled.
    Draining {
        read: u64,
        cancelled: bool,
    },
    /// It has no session, and may not be handed out yet (I3): a cancel for its last client is under way, half a message
    /// has been read, its socket has not taken everything, or it is on its way to another worker.
    Held,
}

/// The groups that a pool counts its servers by.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Group {
    Opening,
    /// Idle soon: checks and resets.
    Returning,
    /// Not idle soon: draining, held, or answering a query about its database.
    Recovering,
    Idle,
    /// In use.
    Linked,
    /// Closed while PostgreSQL was at work for it, and not taken to have ended yet. No state: its connection is gone.
    Ending,
}

impl ServerState {
    pub fn group(&self) -> Group {
        match self {
            ServerState::Connecting
            | ServerState::LoggingIn(_)
            | ServerState::Busy(Chore::Setup | Chore::Role | Chore::Base) => Group::Opening,
            // Waiters do not wait for these: another server may be opened.
            ServerState::Busy(Chore::Poll | Chore::Catalogue) | ServerState::Draining { .. } | ServerState::Held => {
                Group::Recovering
            }
            ServerState::Busy(_) => Group::Returning,
            ServerState::Idle => Group::Idle,
            ServerState::Linked(_) | ServerState::Own(_) | ServerState::Listening => Group::Linked,
        }
    }
}

units::transitions! {ServerState, drawn under "Servers":
    Connecting { log_in => LoggingIn }
    LoggingIn { ask => Busy, free => Idle, withhold => Held, connect_again => Connecting, join => Own }
    Idle { link => Linked, ask => Busy, listen => Listening, withhold => Held }
    Linked { free => Idle, ask => Busy, withhold => Held, drain => Draining, outwait_cancel => Draining }
    Draining { free => Idle, ask => Busy, withhold => Held }
    Busy { free => Idle, ask => Busy, withhold => Held, outwait_cancel => Draining }
    Held { free => Idle, ask => Busy }
    Listening {}
    Own {}
}

impl Server {
    #[inline]
    pub fn state(&self) -> &ServerState {
        &self.state
    }

    /// Its connection is open, and the startup packet is sent.
    pub fn log_in(&mut self) {
        self.state.go("log_in", ServerState::LoggingIn(Box::default()));
    }

    /// Its login was refused, and is tried again over another connection.
    pub fn connect_again(&mut self) {
        self.state.go("connect_again", ServerState::Connecting);
    }

    /// The pooler sends a query of its own.
    pub fn ask(&mut self, chore: Chore) {
        self.state.go("ask", ServerState::Busy(chore));
    }

    /// It has no work, and may be given to a session.
    #[inline]
    pub fn free(&mut self) {
        self.state.go("free", ServerState::Idle);
    }

    /// It has no work, and may not be given to a session yet, or not by this worker.
    pub fn withhold(&mut self) {
        self.state.go("withhold", ServerState::Held);
    }

    /// It belongs to a session from now on.
    #[inline]
    pub(crate) fn link(&mut self, session: ConnId) {
        self.state.go("link", ServerState::Linked(session));
    }

    /// It has logged in, and belongs to the session that it was opened for.
    pub fn join(&mut self, session: ConnId) {
        self.state.go("join", ServerState::Own(session));
    }

    /// It becomes its pool's listener on this worker.
    pub fn listen(&mut self) {
        self.state.go("listen", ServerState::Listening);
    }

    /// Its client is gone, and it still owes answers. Its query is not cancelled yet.
    pub fn drain(&mut self) {
        self.state.go("drain", ServerState::Draining { read: 0, cancelled: false });
    }

    /// Its client is gone, and a cancel is under way: its next query has to wait for that.
    pub fn outwait_cancel(&mut self) {
        self.state.go("outwait_cancel", ServerState::Draining { read: 0, cancelled: true });
    }

    /// The query of a draining server is to be cancelled. Whether it was not cancelled before.
    pub fn cancel_drain(&mut self) -> bool {
        let ServerState::Draining { cancelled, .. } = &mut self.state else {
            unreachable!("only a server that drains is asked to stop");
        };
        !std::mem::replace(cancelled, true)
    }

    /// So many bytes have come from it.
    #[inline]
    pub fn heard(&mut self, now: Time, len: usize) {
        self.work.heard_at = now;
        if let ServerState::Draining { read, .. } = &mut self.state {
            *read += len as u64;
        }
    }

    /// Its login, if it is logging in.
    pub fn login_mut(&mut self) -> Option<&mut ServerLogin> {
        match &mut self.state {
            ServerState::LoggingIn(login) => Some(login),
            _ => None,
        }
    }
}
