//! Questions that read days from disk. Reading may take longer than an answer may, so a page repeats its question until the answer is there.
//!
//! ```text
//!   page ── a question ──►  reading begins; 2 s later:
//!        ◄── 202 ────────   not yet
//!        ── the same ────►  the same reading; once it has ended:
//!        ◄── 200 ────────   the answer
//! ```
//!
//! Promises: one reading uses the disk at a time; a tab has one reading of each kind, and a new question stops the old one; a reading stops
//! [`ABANDONED`] after its page has asked for it last; there are at most [`READINGS_MAX`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use monitor::{Makers, Making};

use crate::Rights;
use crate::sessions::Name;

/// How long one request waits. Less than an answer may take.
const PART: Duration = Duration::from_secs(2);

/// A page that has not repeated its question for this time was closed.
const ABANDONED: Duration = Duration::from_secs(10);

/// Readings at a time: those that wait for the disk, and answers that were not fetched yet.
const READINGS_MAX: usize = 32;

#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Span,
    Report,
}

/// One place for a reading: a new question replaces the old one.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) session: Name,
    /// A number that the tab has chosen.
    pub(crate) tab: u32,
    pub(crate) kind: Kind,
}

/// Seconds of 1970, both included.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) rights: Rights,
}

/// A document, or why there is none.
pub(crate) type Made = Result<String, String>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Made(Arc<Made>),
    NotYet,
    /// It has panicked.
    Failed,
    TooMany,
}

/// The right of a reading to go on.
#[derive(Clone, Debug)]
pub(crate) struct Leave {
    /// When a page asked last. `None`: another question has replaced this one.
    asked: Arc<Mutex<Option<Instant>>>,
}

impl Leave {
    fn new() -> Leave {
        Leave { asked: Arc::new(Mutex::new(Some(Instant::now()))) }
    }

    pub(crate) fn is_valid(&self) -> bool {
        self.asked().is_some_and(|asked| asked.elapsed() < ABANDONED)
    }

    fn asked(&self) -> MutexGuard<'_, Option<Instant>> {
        self.asked.lock().expect("nothing panics while it holds this lock")
    }
}

#[derive(Debug)]
struct ReadingBegun {
    question: Question,
    leave: Leave,
    making: Making<Made>,
}

#[derive(Debug)]
pub(crate) struct Readings {
    begun: Mutex<HashMap<Place, ReadingBegun>>,
    disk: Makers,
}

impl Default for Readings {
    fn default() -> Readings {
        Readings { begun: Mutex::default(), disk: Makers::of(1) }
    }
}

impl Readings {
    /// The answer to a question, if it is there within [`PART`]. `make` stops early once its leave is no longer valid.
    pub(crate) async fn have(
        &self,
        place: Place,
        question: Question,
        make: impl FnOnce(&Leave) -> Made + Send + 'static,
    ) -> Answer {
        let Some((making, leave)) = self.begin(place, question, make) else { return Answer::TooMany };
        let Some(made) = making.within(PART).await else { return Answer::NotYet };
        let mut begun = self.begun();
        if begun.get(&place).is_some_and(|begun| Arc::ptr_eq(&begun.leave.asked, &leave.asked)) {
            begun.remove(&place);
        }
        made.map_or(Answer::Failed, Answer::Made)
    }

    fn begin(
        &self,
        place: Place,
        question: Question,
        make: impl FnOnce(&Leave) -> Made + Send + 'static,
    ) -> Option<(Making<Made>, Leave)> {
        let mut begun = self.begun();
        begun.retain(|_, reading| reading.leave.is_valid());
        if let Some(same) = begun.get(&place).filter(|reading| reading.question == question) {
            *same.leave.asked() = Some(Instant::now());
            return Some((same.making.clone(), same.leave.clone()));
        }
        if let Some(old) = begun.remove(&place) {
            *old.leave.asked() = None;
        }
        if begun.len() >= READINGS_MAX {
            return None;
        }
        let leave = Leave::new();
        let making = self.disk.begin({
            let leave = leave.clone();
            // It may have waited for the disk.
            move || if leave.is_valid() { make(&leave) } else { Err("nobody waits for it".to_owned()) }
        });
        begun.insert(place, ReadingBegun { question, leave: leave.clone(), making: making.clone() });
        Some((making, leave))
    }

    fn begun(&self) -> MutexGuard<'_, HashMap<Place, ReadingBegun>> {
        self.begun.lock().expect("nothing panics while it holds this lock")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    const PLACE: Place = Place { session: [7; 32], tab: 1, kind: Kind::Span };

    fn question(from: u64) -> Question {
        Question { from, to: 100, rights: Rights::Admin }
    }

    fn text(answer: Answer) -> Made {
        let Answer::Made(made) = answer else { panic!("{answer:?}") };
        (*made).clone()
    }

    /// Repeats a question as the page does.
    async fn made(readings: &Readings, place: Place, question: Question, make: fn(&Leave) -> Made) -> Made {
        loop {
            let answer = readings.have(place, question, make).await;
            if answer != Answer::NotYet {
                return text(answer);
            }
        }
    }

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime")
    }

    /// Reads until its leave ends, and tells that it has.
    fn endless(ended: std::sync::mpsc::Sender<()>) -> impl FnOnce(&Leave) -> Made + Send + 'static {
        move |leave| {
            while leave.is_valid() {
                std::thread::yield_now();
            }
            let _ = ended.send(());
            Err("stopped".to_owned())
        }
    }

    #[test]
    fn a_new_question_of_a_tab_stops_the_old_one() {
        runtime().block_on(async {
            let readings = Readings::default();
            let (ended, ends) = channel();
            assert_eq!(readings.have(PLACE, question(1), endless(ended)).await, Answer::NotYet);
            // The only turn of the disk is free again.
            let second = made(&readings, PLACE, question(2), |_| Ok("second".to_owned())).await;
            assert_eq!(second, Ok("second".to_owned()));
            assert_eq!(ends.try_recv(), Ok(()));
        });
    }

    #[test]
    fn a_question_that_is_repeated_gets_the_answer_of_the_same_reading() {
        runtime().block_on(async {
            let readings = Readings::default();
            let (go, may_go) = channel();
            let slow = move |_: &Leave| may_go.recv().map_err(|_| "gone".to_owned());
            assert_eq!(readings.have(PLACE, question(1), slow).await, Answer::NotYet);
            // Another tab waits for its turn, and stops nothing.
            let other = Place { tab: 2, ..PLACE };
            assert_eq!(readings.have(other, question(1), |_| Ok("other".to_owned())).await, Answer::NotYet);
            go.send("first".to_owned()).expect("it is read");
            let again = |_: &Leave| -> Made { panic!("it is not read again") };
            assert_eq!(made(&readings, PLACE, question(1), again).await, Ok("first".to_owned()));
            assert_eq!(made(&readings, other, question(1), again).await, Ok("other".to_owned()));
        });
    }
}
