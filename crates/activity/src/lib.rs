//! What sessions of the pooler and backends of PostgreSQL do, joined: who waits for what, and behind whom.
//!
//! ```text
//!   observe: a host's backends and locks ─┐
//!                                         ├─ join ─► Moment ─┬─► tree      who is in whose way: SHOW LOCKS
//!   machine: snapshots of the workers ────┘                  ├─► holders   who has a pool's servers, and for what: SHOW HOLDERS
//!                                                            ├─► verdict   why clients wait, in one sentence: SHOW WHY
//!                                                            ├─► tally     how many, and how old the oldest is: metrics
//!                                                            └─► History ─► waits   samples of an hour, by what one asks for
//! ```
//!
//! Promises: pure, and bounded, whatever clients and PostgreSQL say. Texts of clients (names, tags, statements) are kept as they came, and are text
//! for whoever shows them.
//!
//! Deliberately does not do: any I/O, and deciding anything about traffic.

pub mod history;
mod holders;
mod join;
mod moment;
mod session;
mod statement;
mod tags;
mod tally;
mod tree;
pub mod verdict;

pub use history::History;
pub use holders::{Holder, Reason, holders};
pub use join::{Answer, Reading, join};
pub use moment::{At, CPU, EndedDeadlock, Host, LockCounts, Moment, Origin, POOL_WAIT, Pool, Row, View};
pub use observe::{Prepared, is_prepared, pid_shown};
pub use session::{Session, SessionId, Times};
pub use statement::{Ddl, ddl};
pub use tags::Tags;
pub use tally::{HolderTally, OTHER, OldestAges, ServerTally, Tally, WAIT_CLASSES, wait_class};
pub use tree::{Branch, tree};
pub use verdict::{Verdict, verdicts};
