//! The published tests, rerun: the loads of three documents on connection pooling, on PostgreSQL directly, through pgweir and
//! through PgBouncer.
//!
//! ```text
//!   plan ──► run ──► slice ──┬─► contestant   the pooler, a child process
//!  (the tests,  (rounds)     ├─► driver       the load, made of measure's clients
//!   as a table)              └─► watch        locks, runnable processes (ask, measure's process)
//!              │
//!              └──► sample ──► record ──► CSV, table, page
//! ```
//!
//! Promises: contestants take turns in rounds, with the same ini lines and the same load; every figure rests on raw samples that
//! are kept; nothing is left behind, whatever ends the run: no process, and in the database at most a schema of ours if this
//! process was killed, which the next run drops.
//! Does not know anything of pgweir's inside, and does not tune anybody: PostgreSQL's and the poolers' defaults, but for what is stated.

mod arithmetic;
mod contestant;
mod driver;
mod headline;
mod machine;
mod needs;
mod options;
mod page;
mod pgbench;
mod plan;
#[cfg(test)]
mod played;
mod plot;
mod progress;
mod record;
mod run;
mod sample;
mod scripts;
mod slice;
mod table;
mod tables;
mod target;
mod watch;

pub use options::Options;
pub use run::run;
