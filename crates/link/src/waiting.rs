//! How long a session has waited, its deadline, and what happens to its request if it is refused.

use queueing::commented;
use queueing::commented::Commented;
use units::Time;
use wire::Header;
use wire::frontend::tag;

use crate::first_text::first_text;
use crate::session::{Rest, Session, SessionState};

impl Session {
    /// How long it has waited for the server that it gets now, in microseconds.
    #[inline]
    pub fn waited_us(&self, now: Time) -> u64 {
        // It got one at once.
        let SessionState::Waiting { since, deadline_ms, .. } = self.state() else { return 0 };
        let is_late = deadline_ms > 0 && now.micros_since(since) >= 1_000 * u64::from(deadline_ms);
        debug_assert!(!is_late, "I8: nobody is served past its deadline");
        // The wait for limits before that does not count.
        now.micros_since(since.max(self.request_at))
    }

    /// Its deadline with these messages; `None`: it has none. Called only for sessions that have to wait.
    #[inline]
    pub fn deadline_ms(&self, messages: &[u8], commented: Commented) -> Option<u32> {
        let set = || self.facts.tracker.as_ref().and_then(|tracker| tracker.state().deadline_ms());
        let begun = || (self.facts.claim.begun_deadline_ms > 0).then_some(self.facts.claim.begun_deadline_ms);
        let commented = match commented {
            Commented::Unread => first_text(self, messages).and_then(commented::deadline_ms),
            Commented::Nothing => None,
            Commented::Deadline(deadline_ms) => deadline_ms,
        };
        // Zero means no deadline.
        commented.or_else(set).or_else(begun).filter(|allowed| *allowed > 0)
    }

    /// Drops the session's first request. True: that was all of it; otherwise it is skipped up to its Sync.
    pub fn drop_request(&mut self) -> bool {
        self.end_retries();
        // There is no request yet.
        let Ok(Some(header)) = Header::parse(&self.incoming.inbox) else { return true };
        if !matches!(header.tag, tag::QUERY | tag::FUNCTION_CALL) {
            self.incoming.skipping = true;
            return false;
        }
        let at_hand = self.incoming.inbox.len().min(header.total_len());
        self.incoming.inbox.drain(..at_hand);
        (self.incoming.skip, self.incoming.rest) = ((header.total_len() - at_hand) as u32, Rest::Discard);
        true
    }
}
