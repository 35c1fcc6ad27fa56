//! The values of a connection. They refer to their owner by ids only, so that they can move to another worker.
//!
//! [`flow`]: flow control of any connection. [`server_login`]: a login at PostgreSQL, bound to its TLS by
//! [`channel`]. [`server`]: one connection to
//! PostgreSQL, and the answers it owes.

mod barred;
mod broken;
pub mod channel;
mod charge;
pub mod databases;
pub mod encryption;
pub mod flow;
mod permits;
pub mod server;
pub mod server_login;
mod verdict;

pub use barred::Barred;
pub use broken::{Broken, MessageType};
pub use charge::{Charge, Origin};
pub use flow::Flow;
pub use permits::Permits;
pub use server::{Lent, Server};
pub use verdict::Verdict;
