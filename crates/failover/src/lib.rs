//! A PostgreSQL cluster under Patroni on this machine, and what its clients see while it fails.
//!
//! ```text
//!   stock ──► node ──► cluster      etcd and three PostgreSQL under Patroni: started, asked, healed, ended
//!   network     rest                where its hosts are; Patroni's REST API
//!               │
//!              case                 one way to fail: what is done to the cluster
//!               │
//!   session ──► clients, probe      the ledger's clients, and a direct writer at each host
//!   seen ─────► clients, pool       requests and their ends; the same clients as an application with a pool of its own
//!   contestant                      pgweir, PgBouncer, or nothing in between
//!               │
//!              run ──► ledger ──► outcome ──► record, table
//! ```
//!
//! Promises: a verdict comes from the ledger of the primary that is left, after all hosts have come back; seconds are relative to a writer
//! without a pooler, who saw the same failure. All processes end with the cluster's value, and with this process, however it ends.
//! Does not judge: a table has what was counted, and thresholds are its readers'.

pub mod case;
pub mod clients;
pub mod cluster;
pub mod contestant;
pub mod ledger;
pub mod network;
mod node;
pub mod outcome;
pub mod pool;
pub mod probe;
pub mod record;
mod rest;
pub mod run;
pub mod seen;
mod session;
pub mod stock;
pub mod table;

pub use case::Case;
pub use cluster::Cluster;
pub use contestant::Contestant;
pub use outcome::Outcome;
pub use pool::Pool;
pub use run::{Plan, play};
pub use stock::Stock;
