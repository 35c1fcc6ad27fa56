//! What texts that run code have done, or may have done, that no effect of theirs tells.

use crate::state::State;
use crate::state::check::Pair;

/// What is known of it.
#[derive(Copy, Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Unseen {
    /// Texts were run that nobody has read.
    pub(super) ran_text: bool,
    /// A text of the transaction is known to make something temporary, not only suspected.
    pub(super) makes_temporary: bool,
    /// The session has had something temporary on its server, or may have.
    used_temporary: bool,
    /// Parameters that code has reset, as bits by their numbers: the server has reported them, and does not list them as set.
    pub(super) reset_parameters: u32,
    /// A text has the word NONE.
    says_none: bool,
    /// A text has the word RESET.
    pub(super) says_reset: bool,
}

impl Unseen {
    /// A text is about to be sent that may leave something on its server. `temporary`: among that, temporary objects.
    pub(super) fn note(&mut self, text: &[u8], temporary: bool) {
        let has = |word: &[u8]| text.windows(word.len()).any(|found| found.eq_ignore_ascii_case(word));
        self.used_temporary |= temporary;
        self.says_none |= has(b"none");
        self.says_reset |= has(b"reset");
    }

    /// The server has been asked.
    pub(super) fn learnt(&mut self) {
        (self.says_none, self.says_reset) = (false, false);
    }

    /// The session leaves its server. Whether that may have local buffers by it.
    pub fn leave(&mut self) -> bool {
        std::mem::take(self).used_temporary
    }

    /// Whether its server may have local buffers by it.
    pub fn has_used_temporary(&self) -> bool {
        self.used_temporary
    }

    pub fn take_reset_parameters(&mut self) -> u32 {
        std::mem::take(&mut self.reset_parameters)
    }

    /// Whether code has run RESET ROLE, in a session that began with a role. Code that says NONE may have run SET ROLE NONE.
    pub(super) fn has_reset_role(&self, first: &State, now: &State, named: &[Pair]) -> bool {
        let is_none = |(name, value): &Pair| name == b"role" && value.is_empty();
        first.has_role() && now.has_role() && !self.says_none && named.iter().any(is_none)
    }
}
