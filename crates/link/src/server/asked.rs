//! The statements that a server has been sent and has not answered yet, where `log_min_duration` or traces want their texts.
//!
//! There is one for each ReadyForQuery that the client is owed: of a batch up to a Sync the first text counts. Kept from link to link; a
//! pipeline has at most [`ASKED_MAX`](limits::ASKED_MAX) texts, and what comes after that is known by its times only.

use std::collections::VecDeque;

use machine::trace::TraceOrigin;
use units::{Time, limits};

/// A statement as the log shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AskedText {
    /// Present if it is traced.
    pub(crate) trace: Option<Box<TraceOrigin>>,
    /// At most [`LOGGED_TEXT_LEN_MAX`](limits::LOGGED_TEXT_LEN_MAX) of it.
    pub(crate) text: Vec<u8>,
    /// Tags of its comments, as key and value, if the text may have been cut: those of a whole text are read when it is logged.
    pub(crate) tags: Vec<(&'static str, Box<[u8]>)>,
}

impl AskedText {
    /// Whether some of its statement may be missing.
    #[inline]
    #[must_use]
    pub(crate) fn may_be_cut(&self) -> bool {
        self.text.len() >= limits::LOGGED_TEXT_LEN_MAX
    }
}

/// The statements under way on one server.
#[derive(Debug)]
pub struct Asked {
    /// How long the session has waited for this server; its first statement is told so.
    queued_us: u64,
    /// How long the server's opening took, if the session waited for that.
    opened_us: Option<u64>,
    /// When the transaction began, if it is traced without having a parent.
    pub(crate) sampled: Option<Time>,
    /// Of the batch that has not ended.
    open: Option<AskedText>,
    ended: VecDeque<AskedText>,
    /// Batches after those, whose texts were not kept.
    unheard: u32,
    /// The memory of a text that has been answered.
    spare: Vec<u8>,
}

impl Asked {
    /// A session has got the server.
    #[must_use]
    pub(crate) fn linked(queued_us: u64, opened_us: Option<u64>) -> Asked {
        let (ended, spare) = (VecDeque::new(), Vec::new());
        Asked { queued_us, opened_us, sampled: None, open: None, ended, unheard: 0, spare }
    }

    /// Another session has got the server.
    #[inline]
    pub(crate) fn linked_again(&mut self, queued_us: u64, opened_us: Option<u64>) {
        (self.queued_us, self.opened_us, self.sampled) = (queued_us, opened_us, None);
        self.forget();
    }

    /// Nothing is under way.
    #[inline]
    fn forget(&mut self) {
        self.open = None;
        self.ended.clear();
        self.unheard = 0;
    }

    /// How long the session had waited, if its first statement is the next one to be answered.
    #[inline]
    #[must_use]
    pub(crate) fn queued_us(&self) -> u64 {
        self.queued_us
    }

    /// Whether the next statement to be answered is not traced.
    #[inline]
    #[must_use]
    pub(crate) fn is_next_untraced(&self) -> bool {
        self.ended.front().is_none_or(|next| next.trace.is_none())
    }

    /// A Query was sent alone. `trace`: where it belongs, if it is traced.
    #[inline]
    pub(crate) fn hear_query(&mut self, text: &[u8], trace: Option<Box<TraceOrigin>>) {
        if self.is_curious() {
            let mut copy = std::mem::take(&mut self.spare);
            copy.clear();
            copy.extend_from_slice(text);
            self.open = Some(AskedText { trace, text: copy, tags: Vec::new() });
        }
        self.ended();
    }

    /// All that was under way has been answered, and is not shown.
    #[inline]
    pub(crate) fn answered_unseen(&mut self) {
        (self.queued_us, self.opened_us) = (0, None);
        if let Some(AskedText { text, .. }) = self.ended.pop_front() {
            self.spare = text;
        }
        self.forget();
    }

