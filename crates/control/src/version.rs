//! What we call ourselves, to people and to programs that expect PgBouncer.
//!
//! Exporters and scripts take the first `\d+\.\d+\.\d+` of `SHOW VERSION` for PgBouncer's version and choose columns by
//! it; the columns here are those of [`PGBOUNCER`]. Ours follows in parentheses, where a person finds it.

/// The PgBouncer whose console we speak.
pub const PGBOUNCER: &str = "1.25.2";

/// Our own.
pub const PGWEIR: &str = env!("CARGO_PKG_VERSION");

/// The one value of `SHOW VERSION`, and the first line of `pgweir --version`.
#[must_use]
pub fn text() -> String {
    format!("PgBouncer {PGBOUNCER} (pgweir {PGWEIR})")
}
