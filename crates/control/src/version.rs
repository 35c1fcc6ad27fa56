//! The version, for people and for programs that expect PgBouncer.
//!
//! Exporters and scripts take SHOW VERSION for PgBouncer's version and choose columns by it. Some want it to the letter, so pgweir's own version
//! is elsewhere: in SHOW PGWEIR, and in the second line of `pgweir --version`.

/// The version of PgBouncer that the console is compatible with.
pub const PGBOUNCER: &str = "1.25.2";

/// pgweir's own version.
pub const PGWEIR: &str = env!("CARGO_PKG_VERSION");

/// The one value of `SHOW VERSION`, and the first line of `pgweir --version`.
#[must_use]
pub fn text() -> String {
    format!("PgBouncer {PGBOUNCER}")
}

/// Both versions, for people, and for a process that takes over.
#[must_use]
pub fn full() -> String {
    format!("PgBouncer {PGBOUNCER} (pgweir {PGWEIR})")
}
