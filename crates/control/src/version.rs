//! The version, for people and for programs that expect PgBouncer.
//!
//! Exporters and scripts take the first `\d+\.\d+\.\d+` of `SHOW VERSION` for PgBouncer's version and choose columns by
//! it. The columns here are those of [`PGBOUNCER`]. pgweir's own version follows in parentheses.

/// The version of PgBouncer that the console is compatible with.
pub const PGBOUNCER: &str = "1.25.2";

/// pgweir's own version.
pub const PGWEIR: &str = env!("CARGO_PKG_VERSION");

/// The one value of `SHOW VERSION`, and the first line of `pgweir --version`.
#[must_use]
pub fn text() -> String {
    format!("PgBouncer {PGBOUNCER} (pgweir {PGWEIR})")
}