    /// Whether a text that comes now is the first one of its batch.
    #[must_use]
    pub(crate) fn is_curious(&self) -> bool {
        self.open.is_none() && self.unheard == 0 && self.ended.len() < limits::ASKED_MAX
    }

    pub(crate) fn hear(&mut self, text: AskedText) {
        self.open = Some(text);
    }

    /// A batch has ended: a ReadyForQuery will come for it.
    pub(crate) fn ended(&mut self) {
        let open = self.open.take();
        if self.unheard > 0 || self.ended.len() >= limits::ASKED_MAX {
            self.unheard += 1;
        } else {
            self.ended.push_back(open.unwrap_or_default());
        }
        debug_assert!(self.ended.len() <= limits::ASKED_MAX, "a deep pipeline keeps no more texts than that");
    }

    /// How long the server's opening took, if the next statement that is answered waited for that.
    pub(crate) fn take_opened_us(&mut self) -> Option<u64> {
        self.opened_us.take()
    }

    /// The oldest has been answered: how long its session had waited before, and its text. `is_last`: nothing more is owed.
    pub(crate) fn answered(&mut self, is_last: bool) -> (u64, AskedText) {
        let queued_us = std::mem::take(&mut self.queued_us);
        let text = self.ended.pop_front();
        if text.is_none() {
            self.unheard = self.unheard.saturating_sub(1);
        }
        if is_last {
            // What was sent twice was heard twice.
            self.ended.clear();
            self.unheard = 0;
        }
        (queued_us, text.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> AskedText {
        AskedText { text: name.as_bytes().into(), ..AskedText::default() }
    }

    #[test]
    fn each_answer_gets_the_first_text_of_its_batch_and_the_first_one_the_wait() {
        let mut asked = Asked::linked(7, None);
        for name in ["a", "b"] {
            assert!(asked.is_curious());
            asked.hear(named(name));
            assert!(!asked.is_curious());
            asked.ended();
        }
        asked.ended();
        assert_eq!(asked.answered(false), (7, named("a")));
        assert_eq!(asked.answered(false), (0, named("b")));
        assert_eq!(asked.answered(true), (0, named("")));
    }

    #[test]
    fn a_deep_pipeline_loses_texts_and_not_their_order() {
        let mut asked = Asked::linked(0, None);
        for index in 0..limits::ASKED_MAX + 3 {
            if asked.is_curious() {
                asked.hear(named(&index.to_string()));
            }
            asked.ended();
        }
        assert_eq!(asked.answered(false).1, named("0"));
        // There would be room again, but others are before it.
        assert!(!asked.is_curious());
        asked.ended();
        for index in 1..limits::ASKED_MAX {
            assert_eq!(asked.answered(false).1, named(&index.to_string()));
        }
        (0..4).for_each(|_| assert_eq!(asked.answered(false).1, named("")));
        assert!(asked.is_curious());
    }

    #[test]
    fn what_was_sent_twice_is_forgotten_when_nothing_is_owed() {
        let mut asked = Asked::linked(0, None);
        for _ in 0..2 {
            asked.hear(named("again"));
            asked.ended();
        }
        assert_eq!(asked.answered(true).1, named("again"));
        asked.hear(named("next"));
        asked.ended();
        assert_eq!(asked.answered(true).1, named("next"));
    }

    #[test]
    fn a_lone_query_is_forgotten_with_its_answer_and_the_next_session_begins_anew() {
        let mut asked = Asked::linked(7, Some(5));
        asked.hear_query(b"one", None);
        assert!(asked.is_next_untraced() && asked.queued_us() == 7);
        asked.answered_unseen();
        assert_eq!((asked.queued_us(), asked.take_opened_us()), (0, None));
        asked.hear_query(b"two", None);
        assert_eq!(asked.answered(true), (0, named("two")));
        asked.hear_query(b"of a client that left", None);
        asked.linked_again(3, None);
        asked.hear_query(b"three", None);
        assert_eq!(asked.answered(true), (3, named("three")));
    }
}
