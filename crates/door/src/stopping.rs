//! A process that ends when its last client has left (SHUTDOWN WAIT_FOR_CLIENTS, SIGTERM): who was logging in when it was told is a client, too.
//!
//! ```text
//!   no login from before is under way ──► Stop to the coordinator ──► Stop to the workers ──► no session is left ──► the process ends
//! ```
//!
//! The workers get each of these logins before the Stop, so that nobody who was accepted is refused. Who comes later, by the Unix socket, is let in
//! to the console only.

use machine::action::{Action, Actions};
use machine::mail::{Stop, ToCoordinator};
use units::Time;
use units::table::Table;
use wire::sqlstate;

use super::Login;
use super::refused::Refused;
use super::startup::Wish;

/// When the process was told to end with its last client, until the logins from before that are over.
#[derive(Debug, Default)]
pub(super) struct Stopping {
    since: Option<Time>,
}

impl Stopping {
    /// The process is told to end.
    pub(super) fn begin(&mut self, now: Time, stop: Stop, logins: &Table<Login>, actions: &mut Actions) {
        if stop == Stop::WaitForClients {
            self.since.get_or_insert(now);
            return self.finish_if_over(logins, actions);
        }
        self.since = None;
        actions.push(Action::Finished);
    }

    /// Whether the process was told to end, and no login from before that is left.
    pub(super) fn is_over(&self, logins: &Table<Login>) -> bool {
        self.since.is_some_and(|stopped_at| logins.iter().all(|(_, login)| login.since > stopped_at))
    }

    /// The last login from before the stop is over: the others can stop.
    pub(super) fn finish_if_over(&mut self, logins: &Table<Login>, actions: &mut Actions) {
        if self.is_over(logins) {
            self.since = None;
            actions.post_to_coordinator(ToCoordinator::Stop(Stop::WaitForClients));
            actions.push(Action::Finished);
        }
    }

    /// Whether a login may go on that began then.
    ///
    /// # Errors
    /// It came after the stop, and is not for the console.
    pub(super) fn admit(&self, wish: &Wish, since: Time) -> Result<(), Refused> {
        match wish.console.is_none() && self.since.is_some_and(|stopped_at| since > stopped_at) {
            true => Err(Refused(sqlstate::CANNOT_CONNECT_NOW, "pooler is shutting down".to_owned())),
            false => Ok(()),
        }
    }
}
