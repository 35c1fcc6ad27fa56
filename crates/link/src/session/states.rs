//! The states of a session, with one function for each transition.
//!
//! `docs/states.md` has a drawing of them, which a test compares with the table. In builds with assertions each
//! function checks that its transition is in the table.

use machine::arrival::ConsoleRights;
use units::{ConnId, Time};

use super::Session;

/// The state of a session, with the fields that are valid in it.
#[derive(Copy, Clone, Debug)]
pub enum SessionState {
    /// Logged in, but the pool's parameters are not known yet, because no server has logged in so far.
    Welcoming { since: Time },
    /// Between transactions, with at most part of a message at hand.
    Idle { since: Time },
    /// A complete message is at hand, and the session waits in a queue. The ticket is its place there. `deadline_ms`:
    /// its own deadline; 0: only the settings limit the wait.
    Waiting { since: Time, ticket: u64, notified: bool, wait_for: WaitFor, deadline_ms: u32 },
    /// It has a server.
    Linked { server: ConnId },
    /// The server of its transaction block is lost: the pooler answers until the client has ended the block, or begins it at another server if it
    /// is [untouched](crate::untouched). `since`: when it sent something last.
    LostBlock { since: Time },
    /// It replicates, and its own server is being opened. It has waited since `since`.
    Opening { server: ConnId, since: Time },
    /// It replicates: it has its own server for life, and what the two say to each other passes.
    Replicating { server: ConnId },
    /// It is at the console; `asked`: an answer is outstanding.
    Console { rights: ConsoleRights, asked: bool },
    /// It has ended, and its last message is being written.
    Leaving { until: Time },
}

/// What a session waits for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum WaitFor {
    Server,
    /// For a server, before its login is complete: it is to get that server's process id.
    Login,
    /// To be pinned: until fewer sessions are.
    Pin,
    /// For the limit of its class or its statement.
    Limit,
    /// For leave to open a server of its own, before its login is complete.
    Own,
}

units::transitions! {SessionState, drawn under "Sessions":
    Welcoming { let_in => Idle, wait => Waiting, link => Linked, leave => Leaving }
    Idle { wait => Waiting, link => Linked, lose_block => LostBlock, leave => Leaving }
    Waiting { stop_waiting => Idle, link => Linked, open => Opening, leave => Leaving }
    Opening { replicate => Replicating, wait => Waiting, leave => Leaving }
    Replicating { leave => Leaving }
    Linked { unlink => Idle, lose_block => LostBlock, leave => Leaving }
    LostBlock { end_block => Idle, leave => Leaving }
    Console { ask => Console, leave => Leaving }
    Leaving {}
}

impl Session {
    #[inline]
    pub fn state(&self) -> SessionState {
        self.state
    }

    /// The parameters of its pool's servers are known: its login is complete.
    pub fn let_in(&mut self, now: Time) {
        self.state.go("let_in", SessionState::Idle { since: now });
    }

    /// It begins to wait. `notified`: it gets no notice that it waits.
    pub fn wait(&mut self, since: Time, wait_for: WaitFor, ticket: u64, notified: bool) {
        self.state.go("wait", SessionState::Waiting { since, ticket, notified, wait_for, deadline_ms: 0 });
    }

    /// It has left its queue: it may go on without a server, or its request was refused or cancelled.
    pub fn stop_waiting(&mut self, now: Time) {
        self.state.go("stop_waiting", SessionState::Idle { since: now });
    }

    /// It gets a server.
    #[inline]
    pub(crate) fn link(&mut self, server: ConnId) {
        self.state.go("link", SessionState::Linked { server });
    }

    /// Its own server is being opened.
    pub fn open(&mut self, server: ConnId, since: Time) {
        self.state.go("open", SessionState::Opening { server, since });
    }

    /// Its own server has logged in.
    pub fn replicate(&mut self, server: ConnId) {
        self.state.go("replicate", SessionState::Replicating { server });
    }

    /// It has released its server, or lost it.
    #[inline]
    pub fn unlink(&mut self, now: Time) {
        self.state.go("unlink", SessionState::Idle { since: now });
    }

    /// The session has lost its server within a transaction block, or gets none to begin one that it had begun.
    pub fn lose_block(&mut self, now: Time) {
        self.state.go("lose_block", SessionState::LostBlock { since: now });
    }

    /// Its client has sent something within its lost block.
    pub fn note_within_lost_block(&mut self, now: Time) {
        if let SessionState::LostBlock { since } = &mut self.state {
            *since = now;
        }
    }

    /// Its client has ended its lost block, or sends the first statement of one that is to begin at another server.
    pub fn end_block(&mut self, now: Time) {
        self.state.go("end_block", SessionState::Idle { since: now });
    }

    /// At the console: it has asked the control plane, or has its answer.
    pub fn ask(&mut self, rights: ConsoleRights, asked: bool) {
        self.state.go("ask", SessionState::Console { rights, asked });
    }

    /// It ends. Its last message may be written until `until`.
    pub fn leave(&mut self, until: Time) {
        // It is called twice: when its server is released, and when the last message is sent.
        if !self.is_leaving() {
            self.state.go("leave", SessionState::Leaving { until });
        }
        self.state = SessionState::Leaving { until };
    }

    /// Gives a waiting session another ticket.
    pub fn take_ticket(&mut self, moved: u64) {
        debug_assert!(matches!(self.state, SessionState::Waiting { .. }), "only a session that waits has a ticket");
        if let SessionState::Waiting { ticket, .. } = &mut self.state {
            *ticket = moved;
        }
    }

    /// Gives a waiting session a deadline.
    pub fn take_deadline(&mut self, allowed_ms: u32) {
        debug_assert!(matches!(self.state, SessionState::Waiting { .. }), "a deadline limits a wait");
        if let SessionState::Waiting { deadline_ms, .. } = &mut self.state {
            *deadline_ms = allowed_ms;
        }
    }

    /// A waiting session got its notice.
    pub fn note_notified(&mut self) {
        debug_assert!(matches!(self.state, SessionState::Waiting { .. }), "only a session that waits gets the notice");
        if let SessionState::Waiting { notified, .. } = &mut self.state {
            *notified = true;
        }
    }
}
