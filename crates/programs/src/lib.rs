//! Common to the two programs: pgweir, which serves, and pgweir-bench, which has the commands `dev` and `bench`.
//!
//! ```text
//!   pgweir dev|bench … ── errand: one description of both command lines ──► exec pgweir-bench dev|bench …
//!                         companion: where the other program is, and whether it is of the same version
//!   pgweir-bench ──────── announce: the pgweir that it starts says when it listens
//!                         addresses: what dev and run print; running: how top finds them
//!   both ──────────────── url: where postgres://… leads; core_files: none is written; memory: a control group's limit
//! ```
//!
//! Promises: no password on a command line that a program of ours makes.
//! Does not serve, measure or start a PostgreSQL.

pub mod addresses;
pub mod announce;
pub mod companion;
pub mod core_files;
mod errand;
pub mod memory;
pub mod running;
pub mod url;

pub use errand::{Bench, Dev, Errand, Listen, Sized, Wishes, count, pool_size, port};
