//! A seeded world that drives the very same decisions: model clients, model PostgreSQL, a bad network, a virtual clock.
//!
//! | file | what it is |
//! |---|---|
//! | `wishes`, `overrides`, `plan` | what is asked for, settings among it, and what the seed decides then: settings, users, what the world is made for |
//! | `conditions` | weather, faults, manners |
//! | `contest` | classes that contest a pool |
//! | `promises` | what settings promise that few worlds ask for |
//! | `course`, `agenda` | what everybody goes by: plan, clock, chance, record; what is to happen |
//! | `link`, `network`, `asked` | connections: buffers, delays, pieces, ends, breaks; what the pooler has asked by them |
//! | `machines`, `pooler` | the machines, each with what its thread would have; these with their connections |
//! | `curve`, `working` | a PostgreSQL with a best number of servers, and what it tells of who waits for what |
//! | `postgres`, `process`, `backend`, `trouble` | the model PostgreSQL, its processes, their sessions, what goes wrong there |
//! | `statement`, `command`, `tokens` | what clients say, and how the model reads it |
//! | `state`, `settings`, `shared` | what a session remembers, and what all share |
//! | `book` | every session's state at each statement, as it is and as it should be |
//! | `desk` | the console's other side |
//! | `client`, `crowd` | model clients, each with a twin that says what it is owed; all of them |
//! | `checks` | the invariants, one file each |
//! | `world` | who owns all of it: rounds of the machines, and what their peers do when they wake |
//! | `run`, `census`, `trace` | one seed, what was exercised, what happened |
//!
//! Imports go down this list's layers: values, then connections, then those at their ends, then what looks at them, then the world.
//! Who is in a world does not know the others; the world passes on between them.
//!
//! A failure prints the one command that replays it. The same seed is the same world, bit for bit.

mod agenda;
mod asked;
pub mod backend;
pub mod book;
pub mod census;
mod checks;
mod classes;
pub mod client;
pub mod command;
pub mod conditions;
pub mod contest;
pub mod course;
mod crowd;
pub mod curve;
pub mod link;
mod machines;
mod network;
pub mod overrides;
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

mod desk;
mod pooler;
mod postgres;
mod process;
mod random;
mod trouble;
mod words;
mod working;
