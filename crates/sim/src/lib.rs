//! A seeded world that drives the very same decisions: model clients, model PostgreSQL, a bad network, a virtual clock.
//!
//! | file | what it is |
//! |---|---|
//! | `wishes`, `plan` | what is asked for, and what the seed decides then: settings, users, what the world is made for |
//! | `conditions` | weather, faults, manners |
//! | `contest` | classes that contest a pool |
//! | `promises` | what settings promise that few worlds ask for |
//! | `world` | the clock and everything that is to happen |
//! | `rounds`, `carrying` | how the machines are stepped, and what they ask for carried out |
//! | `network`, `wires` | connections: buffers, delays, pieces, ends, breaks |
//! | `curve`, `working` | a PostgreSQL with a best number of servers, and what it tells of who waits for what |
//! | `postgres`, `trouble`, `backend` | the model PostgreSQL, what goes wrong there, one of its sessions |
//! | `statement`, `command`, `tokens` | what clients say, and how the model reads it |
//! | `state`, `settings`, `shared` | what a session remembers, and what all share |
//! | `book` | every session's state at each statement, as it is and as it should be |
//! | `steering` | reloads, and the end |
//! | `desk` | the console's other side |
//! | `client` | model clients, each with a twin that says what it is owed |
//! | `checks` | the invariants, one file each |
//! | `run`, `census`, `trace` | one seed, what was exercised, what happened |
//!
//! A failure prints the one command that replays it. The same seed is the same world, bit for bit.

pub mod asking;
pub mod backend;
pub mod book;
pub mod census;
pub mod checks;
mod classes;
pub mod client;
pub mod command;
pub mod conditions;
pub mod contest;
pub mod curve;
pub mod network;
pub mod parameters;
pub mod plan;
pub mod promises;
pub mod run;
#[cfg(feature = "sabotage")]
pub mod sabotage;
pub mod settings;
pub mod shared;
pub mod state;
pub mod statement;
pub mod tokens;
pub mod trace;
pub mod wishes;
pub mod world;

mod carrying;
mod desk;
mod notifying;
mod postgres;
mod random;
mod rounds;
mod steering;
mod trouble;
mod wires;
mod words;
mod working;
