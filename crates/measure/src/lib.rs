//! What `bench` and `trials` measure with, and how the outer tests look at a process.
//!
//! ```text
//!   the load       work ──► client ──► sockets       one thread, one epoll, thousands of clients; login, script, encryption
//!   what it costs  process, machine                  of one process and its children, of the whole machine
//!   contestants    program, pgbench                  started, awaited, ended; their version, their report
//!   the figures    statistics                        medians, intervals, ratios within a round
//!   the run        interrupt                         Ctrl-C ends it in order
//! ```
//!
//! Promises: the same words mean the same in every record: a median, a quantile, a process's time, a transaction.
//! Does not know a scenario, a test, a record's form or pgweir's inside. The load's protocol is written apart from `wire` (crate `client`);
//! its logins are `ask`'s, and PostgreSQL and PgBouncer judge them in the same run.

pub mod client;
pub mod encryption;
pub mod interrupt;
pub mod machine;
pub mod pgbench;
pub mod process;
pub mod program;
pub mod script;
pub mod sockets;
pub mod statistics;
pub mod work;

// The load logs in as the connection beside it does.
pub use ask::login;
