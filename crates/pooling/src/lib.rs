//! The three machines that decide everything, together: who is linked to which server, who waits, who is told what.
//!
//! Nothing in them knows a socket, a clock, a thread or a global. Each is stepped the same way ([`machine::Machine`](::machine)):
//!
//! ```text
//!   clients ──► Door ──(logged in)──► Worker ◄──lend──► Worker        sessions, servers, pools, queues
//!                 │  ▲                  │ ▲
//!           apply │  │ placed       ask │ │ granted, recall
//!                 ▼  │                  ▼ │
//!                Coordinator: who lives where; capacity as tokens
//! ```
//!
//! The one contract: **after every step, carry out all actions in order before the next step.**
//!
//! Start with one transcript in `tests/transcripts/`: what the machines do together is told there.

pub use coordinator::Coordinator;
pub use door::{Door, beside_predecessor, set_secret};
pub use worker::Worker;
