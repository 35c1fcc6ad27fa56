//! The outer ring: the built program as users get it, between a real PostgreSQL and real clients.
//!
//! ```text
//!   tests/*/*.rs ──► Slot: three at a time, or alone                                 (slots.rs)
//!        │
//!        └───────► Stage ──┬─► Pooler   a process of its own, from an ini file        (pooler.rs)
//!                          ├─► Cluster  PostgreSQL of its own, copied                 (demo)
//!                          ├─► Authority  certificates that a CA of its own signs     (authority.rs)
//!                          ├─► Between  somebody who ends the TLS of both             (between.rs)
//!                          ├─► Impostor  a PostgreSQL that says what a test wants    (impostor.rs)
//!                          ├─► NameServer  says where names of hosts are             (name_server.rs)
//!                          ├─► Page      the live page, without a browser            (page.rs)
//!                          ├─► Line     a client's bare connection, and its TLS        (line.rs)
//!                          └─► Client   a client that can also misbehave              (crate client)
//!                              psql, pgbench, psycopg, PgBouncer                      (tools.rs)
//!                              drivers in sessions that keep state                    (program.rs, python/)
//! ```
//!
//! The program under test is `$PGWEIR_BIN`, else the newest `pgweir` built into this workspace's target directory; tests of `pgweir dev` and
//! `pgweir bench` need the `pgweir-bench` of the same build beside it. Any
//! program that reads a `pgbouncer.ini` will do, which shows whether a test asks for more than PgBouncer gives.
//! `PGWEIR_CHAOS=check,poison,rotate` turns these settings on in every test that does not say otherwise: sessions then run on other
//! servers, behind a stranger, and a difference that `chaos_check` finds fails the test. Deadlines and process ids of tests may not
//! hold under `poison`: a server is busy for several ms between two transactions.
//!
//! Each test prints what it measured. Two tests of one program run at a time; a test that needs the whole machine asks for it, in its
//! `Wishes` or by [`Slot::alone`], and runs alone (slots.rs). Each test has a PostgreSQL and a pooler of its own, and waits up to a minute
//! for an event: a test fails by what happens, not by how fast this machine is today.
//!
//! A test whose `#[ignore]` begins with `test-full:` is expensive. Its reason names a cheaper test that proves the same; `make test-full`
//! runs the expensive one.

mod authority;
mod between;
pub mod examples;
mod impostor;
pub mod line;
mod name_server;
pub mod page;
mod patience;
mod pooler;
mod program;
pub mod shown;
mod slots;
mod stage;
pub mod standby;
mod tools;

pub use authority::{Authority, Signature};
pub use between::Between;
pub use client::{Answer, Connection as Client, Gone, Message, ServerError, frontend};
pub use impostor::{Impostor, Peer};
pub use name_server::{NameServer, Says};
pub use patience::eventually;
pub use pooler::{Pooler, binary, full_binary};
pub use program::{Checks, Program};
pub use slots::Slot;
pub use stage::{Stage, Wishes, cluster};
pub use tools::{Pgbench, pgbouncer, psql, psql_beside, python, run};

/// A row of a table of the console, by its columns' names.
pub type Row = std::collections::BTreeMap<String, String>;
