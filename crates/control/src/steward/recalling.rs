//! Questions about the history on disk. They are answered when a thread of the program has read it.
//!
//! ```text
//!   SHOW WAITS, SHOW HISTORY ─► recall ─► waits ─ Recalled of its number ─► answered
//!                                          └───── RECALL_MAX ─────────────► SHOW WAITS: answered from memory, with a notice
//!                                                                           SHOW HISTORY: an error
//! ```

use std::time::{Duration, Instant};

use machine::{Manner, Question, Settings};

use crate::command::Command;
use crate::console;
use crate::past::{RECALL_MAX, Recall};
use crate::plane::{Asker, Plane};

/// The part of a question's time that has to be read from disk. Nothing is read for an answer that has no rows anyway.
pub(super) fn wanted(plane: &mut impl Plane, settings: &Settings, question: &Question) -> Option<Recall> {
    let Ok(Command::Show(shown)) = console::command(question) else { return None };
    if matches!(question.manner, Manner::Describe { .. }) || !shown.is_of_past() {
        return None;
    }
    if shown.why_empty(settings, question.admin).is_some() {
        return None;
    }
    let history = plane.history()?;
    let oldest = history.lock().expect("nothing panics while it holds this lock").seconds().next().map(|it| it.at);
    shown.recall(&plane.wall_clock(), oldest)
}

/// A question that waits for the disk.
#[derive(Debug)]
pub(super) struct Recalled {
    number: u64,
    pub(super) asker: Asker,
    pub(super) question: Question,
    since: Instant,
}

/// All questions that wait for the disk.
#[derive(Debug, Default)]
pub(super) struct Recalling {
    last: u64,
    waiting: Vec<Recalled>,
}

impl Recalling {
    /// Returns the question's number.
    pub(super) fn add(&mut self, asker: Asker, question: Question) -> u64 {
        self.last += 1;
        self.waiting.push(Recalled { number: self.last, asker, question, since: Instant::now() });
        self.last
    }

    /// Returns `None` if no question of this number waits.
    pub(super) fn take(&mut self, number: u64) -> Option<Recalled> {
        let place = self.waiting.iter().position(|waiting| waiting.number == number)?;
        Some(self.waiting.swap_remove(place))
    }

    /// Takes the questions that have waited for too long.
    pub(super) fn overdue(&mut self, now: Instant) -> Vec<Recalled> {
        let is_overdue = |waiting: &mut Recalled| now.saturating_duration_since(waiting.since) >= RECALL_MAX;
        self.waiting.extract_if(.., is_overdue).collect()
    }

    /// The time until a question has waited for too long.
    pub(super) fn left(&self, now: Instant) -> Duration {
        let oldest = self.waiting.iter().map(|waiting| waiting.since).min();
        oldest.map_or(Duration::MAX, |since| (since + RECALL_MAX).saturating_duration_since(now))
    }
}
