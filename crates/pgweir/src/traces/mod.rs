//! Sends spans of traced statements to a collector, by OTLP over HTTP, on a thread of its own.
//!
//! ```text
//!   engine::Traces ──take──► spans (otlp) ──JSON──► POST by HTTP or HTTPS ──► collector
//! ```
//!
//! Never in traffic's way: while the collector is slow or gone, statements wait in a queue with a bound, and what is beyond is dropped. Both
//! are logged once, and once more when spans arrive again. Does not decide what is traced.

mod otlp;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;
use std::time::Duration;

use config::Config;
use engine::{EndedStatement, Handle, Traces};
use http_client::{Client, Encryption, Failure, certificates};
use machine::{Level, Settings};
use settings::HttpUrl;

use otlp::{Batch, SpanIds};

/// Statements that are sent at once, at most.
const BATCH_LEN_MAX: usize = 512;

/// How long statements are collected, and how soon a change of the settings is noticed.
const COLLECT: Duration = Duration::from_secs(1);

/// How long it rests after a failure; each time twice as long, up to the latter.
const REST: Duration = Duration::from_secs(1);
const REST_MAX: Duration = Duration::from_secs(30);

/// How long a batch may take to be taken.
const PATIENCE: Duration = Duration::from_secs(10);

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
            let mut sending = Sending {
                handle,
                traces,
                settings: first,
                client: None,
                ids: SpanIds::new(),
                is_failing: false,
                lost: 0,
            };
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
    /// Has connections to the collector. Made anew after a failure, since the system's CAs may have changed.
    client: Option<Client>,
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
                    self.configure(settings);
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
            match self.post(&endpoint, &body) {
                Ok(()) => return self.arrived(),
                Err(failure) => {
                    self.client = None;
                    self.fail(&failure.words);
                    if !failure.is_passing || left == 0 {
                        break;
                    }
                }
            }
            // A change of the settings ends the rest, and this batch.
            if let Ok(settings) = changes.recv_timeout(rest) {
                self.configure(settings);
                break;
            }
            rest = (rest * 2).min(REST_MAX);
        }
        self.lose(statements.len() as u64);
    }

    fn configure(&mut self, settings: Arc<Settings>) {
        self.settings = settings;
        self.client = None;
        self.traces.open(self.settings.global.traces.otlp_endpoint.is_some());
    }

    fn post(&mut self, endpoint: &HttpUrl, body: &str) -> Result<(), Failure> {
        let passing = |words| Failure { words, is_passing: true };
        let client = match self.client.take() {
            Some(client) => client,
            None => {
                let certificates =
                    if endpoint.is_encrypted { certificates(None).map_err(passing)? } else { Vec::new() };
                Client::new(&certificates, None, Encryption::AsTheUrlSays, PATIENCE)
            }
        };
        let headers = self.settings.global.traces.otlp_headers.pairs();
        let answered = client.post(&endpoint.text(), headers, body);
        self.client = Some(client);
        let status = answered
            .map_err(|error| Failure { words: format!("{}: {}", endpoint.authority(), error.words), ..error })?;
        match outcome_of(status) {
            Outcome::Taken => Ok(()),
            outcome => {
                let words = format!("{}{} answers with status {status}", endpoint.authority(), endpoint.path);
                Err(Failure { words, is_passing: outcome == Outcome::Later })
            }
        }
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

/// What a collector says about a batch.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Taken,
    /// It may take it later.
    Later,
    Refused,
}

/// OTLP 1.5, "OTLP/HTTP Response", "Retryable Response Codes".
fn outcome_of(status: u16) -> Outcome {
    match status {
        200..300 => Outcome::Taken,
        429 | 502 | 503 | 504 => Outcome::Later,
        _ => Outcome::Refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_collector_is_asked_again_and_one_that_refuses_is_not() {
        for (status, expected) in [
            (200, Outcome::Taken),
            (202, Outcome::Taken),
            (307, Outcome::Refused),
            (400, Outcome::Refused),
            (429, Outcome::Later),
            (500, Outcome::Refused),
            (503, Outcome::Later),
        ] {
            assert_eq!(outcome_of(status), expected, "{status}");
        }
    }
}
