//! Rules about sessions: how they arrive, wait, are linked to a server, cancelled, and end.

pub(crate) mod cancel_requests;
pub(crate) mod console;
pub(crate) mod definitions;
pub(crate) mod ends;
pub(crate) mod extended;
pub(crate) mod faults;
pub(crate) mod halves;
pub(crate) mod hosts;
pub(crate) mod links;
pub(crate) mod lost_blocks;
pub(crate) mod lost_servers;
pub(crate) mod overdue_queries;
pub(crate) mod questions;
pub(crate) mod replicating;
pub(crate) mod reports;
pub(crate) mod silent_hosts;
pub(crate) mod untouched_blocks;
pub(crate) mod waiters;
pub(crate) mod welcome;
