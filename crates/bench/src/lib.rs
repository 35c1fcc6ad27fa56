//! Measures the shipped binary beside PgBouncer and a direct connection, and keeps the raw samples.
//!
//! The pieces, in the order of one measurement: [`scenario`] says what is measured; [`contestant`] starts what is
//! measured; [`world`] makes the load, with [`client`]s on one side and a [`fake`] PostgreSQL on the other; [`process`]
//! reads what a contestant cost; [`rounds`] alternates the contestants; [`stats`] says what the samples mean;
//! [`record`] keeps them and [`report`] makes the table.
//!
//! Promises: every figure rests on raw samples that the record keeps; contestants are compared within a round only;
//! a wrong answer ends the measurement. Does not: know anything of pgweir's inside.

pub mod client;
pub mod fake;
pub mod frames;
pub mod stats;
