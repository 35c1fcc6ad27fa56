//! Asks a PostgreSQL, or the console of a pooler, by one connection that blocks: what pgweir's own commands, its observer and its
//! benchmark do beside the sessions that are served.
//!
//! ```text
//!   target ──► monitor ─┬─► encryption   TLS as libpq's sslmode has it; tls_files: the files that settings name for it
//!                       └─► login        trust, a password, md5, SCRAM
//! ```
//!
//! Promises: an answer, or an error in the server's words, within a time that the caller gives.
//! Does not pool, retry or keep connections, and knows nothing of what it asks.

mod encryption;
pub mod login;
mod monitor;
mod target;
pub mod tls_files;

pub use encryption::{Demand, Encryption};
pub use monitor::{Is, Monitor, Trouble};
pub use target::Target;
