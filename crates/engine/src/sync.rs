//! The locks and atomics of what threads share, in one place, so that a test can replace them by those of a scheduler
//! (`tests/lost_wakes.rs`).

pub(crate) use std::sync::Mutex;

pub(crate) mod atomic {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
}
