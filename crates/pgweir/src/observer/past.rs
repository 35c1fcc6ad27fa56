//! Questions about the past: memory has the last hour, and the disk what was before.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use activity::history::{Glance, Options, Span};
use activity::{At, History};
use archive::{Reading, read_back};
use control::past::{Recall, Summing};

/// Consoles for which it is read at a time.
const READERS_MAX: usize = 2;

/// Both places.
#[derive(Clone)]
pub(crate) struct Past {
    pub(crate) history: Arc<Mutex<History>>,
    path: Arc<Mutex<Option<PathBuf>>>,
    readers: Arc<AtomicUsize>,
}

impl Past {
    pub(crate) fn new(history: History) -> Past {
        Past { history: Arc::new(Mutex::new(history)), path: Arc::default(), readers: Arc::default() }
    }

    /// There the files are from now on.
    pub(super) fn is_at(&self, path: Option<PathBuf>) {
        *self.path.lock().expect("nothing panics while it holds this lock") = path;
    }

    pub(crate) fn path(&self) -> Option<PathBuf> {
        self.path.lock().expect("nothing panics while it holds this lock").clone()
    }

    /// All seconds of a span at a glance, from the oldest: what memory does not have from disk.
    pub(crate) fn glances(&self, span: Span, each: &mut dyn FnMut(Glance)) {
        let lock = || self.history.lock().expect("nothing panics while it holds this lock");
        let oldest = lock().seconds().next().map(|second| second.at.second());
        let until = oldest.map_or(span.to, |oldest| At((oldest * 1000).saturating_sub(1)).min(span.to));
        if let Some(path) = self.path().filter(|_| span.from <= until) {
            let mut reading = Reading::of(&path, Span { to: until, ..span });
            while let Some((_, second)) = reading.next_second() {
                // What is none is passed over.
                let _ = Glance::of(&second).map(&mut *each);
            }
        }
        let Some(oldest) = oldest else { return };
        let history = lock();
        let rest = Span { from: span.from.max(At(oldest * 1000)), ..span };
        history.within(rest).for_each(|second| each(history.glance(second)));
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

    /// What is on disk of a span, in full. `None`: there is no disk.
    pub(crate) fn seconds(&self, span: Span) -> Option<History> {
        let options = Options { memory_max: usize::MAX, seconds_max: usize::MAX, ..Options::default() };
        let mut history = History::new(options);
        read_back(&self.path()?, &mut history, span);
        Some(history)
    }

    /// Reads for the console, on a thread. Whether there is anything on disk; `tell` follows then.
    pub(super) fn recall(&self, wanted: Recall, tell: impl FnOnce(control::past::Past) + Send + 'static) -> bool {
        if self.path().is_none() {
            return false;
        }
        let Some(turn) = Turn::take(&self.readers) else {
            tell(control::past::Past::Refused(format!("{READERS_MAX} others read the history from disk: try again")));
            return true;
        };
        let past = self.clone();
        let read = move || {
            let read = past.recalled(wanted);
            drop(turn);
            tell(read);
        };
        // Without a thread, memory is all there is.
        thread::Builder::new().name("recall".to_owned()).spawn(read).is_ok()
    }

    fn recalled(&self, wanted: Recall) -> control::past::Past {
        match wanted {
            Recall::Seconds(span) => {
                control::past::Past::Seconds(span, Box::new(self.seconds(span).unwrap_or_default()))
            }
            Recall::Waits(span, by) => {
                let mut waits = Summing::default();
                let mut reading = self.path().map(|path| Reading::of(&path, span));
                while let Some(part) = reading.as_mut().and_then(Reading::next_part) {
                    waits.add(&part, span, &by);
                }
                control::past::Past::Waits(span, waits.done())
            }
        }
    }
}

/// One of those that read. Given back when it is dropped.
struct Turn(Arc<AtomicUsize>);

impl Turn {
    fn take(readers: &Arc<AtomicUsize>) -> Option<Turn> {
        let turn = Turn(Arc::clone(readers));
        (readers.fetch_add(1, Ordering::Relaxed) < READERS_MAX).then_some(turn)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
