//! Who waits and what is shared: the queue and its classes, limits of rate and of concurrency, the size of a pool, and the
//! board that workers read of each other.
//!
//! Values that know workers, sessions and servers by their ids only. They say which session is next, which may begin, and how
//! many servers a pool should have; the machines ask them, and act on it.

pub mod board;
pub mod classes;
pub mod commented;
pub mod limit_words;
pub mod limiting;
pub mod queue;
pub mod refusals;
pub mod sizing;
pub mod wait_events;
