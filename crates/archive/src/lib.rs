//! The history on disk: a ring of files, to which each second is added, and which are read over any time that they reach back to.
//!
//! ```text
//!   observer ─ a second ─► writer, a thread ─► PATH                     the newest seconds; full, it becomes
//!                                              PATH.20260701T140512Z    segments, by when they begin; the oldest is removed
//!   restart: the last hour ◄──┐
//!   report, SHOW WAITS, page ◄┴─ Reading ◄──── all of them, a minute at a time
//! ```
//!
//! Promises: who observes waits for no disk; all files together are never larger than they may be; what cannot be written is said once, and once more
//! when it is over; a file that is not ours is not touched; what was torn is passed over and said. Only the owner may read the files. Reading holds
//! a minute in memory, however long the time is.
//!
//! Deliberately does not do: fsync. What the machine loses when it loses power is some seconds.

mod reading;
mod segments;
mod writer;

use std::io;
use std::path::PathBuf;

pub use reading::{ReadBack, Reading, read_back};
pub use writer::{Archive, Written};

/// Which files, and how large all are together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    pub path: PathBuf,
    pub size_max: u64,
}

/// The system's words for an error, without its number.
fn why(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests;
