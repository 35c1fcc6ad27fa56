//! Questions about the past: memory has the last hour, and the disk has the time before it.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use activity::history::{Episodes, Glance, Options, Span};
use activity::{At, History};
use archive::{Reading, read_back};
use control::past::{BUSY, RECALL_MAX, Recall, Summing};

use super::turns::Turns;

/// A console's question waits this long for its turn to read.
const TURN_MAX: Duration = Duration::from_secs(10);

/// Complaints that are remembered, so that each is logged once.
const COMPLAINTS_MAX: usize = 1000;

/// The history in memory and on disk.
#[derive(Clone)]
pub(crate) struct Past {
    pub(crate) history: Arc<Mutex<History>>,
    path: Arc<Mutex<Option<PathBuf>>>,
    turns: Arc<Turns>,
    log: Arc<dyn Fn(String) + Send + Sync>,
    logged: Arc<Mutex<BTreeSet<String>>>,
}

impl Past {
    pub(crate) fn new(history: History) -> Past {
        Past {
            history: Arc::new(Mutex::new(history)),
            path: Arc::default(),
            turns: Arc::default(),
            log: Arc::new(|_| ()),
            logged: Arc::default(),
        }
    }

    /// `log` gets each complaint about the files once.
    pub(super) fn with_log(self, log: impl Fn(String) + Send + Sync + 'static) -> Past {
        Past { log: Arc::new(log), ..self }
    }

    /// Logs the complaints of a reading that were not logged before.
    pub(super) fn complain(&self, complaints: Vec<String>) {
        let mut logged = self.logged.lock().expect("nothing panics while it holds this lock");
        if logged.len() + complaints.len() > COMPLAINTS_MAX {
            logged.clear();
        }
        let new: Vec<String> = complaints.into_iter().filter(|complaint| logged.insert(complaint.clone())).collect();
        drop(logged);
        new.into_iter().for_each(|complaint| (self.log)(complaint));
    }

    /// Sets the path of the files.
    pub(super) fn is_at(&self, path: Option<PathBuf>) {
        *self.path.lock().expect("nothing panics while it holds this lock") = path;
    }

    pub(crate) fn path(&self) -> Option<PathBuf> {
        self.path.lock().expect("nothing panics while it holds this lock").clone()
    }

    /// Calls `each` with the figures of a span's seconds, from the oldest, until it breaks. Seconds that memory does not have are read from disk.
    pub(crate) fn glances(&self, span: Span, each: &mut dyn FnMut(Glance) -> ControlFlow<()>) {
        let lock = || self.history.lock().expect("nothing panics while it holds this lock");
        let oldest = lock().seconds().next().map(|second| second.at.second());
        let until = oldest.map_or(span.to, |oldest| At((oldest * 1000).saturating_sub(1)).min(span.to));
        if let Some(path) = self.path().filter(|_| span.from <= until) {
            let (mut reading, mut unread) = (Reading::of(&path, Span { to: until, ..span }), None);
            while let Some((_, second)) = reading.next_second() {
                match Glance::of(&second) {
                    Ok(glance) => {
                        if each(glance).is_break() {
                            return;
                        }
                    }
                    Err(why) => unread = Some(format!("{}: a second is passed over: {why}", path.display())),
                }
            }
            self.complain(reading.complaints.into_iter().chain(unread).collect());
        }
        let Some(oldest) = oldest else { return };
        let history = lock();
        let rest = Span { from: span.from.max(At(oldest * 1000)), ..span };
        let _ = history.within(rest).try_for_each(|second| each(history.glance(second)));
    }

    /// A reading of the part of a span that only the files have, and the part that memory has.
    pub(crate) fn reading(&self, span: Span) -> (Option<Reading>, Option<Span>) {
        let history = self.history.lock().expect("nothing panics while it holds this lock");
        let oldest = history.seconds().next().map(|second| second.at.second() * 1000);
        drop(history);
        let until = oldest.map_or(span.to, |oldest| At(oldest.saturating_sub(1)).min(span.to));
        let reading = self.path().filter(|_| span.from <= until);
        let reading = reading.map(|path| Reading::of(&path, Span { to: until, ..span }));
        let left = oldest.map(|oldest| Span { from: span.from.max(At(oldest)), ..span });
        (reading, left.filter(|left| left.from <= left.to))
    }

    /// The seconds of a span that are on disk, in full. `None`: there is no disk.
    pub(crate) fn seconds(&self, span: Span) -> Option<History> {
        let options = Options { memory_max: usize::MAX, seconds_max: usize::MAX, ..Options::default() };
        let mut history = History::new(options);
        let back = read_back(&self.path()?, &mut history, span);
        self.complain(back.complaints);
        Some(history)
    }

