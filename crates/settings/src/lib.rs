//! Every setting of `[pgbouncer]`, declared once.
//!
//! Promises PgBouncer's names, defaults and order, and values as PgBouncer reads and shows them. Deliberately does not
//! know files, databases, users or what a setting does.

pub mod table;
pub mod value;
