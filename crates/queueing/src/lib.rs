//! Who waits and what is shared: the queue and its classes, limits of rate and of concurrency, the size of a pool, and the
//! board that workers read of each other.
//!
//! Values that know no worker, no session and no server but by their ids. They say whose turn it is, who may begin, and how
//! many servers a pool should have; who asks them, and acts on it, are the machines in `pooling`.

pub mod board;
pub mod classes;
pub mod commented;
pub mod limit_words;
pub mod limiting;
pub mod queue;
pub mod refusals;
pub mod sizing;
pub mod waits;
