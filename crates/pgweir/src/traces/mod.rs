//! Sends spans of traced statements to a collector, by OTLP over HTTP, on a thread of its own.
//!
//! ```text
//!   engine::Traces ──take──► spans (otlp) ──JSON──► post ──► collector
//! ```
//!
//! Never in traffic's way: while the collector is slow or gone, statements wait in a queue with a bound, and what is beyond is dropped. Both
//! are logged once, and once more when spans arrive again. Does not decide what is traced.

mod otlp;
mod post;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;
use std::time::Duration;

use config::Config;
use engine::{EndedStatement, Handle, Traces};
use machine::{Level, Settings};

use otlp::{Batch, SpanIds};
use post::post;

/// Statements that are sent at once, at most.
const BATCH_LEN_MAX: usize = 512;

/// How long statements are collected, and how soon a change of the settings is noticed.
const COLLECT: Duration = Duration::from_secs(1);

/// How long it rests after a failure; each time twice as long, up to the latter.
const REST: Duration = Duration::from_secs(1);
const REST_MAX: Duration = Duration::from_secs(30);

/// How often a batch is sent that the collector does not take.
const TRIES_MAX: u32 = 3;

/// The thread's other end. It ends when all of these are dropped.
#[derive(Clone)]
pub(crate) struct Tracer {
    settings: Sender<Arc<Settings>>,
}

impl Tracer {
    /// # Errors
    /// There is no thread for it.
    pub(crate) fn start(config: &Config, handle: Handle) -> Result<Tracer, String> {
        let (sender, changes) = channel();
        let first = Arc::new(config.pooling.clone());
        let run = move || {
            let traces = Arc::clone(&handle.traces);
            let mut sending =
                Sending { handle, traces, settings: first, ids: SpanIds::new(), is_failing: false, lost: 0 };
            sending.run(&changes);
        };
        let started = thread::Builder::new().name("traces".to_owned()).spawn(run);
        started.map_err(|why| format!("cannot start a thread: {why}"))?;
        Ok(Tracer { settings: sender })
    }

    /// Puts a new configuration in force.
    pub(crate) fn configure(&self, config: &Config) {
        // Fails when the process is about to end.
        let _ = self.settings.send(Arc::new(config.pooling.clone()));
    }
}

/// What the thread has.
struct Sending {
    handle: Handle,
    traces: Arc<Traces>,
    settings: Arc<Settings>,
    ids: SpanIds,
    /// The last batch did not arrive, which was logged.
    is_failing: bool,
    /// Statements whose spans were lost since spans arrived last.
    lost: u64,
}

impl Sending {
    fn run(&mut self, changes: &Receiver<Arc<Settings>>) {
        self.traces.open(self.settings.global.traces.otlp_endpoint.is_some());
        loop {
            // Nothing is traced: only a change matters.
            let changed = match &self.settings.global.traces.otlp_endpoint {
                None => changes.recv().map_err(|_| TryRecvError::Disconnected),
                Some(_) => changes.try_recv(),
            };
            match changed {
                Ok(settings) => {
                    self.settings = settings;
                    self.traces.open(self.settings.global.traces.otlp_endpoint.is_some());
                    continue;
                }
                Err(TryRecvError::Disconnected) => return,
                Err(TryRecvError::Empty) => {}
            }
            let (statements, dropped) = self.traces.take(BATCH_LEN_MAX, COLLECT);
            self.lose(dropped);
            if !statements.is_empty() {
                self.send(&statements, changes);
            }
            // A batch that is not full waits for company.
            if statements.len() < BATCH_LEN_MAX && !statements.is_empty() {
                thread::sleep(COLLECT / 10);
            }
        }
    }

    /// Sends a batch, again if the collector asks for that or is not there.
    fn send(&mut self, statements: &[EndedStatement], changes: &Receiver<Arc<Settings>>) {
        let Some(endpoint) = self.settings.global.traces.otlp_endpoint.clone() else { return };
        let body = Batch { statements, settings: &self.settings }.to_json(&mut self.ids);
        let mut rest = REST;
        for left in (0..TRIES_MAX).rev() {
            match post(&endpoint, &self.settings.global.traces.otlp_headers, &body) {
                Ok(()) => return self.arrived(),
                Err(failure) => {
                    self.fail(&failure.words);
                    if !failure.is_passing || left == 0 {
                        break;
                    }
                }
            }
            // A change of the settings ends the rest, and this batch.
            if let Ok(settings) = changes.recv_timeout(rest) {
                self.settings = settings;
                self.traces.open(self.settings.global.traces.otlp_endpoint.is_some());
                break;
            }
            rest = (rest * 2).min(REST_MAX);
        }
        self.lose(statements.len() as u64);
    }

    fn fail(&mut self, words: &str) {
        if !std::mem::replace(&mut self.is_failing, true) {
            let text = format!("traces cannot be sent: {words}; what cannot wait is dropped");
            self.handle.log().say(Level::Warning, text);
        }
    }

    fn arrived(&mut self) {
        if std::mem::take(&mut self.is_failing) || self.lost > 0 {
            let text = format!("traces are sent again, {} statements were dropped", self.lost);
            self.handle.log().say(Level::Log, text);
            self.lost = 0;
        }
    }

    fn lose(&mut self, count: u64) {
        if count > 0 && self.lost == 0 && !self.is_failing {
            self.handle.log().say(Level::Warning, "more is traced than can be sent: spans are dropped");
        }
        self.lost += count;
    }
}
