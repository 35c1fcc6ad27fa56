//! What a session is doing, and what leads from one state to another: a function for each way.
//!
//! The ways are drawn in `docs/states.md`. In builds with assertions each function checks that it is drawn from where it
//! begins; a test compares the drawing with the table.

use machine::arrival::ConsoleRights;
use units::{ConnId, Time};

use super::Session;

/// What a session is doing. What is not valid in a state is not a field of it.
#[derive(Copy, Clone, Debug)]
pub enum State {
    /// Logged in; the pool's parameters are not known yet, because no server ever logged in.
    Welcoming { since: Time },
    /// Between transactions, nothing at hand but perhaps part of a message.
    Idle { since: Time },
    /// A whole message is at hand, and it waits in a queue. The ticket is its place there; it can wait for so long, 0: for as
    /// long as the settings allow.
    Waiting { since: Time, ticket: u64, notified: bool, wait_for: WaitFor, deadline_ms: u32 },
    /// A server is this session's alone.
    Linked { server: ConnId },
    /// Talks to the control plane; `asked`: an answer is outstanding.
    Console { rights: ConsoleRights, asked: bool },
    /// Ended; only what it is still owed is being written.
    Leaving { until: Time },
}

/// What a session waits for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum WaitFor {
    Server,
    /// For a server, before it is let in: it is to be told that one's process id.
    Login,
    /// Not yet for a server, but for somebody to stop keeping one.
    Pin,
    /// Not yet for a server, but for its class, or its statement, to be within a limit.
    Limit,
}

impl State {
    /// Without what belongs to it, as it is drawn.
    fn name(&self) -> &'static str {
        match self {
            State::Welcoming { .. } => "Welcoming",
            State::Idle { .. } => "Idle",
            State::Waiting { .. } => "Waiting",
            State::Linked { .. } => "Linked",
            State::Console { .. } => "Console",
            State::Leaving { .. } => "Leaving",
        }
    }
}

/// From where, by which function, to where.
const WAYS: [(&str, &str, &str); 14] = [
    ("Welcoming", "let_in", "Idle"),
    ("Welcoming", "wait", "Waiting"),
    ("Welcoming", "link", "Linked"),
    ("Idle", "wait", "Waiting"),
    ("Idle", "link", "Linked"),
    ("Waiting", "stop_waiting", "Idle"),
    ("Waiting", "link", "Linked"),
    ("Linked", "unlink", "Idle"),
    ("Console", "ask", "Console"),
    ("Welcoming", "leave", "Leaving"),
    ("Idle", "leave", "Leaving"),
    ("Waiting", "leave", "Leaving"),
    ("Linked", "leave", "Leaving"),
    ("Console", "leave", "Leaving"),
];

impl Session {
    #[inline]
    pub fn state(&self) -> State {
        self.state
    }

    #[inline]
    fn go(&mut self, way: &str, to: State) {
        debug_assert!(
            WAYS.contains(&(self.state.name(), way, to.name())),
            "a session does not {way} from {:?} to {to:?}",
            self.state
        );
        self.state = to;
    }

    /// The parameters of its pool's servers are known: it has been told that it is logged in.
    pub fn let_in(&mut self, now: Time) {
        self.go("let_in", State::Idle { since: now });
    }

    /// What it has sent cannot go on before something that others have is free. `notified`: it needs not be told that it waits.
    pub fn wait(&mut self, since: Time, wait_for: WaitFor, ticket: u64, notified: bool) {
        self.go("wait", State::Waiting { since, ticket, notified, wait_for, deadline_ms: 0 });
    }

    /// It has left its queue: it may go on without a server, or its request was refused or cancelled.
    pub fn stop_waiting(&mut self, now: Time) {
        self.go("stop_waiting", State::Idle { since: now });
    }

    /// A server is its alone.
    #[inline]
    pub fn link(&mut self, server: ConnId) {
        self.go("link", State::Linked { server });
    }

    /// Its server is another's from now on, or is gone.
    #[inline]
    pub fn unlink(&mut self, now: Time) {
        self.go("unlink", State::Idle { since: now });
    }

    /// It is a console: it has asked the control plane, or has its answer.
    pub fn ask(&mut self, rights: ConsoleRights, asked: bool) {
        self.go("ask", State::Console { rights, asked });
    }

    /// It ends. What it is still owed is written until then.
    pub fn leave(&mut self, until: Time) {
        // It lets its server go first, and is then told why it ends.
        if !self.is_leaving() {
            self.go("leave", State::Leaving { until });
        }
        self.state = State::Leaving { until };
    }

    /// Of a session that waits: its place has become another one.
    pub fn take_ticket(&mut self, moved: u64) {
        if let State::Waiting { ticket, .. } = &mut self.state {
            *ticket = moved;
        }
    }

    /// Of a session that waits: it can for so many milliseconds.
    pub fn take_deadline(&mut self, allowed_ms: u32) {
        if let State::Waiting { deadline_ms, .. } = &mut self.state {
            *deadline_ms = allowed_ms;
        }
    }

    /// Of a session that waits: it was told so.
    pub fn note_notified(&mut self) {
        if let State::Waiting { notified, .. } = &mut self.state {
            *notified = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drawing_shows_the_ways() {
        let page = include_str!("../../../../docs/states.md");
        let (_, section) = page.split_once("## Sessions").expect("a section of its own");
        let (section, _) = section.split_once("\n## ").unwrap_or((section, ""));
        let drawn: Vec<&str> = section.lines().map(str::trim).filter(|wait_for| wait_for.contains(": ")).collect();
        let drawn: Vec<&str> = drawn.into_iter().filter(|wait_for| wait_for.contains(" --> ")).collect();
        let known: Vec<String> = WAYS.iter().map(|(from, way, to)| format!("{from} --> {to}: {way}")).collect();
        assert_eq!(drawn, known);
    }
}
