//! Which names definitions mention that were sent and may not have been read: a redefinition of one of these changes what they
//! do, too.
//!
//! Kept until a catalogue has been read that shows all of them: those of large texts as they were read, once for all pools.

use std::collections::BTreeSet;
use std::sync::Arc;

use sql::Word;
use units::{ConnId, Time};

/// How many words are kept.
const WORDS_MAX: usize = 16_384;
/// How many words a large text has at least.
const LARGE: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Mentions {
    words: BTreeSet<Word>,
    /// Of large texts, each in order.
    large: Vec<Arc<[Word]>>,
    /// How many words those have.
    large_len: usize,
    /// Servers whose transactions may go on that define something.
    open: BTreeSet<ConnId>,
    /// When the last of them was over, or something was sent.
    since: Time,
}

impl Mentions {
    /// A definition with these words is sent. False: there are too many, and all are forgotten.
    pub(super) fn add(&mut self, words: impl Iterator<Item = Word>, server: ConnId, now: Time) -> bool {
        self.words.extend(words.map(Word::name));
        self.added(server, now)
    }

    /// As [`Mentions::add`], with all words of a text, in order.
    pub(super) fn add_text(&mut self, words: &Arc<[Word]>, server: ConnId, now: Time) -> bool {
        if words.len() < LARGE {
            return self.add(words.iter().copied(), server, now);
        }
        if !self.large.iter().any(|large| Arc::ptr_eq(large, words)) {
            self.large.push(Arc::clone(words));
            self.large_len += words.len();
        }
        self.added(server, now)
    }

    fn added(&mut self, server: ConnId, now: Time) -> bool {
        self.open.insert(server);
        self.since = now;
        let fits = self.words.len() + self.large_len <= WORDS_MAX;
        if !fits {
            self.clear();
        }
        fits
    }

    fn clear(&mut self) {
        self.words.clear();
        self.large.clear();
        self.large_len = 0;
    }

    pub(super) fn has(&self, word: Word) -> bool {
        let word = word.name();
        self.words.contains(&word) || self.large.iter().any(|words| words.binary_search(&word).is_ok())
    }

    /// A transaction is over. Whether it has mentioned anything.
    pub(super) fn settled(&mut self, server: ConnId, now: Time) -> bool {
        let was_open = self.open.remove(&server);
        if was_open {
            self.since = now;
        }
        was_open
    }

    /// A catalogue was read that was asked for then.
    pub(super) fn read(&mut self, began: Time) {
        if self.open.is_empty() && self.since < began {
            self.clear();
        }
    }
}
