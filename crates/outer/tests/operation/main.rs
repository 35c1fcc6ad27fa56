//! What an operator does: the console, RELOAD, PAUSE, SHUTDOWN, upgrades, peers, and PgBouncer in the same place.

mod beside_pgbouncer;
mod console;
mod dev;
mod orders;
mod peers;
mod reloads;
mod shutdowns;
mod upgrade;
mod upgrade_failures;