    /// Reads for the console, on a thread. Returns false if there is no disk; otherwise `tell` is called, even if the reading panics.
    pub(super) fn recall(&self, wanted: Recall, tell: impl FnOnce(control::past::Past) + Send + 'static) -> bool {
        if self.path().is_none() {
            return false;
        }
        let (past, answer) = (self.clone(), Answer(Some(tell)));
        let until = Instant::now() + RECALL_MAX;
        let read = move || {
            let Some(turn) = past.turns.take(TURN_MAX) else {
                return answer.give(control::past::Past::Refused(BUSY.to_owned()));
            };
            let read = past.recalled(wanted, until);
            drop(turn);
            answer.give(read);
        };
        // Without a thread the answer is dropped, and with it a refusal is sent.
        let _ = thread::Builder::new().name("recall".to_owned()).spawn(read);
        true
    }

    /// Stops after `until`: nobody waits for the answer any more.
    fn recalled(&self, wanted: Recall, until: Instant) -> control::past::Past {
        match wanted {
            Recall::Seconds(span) => {
                control::past::Past::Seconds(span, Box::new(self.seconds(span).unwrap_or_default()))
            }
            Recall::Waits(span, by) => {
                let mut waits = Summing::default();
                match self.each_part(span, until, |part| waits.add(part, span, &by)) {
                    true => control::past::Past::Waits(span, waits.done()),
                    false => control::past::Past::Refused("reading it took too long".to_owned()),
                }
            }
            Recall::Whys(span) => {
                let mut episodes = Episodes::default();
                match self.each_part(span, until, |part| episodes.add(part, span)) {
                    true => control::past::Past::Whys(span, episodes),
                    false => control::past::Past::Refused("reading it took too long".to_owned()),
                }
            }
        }
    }

    /// Reads a span from disk a minute at a time. Returns false if it took longer than until `until`.
    fn each_part(&self, span: Span, until: Instant, mut each: impl FnMut(&History)) -> bool {
        let Some(path) = self.path() else { return true };
        let mut reading = Reading::of(&path, span);
        while Instant::now() < until
            && let Some(part) = reading.next_part()
        {
            each(&part);
        }
        self.complain(reading.complaints);
        Instant::now() < until
    }
}

/// The answer to a question. If it is dropped without one, the question is refused.
struct Answer<T: FnOnce(control::past::Past)>(Option<T>);

impl<T: FnOnce(control::past::Past)> Answer<T> {
    fn give(mut self, past: control::past::Past) {
        self.send(past);
    }

    fn send(&mut self, past: control::past::Past) {
        if let Some(tell) = self.0.take() {
            tell(past);
        }
    }
}

impl<T: FnOnce(control::past::Past)> Drop for Answer<T> {
    fn drop(&mut self) {
        self.send(control::past::Past::Refused("reading it has failed".to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use activity::history::Dimension;
    use activity::history::frames::HEADER;

    use super::*;

    const WHOLE: Span = Span { from: At(0), to: At(u64::MAX) };

    fn recall(past: &Past) -> std::sync::mpsc::Receiver<control::past::Past> {
        let (tell, told) = channel();
        let is_recalled = past.recall(Recall::Waits(WHOLE, Dimension::Event), move |past| _ = tell.send(past));
        assert!(is_recalled);
        told
    }

    #[test]
    fn a_question_waits_for_its_turn() {
        let past = Past::new(History::default());
        past.is_at(Some(PathBuf::from("/no such folder/history")));
        let others = [past.turns.take(TURN_MAX), past.turns.take(TURN_MAX)];
        let told = recall(&past);
        assert!(told.try_recv().is_err());
        drop(others);
        assert!(matches!(told.recv(), Ok(control::past::Past::Waits(..))));
    }

    #[test]
    fn a_reading_that_panics_refuses_its_question() {
        let (tell, told) = channel();
        let answer = Answer(Some(move |past| _ = tell.send(past)));
        let panics = thread::spawn(move || {
            let _answer = answer;
            panic!("on purpose");
        });
        assert!(panics.join().is_err());
        let told: Vec<control::past::Past> = told.iter().collect();
        assert!(matches!(&told[..], [control::past::Past::Refused(words)] if words == "reading it has failed"));
    }

    #[test]
    fn damage_is_logged_once_whoever_reads() {
        let path = std::env::temp_dir().join(format!("pgweir-past-{}", std::process::id()));
        std::fs::write(&path, [HEADER, b"no frame at all"].concat()).expect("a temporary file");
        let (log, logged) = channel();
        let log = Mutex::new(log);
        let past = Past::new(History::default()).with_log(move |text| _ = log.lock().expect("a lock").send(text));
        past.is_at(Some(path.clone()));
        let expected = format!("{}: 1 parts of it are damaged", path.display());
        past.glances(WHOLE, &mut |_| ControlFlow::Continue(()));
        assert_eq!(logged.try_recv(), Ok(expected));
        let _ = (past.seconds(WHOLE), recall(&past).recv());
        past.glances(WHOLE, &mut |_| ControlFlow::Continue(()));
        assert!(logged.try_recv().is_err());
        for read in [|past: &Past| _ = past.seconds(WHOLE), |past: &Past| _ = recall(past).recv()] {
            past.logged.lock().expect("a lock").clear();
            read(&past);
            assert!(logged.try_recv().is_ok());
        }
        std::fs::remove_file(&path).expect("our own");
    }
}
