//! Walking over received bytes: what was decided to pass on is sent as it lies, in runs as long as possible.

use machine::action::{Actions, Source};
use units::ConnId;

/// A place in received bytes, and the run behind it that is to be sent and has not been.
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

    /// What has not been looked at.
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    pub fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The next bytes belong to the run.
    pub fn pass(&mut self, count: usize) {
        self.at += count;
        debug_assert!(self.at <= self.bytes.len());
    }

    /// The next bytes are not sent; what was passed before them is, to `to`. Returns how many that were.
    pub fn skip(&mut self, count: usize, to: ConnId, actions: &mut Actions) -> usize {
        let sent = self.flush(to, actions);
        self.at += count;
        self.run = self.at;
        debug_assert!(self.at <= self.bytes.len());
        sent
    }

    /// The next bytes are nobody's.
    pub fn drop(&mut self, count: usize) {
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
