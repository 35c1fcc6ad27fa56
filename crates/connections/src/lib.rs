//! What a connection is: values that refer to nothing of their owner but ids, so that they can travel.
//!
//! [`flow`]: what any connection may read and write. [`server`]: one connection to PostgreSQL, and what it owes.

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
