//! A session and the server it is linked to: what the messages between them mean, and what of them is sent.
//!
//! A link is what there is between a session's first message and the moment at which its server is free again. Nothing here
//! knows a worker: `worker` decides who is linked to whom, and acts upon what is found here ([`findings`]).
//!
//! ```text
//!   client ──► client_messages ──► requests ──────────────────────────────────► server
//!              (lone_query)        queries, following, renaming, splitting, announcing …
//!   client ◄────────────────────── answers ◄──────────────── server_messages ◄── server
//!                                  confirming, matching, naming …  (lone_answer)
//! ```
//!
//! | values | |
//! |---|---|
//! | `session`, `waiting` | a client's conversation; how long it has waited, and can |
//! | `pool`, `pinned`, `surplus`, `published` | the servers of one database and user, and who waits for them |
//! | `experience`, `listener` | what has run long there; who listens there, for what |
//! | `caches`, `buffers`, `standings`, `other_workers` | what all of a worker's links share |
//!
//! | messages | |
//! |---|---|
//! | `server_login` | what a server asks for before it is ours |
//! | `client_messages`, `requests`, `stream`, `ending` | walking over a client's messages, and sending them |
//! | `lone_query`, `plain_messages` | the commonest of them |
//! | `unlinked`, `first_text` | those of a session that has no server yet |
//! | `server_messages`, `answers`, `findings` | walking over a server's messages, and sending them |
//! | `lone_answer` | the commonest of them |
//! | `texts`, `remedies` | what a statement's text means here and now; what the server is asked beside it |
//! | `queries`, `following`, `confirming`, `splitting` | what statements do to a session: as sent, and as answered |
//! | `server_statements`, `fakes`, `renaming`, `matching`, `naming`, `reserving`, `large_statements`, `pacing` | prepared statements on many servers |
//! | `replaying`, `checking`, `server_questions` | before a server is its session's; before it is another's |
//! | `copying`, `listening`, `announcing`, `vacating`, `overdue` | COPY; LISTEN; definitions; DROP DATABASE; late queries |

pub mod announcing;
pub mod answers;
pub mod buffers;
pub mod caches;
pub mod checking;
pub mod client_messages;
pub mod confirming;
pub mod copying;
pub mod ending;
pub mod experience;
mod fakes;
pub mod findings;
pub mod first_text;
pub mod following;
pub mod large_statements;
pub mod listener;
pub mod listening;
pub mod lone_answer;
pub mod lone_query;
pub mod matching;
pub mod naming;
pub mod other_workers;
pub mod overdue;
pub mod pacing;
pub mod pinned;
pub mod plain_messages;
pub mod pool;
mod pool_parts;
pub mod published;
pub mod queries;
pub mod remedies;
pub mod renaming;
pub mod replaying;
pub mod requests;
pub mod reserving;
pub mod server_login;
pub mod server_messages;
pub mod server_questions;
pub mod server_statements;
pub mod session;
pub mod splitting;
pub mod standings;
pub mod stream;
pub mod surplus;
pub mod texts;
pub mod unlinked;
pub mod vacating;
pub mod waiting;
