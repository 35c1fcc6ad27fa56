//! A PostgreSQL of one's own for trying things and for tests: found or installed, started, and gone afterwards.
//!
//! ```text
//!   find_or_install ──► Binaries ──► Cluster::start(Options) ──► url(), psql(), restart() ──► stop() or drop
//!                                         │
//!                        initdb, postgres, and a guard that ends both should we be killed
//! ```
//!
//! Promises: works as root (everything runs as an unprivileged account) and as an ordinary user; passwords by SCRAM on
//! TCP, trust only on a Unix socket that nobody else can reach; a terminal's Ctrl-C goes to us alone, so that we choose
//! the order of stopping; nothing is left behind unless a data directory was named, not even after `kill -9` of us.
//!
//! It deliberately knows nothing of pgweir's own protocol code: it is what that code is tested against.

mod account;
mod binaries;
mod cluster;
mod error;
mod guard;
mod home;
mod install;
mod port;
mod query;
mod random;
mod template;

pub use account::{Account, unprivileged};
pub use binaries::{Binaries, find_binaries};
pub use cluster::{Cluster, Options, Shutdown};
pub use error::Error;
pub use guard::Guard;
pub use home::Home;
pub use install::find_or_install;
pub use port::free_port;
pub use random::random_password;
