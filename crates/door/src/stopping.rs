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

use super::Door;

impl Door {
    pub(super) fn stop(&mut self, now: Time, stop: Stop, actions: &mut Actions) {
        if stop == Stop::WaitForClients {
            self.awaits_logins_since.get_or_insert(now);
            return self.stop_if_empty(actions);
        }
        self.awaits_logins_since = None;
        actions.push(Action::Finished);
    }

    /// Whether the process was told to end, and no login from before that is left.
    pub(super) fn stops(&self) -> bool {
        let are_over = |stopped_at| self.logins.iter().all(|(_, login)| login.since > stopped_at);
        self.awaits_logins_since.is_some_and(are_over)
    }

    /// The last login from before the stop is over: the others can stop.
    pub(super) fn stop_if_empty(&mut self, actions: &mut Actions) {
        if self.stops() {
            self.awaits_logins_since = None;
            actions.post_to_coordinator(ToCoordinator::Stop(Stop::WaitForClients));
            actions.push(Action::Finished);
        }
    }
}
