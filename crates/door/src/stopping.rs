//! A process that ends when its last client has left (SHUTDOWN WAIT_FOR_CLIENTS, SIGTERM): who is logging in is a client, too.
//!
//! ```text
//!   no login is under way ──► Stop to the coordinator ──► Stop to the workers ──► no session is left ──► the process ends
//! ```
//!
//! The workers get every login before the Stop, so that nobody who was accepted is refused.

use machine::action::{Action, Actions};
use machine::mail::{Stop, ToCoordinator};

use super::Door;

impl Door {
    pub(super) fn stop(&mut self, stop: Stop, actions: &mut Actions) {
        self.awaits_logins = stop == Stop::WaitForClients;
        if self.awaits_logins {
            return self.stop_if_empty(actions);
        }
        actions.push(Action::Finished);
    }

    /// The last login is over: the others can stop.
    pub(super) fn stop_if_empty(&mut self, actions: &mut Actions) {
        if self.awaits_logins && self.logins.is_empty() {
            self.awaits_logins = false;
            actions.post_to_coordinator(ToCoordinator::Stop(Stop::WaitForClients));
            actions.push(Action::Finished);
        }
    }
}
