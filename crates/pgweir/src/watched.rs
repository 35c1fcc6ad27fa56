//! What is shown by HTTP to those who watch and to the page: the control plane makes it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use activity::History;
use control::metrics::Format;
use control::table::Table;
use control::{ClientOrder, ControlEvent};
use engine::Handle;

use crate::observer::past::Past;

/// How long the control plane may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(4);

/// For how long a page is given again. Whoever asks for it, and however many do, workers are looked at twice a second at most.
const FRESH: Duration = Duration::from_millis(500);

/// Clients that wait for a page that is being made. Others are told at once that it is not to be had: a wait has a thread.
const WAITING_MAX: usize = 8;

/// What takes time to make, as metrics in one format: made by one client at a time, for all who ask meanwhile.
#[derive(Default)]
pub(crate) struct Page<T> {
    state: Mutex<PageState<T>>,
    made: Condvar,
}

#[derive(Default)]
struct PageState<T> {
    /// The last page, or that there was none, and since when.
    last: Option<(Instant, Option<T>)>,
    is_being_made: bool,
    waiting: usize,
}

impl<T: Clone> Page<T> {
    /// The last page if it is fresh, else the next one. `None`: it cannot be had, or not within `patience`, or too many wait for it.
    pub(crate) fn get(&self, patience: Duration, make: impl FnOnce() -> Option<T>) -> Option<T> {
        let mut state = self.state();
        if let Some(page) = state.fresh() {
            return page;
        }
        if state.is_being_made {
            if state.waiting >= WAITING_MAX {
                return None;
            }
            state.waiting += 1;
            let waited = self.made.wait_timeout_while(state, patience, |state| state.is_being_made);
            let (mut state, _) = waited.expect("nothing panics while it holds this lock");
            state.waiting -= 1;
            return state.fresh().flatten();
        }
        state.is_being_made = true;
        drop(state);
        let page = make();
        let mut state = self.state();
        state.is_being_made = false;
        state.last = Some((Instant::now(), page.clone()));
        drop(state);
        self.made.notify_all();
        page
    }

    /// Whether somebody has use for what is kept.
    pub(crate) fn is_used(&self) -> bool {
        let state = self.state();
        state.is_being_made || state.waiting > 0 || state.fresh().is_some()
    }

    fn state(&self) -> MutexGuard<'_, PageState<T>> {
        self.state.lock().expect("nothing panics while it holds this lock")
    }
}

impl<T: Clone> PageState<T> {
    #[expect(clippy::option_option, reason = "that there is none may be fresh, too")]
    fn fresh(&self) -> Option<Option<T>> {
        self.last.as_ref().filter(|(since, _)| since.elapsed() < FRESH).map(|(_, page)| page.clone())
    }
}

/// The control plane has not answered, or not every worker.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct NotInTime;

/// The control plane, as soon as there is one: it is listened before anything else is begun, so that an address that is in use is told to whoever
/// has started us.
#[derive(Default)]
pub(crate) struct Watched {
    plane: OnceLock<(Sender<ControlEvent>, Arc<AtomicBool>)>,
    handle: OnceLock<Handle>,
    past: OnceLock<Past>,
    /// Tells the observer that somebody looks at the page.
    is_looked_at: OnceLock<Arc<AtomicBool>>,
    text: Page<Arc<str>>,
    openmetrics: Page<Arc<str>>,
}

impl Watched {
    /// There is a control plane now. `ready`: whether clients are taken.
    pub(crate) fn begin(&self, control: Sender<ControlEvent>, ready: Arc<AtomicBool>) {
        self.plane.set((control, ready)).expect("it begins once");
    }

    /// There is an engine now, and what was seen of it.
    pub(crate) fn know(&self, handle: Handle, past: Past, is_looked_at: Arc<AtomicBool>) {
        // Second ones would be the same.
        let _ = (self.handle.set(handle), self.past.set(past), self.is_looked_at.set(is_looked_at));
    }

    /// The history, for somebody who looks at the page: the observer asks PostgreSQL meanwhile.
    pub(crate) fn history_for_page(&self) -> Option<&Arc<Mutex<History>>> {
        self.is_looked_at.get()?.store(true, Ordering::Relaxed);
        self.history()
    }

    pub(crate) fn history(&self) -> Option<&Arc<Mutex<History>>> {
        self.past.get().map(|past| &past.history)
    }

    /// What was seen, on disk too.
    pub(crate) fn past(&self) -> Option<&Past> {
        self.past.get()
    }

    pub(crate) fn handle(&self) -> Option<&Handle> {
        self.handle.get()
    }

    /// What a `SHOW` has; `Ok(None)`: there is none of these words for such rights.
    pub(crate) fn table(&self, text: String, admin: bool) -> Result<Option<Table>, NotInTime> {
        self.ask(|to| ControlEvent::Looked { text, admin, to }).ok_or(NotInTime)
    }

