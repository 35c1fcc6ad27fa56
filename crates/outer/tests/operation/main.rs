//! An operator's work: the console, RELOAD, PAUSE, SHUTDOWN, upgrades, peers, and a comparison with PgBouncer's console.

mod beside_pgbouncer;
mod console;
mod dev;
mod moves;
mod orders;
mod peers;
mod reloads;
mod shutdowns;
mod upgrade;
mod upgrade_failures;
