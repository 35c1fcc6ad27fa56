//! Stacks of running processes of this machine: sampled by perf or gdb, folded, and drawn as a flame graph.
//!
//! ```text
//!   available ── which of the two tools can be used, and why not
//!   sample ─┬─► perf ─► perf_script ─┐ what runs on a CPU
//!           └─► gdb ──► gdb_text ────┴─► naming ─► Folded ─┬─► text, a line a stack
//!               where each thread is                       └─► tree ─► svg
//! ```
//!
//! Promises: a process that was stopped by gdb goes on, whatever happens to gdb; nothing is left behind, no file and no process; names of
//! functions and threads, which anybody may have chosen, come out as text. Parsing, folding and drawing do no I/O.
//!
//! Deliberately does not do: asking PostgreSQL which backends there are (a caller gives process ids), and unwinding of its own.

mod available;
mod children;
mod folded;
mod gdb;
mod gdb_text;
mod limits;
mod naming;
mod perf;
mod perf_script;
mod processes;
mod sampling;
mod stack;
mod svg;
mod tool;
mod tree;
mod usage;

pub use available::{Available, available, permitted};
pub use folded::{Folded, Frame, Kind};
pub use limits::{GDB_RATE_MAX, GDB_SAMPLES_MAX, PERF_RATE_MAX, PROCESSES_MAX, SECONDS_MAX};
pub use processes::{age, backends, children, is_backend, name, parent};
pub use sampling::{How, Sampled, Subject, What, sample};
pub use svg::svg;
pub use tool::Tool;
pub use usage::{Claimed, Used, used};
