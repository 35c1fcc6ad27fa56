//! What the worker does about each kind of event. These rules use most of the others.

pub(crate) mod arrivals;
pub(crate) mod chore_answers;
pub(crate) mod departures;
pub(crate) mod due;
pub(crate) mod findings;
pub(crate) mod forgotten_pools;
pub(crate) mod loans_received;
pub(crate) mod orders;
pub(crate) mod placement;
pub(crate) mod reloads;
pub(crate) mod renewals;
pub(crate) mod rounds;
pub(crate) mod server_logins;
pub(crate) mod sockets;
pub(crate) mod stops;
