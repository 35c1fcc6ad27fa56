//! A part of the history as one page: who waited for what, behind whom, and whose it was.
//!
//! ```text
//!   SHOW HISTORY … FORMAT JSON ─► lines ─► Sums ─► page   one HTML file, with charts as SVG
//! ```
//!
//! Promises: one file, and no request leaves it; no script; every text escaped, whoever wrote it; light and dark, screen and paper. Memory
//! has a bound, however many lines there are.
//!
//! Deliberately does not do: any I/O, and asking the console.

mod chart;
mod lines;
mod page;
mod points;
mod sums;

pub use sums::{Heading, Sums};
