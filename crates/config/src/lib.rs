//! The user's pgbouncer.ini to settings, with messages a person can act on.
//!
//! ```text
//!   file ─ ini ─▶ assignments ─┬─ settings                   [pgbouncer], by the crate `settings`
//!          (pairs)             ├─ databases                  [databases]
//!                              ├─ users                      [users] [peers]
//!                              └─ classes                    [classes]
//!                                 all of it ─▶ config
//!   auth_hba_file, auth_ident_file ─ access ─▶ rules by which clients log in
//!   auth_file ─ userlist ─▶ secrets            support: what is not there yet, sense: what cannot be meant
//!   class_file ─ rules ─▶ the class of a session      reach: classes that no session can be in
//!   postgres://… ─ url, passfile               explain, import, manual: settings back to words
//! ```
//!
//! The crate promises: a file that PgBouncer loads means the same here or is refused with the reason; every mistake is
//! named with file, line, key, what was found and what was expected, all of them in one run; no bytes make it panic or
//! allocate without bound; no message repeats a password.
//!
//! It deliberately does not do: applying settings to anything that runs, looking up names or users, reading the clock
//! or the environment (what it needs of them are arguments).

mod access;
mod built;
pub mod classes;
pub mod config;
pub mod databases;
pub mod demand;
mod encryption;
pub mod entry;
pub mod explain;
mod hints;
mod hosts;
mod import;
pub mod ini;
pub mod load;
pub mod manual;
pub mod pairs;
pub mod passfile;
mod password;
pub mod problem;
mod reach;
pub mod rules;
mod sense;
pub mod settings;
mod support;
pub mod url;
pub mod userlist;
pub mod users;

pub use built::Built;
pub use config::{Config, ConfigRow};
pub use explain::explain;
pub use import::import;
pub use load::{load, load_with, load_without_mistakes, read_file};
pub use problem::{Problem, Severity};
pub use sense::descriptors;
pub use url::{Assignment, Upstream, from_urls};
