//! Who answers questions about who a client is: others, whom this crate does not know.

use machine::{Inquiry, Verdict};

/// Gets the questions of all doors. `ask` returns at once, and calls `answer` from any thread, at most once.
pub trait Authority: Send + Sync {
    fn ask(&self, inquiry: Inquiry, answer: Box<dyn FnOnce(Verdict) + Send>);
}
