//! What PostgreSQL says of its backends and locks, as values: who waits for what, and behind whom.
//!
//! ```text
//!   rows of pg_stat_activity ─┬ reading ─▶ Backend             what each backend does, for how long, and what it waits for
//!   rows of pg_locks ─────────┘        └─▶ Lock ─ blocking ─▶ Blocking     who waits behind whom: a tree
//! ```
//!
//! Promises to make something of every answer of PostgreSQL 14 to 18: what a role without `pg_monitor` is not told is `None`, a word
//! that a later version has is kept as it came. What texts clients chose (names, statements) are bytes of theirs: nothing here prints them.
//!
//! Deliberately does not do: any I/O, and asking PostgreSQL for blockers one by one (`pg_blocking_pids` stops all lock traffic for each
//! waiter): one reading of pg_locks says as much.

mod backend;
mod blocking;
mod lock;
mod prepared;
mod reading;

pub use backend::{Ages, Backend, State, Usage, WaitEvent, can_be_terminated};
pub use blocking::{Blocker, Blocking, Waiter};
pub use lock::{Lock, LockMode, Object};
pub use prepared::{PREPARED_PID, Prepared, is_prepared, pid_shown};
pub use reading::{ACTIVITY, COUNTS, Counts, LOCKS, Row, backends, counts, locks, prepared};
