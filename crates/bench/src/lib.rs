//! Measures the shipped binary beside PgBouncer and a direct connection, and keeps the raw samples.
//!
//! The pieces, in the order of one measurement: [`scenario`] says what is measured, [`expected`] how long it takes; [`contestant`] starts what is
//! measured, as [`setup`] says ([`relay`] is one of our own); [`world`] makes the load, with clients that ask in a [`style`] on one side and a
//! [`fake`] PostgreSQL on the other; [`measure::process`] reads what a contestant has used; [`rounds`] alternates the contestants; [`calls`], [`idle`],
//! [`half_load`], [`pgbench`], [`sizing`] and [`instructions`] measure what CPU time does not show, [`logins`] what a login costs,
//! [`storm`] what many at once cost others, [`upkeep`] what watching, starting and reloading cost, [`fairness`] who waits for whom, [`rates`] how exactly limits hold; [`measure::statistics`] says what the samples
//! mean; [`record`] keeps them, [`report`] makes the table, and [`versus`] that of two builds.
//!
//! Promises: every figure rests on raw samples that the record keeps; contestants are compared within a round only;
//! a wrong answer ends the measurement. Does not: know anything of pgweir's inside.

pub mod callgrind;
pub mod calls;
pub mod console;
pub mod contestant;
pub mod expected;
pub mod fairness;
pub mod fake;
pub mod figures;
pub mod half_load;
pub mod idle;
pub mod instructions;
pub mod logins;
pub mod logins_table;
pub mod machine;
pub mod pgbench;
pub mod plan;
pub mod rates;
pub mod rates_table;
pub mod record;
pub mod relay;
pub mod report;
pub mod rounds;
pub mod run;
pub mod scenario;
pub mod select;
pub mod setup;
pub mod sizing;
pub mod sizing_table;
pub mod storm;
pub mod storm_table;
pub mod style;
pub mod upkeep;
pub mod upkeep_table;
pub mod versus;
pub mod world;
