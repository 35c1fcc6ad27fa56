//! The history on disk: a ring of files. A thread adds each second to the newest file; readers can read any span of time.
//!
//! ```text
//!   observer ─ a second ─► writer, a thread ─► PATH                     the newest seconds; full, it becomes
//!                                              PATH.20260701T140512Z    segments, by when they begin; the oldest is removed
//!   restart: the last hour ◄──┐
//!   report, SHOW WAITS, page ◄┴─ Reading ◄──── all of them, a minute at a time
//! ```
//!
//! Promises: The observer never waits for the disk. A failure to write is logged once, and its end once. All files together never exceed `size_max`.
//! Files that pgweir has not written are not touched. Readers skip torn and damaged parts, and list each in [`Reading::complaints`]. Only the owner
//! may read the files. A reading holds a minute in memory, whatever the length of its span.
//!
//! Deliberately does not do: fsync. A power failure may cost the last seconds.

mod ends;
mod reading;
mod segments;
mod writer;

use std::io;
use std::path::PathBuf;

pub use ends::{ends, is_there};
pub use reading::{ReadBack, Reading, read_back};
pub use writer::{Archive, Written};

/// The path of the newest file, and the largest size of all files together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    pub path: PathBuf,
    pub size_max: u64,
}

/// The system's message for an error, without its number.
fn why(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests;
