//! What a connection is: values that refer to nothing of their owner but ids, so that they can travel.
//!
//! [`flow`]: what any connection may read and write. [`server`]: one connection to PostgreSQL, and what it owes.

mod charge;
pub mod databases;
pub mod flow;
pub mod server;
mod slots;
mod verdict;

pub use charge::{Charge, Origin};
pub use flow::Flow;
pub use server::{Lent, Server};
pub use slots::Slots;
pub use verdict::Verdict;
