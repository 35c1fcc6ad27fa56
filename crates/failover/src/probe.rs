//! A writer without a pooler at each host: when PostgreSQL itself could be written to.
//!
//! Every 20 ms each asks its host whether it is a primary, and writes there if it is. A write that waits for a synchronous standby counts
//! when it is answered.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use measure::login::Account;

use crate::session::{Access, Session};

const ASKS_EVERY: Duration = Duration::from_millis(20);
/// A host that owes an answer for longer is asked on a new connection. A commit waits for a standby for less than that.
const ANSWERS_WITHIN: Duration = Duration::from_secs(3);

/// A write that was answered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Write {
    pub host: usize,
    /// Seconds since the run began.
    pub told: f64,
}

/// The writers, until they are stopped.
pub struct Probe {
    stop: Arc<AtomicBool>,
    writes: Arc<Mutex<Vec<Write>>>,
    writers: Vec<JoinHandle<()>>,
}

impl Probe {
    #[must_use]
    pub fn start(places: &[SocketAddr], account: &Arc<Account>, began: Instant) -> Self {
        let (stop, writes) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::default()));
        let writer = |(host, place): (usize, &SocketAddr)| {
            let access = Access::One { place: *place, account: Arc::clone(account), patience: Some(ANSWERS_WITHIN) };
            let (stop, writes) = (Arc::clone(&stop), Arc::clone(&writes));
            thread::spawn(move || {
                let told = |told| add(&writes, Write { host, told });
                write(&access, &stop, began, told);
            })
        };
        let writers = places.iter().enumerate().map(writer).collect();
        Self { stop, writes, writers }
    }

    /// The writes so far, as they were answered.
    #[must_use]
    pub fn writes(&self) -> Vec<Write> {
        self.writes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The last one at such a host.
    #[must_use]
    pub fn last(&self, at: impl Fn(usize) -> bool) -> Option<f64> {
        let writes = self.writes.lock().unwrap_or_else(PoisonError::into_inner);
        writes.iter().rev().find(|write| at(write.host)).map(|write| write.told)
    }

    /// Ends the writers; all writes.
    #[must_use]
    pub fn stop(mut self) -> Vec<Write> {
        self.end();
        self.writes()
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.writers.drain(..).for_each(|writer| drop(writer.join()));
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.end();
    }
}

fn add(writes: &Mutex<Vec<Write>>, write: Write) {
    writes.lock().unwrap_or_else(PoisonError::into_inner).push(write);
}

fn write(access: &Access, stop: &Arc<AtomicBool>, began: Instant, told: impl Fn(f64)) {
    let mut session = None;
    while !stop.load(Ordering::Relaxed) {
        let open = || Session::open(access, Some(stop)).ok();
        session = session.or_else(open).and_then(|mut session: Session| {
            let recovers = session.query("select pg_is_in_recovery()").ok()?;
            if recovers.value() == Some("f") {
                let written = session.query("insert into probe values (1)").ok()?;
                if written.errors.is_empty() {
                    told(began.elapsed().as_secs_f64());
                }
            }
            // Without an answer it is closed.
            Some(session)
        });
        thread::sleep(ASKS_EVERY);
    }
}
