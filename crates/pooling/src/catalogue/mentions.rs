//! Which names definitions mention that were sent and may not have been read: who redefines one of these changes what they
//! do, too.
//!
//! Kept as one set until a catalogue has been read that shows all of them.

use std::collections::BTreeSet;

use sql::Word;

use crate::id::ConnId;
use crate::time::Time;

/// How many words are kept.
const WORDS_MAX: usize = 16_384;

#[derive(Debug, Default)]
pub(super) struct Mentions {
    words: BTreeSet<Word>,
    /// Servers whose transactions may go on that define something.
    open: BTreeSet<ConnId>,
    /// When the last of them was over, or something was sent.
    since: Time,
}

impl Mentions {
    /// A definition with these words is sent. False: there are too many, and all are forgotten.
    pub(super) fn add(&mut self, words: impl Iterator<Item = Word>, server: ConnId, now: Time) -> bool {
        self.words.extend(words.map(Word::name));
        self.open.insert(server);
        self.since = now;
        let fits = self.words.len() <= WORDS_MAX;
        if !fits {
            self.words.clear();
        }
        fits
    }

    pub(super) fn has(&self, word: Word) -> bool {
        self.words.contains(&word.name())
    }

    /// A transaction is over.
    pub(super) fn settled(&mut self, server: ConnId, now: Time) {
        if self.open.remove(&server) {
            self.since = now;
        }
    }

    /// A catalogue was read that was asked for then.
    pub(super) fn read(&mut self, began: Time) {
        if self.open.is_empty() && self.since < began {
            self.words.clear();
        }
    }
}
