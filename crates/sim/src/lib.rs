//! Runs the same decisions as in production in a seeded world: model clients, model PostgreSQL, a bad network, a
//! virtual clock.
//!
//! | file | what it is |
//! |---|---|
//! | `wishes`, `overrides`, `plan` | the requested kind of world and its settings, and the seed's decisions: settings, users, the check for which the world is made |
//! | `conditions` | weather, faults, manners |
//! | `contest` | worlds in which classes compete for a pool |
//! | `promises` | worlds that test features which others seldom use |
//! | `course`, `agenda` | the shared state: plan, clock, random numbers, trace; the future events |
//! | `link`, `network`, `asked` | connections: buffers, delays, pieces, ends, breaks; the pooler's requests on them |
//! | `machines`, `pooler` | the machines, each with the parts that its thread would have; machines with their connections |
//! | `curve`, `working` | a PostgreSQL with a best number of servers, and its wait events |
//! | `history` | the hosts of databases with two |
//! | `postgres`, `process`, `backend`, `trouble` | the model PostgreSQL, its processes, their sessions, its failures |
//! | `statement`, `command`, `tokens` | the clients' statements, and the model's parser |
//! | `state`, `settings`, `shared` | the state of a session, and the state that all share |
//! | `book` | every session's state at each statement, at its server and at its twin |
//! | `desk` | the control plane |
//! | `client`, `crowd` | model clients, each with a twin that gives the right answers; all clients of a world |
//! | `checks` | the invariants, one file each |
//! | `world` | the owner of all parts: the machines' rounds, and what their peers do when they wake |
//! | `run`, `census`, `trace` | one seed, counts of what happened, the record of events |
//!
//! Imports follow the layers of this list: values, then connections, then their two ends, then the checks, then the
//! world. The parts of a world do not know each other; the world passes data between them.
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
mod history;
pub mod link;
mod machines;
mod network;
pub mod overrides;
pub mod parameters;
pub mod plan;
pub mod promises;
pub mod run;
#[cfg(debug_assertions)]
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
pub mod secret;
mod trouble;
mod words;
mod working;