    /// Does that to a client. `None`: whether it has been done is not to be had in time.
    pub(crate) fn order(&self, order: ClientOrder, client: String) -> Option<Result<(), String>> {
        self.ask(|to| ControlEvent::ClientOrdered { order, client, to })
    }

    fn ask<T>(&self, question: impl FnOnce(Sender<T>) -> ControlEvent) -> Option<T> {
        let (control, _) = self.plane.get()?;
        let (to, answer) = channel();
        control.send(question(to)).ok()?;
        answer.recv_timeout(PATIENCE).ok()
    }

    fn scrape(&self, format: Format) -> Option<Arc<str>> {
        self.ask(|to| ControlEvent::Scraped(format, to)).map(Arc::from)
    }
}

impl monitor::Source for Watched {
    fn metrics(&self, format: monitor::Format) -> Option<Arc<str>> {
        let (page, format) = match format {
            monitor::Format::Text => (&self.text, Format::Text),
            monitor::Format::OpenMetrics => (&self.openmetrics, Format::OpenMetrics),
        };
        page.get(PATIENCE, || self.scrape(format))
    }

    /// Says what the control plane has said last: a probe does not wait until it has time.
    fn is_ready(&self) -> bool {
        self.plane.get().is_some_and(|(_, ready)| ready.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use monitor::Source as _;

    use super::*;

    #[test]
    fn before_there_is_a_control_plane_nothing_is_ready() {
        let watched = Watched::default();
        assert!(!watched.is_ready());
        assert_eq!(watched.metrics(monitor::Format::Text), None);
    }

    #[test]
    fn a_table_that_is_none_is_told_from_one_that_is_late() {
        let watched = Watched::default();
        assert!(matches!(watched.table("SHOW POOLS".to_owned(), true), Err(NotInTime)));
        let (control, events) = channel();
        watched.begin(control, Arc::default());
        let plane = thread::spawn(move || {
            for event in events {
                match event {
                    ControlEvent::Looked { admin: false, to, .. } => to.send(None).expect("it waits"),
                    ControlEvent::Looked { to, .. } => drop(to),
                    other => panic!("only that is asked: {other:?}"),
                }
            }
        });
        assert!(matches!(watched.table("SHOW FDS".to_owned(), false), Ok(None)));
        assert!(matches!(watched.table("SHOW POOLS".to_owned(), true), Err(NotInTime)));
        drop(watched);
        plane.join().expect("it has not panicked");
    }

    #[test]
    fn a_page_is_given_again_in_its_own_format() {
        let watched = Watched::default();
        let (control, events) = channel();
        let ready = Arc::new(AtomicBool::new(false));
        watched.begin(control, Arc::clone(&ready));
        let plane = thread::spawn(move || {
            let answer = |event| match event {
                ControlEvent::Scraped(format, to) => to.send(format!("{format:?}")).expect("it waits"),
                other => panic!("only that is asked: {other:?}"),
            };
            events.into_iter().map(answer).count()
        });
        for _ in 0..3 {
            assert_eq!(watched.metrics(monitor::Format::OpenMetrics).as_deref(), Some("OpenMetrics"));
        }
        assert!(!watched.is_ready());
        ready.store(true, Ordering::Relaxed);
        assert!(watched.is_ready());
        drop(watched);
        assert!((1..=3).contains(&plane.join().expect("it has not panicked")));
    }

    /// Threads of clients that wait are not to be had without limit.
    #[test]
    fn some_wait_for_a_page_that_is_being_made_and_others_are_told_at_once() {
        let page = &Page::default();
        let (tell, told) = channel::<()>();
        thread::scope(|scope| {
            let make = move || {
                told.recv().expect("it is told");
                Some(Arc::from("page"))
            };
            let first = scope.spawn(move || page.get(PATIENCE, make));
            let until = |is_so: &dyn Fn(&PageState<Arc<str>>) -> bool| {
                while !is_so(&page.state()) {
                    thread::yield_now();
                }
            };
            until(&|state| state.is_being_made);
            let not = || -> Option<Arc<str>> { panic!("it is being made") };
            assert_eq!(page.get(Duration::ZERO, not), None, "it is not there in time");
            let waiting: Vec<_> = (0..WAITING_MAX).map(|_| scope.spawn(move || page.get(PATIENCE, not))).collect();
            until(&|state| state.waiting == WAITING_MAX);
            assert_eq!(page.get(PATIENCE, not), None, "it does not wait besides them");
            tell.send(()).expect("it waits");
            for waiting in waiting.into_iter().chain([first]) {
                assert_eq!(waiting.join().expect("no panic").as_deref(), Some("page"));
            }
        });
    }
}
