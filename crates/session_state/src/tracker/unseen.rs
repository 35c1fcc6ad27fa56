//! What texts that run code have done, or may have done, that no effect of theirs tells.

use std::borrow::Cow;

use crate::own_changes::OwnChanges;
use crate::state::check::Pair;
use crate::state::{Base, State};

/// Words of such texts, by which it may be told what they have done. What the functions say that they call is not known.
#[derive(Copy, Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
struct Words {
    none: bool,
    reset: bool,
}

/// What is known of it.
#[derive(Copy, Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Unseen {
    /// Texts were run that nobody has read.
    pub(super) ran_text: bool,
    /// The session has reset what its server began with, as far as that has no name: its next message waits for a check under way. A
    /// session that moves to another process has none under way.
    #[serde(skip)]
    pub(super) lost_base: bool,
    /// A text of the transaction is known to make something temporary, not only suspected.
    pub(super) makes_temporary: bool,
    /// The session has had something temporary on its server.
    pub(super) used_temporary: bool,
    /// The reported parameters that a check has listed as set, and those that it has not listed: these have their values by RESET.
    pub(super) checked_parameters: OwnChanges,
    /// Words of the texts that no check has covered yet.
    said: Words,
    /// Words of the texts that the check under way covers.
    asked: Words,
}

/// Whether a text has this word, in whatever way it is written.
pub(super) fn has_word(text: &[u8], word: &[u8]) -> bool {
    let is_in_word = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    text.windows(word.len()).enumerate().any(|(at, found)| {
        let before = at.checked_sub(1).and_then(|before| text.get(before));
        found.eq_ignore_ascii_case(word) && !is_in_word(before) && !is_in_word(text.get(at + word.len()))
    })
}

/// Whether a text may say SET ROLE NONE, or call `set_config('role', 'none', …)`: it has both words, out of comments.
//= pg18 sql-set-role
fn says_no_role(text: &[u8]) -> bool {
    let text = without_comments(text);
    has_word(&text, b"role") && has_word(&text, b"none")
}

/// A text without its comments. In a string, what looks like a comment is one in the text that it may be.
fn without_comments(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.windows(2).any(|signs| matches!(signs, b"/*" | b"--")) {
        return Cow::Borrowed(text);
    }
    let (mut kept, mut rest) = (Vec::with_capacity(text.len()), text);
    while let [first, after @ ..] = rest {
        let end = |mark: &[u8]| {
            rest.windows(mark.len()).position(|found| found == mark).map_or(rest.len(), |at| at + mark.len())
        };
        let skipped = match rest {
            [b'-', b'-', ..] => end(b"\n"),
            [b'/', b'*', ..] => end(b"*/"),
            _ => 0,
        };
        kept.push(if skipped > 0 { b' ' } else { *first });
        rest = if skipped > 0 { &rest[skipped..] } else { after };
    }
    Cow::Owned(kept)
}

impl Unseen {
    /// A call of set_config is about to be sent, with the values of its parameters.
    pub fn note_values(&mut self, text: &[u8], values: &[u8]) {
        let text = without_comments(text);
        let has = |word: &[u8]| has_word(&text, word) || has_word(values, word);
        self.said.none |= has(b"role") && has(b"none");
    }

    /// A text is about to be sent that may leave something on its server.
    pub(super) fn note(&mut self, text: &[u8]) {
        self.said.none |= says_no_role(text);
        self.said.reset |= has_word(text, b"reset");
    }

    /// The text calls code that resets settings.
    pub(super) fn note_resets(&mut self) {
        self.said.reset = true;
    }

    /// The session has reset something. `loses_base`: no name brings it back, so the server is reset before another session has it.
    pub(super) fn note_lost_base(&mut self, loses_base: bool) {
        self.ran_text |= loses_base;
        self.lost_base |= loses_base;
    }

    /// Whether the session has reset what its server began with, and no name brings that back: only a server that has been reset has it.
    pub fn has_lost_base(&self) -> bool {
        self.lost_base
    }

    pub(super) fn says_reset(&self) -> bool {
        self.said.reset
    }

