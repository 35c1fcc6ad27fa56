//! SHUTDOWN WAIT_FOR_CLIENTS and SIGTERM: the process ends when its last client has left. Clients that are logging in at that moment count.
//!
//! ```text
//!   no login from before is under way ──► Stop to the coordinator ──► Stop to the workers ──► no session is left ──► the process ends
//! ```
//!
//! The workers get these logins before the Stop, so they refuse none of them. The Unix socket stays open: a client that comes by it later gets
//! the console only.

use machine::action::{Action, Actions};
use machine::mail::{Stop, ToCoordinator};
use units::Time;
use units::table::Table;

use super::Login;
use super::refused::Refused;
use super::startup::Wish;

/// The time of a shutdown that waits for clients, while logins from before it are under way.
#[derive(Debug, Default)]
pub(super) struct Stopping {
    since: Option<Time>,
}

impl Stopping {
    /// The shutdown begins.
    pub(super) fn begin(&mut self, now: Time, stop: Stop, logins: &Table<Login>, actions: &mut Actions) {
        if stop == Stop::WaitForClients {
            self.since.get_or_insert(now);
            return self.finish_if_over(logins, actions);
        }
        self.since = None;
        actions.push(Action::Finished);
    }

    /// A shutdown has begun, and no login from before it is left.
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
            true => Err(Refused::ShuttingDown),
            false => Ok(()),
        }
    }
}
