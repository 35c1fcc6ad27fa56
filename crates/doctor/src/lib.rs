//! What is wrong with a pooler and its PostgreSQL, and what mends it.
//!
//! ```text
//!   answers of PostgreSQL ─┐                    one file a rule
//!   answers of the console ┴ reading ─▶ Facts ─ rules ─▶ Finding ─ report ─▶ text, JSON
//!   the machine, the user ──────────────┘
//! ```
//!
//! Promises: the same facts give the same findings; each finding has its evidence with numbers, its reason with a source, and the command or
//! setting that mends it; what could not be seen is said, with the right that would show it. What is printed has no control characters,
//! whatever names and statements clients chose. The statements here read only, take no lock but those of reading catalogues, and have limits.
//!
//! Deliberately does not do: any I/O (whoever calls has the connections), and mending anything.

mod facts;
mod finding;
mod pooler;
mod postgres;
pub mod reading;
mod report;
mod rules;
mod words;

pub use facts::{Asked, Facts, Machine, Memory, Unseen};
pub use finding::{Finding, Weight};
pub use pooler::{FoundSize, Pool, PoolServer, PooledDatabase, Pooler, Secrets, Traffic, UserLimits};
pub use postgres::{
    DatabaseFigures, Duplicate, ForeignKey, Identity, Indexes, Postgres, PreparedTransaction, Replica, Slot, Snapshots,
    Standby, Statement, Statements, TableFigures, UnusedIndex,
};
pub use report::{json, text};
pub use rules::examine;
