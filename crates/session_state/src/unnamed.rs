//! A client's unnamed statement, in transaction and statement mode.
//!
//! On a direct connection it lasts until the next unnamed Parse, an unnamed Close, or a simple Query; so a client may parse
//! in one round and bind in the next, when it has another server. Its text is kept here, and sent to that server right
//! before the Bind.
//!
//! //= pg18 protocol-flow#PROTOCOL-FLOW-EXT-QUERY
//!
//! Promises: what PostgreSQL would take for the unnamed statement, errors and skipped messages included. A text longer than
//! [`limits::UNNAMED_LEN_MAX`] is not kept: it is bound in its own transaction, or not at all.

use std::collections::VecDeque;

use units::limits;
use wire::frontend::Parse;

/// Tells one unnamed statement from all others on a worker.
pub type Version = u64;

/// There is none.
pub const NONE: Version = 0;

/// Of a server: it may have somebody's.
pub const UNKNOWN: Version = Version::MAX;

/// What a Parse leaves behind. Without a text it was too long to keep, or it is what a Close leaves.
#[derive(Debug, Default)]
struct LastParse {
    version: Version,
    /// Text and types, as in the Parse message after its name.
    body: Vec<u8>,
}

/// One client's.
#[derive(Debug, Default)]
pub struct Unnamed {
    current: LastParse,
    /// Changes whose messages are not answered yet, in the order of the server's ledger.
    sent: VecDeque<LastParse>,
    /// Bytes of the texts in `sent`, and how many of the oldest have been given up.
    sent_len: usize,
    given_up: usize,
    /// A buffer that was used before.
    spare: Vec<u8>,
    /// Changed in the batch that is being sent: what follows in it means that change, or is skipped with it.
    in_batch: bool,
}

impl Unnamed {
    /// A Parse is sent; `None`: its text is not at hand. `version` must be new.
    pub fn parsed(&mut self, version: Version, parse: Option<&Parse<'_>>) {
        let mut body = std::mem::take(&mut self.spare);
        let len = |parse: &&Parse<'_>| parse.query.len() + 1 + parse.types.len();
        if let Some(parse) = parse.filter(|parse| len(parse) <= limits::UNNAMED_LEN_MAX) {
            body.reserve_exact(len(&parse));
            body.extend_from_slice(parse.query);
            body.push(0);
            body.extend_from_slice(parse.types);
        }
        self.sent_len += body.len();
        self.sent.push_back(LastParse { version, body });
        self.in_batch = true;
        // In a deep pipeline only the last texts are kept: an earlier one matters only if all later ones are skipped.
        while self.sent_len > limits::UNNAMED_LEN_MAX {
            let kept = &mut self.sent[self.given_up];
            self.sent_len -= kept.body.len();
            kept.body = Vec::new();
            self.given_up += 1;
        }
    }

    /// A Close is sent.
    pub fn closed(&mut self) {
        self.parsed(NONE, None);
    }

    /// A Sync or a Query is sent.
    pub fn batch_ended(&mut self) {
        self.in_batch = false;
    }

    /// The oldest change under way was carried out. Returns what the server has now. In doubt all changes may have been
    /// given up, and this is one of them.
    pub fn answered(&mut self, doubtful: bool) -> Version {
        if doubtful && self.sent.is_empty() {
            return UNKNOWN;
        }
        let change = self.take();
        self.set(change);
        self.current.version
    }

    /// A Query was carried out, or a Parse failed.
    pub fn forget(&mut self) {
        self.set(LastParse::default());
    }

    /// The oldest change under way was skipped, or failed.
    pub fn skipped(&mut self) {
        let change = self.take();
        self.recycle(change.body);
    }

    /// None of the changes under way will be answered.
    pub fn skipped_all(&mut self) {
        while !self.sent.is_empty() {
            self.skipped();
        }
    }

    /// Whether a message that comes now means a change that it is sent together with.
    pub fn is_in_batch(&self) -> bool {
        self.in_batch
    }

    /// Whether it can be sent to another server, if there is one.
    pub fn is_kept(&self) -> bool {
        self.version() == NONE || self.parse().is_some()
    }

    /// Whether it depends on answers under way what the unnamed statement is.
    pub fn is_changing(&self) -> bool {
        !self.sent.is_empty()
    }

    pub fn version(&self) -> Version {
        self.current.version
    }

    /// The unnamed statement, unless there is none, or none that was kept.
    pub fn parse(&self) -> Option<Parse<'_>> {
        let body = &self.current.body;
        let end = body.iter().position(|&byte| byte == 0)?;
        Some(Parse { name: b"", query: &body[..end], types: &body[end + 1..] })
    }

    fn take(&mut self) -> LastParse {
        let change = self.sent.pop_front();
        debug_assert!(change.is_some(), "each answer has its change");
        let change = change.unwrap_or_default();
        self.sent_len -= change.body.len();
        self.given_up = self.given_up.saturating_sub(1);
        change
    }

    fn set(&mut self, kept: LastParse) {
        let before = std::mem::replace(&mut self.current, kept);
        self.recycle(before.body);
    }

    fn recycle(&mut self, mut body: Vec<u8>) {
        body.clear();
        if body.capacity() > self.spare.capacity() {
            self.spare = body;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(query: &[u8]) -> Parse<'_> {
        Parse { name: b"", query, types: &[0, 0] }
    }

    fn text(unnamed: &Unnamed) -> Option<Vec<u8>> {
        unnamed.parse().map(|parse| parse.query.to_vec())
    }

    #[test]
    fn what_was_carried_out_last_counts() {
        let mut unnamed = Unnamed::default();
        unnamed.parsed(1, Some(&parse(b"a")));
        unnamed.parsed(2, Some(&parse(b"b")));
        assert!(text(&unnamed).is_none() && unnamed.is_changing());
        assert_eq!(unnamed.answered(false), 1);
        unnamed.skipped();
        assert_eq!(text(&unnamed).as_deref(), Some(&b"a"[..]));
        unnamed.closed();
        assert_eq!(unnamed.answered(false), NONE);
        assert!(text(&unnamed).is_none() && !unnamed.is_changing());
    }

    #[test]
    fn a_deep_pipeline_keeps_its_last_texts_only() {
        let mut unnamed = Unnamed::default();
        let long = vec![b'x'; limits::UNNAMED_LEN_MAX / 3];
        for version in 1..=1000 {
            unnamed.parsed(version, Some(&parse(&long)));
            assert!(unnamed.sent.iter().map(|kept| kept.body.len()).sum::<usize>() <= limits::UNNAMED_LEN_MAX);
        }
        for version in 1..=1000 {
            assert_eq!(unnamed.answered(false), version);
            assert_eq!(text(&unnamed).is_some(), version > 998, "{version}");
        }
        unnamed.parsed(1001, Some(&parse(&vec![b'x'; limits::UNNAMED_LEN_MAX + 1])));
        unnamed.answered(false);
        assert!(text(&unnamed).is_none());
    }
}
