//! Other processes with which this one shares tokens: one process has all of them, the granter, and the others are its members.
//!
//! ```text
//!   member ── Begun: what it has ──────────────►  granter: a holder more, beside its workers
//!          ── RequestServer, Freed, Apply, … ──►   ── Granted, Recall, Admitted, … ──► member: hands it out to its own holders
//!          ── (it leaves, or dies) ────────────►  all that it had is free
//! ```
//!
//! A process has one granter at most, and any number of members, whose mail counts as that of workers. Only here it is translated, since
//! ids of pools are each process's own. A process with a granter grants nothing by itself: it passes requests on, those of its own members
//! too. Without it, as when it has died, it grants again.
//!
//! Promises that no limit is exceeded over all of them (I5): what a member has counts here from its `Begun` until it gives it back or has
//! left. Nothing is held by a process that is no member (I12).
//!
//! An online upgrade is the first use: the old process joins the new one, and hands over its sessions and servers ([`upgrade`]).

mod balance;
mod granter;
#[cfg(test)]
mod many_tests;
mod members;
mod state;
#[cfg(test)]
mod tests;
mod upgrade;

pub(crate) use balance::balance;
pub(crate) use state::Processes;
