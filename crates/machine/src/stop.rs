//! The ways in which the process ends, from the gentlest to the fastest.
//= pgbouncer usage.md#SHUTDOWN

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
