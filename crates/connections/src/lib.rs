//! The values of a connection. They refer to their owner by ids only, so that they can move to another worker.
//!
//! [`flow`]: flow control of any connection. [`server`]: one connection to PostgreSQL, and the answers it owes.

mod charge;
pub mod databases;
pub mod flow;
mod permits;
pub mod server;
mod verdict;

pub use charge::{Charge, Origin};
pub use flow::Flow;
pub use permits::Permits;
pub use server::{Lent, Server};
pub use verdict::Verdict;
