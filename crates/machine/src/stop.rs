//! The ways in which the process ends, from the gentlest to the fastest.
//= pgbouncer usage.md#SHUTDOWN

use crate::mail::Place;

/// How to end.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// Until the last client leaves (SIGTERM, SHUTDOWN WAIT_FOR_CLIENTS).
    WaitForClients,
    /// Until every server is released; waiting and new work is refused (SIGINT, SHUTDOWN WAIT_FOR_SERVERS).
    WaitForServers,
    /// Until every transaction is over: each session ends at the end of its own (shutdown_timeout, upgrade_timeout).
    WaitForTransactions,
    /// Now (SHUTDOWN, SIGQUIT).
    Immediate,
}

impl Stop {
    /// Whether the machine at a place is sent this stop. One that waits for clients goes to the door, which passes it on when no login is under way.
    #[must_use]
    pub fn is_sent_to(self, place: Place) -> bool {
        self != Stop::WaitForClients || matches!(place, Place::Door(_))
    }
}