    /// The server is being asked what those texts have done.
    pub(super) fn ask(&mut self) {
        self.asked = std::mem::take(&mut self.said);
    }

    /// It has answered: whether RESET was said.
    pub(super) fn asked_reset(&self) -> bool {
        self.asked.reset
    }

    /// Its answer could not be read.
    pub(super) fn ask_again(&mut self) {
        self.said.none |= self.asked.none;
        self.said.reset |= self.asked.reset;
    }

    /// The session leaves its server. Whether that may have local buffers by it.
    pub fn leave(&mut self) -> bool {
        std::mem::take(self).used_temporary
    }

    /// Whether its server may have local buffers by it.
    pub fn has_used_temporary(&self) -> bool {
        self.used_temporary
    }

    /// The server has another role than the session: it is cleared when the session leaves it.
    pub fn needs_clearing(&mut self) {
        self.ran_text = true;
    }

    pub fn take_checked_parameters(&mut self) -> OwnChanges {
        std::mem::take(&mut self.checked_parameters)
    }

    /// Whether code has run RESET ROLE, in a session that began with a role, by its startup packet or by its server's `base`. A text that says NONE may have run
    /// SET ROLE NONE, and one that has changed whose session it is has ended the role. A function is taken to have reset it: so its session has no more
    /// rights than before.
    pub(super) fn has_reset_role(&self, first: &State, now: &State, base: &Base, named: &[Pair]) -> bool {
        let value = |name: &[u8]| named.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_slice());
        let is_anothers = value(b"session_authorization").is_some_and(|value| !value.is_empty());
        let has_none = value(b"role").is_some_and(<[u8]>::is_empty);
        let had_role = match first.has_role() {
            true => now.has_role(),
            false => base.has_role() && !now.has_authorization(),
        };
        let had_none = now.is_set_to_nothing(b"role");
        had_role && !had_none && !self.asked.none && has_none && (!is_anothers || now.has_authorization())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_stands_alone() {
        assert!(has_word(b"do $$begin RESET x; end$$", b"reset") && has_word(b"reset", b"reset"));
        assert!(!has_word(b"select preset_fn(), resets", b"reset") && !has_word(b"", b"reset"));
        assert!(has_word(b"listen\"x\"", b"listen") && !has_word(b"unlisten x", b"listen"));
    }

    #[test]
    fn a_role_of_none_is_said_with_its_name() {
        for says in [
            "set role none",
            "SET role TO 'none'",
            "do $$begin set role = none; end$$",
            "set role /* x */ none",
            "select set_config('role', E'none', false)",
            "do $$begin execute format('set role %I', 'none'); end$$",
        ] {
            assert!(says_no_role(says.as_bytes()), "{says}");
        }
        for does_not in
            ["select f() /* role none */", "select f() as none", "select f() -- set role none\n", "set roles none"]
        {
            assert!(!says_no_role(does_not.as_bytes()), "{does_not}");
        }
    }

    #[test]
    fn a_role_of_none_may_come_in_the_values_of_a_call() {
        let call = |text: &str, values: &[u8]| {
            let mut unseen = Unseen::default();
            unseen.note_values(text.as_bytes(), values);
            unseen.said.none
        };
        assert!(call("select set_config($1, $2, false)", b"\0\0\0\x04role\0\0\0\x04none"));
        assert!(call("select set_config($1, 'none', false)", b"\0\0\0\x04role"));
        assert!(call("select set_config('role', $1, false)", b"\0\0\0\x04none"));
        assert!(!call("select set_config('app.x', $1, false)", b"\0\0\0\x04none"));
    }

    #[test]
    fn what_is_said_behind_a_question_is_not_answered_by_it() {
        let mut unseen = Unseen::default();
        unseen.note(b"set role none");
        unseen.ask();
        unseen.note(b"reset app.x");
        assert!(unseen.asked.none && !unseen.asked_reset() && unseen.says_reset());
        unseen.ask_again();
        unseen.ask();
        assert!(unseen.asked.none && unseen.asked_reset() && !unseen.says_reset());
    }
}
