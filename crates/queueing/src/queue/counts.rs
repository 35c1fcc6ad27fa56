//! What a queue has done for one class, for the console and the metrics.

use crate::classes::ClassId;

/// One class in one pool on one worker; counts since the start, or since classes were last changed.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassCounts {
    pub class: ClassId,
    pub waiting: u32,
    /// Of these, so many as may be served: the class is below its maximum.
    pub eligible: u32,
    /// Servers that are not free of it.
    pub active: u32,
    /// Server time, that of running transactions too, in microseconds.
    pub served_us: u64,
    /// Sessions that were given a server after a wait.
    pub served_after_wait: u64,
    /// How long they waited, together, in microseconds.
    pub wait_us: u64,
    /// The longest wait, those that last included, in microseconds.
    pub wait_max_us: u64,
}
