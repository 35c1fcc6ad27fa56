//! Questions of how it is now: they are answered once it has been looked.
//!
//! ```text
//!   SHOW ACTIVITY, … ─► observe ─► waits ─ Observed of what it wants ─► answered
//!                                     └─── LOOK_MAX ──────────────────► answered with what was seen last
//! ```

use std::time::{Duration, Instant};

use machine::Question;

use crate::plane::Asker;
use crate::sight::Sight;

/// How long a question waits: as long as servers and then workers may take to answer whoever looks, and a little more.
const LOOK_MAX: Duration = Duration::from_secs(3);

/// One that waits.
#[derive(Debug)]
pub(super) struct Curious {
    pub(super) asker: Asker,
    pub(super) question: Question,
    sight: Sight,
    since: Instant,
}

/// All that wait.
#[derive(Debug, Default)]
pub(super) struct Looking(Vec<Curious>);

impl Looking {
    pub(super) fn add(&mut self, asker: Asker, question: Question, sight: Sight) {
        self.0.push(Curious { asker, question, sight, since: Instant::now() });
    }

    /// It has been looked at so much: those that are to be answered.
    pub(super) fn seen(&mut self, sight: Sight) -> Vec<Curious> {
        self.0.extract_if(.., |curious| curious.sight <= sight).collect()
    }

    /// Those that have waited for too long.
    pub(super) fn overdue(&mut self, now: Instant) -> Vec<Curious> {
        self.0.extract_if(.., |curious| now.saturating_duration_since(curious.since) >= LOOK_MAX).collect()
    }

    /// How long until one has waited for too long.
    pub(super) fn left(&self, now: Instant) -> Duration {
        let oldest = self.0.iter().map(|curious| curious.since).min();
        oldest.map_or(Duration::MAX, |since| (since + LOOK_MAX).saturating_duration_since(now))
    }
}
