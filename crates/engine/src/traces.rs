//! Traced statements on their way from the machines to whoever sends them, and the trace that each belongs to.
//!
//! ```text
//!   workers ──push──► waiting, at most QUEUE_LEN_MAX ──take──► the thread that sends spans
//!                     exemplars: for each bucket of each pool's waits the last trace
//! ```
//!
//! Never waits: what is too much is dropped and counted. While nobody takes anything (`open` was not called), it keeps nothing.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use machine::histogram::Bucket;
use machine::trace::TracedStatement;
use units::PoolKey;

/// Statements that may wait to be sent.
const QUEUE_LEN_MAX: usize = 4096;

/// Pools with exemplars: others have none, until the process is started anew.
const POOLS_MAX: usize = 1000;

/// A statement that waits to be sent.
#[derive(Debug)]
pub struct EndedStatement {
    pub statement: TracedStatement,
    pub trace_id: [u8; 16],
    /// When its answer was complete.
    pub at: SystemTime,
}

/// The trace of the last statement that has waited about so long.
#[derive(Clone, Debug, PartialEq)]
pub struct Exemplar {
    pub trace_id: [u8; 16],
    pub waited_us: u64,
    pub at: SystemTime,
}

/// Shared by all threads.
#[derive(Debug, Default)]
pub struct Traces {
    state: Mutex<Waiting>,
    bell: Condvar,
    /// Trace ids of statements that have none are made by these.
    keys: [RandomState; 2],
}

#[derive(Debug, Default)]
struct Waiting {
    is_open: bool,
    waiting: VecDeque<EndedStatement>,
    dropped: u64,
    /// By the place of the bucket.
    exemplars: BTreeMap<PoolKey, BTreeMap<usize, Exemplar>>,
}

impl Traces {
    fn state(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().expect("nothing panics while it holds this lock")
    }

    /// From now on statements are kept for whoever takes them, or not any more.
    pub fn open(&self, is_open: bool) {
        let mut state = self.state();
        state.is_open = is_open;
        if !is_open {
            state.waiting.clear();
            state.exemplars.clear();
        }
        drop(state);
        self.bell.notify_all();
    }

    /// All statements of a transaction get the same.
    fn trace_id(&self, statement: &TracedStatement) -> [u8; 16] {
        if let Some((parent, _)) = &statement.origin.parent {
            return parent.trace_id;
        }
        let of = (statement.server.to_bits(), statement.origin.begun_at.0);
        let halves = self.keys.each_ref().map(|key| key.hash_one(of).max(1));
        let [first, second] = halves.map(u64::to_be_bytes);
        std::array::from_fn(|at| if at < 8 { first[at] } else { second[at - 8] })
    }

    pub(crate) fn push(&self, statement: TracedStatement) {
        let (trace_id, at) = (self.trace_id(&statement), SystemTime::now());
        let mut state = self.state();
        if !state.is_open {
            return;
        }
        let bucket = Bucket::of(statement.queued_us).index();
        if state.exemplars.len() < POOLS_MAX || state.exemplars.contains_key(&statement.pool) {
            let exemplar = Exemplar { trace_id, waited_us: statement.queued_us, at };
            state.exemplars.entry(statement.pool.clone()).or_default().insert(bucket, exemplar);
        }
        if state.waiting.len() >= QUEUE_LEN_MAX {
            state.dropped += 1;
            return;
        }
        state.waiting.push_back(EndedStatement { statement, trace_id, at });
        let is_first = state.waiting.len() == 1;
        drop(state);
        if is_first {
            self.bell.notify_one();
        }
    }

    /// Up to `count` statements, and how many were dropped since the last call. Waits for the first one, but not longer than `patience`.
    #[must_use]
    pub fn take(&self, count: usize, patience: Duration) -> (Vec<EndedStatement>, u64) {
        let state = self.state();
        let waited = self.bell.wait_timeout_while(state, patience, |state| state.is_open && state.waiting.is_empty());
        let (mut state, _) = waited.expect("nothing panics while it holds this lock");
        let count = count.min(state.waiting.len());
        (state.waiting.drain(..count).collect(), std::mem::take(&mut state.dropped))
    }

    /// Of each pool, by the place of the bucket in which its waits are counted.
    #[must_use]
    pub fn exemplars(&self) -> Vec<(PoolKey, BTreeMap<usize, Exemplar>)> {
        self.state().exemplars.iter().map(|(key, of)| (key.clone(), of.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use connections::databases::{Address, Host};
    use machine::About;
    use machine::trace::TraceOrigin;
    use units::{ConnId, Kind, Time};

    use super::*;

    fn statement(begun_at: u64) -> TracedStatement {
        TracedStatement {
            origin: TraceOrigin { parent: None, begun_at: Time(begun_at) },
            client: About::Pooler,
            pool: PoolKey { database: "db".into(), user: "u".into() },
            class: queueing::classes::DEFAULT,
            queued_us: 700,
            opened_us: None,
            ran_us: 5,
            ended_at: Time(9),
            server: ConnId::new(Kind::Server, 0, 0, 0),
            address: Arc::new(Address { host: Host::Unix("/tmp".to_owned()), port: 5432 }),
            backend_pid: 1,
            text: Box::default(),
            rules: None,
            has_failed: false,
        }
    }

    #[test]
    fn what_nobody_takes_is_not_kept_and_what_is_too_much_is_counted() {
        let traces = Traces::default();
        traces.push(statement(1));
        assert_eq!(traces.take(9, Duration::ZERO).0.len(), 0);
        traces.open(true);
        (0..QUEUE_LEN_MAX as u64 + 3).for_each(|at| traces.push(statement(at)));
        let (taken, dropped) = traces.take(10, Duration::ZERO);
        assert_eq!((taken.len(), dropped), (10, 3));
        assert_eq!(traces.take(usize::MAX, Duration::ZERO).1, 0, "each is told once");
        traces.push(statement(1));
        traces.open(false);
        assert!(traces.take(9, Duration::from_secs(60)).0.is_empty() && traces.exemplars().is_empty());
    }

    #[test]
    fn statements_of_one_transaction_have_one_trace_and_others_another() {
        let traces = Traces::default();
        traces.open(true);
        [1, 1, 2].into_iter().for_each(|at| traces.push(statement(at)));
        let (taken, _) = traces.take(3, Duration::ZERO);
        assert_eq!(taken[0].trace_id, taken[1].trace_id);
        assert_ne!(taken[0].trace_id, taken[2].trace_id);
        let exemplars = traces.exemplars();
        let (_, buckets) = &exemplars[0];
        assert_eq!(buckets[&Bucket::of(700).index()].trace_id, taken[2].trace_id);
    }
}
