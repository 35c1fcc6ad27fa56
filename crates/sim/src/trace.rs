//! The record of all events in order: always as a hash, and as lines when a failure is replayed.

use std::collections::VecDeque;

/// Lines kept for the report of a failure.
const LINES_MAX: usize = 4_000;

/// The initial value of FNV-1a.
const BASIS: u64 = 0xcbf2_9ce4_8422_2325;

#[derive(Debug, Default)]
pub struct Trace {
    hash: u64,
    seen: u64,
    lines: Option<VecDeque<String>>,
    prints: bool,
}

impl Trace {
    /// `records`: keeps lines, which costs time; `prints`: also prints each at once.
    #[must_use]
    pub fn new(records: bool, prints: bool) -> Trace {
        Trace { hash: BASIS, seen: BASIS, lines: (records || prints).then(VecDeque::new), prints }
    }

    /// Mixes something into the hash.
    pub fn mix(&mut self, word: u64) {
        self.hash = (self.hash ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
    }

    /// The hash of all that happened so far.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Mixes in output of the pooler that clients and servers see: bytes, connections, lines of the log.
    pub fn see(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.seen = (self.seen ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        // A separator between outputs.
        self.seen = (self.seen ^ 0x100).wrapping_mul(0x0100_0000_01b3);
    }

    /// The hash of all output of the pooler. A change that only rearranges code must not change it.
    #[must_use]
    pub fn seen(&self) -> u64 {
        self.seen
    }

    #[must_use]
    pub fn records(&self) -> bool {
        self.lines.is_some()
    }

    /// Adds a line, if lines are kept.
    pub fn line(&mut self, now: u64, write: impl FnOnce() -> String) {
        let Some(lines) = &mut self.lines else { return };
        let line = format!("{:>5}.{:06} {}", now / 1_000_000, now % 1_000_000, write());
        if self.prints {
            println!("{line}");
        }
        if lines.len() == LINES_MAX {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    /// The lines kept, oldest first.
    #[must_use]
    pub fn take_lines(&mut self) -> Vec<String> {
        self.lines.take().map(Vec::from).unwrap_or_default()
    }
}
