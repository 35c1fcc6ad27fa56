//! Rules about which transactions may begin: limits of classes and statements, queues, deadlines of clients.

pub(crate) mod admission;
pub(crate) mod classes;
pub(crate) mod deadlines;
pub(crate) mod full_queues;
pub(crate) mod linked;
pub(crate) mod permits;
pub(crate) mod pin_queue;
pub(crate) mod refusals;
