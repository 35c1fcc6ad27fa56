//! What a connection needs whatever its two ends are: no machine is known here.
//!
//! [`databases`]: the hosts that a database's servers are opened at. [`encryption`]: the messages before TLS. [`flow`]: flow control.
//! [`server_login`]: a login at PostgreSQL, bound to its TLS by [`channel`]; workers log in by it, and the door for `auth_query`.

mod barred;
mod broken;
pub mod channel;
pub mod databases;
pub mod encryption;
pub mod flow;
pub mod server_login;

pub use barred::Barred;
pub use broken::{Broken, MessageType};
pub use flow::Flow;
