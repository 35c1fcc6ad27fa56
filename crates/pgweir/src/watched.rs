//! What is shown by HTTP to those who watch: the control plane makes it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use control::ControlEvent;
use control::metrics::Format;

/// How long the control plane may take.
const PATIENCE: Duration = Duration::from_secs(4);

/// For how long a page of metrics is given again. Whoever scrapes, and however many do, workers are looked at twice a second at most.
const FRESH: Duration = Duration::from_millis(500);

/// The last page in one format, or that there was none, and since when.
type Last = Mutex<Option<(Instant, Option<Arc<str>>)>>;

/// The control plane, as soon as there is one: it is listened before anything else is begun, so that an address that is in use is told to whoever
/// has started us.
#[derive(Default)]
pub(crate) struct Watched {
    plane: OnceLock<(Sender<ControlEvent>, Arc<AtomicBool>)>,
    text: Last,
    openmetrics: Last,
}

impl Watched {
    /// There is a control plane now. `ready`: whether clients are taken.
    pub(crate) fn begin(&self, control: Sender<ControlEvent>, ready: Arc<AtomicBool>) {
        self.plane.set((control, ready)).expect("it begins once");
    }

    fn scrape(&self, format: Format) -> Option<Arc<str>> {
        let (control, _) = self.plane.get()?;
        let (to, answer) = channel();
        control.send(ControlEvent::Scraped(format, to)).ok()?;
        answer.recv_timeout(PATIENCE).ok().map(Arc::from)
    }
}

impl monitor::Source for Watched {
    /// Who asks while the page is made waits for it, and gets the same one.
    fn metrics(&self, format: monitor::Format) -> Option<Arc<str>> {
        let (last, format) = match format {
            monitor::Format::Text => (&self.text, Format::Text),
            monitor::Format::OpenMetrics => (&self.openmetrics, Format::OpenMetrics),
        };
        let mut last = last.lock().expect("nothing panics while it holds this lock");
        if let Some((since, page)) = &*last
            && since.elapsed() < FRESH
        {
            return page.clone();
        }
        let page = self.scrape(format);
        *last = Some((Instant::now(), page.clone()));
        page
    }

    /// Says what the control plane has said last: a probe does not wait until it has time.
    fn is_ready(&self) -> bool {
        self.plane.get().is_some_and(|(_, ready)| ready.load(Ordering::Relaxed))
    }
}
