//! Rules about which transactions may begin: limits of classes and statements, queues, deadlines of clients.
//!
//! A rule here may change each owner that it takes, and calls `tables` and `servers` directly. Work of `sessions` and `events` goes on the
//! agenda.

pub(crate) mod admission;
pub(crate) mod classes;
pub(crate) mod deadlines;
pub(crate) mod full_queues;
pub(crate) mod linked;
pub(crate) mod permits;
pub(crate) mod pin_queue;
pub(crate) mod refusals;
