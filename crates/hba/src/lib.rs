//! pg_hba.conf and pg_ident.conf: by which method a connection has to prove who it is, and which database users a
//! system user may be.
//!
//! ```text
//!   files ─ text ─▶ lines of fields of words ─┬─ rule ─▶ Rules     which rule is the first that matches a connection
//!          (includes, @files, quotes)         └─ ident ─▶ Maps     whether a map allows a user
//! ```
//!
//! Promises PostgreSQL's syntax and meaning (`//= pg18 auth-pg-hba-conf`), and to read what PgBouncer reads. What cannot
//! be kept here (groups of roles, host names, some methods) is a mistake, never passed over. Every mistake has its file
//! and line, all of them come in one run, and none repeats a password. No bytes make it panic or allocate without bound.
//!
//! Regular expressions are those of the crate `regex`, as far as they mean the same in PostgreSQL; others are refused.
//! Where several ways to match are possible, an alternation takes the first that fits and not the longest.
//!
//! Deliberately does not do: any I/O (files come from a function), proving anything, looking up names or groups.

mod address;
mod directory;
mod ident;
mod method;
mod mistake;
mod names;
mod options;
mod pattern;
mod principals;
mod provider;
mod rule;
mod text;

pub use address::Interface;
pub use directory::{Directory, Lookup, Protection, Scope, Search, Secret, read_directory};
pub use ident::{Maps, read_maps};
pub use method::Method;
pub use mistake::Mistake;
pub use options::{ClientCert, ClientName, Options};
pub use principals::Principals;
pub use provider::{Provider, read_provider};
pub use rule::{Connection, Encryption, Rule, Rules, read_rules};

/// How files are read: by name. A name that ends in a slash is a folder, and gives the names in it, one a line.
pub type Read<'a> = dyn Fn(&str) -> std::io::Result<Vec<u8>> + 'a;
