//! The leader of a Patroni cluster, by the REST API of its members.
//!
//! ```text
//!   Watch ── each second, or look_now ──► a thread for each URL: GET /cluster, then GET /patroni
//!     ▲                                              │ view.rs reads
//!     └──────────────── answers, as they come ◄──────┘
//!   choice.rs: the freshest ──► the view, and a call for each change
//! ```
//!
//! Promises that a member that is silent delays nobody's answer, that an answer of an old leader that is cut off does not count against the
//! others', and that a member that cannot be used is reported once, with the reason, and changes nothing. A view is a hint: which PostgreSQL is the
//! primary, only PostgreSQL decides. Does not change anything at Patroni, and does not know which hosts pgweir has.

mod choice;
mod view;
mod watch;

pub use view::{ClusterView, Member};
pub use watch::{News, Options, Seen, Url, Watch};
