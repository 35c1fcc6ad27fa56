//! Bounds of what is sampled, each with its reason.

use std::time::Duration;

/// The longest a profile takes, in seconds: a forgotten one ends by itself.
pub const SECONDS_MAX: u32 = 600;
/// Samples a second by perf. More cost the process that is looked at.
pub const PERF_RATE_MAX: u32 = 999;
/// Samples a second by gdb: each stops a process.
pub const GDB_RATE_MAX: u32 = 20;
/// Samples of one profile by gdb, for the same reason.
pub const GDB_SAMPLES_MAX: u32 = 1000;
/// perf opens a descriptor for each thread and each CPU.
pub const PROCESSES_MAX: usize = 500;

/// The part of a stack that perf copies for each sample, in bytes. The kernel's own bound is 65,528; 16 kB reach from the executor to main in most
/// plans.
pub(crate) const STACK_BYTES: u32 = 16_384;
/// Frames of one stack that gdb prints: a recursion is cut, as perf's are (`kernel.perf_event_max_stack` is 127).
pub(crate) const FRAMES_MAX: usize = 127;
/// A line of a tool's output; names of generic functions are long.
pub(crate) const LINE_BYTES_MAX: u64 = 64 * 1024;
/// A name in a stack, in characters.
pub(crate) const NAME_CHARS_MAX: usize = 400;
/// What is kept of a tool's complaints.
pub(crate) const COMPLAINT_BYTES_MAX: u64 = 16 * 1024;
/// Different stacks of a profile. Further ones are counted as one, "[other stacks]".
pub(crate) const STACKS_MAX: usize = 100_000;
/// Lines that wait to be read: a tool waits when there are more.
pub(crate) const LINES_WAITING_MAX: usize = 1000;
/// gdb reads a program's symbols before it stops a process; a large program takes seconds.
pub(crate) const GDB_STARTS_WITHIN: Duration = Duration::from_secs(60);
/// How long perf may take after the end of a recording: `perf script` finds out names then.
pub(crate) const PERF_ENDS_WITHIN: Duration = Duration::from_secs(120);
