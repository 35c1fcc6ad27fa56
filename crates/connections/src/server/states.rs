//! What a server is doing, and what leads from one state to another: a function for each way.
//!
//! The ways are drawn in `docs/states.md`. In builds with assertions each function checks that it is drawn from where it
//! begins; a test compares the drawing with the table. What a server does beyond its state, and how its pool counts it, is
//! not known here.

use auth::{Challenge, ClientExchange};
use session_state::parameters::Reported;
use units::ConnId;

use super::{Chore, Server};

/// What a server is doing. What is not valid in a state is not a field of it.
#[derive(Debug)]
pub enum State {
    /// Its connection does not stand yet.
    Connecting,
    LoggingIn(Box<Login>),
    /// Answering something of the pooler's own.
    Busy(Chore),
    Idle,
    /// A session's alone.
    Linked(ConnId),
    /// It listens, for all sessions of its pool on this worker.
    Listening,
    /// Its client is gone; what it still owes is read and thrown away. So many bytes were; `cancelled`: it was asked to stop.
    Draining {
        read: u64,
        cancelled: bool,
    },
    /// Nobody's, and not to be handed out yet (I3): a cancel for its last client is under way, half a message has been
    /// read, its socket has not taken everything, or it is on its way to another worker.
    Held,
}

/// A login in progress.
#[derive(Debug, Default)]
pub struct Login {
    pub scram: Option<ClientExchange>,
    /// Asked of the hashing threads; the answer goes on with the exchange.
    pub computing: Option<Challenge>,
    /// The server has proved that it knows our keys too.
    pub verified: bool,
    pub authenticated: bool,
    /// ParameterStatus as they came.
    pub reported: Reported,
}

/// The groups that a pool counts its servers by.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Group {
    Opening,
    /// Soon idle: checks and resets.
    Returning,
    /// Not soon: draining, held, asked about its database.
    Recovering,
    Idle,
    /// In use.
    Linked,
}

impl State {
    pub fn group(&self) -> Group {
        match self {
            State::Connecting | State::LoggingIn(_) | State::Busy(Chore::Setup) => Group::Opening,
            // Whoever waits need not wait for these.
            State::Busy(Chore::Poll | Chore::Catalogue) | State::Draining { .. } | State::Held => Group::Recovering,
            State::Busy(_) => Group::Returning,
            State::Idle => Group::Idle,
            State::Linked(_) | State::Listening => Group::Linked,
        }
    }
}

impl State {
    /// Without what belongs to it, as it is drawn.
    fn name(&self) -> &'static str {
        match self {
            State::Connecting => "Connecting",
            State::LoggingIn(_) => "LoggingIn",
            State::Busy(_) => "Busy",
            State::Idle => "Idle",
            State::Linked(_) => "Linked",
            State::Listening => "Listening",
            State::Draining { .. } => "Draining",
            State::Held => "Held",
        }
    }
}

/// From where, by which function, to where.
const WAYS: [(&str, &str, &str); 22] = [
    ("Connecting", "log_in", "LoggingIn"),
    ("LoggingIn", "ask", "Busy"),
    ("LoggingIn", "free", "Idle"),
    ("LoggingIn", "withhold", "Held"),
    ("Idle", "link", "Linked"),
    ("Idle", "ask", "Busy"),
    ("Idle", "listen", "Listening"),
    ("Idle", "withhold", "Held"),
    ("Linked", "free", "Idle"),
    ("Linked", "ask", "Busy"),
    ("Linked", "withhold", "Held"),
    ("Linked", "drain", "Draining"),
    ("Linked", "outwait_cancel", "Draining"),
    ("Draining", "free", "Idle"),
    ("Draining", "ask", "Busy"),
    ("Draining", "withhold", "Held"),
    ("Busy", "free", "Idle"),
    ("Busy", "ask", "Busy"),
    ("Busy", "withhold", "Held"),
    ("Busy", "outwait_cancel", "Draining"),
    ("Held", "free", "Idle"),
    ("Held", "ask", "Busy"),
];

impl Server {
    #[inline]
    pub fn state(&self) -> &State {
        &self.state
    }

    #[inline]
    fn go(&mut self, way: &str, to: State) {
        debug_assert!(
            WAYS.contains(&(self.state.name(), way, to.name())),
            "a server does not {way} from {:?} to {to:?}",
            self.state
        );
        self.state = to;
    }

    /// Its connection stands, and it has been told who we are.
    pub fn log_in(&mut self) {
        self.go("log_in", State::LoggingIn(Box::default()));
    }

    /// The pooler asks it something of its own.
    pub fn ask(&mut self, chore: Chore) {
        self.go("ask", State::Busy(chore));
    }

    /// It has no work, and may be handed out.
    #[inline]
    pub fn free(&mut self) {
        self.go("free", State::Idle);
    }

    /// It has no work, and may not be handed out yet, or not here.
    pub fn withhold(&mut self) {
        self.go("withhold", State::Held);
    }

    /// It is a session's alone.
    #[inline]
    pub fn link(&mut self, session: ConnId) {
        self.go("link", State::Linked(session));
    }

    /// It listens from now on, for all sessions of its pool on this worker.
    pub fn listen(&mut self) {
        self.go("listen", State::Listening);
    }

    /// Its client is gone, and it owes something still. It is not asked to stop yet.
    pub fn drain(&mut self) {
        self.go("drain", State::Draining { read: 0, cancelled: false });
    }

    /// Its client is gone, and a cancel is under way: what it is asked next has to wait for that.
    pub fn outwait_cancel(&mut self) {
        self.go("outwait_cancel", State::Draining { read: 0, cancelled: true });
    }

    /// Of a server that drains: it is asked to stop. Whether it has not been asked before.
    pub fn cancel_drain(&mut self) -> bool {
        let State::Draining { cancelled, .. } = &mut self.state else {
            unreachable!("only a server that drains is asked to stop");
        };
        !std::mem::replace(cancelled, true)
    }

    /// Of a server that drains: so many bytes more have been read.
    #[inline]
    pub fn count_drained(&mut self, len: usize) {
        if let State::Draining { read, .. } = &mut self.state {
            *read += len as u64;
        }
    }

    /// How far its login has come, if it is logging in.
    pub fn login_mut(&mut self) -> Option<&mut Login> {
        match &mut self.state {
            State::LoggingIn(login) => Some(login),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drawing_shows_the_ways() {
        let page = include_str!("../../../../docs/states.md");
        let (_, section) = page.split_once("## Servers").expect("a section of its own");
        let (section, _) = section.split_once("\n## ").unwrap_or((section, ""));
        let drawn: Vec<&str> =
            section.lines().map(str::trim).filter(|line| line.contains(" --> ") && line.contains(": ")).collect();
        let known: Vec<String> = WAYS.iter().map(|(from, way, to)| format!("{from} --> {to}: {way}")).collect();
        assert_eq!(drawn, known);
    }
}
