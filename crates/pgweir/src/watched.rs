//! What is shown by HTTP to those who watch: the control plane makes it.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use control::ControlEvent;

/// How long the control plane may take.
const PATIENCE: Duration = Duration::from_secs(4);

/// For how long a page of metrics is given again. Whoever scrapes, and however many do, workers are looked at twice a second at most.
const FRESH: Duration = Duration::from_millis(500);

/// Asks the control plane.
pub(crate) struct Watched {
    control: Sender<ControlEvent>,
    /// The last one, or that there was none, and since when.
    page: Mutex<Option<(Instant, Option<Arc<str>>)>>,
}

impl Watched {
    pub(crate) fn new(control: Sender<ControlEvent>) -> Watched {
        Watched { control, page: Mutex::new(None) }
    }

    fn ask<T>(&self, question: impl FnOnce(Sender<T>) -> ControlEvent) -> Option<T> {
        let (to, answer) = channel();
        self.control.send(question(to)).ok()?;
        answer.recv_timeout(PATIENCE).ok()
    }
}

impl monitor::Source for Watched {
    /// Who asks while the page is made waits for it, and gets the same one.
    fn metrics(&self) -> Option<Arc<str>> {
        let mut last = self.page.lock().expect("nothing panics while it holds this lock");
        if let Some((since, page)) = &*last
            && since.elapsed() < FRESH
        {
            return page.clone();
        }
        let page = self.ask(ControlEvent::Scraped).map(Arc::from);
        *last = Some((Instant::now(), page.clone()));
        page
    }

    fn is_ready(&self) -> bool {
        self.ask(ControlEvent::ReadyAsked).unwrap_or(false)
    }
}
