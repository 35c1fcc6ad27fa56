//! What every room shares: ids, time, deadlines, tables by id, transitions between states, tables of reasons, random numbers, weights
//! of memory, and all bounds.
//!
//! Knows no session, no server, no queue. Nothing here decides.

pub mod deadline;
pub mod heap;
pub mod holder;
pub mod id;
pub mod limits;
pub mod names;
pub mod random;
pub mod reasons;
pub mod table;
pub mod time;
pub mod transitions;

pub use holder::{ByHolder, Holder, PeerId, ProcessId};
pub use id::{ConnId, DoorId, Kind, Life, PoolId, PoolKey, Serial, StatementRow, WorkerId};
pub use time::{Span, Time, milliseconds};
