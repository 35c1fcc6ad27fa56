//! A client's CancelRequests: how many it has sent, and which of them may still strike.
//!
//! ```text
//!   sent ──► the pooler ends the request's connection ──► all that was sent before is answered ──► it is over: nothing may be struck
//! ```
//!
//! //= pg18 protocol-flow#PROTOCOL-FLOW-CANCELING-REQUESTS

use crate::plan::Plan;
use crate::secret::Secret;

/// A client's CancelRequests.
#[derive(Copy, Clone, Debug, Default)]
pub struct Cancels {
    /// The key for its own queries.
    pub(super) key: Option<(i32, Secret)>,
    sent: u32,
    /// Those whose effect an answer has shown.
    pub(super) seen: u32,
    /// When it sends the next.
    pub(super) at: Option<u64>,
    /// As many of them have struck nothing, and can no more.
    forfeited: u32,
    /// Since when it waits for the end of the last one's connection.
    awaited_since: Option<u64>,
    /// That connection has ended: a cancel strikes what is still owed, and nothing after it.
    is_over: bool,
    /// All that it had sent is answered, too.
    is_settled: bool,
    /// An administrator has cancelled its query, which may strike later.
    is_ordered: bool,
}

impl Cancels {
    /// It sends one. `awaits`: and waits for the end of its connection, as drivers do.
    pub(super) fn send(&mut self, now: u64, awaits: bool) {
        self.at = None;
        self.sent += 1;
        self.awaited_since = awaits.then_some(now);
        self.is_over = false;
    }

    /// An administrator cancels its query, which is as if it had sent a CancelRequest. Returns how many there were.
    pub fn order(&mut self) -> u32 {
        self.is_ordered = true;
        self.sent += 1;
        self.sent
    }

    /// How many it has sent, or have come for it from an administrator.
    #[must_use]
    pub fn sent(&self) -> u32 {
        self.sent
    }

    /// Whether one of them may still strike.
    pub(super) fn may_strike(&self) -> bool {
        self.seen + self.forfeited < self.sent
    }

    /// Whether it waits for the end of the last one's connection.
    #[must_use]
    pub fn are_awaited(&self) -> bool {
        self.awaited_since.is_some()
    }

    /// That connection has ended. If it was the pooler that has ended it, and not for want of time, the cancel is over.
    pub fn end(&mut self, now: u64, is_cut: bool, plan: &Plan) {
        let timeout = plan.settings.global.waiting.cancel_wait_timeout.map_or(u64::MAX, |it| it.as_micros() as u64);
        let Some(since) = self.awaited_since.take() else { return };
        self.is_over = !is_cut && !self.is_ordered && now - since < timeout;
    }

    /// All that it has sent is answered. Returns whether no cancel can strike what it sends next.
    pub(super) fn settle(&mut self) -> bool {
        let is_over = std::mem::take(&mut self.is_over);
        if is_over {
            self.forfeited = self.sent.saturating_sub(self.seen);
            self.is_settled = true;
        }
        is_over
    }

    /// Whether it has just taken all of them as over.
    pub fn take_settled(&mut self) -> bool {
        std::mem::take(&mut self.is_settled)
    }
}
