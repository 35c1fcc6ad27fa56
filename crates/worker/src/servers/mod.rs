//! Rules about servers that are not linked: how they become free, are queried, lent, listened on and closed.

pub(crate) mod cancellers;
pub(crate) mod capacity;
pub(crate) mod chores;
pub(crate) mod closed_servers;
pub(crate) mod disturbances;
pub(crate) mod drains;
pub(crate) mod empty_databases;
pub(crate) mod free_servers;
pub(crate) mod idle_servers;
pub(crate) mod listener;
pub(crate) mod loans;
pub(crate) mod name_answers;
pub(crate) mod name_polls;
pub(crate) mod new_pools;
pub(crate) mod own_queries;
pub(crate) mod resting;
pub(crate) mod wait_samples;
