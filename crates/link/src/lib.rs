//! A session and the server it is linked to: what the messages between them mean, and which of them are sent.
//!
//! A link lasts from a session's first message until its server is free again. Nothing here uses a worker: `worker`
//! decides which session is linked to which server, and acts on what is found here ([`findings`]).
//!
//! ```text
//!   client ──► client_messages ──► requests ──────────────────────────────────► server
//!              (plain)             queries, following, renaming, splitting, announcing …
//!   client ◄────────────────────── answers ◄──────────────── server_messages ◄── server
//!                                  confirming, matching, naming …  (plain)
//! ```
//!
//! | values | |
//! |---|---|
//! | `server`, `verdict` | a connection to PostgreSQL, the answers that it owes, what is on it; its answer about a prepared statement |
//! | `session`, `waiting` | a client's conversation; how long it has waited, and its deadline |
//! | `pool`, `pinned`, `surplus`, `published` | the servers of one database and user, and the sessions that wait for them |
//! | `charge`, `permits` | the class that a server's time is charged to; what a transaction has of limits |
//! | `experience`, `listener` | transactions that run long there; which sessions listen to which channels |
//! | `link`, `special` | a session, its server and their pool, for one step; what makes them special |
//! | `caches`, `buffers`, `standings`, `statistics`, `other_workers` | what all of a worker's links share |
//!
//! | messages | |
//! |---|---|
//! | `server_login` | the login at a server |
//! | `client_messages`, `requests`, `stream`, `ending`, `malformed` | walking over a client's messages, and sending them |
//! | `plain` | the most frequent ones of both sides, where nothing is special |
//! | `unlinked`, `first_text` | those of a session that has no server yet |
//! | `loss`, `lost_block` | what a client is answered when its server is lost, and until it ends the block that it was in |
//! | `untouched`, `lone_reads`, `resendable` | what is sent again to another server: a lone read, and a block of which only BEGIN was sent |
//! | `server_messages`, `answers`, `findings` | walking over a server's messages, and sending them |
//! | `texts`, `remedies` | what a statement's text means; the pooler's statements that must come before it |
//! | `queries`, `following`, `confirming`, `splitting` | what statements do to a session: as sent, and as answered |
//! | `server_statements`, `fakes`, `renaming`, `matching`, `naming`, `synonyms`, `reserving`, `large_statements`, `pacing` | prepared statements on many servers |
//! | `attribution`, `counting`, `kept_texts`, `slow` | which statement a message is about; statements counted, logged and traced as they are sent and answered |
//! | `screening` | what may not pass |
//! | `relaying` | both directions of a session that replicates |
//! | `replaying`, `server_names`, `checking`, `server_questions` | what is sent to a server at the beginning of a link, and at its end |
//! | `copying`, `listening`, `announcing`, `vacating`, `overdue` | COPY; LISTEN; definitions; DROP DATABASE; late queries |

pub mod announcing;
pub mod answers;
mod attribution;
pub mod buffers;
pub mod caches;
pub mod charge;
pub mod checking;
pub mod client_messages;
mod confirming;
pub mod copying;
pub mod counting;
pub mod end_reason;
pub mod ending;
pub mod experience;
mod fakes;
pub mod findings;
pub mod first_reading;
pub mod first_text;
pub mod following;
mod kept_texts;
mod large_statements;
mod link;
pub mod listener;
pub mod listening;
pub mod lone_reads;
pub mod loss;
pub mod lost_block;
mod malformed;
pub mod matching;
pub mod moving;
pub mod naming;
pub mod notifiers;
pub mod other_workers;
pub mod overdue;
mod pacing;
pub mod parameter_reports;
pub mod permits;
pub mod pinned;
pub mod plain;
pub mod pool;
mod pool_parts;
pub mod published;
pub mod queries;
pub mod rebasing;
pub mod relaying;
mod remedies;
mod renaming;
pub mod replaying;
pub mod request_refusal;
pub mod requests;
pub mod resendable;
mod reserving;
pub mod role_resets;
mod sampling;
pub mod screening;
pub mod server;
pub mod server_login;
pub mod server_messages;
pub mod server_names;
pub mod server_questions;
mod server_statements;
pub mod session;
pub mod slow;
pub mod slow_lines;
pub mod special;
mod splitting;
pub mod standings;
pub mod statistics;

pub mod stream;
mod synonyms;
pub mod texts;
mod tracing;
pub mod unlinked;
pub mod untouched;
mod vacating;
pub mod verdict;
pub mod waiting;

pub use crate::link::Link;
