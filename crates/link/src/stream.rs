//! Walks over received bytes. Bytes to pass on are sent without a copy, in runs as long as possible.

use machine::action::{Actions, Source};
use units::ConnId;

/// A position in received bytes, and the run before it that is still to be sent.
///
/// ```text
///  bytes   ████████░░░░░░░░░░░░░░▒▒▒▒▒▒▒▒▒
///          sent    run          at        still to look at
/// ```
#[derive(Debug)]
pub struct Stream<'a> {
    bytes: &'a [u8],
    source: Source,
    run: usize,
    at: usize,
}

impl<'a> Stream<'a> {
    pub fn new(bytes: &'a [u8], source: Source, at: usize) -> Stream<'a> {
        Stream { bytes, source, run: at, at }
    }

    /// The bytes that are still to be looked at.
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    pub(crate) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The next bytes belong to the run.
    pub fn pass(&mut self, count: usize) {
        self.at += count;
        debug_assert!(self.at <= self.bytes.len());
    }

    /// Skips the next bytes, and sends the run before them to `to`. Returns how many bytes that were.
    pub(crate) fn skip(&mut self, count: usize, to: ConnId, actions: &mut Actions) -> usize {
        let sent = self.flush(to, actions);
        self.at += count;
        self.run = self.at;
        debug_assert!(self.at <= self.bytes.len());
        sent
    }

    /// Drops the next bytes, without a receiver.
    pub(crate) fn drop(&mut self, count: usize) {
        self.at += count;
        self.run = self.at;
        debug_assert!(self.at <= self.bytes.len());
    }

    /// Sends the run. Returns its length.
    pub fn flush(&mut self, to: ConnId, actions: &mut Actions) -> usize {
        let len = self.at - self.run;
        actions.send_or_copy(to, self.source, self.bytes, self.run, self.at);
        self.run = self.at;
        len
    }
}
