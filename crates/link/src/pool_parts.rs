//! The parts of a pool: fields that change together.

mod exchange;
mod opening;
mod welcome;

use std::sync::Arc;

use machine::Settings;
use machine::histogram::{Bucket, Spans};
use machine::snapshot::{Deadlocks, FidelityCounts, Totals};
use queueing::queue::ClassQueue;
use queueing::sizing::SizingSnapshot;
use queueing::wait_events::WaitSampling;
use session_state::catalogue::Known;
use units::{ConnId, Time};

pub use exchange::Exchange;
pub use opening::{Opening, OtherHost};
pub use welcome::Welcome;

use crate::experience::Experience;
use crate::sampling::Sampler;

/// Sessions that keep their servers.
#[derive(Debug, Default)]
pub struct PoolPins {
    /// Sessions that wait to be pinned, while as many are pinned as may be.
    pub(crate) queue: ClassQueue,
    /// Sessions with a pin permit. Those that are pinned beyond the limit have one too.
    pub(crate) count: u32,
}

impl PoolPins {
    /// How many sessions have a pin permit.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The sessions that wait to be pinned.
    pub fn queue(&self) -> &ClassQueue {
        &self.queue
    }

    /// A session begins to wait to be pinned. Returns its ticket.
    pub fn wait(&mut self, session: ConnId, now: Time) -> u64 {
        self.queue.push(session, now)
    }

    /// A session gets a pin permit.
    pub(crate) fn permit_taken(&mut self) {
        self.count += 1;
    }

    /// A session has given its pin permit back, or has ended.
    pub fn permit_returned(&mut self) {
        debug_assert!(self.count > 0, "a permit that is returned was taken");
        self.count -= 1;
    }
}

/// Counters of a pool.
#[derive(Debug, Default)]
pub struct PoolCounts {
    /// Sessions of this pool here.
    pub(crate) sessions: u32,
    pub(crate) cancels: u32,
    pub(crate) totals: Totals,
    pub(crate) spans: Spans,
    pub(crate) fidelity: FidelityCounts,
    pub(crate) deadlocks: Deadlocks,
}

impl PoolCounts {
    /// How many sessions of the pool are here.
    pub fn sessions(&self) -> u32 {
        self.sessions
    }

    /// How many cancels are under way.
    pub fn cancels(&self) -> u32 {
        self.cancels
    }

    #[inline]
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    pub fn spans(&self) -> Spans {
        self.spans
    }

    pub fn fidelity(&self) -> FidelityCounts {
        self.fidelity
    }

    pub fn deadlocks(&self) -> &Deadlocks {
        &self.deadlocks
    }

    /// A client has logged in.
    pub fn count_login(&mut self) {
        self.totals.logins += 1;
    }

    /// A session of the pool has come here.
    pub fn session_came(&mut self) {
        self.sessions += 1;
    }

    /// A session of the pool has ended, or has left for another process.
    pub fn session_left(&mut self) {
        debug_assert!(self.sessions > 0, "a session that leaves has come");
        self.sessions -= 1;
    }

    /// A cancel for one of its servers is under way.
    pub fn cancel_begins(&mut self) {
        self.cancels += 1;
    }

    /// A cancel is over.
    pub fn cancel_ended(&mut self) {
        debug_assert!(self.cancels > 0, "a cancel that ends has begun");
        self.cancels -= 1;
    }

    /// A session gets a server.
    #[inline]
    pub fn count_assignment(&mut self) {
        self.totals.server_assignments += 1;
    }

    /// Bytes of a client have come.
    #[inline]
    pub fn count_received(&mut self, len: usize) {
        self.totals.received += len as u64;
    }

    /// Bytes are sent to a client.
    #[inline]
    pub fn count_sent(&mut self, len: usize) {
        self.totals.sent += len as u64;
    }

    /// A server was made equal to a session's state.
    pub fn count_replay(&mut self) {
        self.fidelity.replays += 1;
    }

    /// A query has been answered, which took `micros`.
    #[inline(always)]
    pub(crate) fn count_query(&mut self, micros: u64) -> Bucket {
        let bucket = Bucket::of(micros);
        self.totals.queries += 1;
        self.totals.query_us += micros;
        self.spans.query.count(bucket);
        bucket
    }

    /// A transaction that began at `since` is over. `last`: when its last query began, and what that was counted as: mostly
    /// it is the only one.
    #[inline(always)]
    pub(crate) fn count_transaction(&mut self, now: Time, since: Time, last: (Time, Bucket)) {
        let micros = now.micros_since(since);
        let bucket = if since == last.0 { last.1 } else { Bucket::of(micros) };
        self.totals.transactions += 1;
        self.totals.transaction_us += micros;
        self.spans.transaction.count(bucket);
    }

    /// A session has waited for a server, or for leave to keep its own.
    #[inline(always)]
    pub fn count_wait(&mut self, micros: u64) {
        self.totals.wait_us += micros;
        self.spans.wait.count(if micros == 0 { Bucket::LEAST } else { Bucket::of(micros) });
    }
}

/// The known side effects of its database's functions, triggers and views.
#[derive(Debug)]
pub(crate) struct CatalogueNames {
    /// The known side effects of its database's functions, triggers and views.
    pub(crate) known: Known,
    /// How often clients here have changed tables, types or functions, as far as texts show.
    pub(crate) generation: u64,
}

/// Measurements of a pool.
#[derive(Debug, Default)]
pub struct Measured {
    /// The transactions that have run long here.
    pub(crate) experience: Experience,
    /// The coordinator's figures for its size, if that is found by search.
    pub(crate) account: Option<Arc<SizingSnapshot>>,
    /// Samples of its servers' wait events, if its size is found by search.
    pub(crate) wait_sampling: Option<Box<WaitSampling>>,
    /// Chooses what is traced; `None`: nothing is.
    pub(crate) sampler: Option<Sampler>,
    /// Texts are read for the log or for traces.
    pub(crate) hears_texts: bool,
}

impl Measured {
    pub(crate) fn new(settings: &Settings, logs_slow: bool) -> Measured {
        let mut measured = Measured::default();
        measured.configure(settings, logs_slow);
        measured
    }

    /// The transactions that have run long here.
    pub fn experience_mut(&mut self) -> &mut Experience {
        &mut self.experience
    }

    /// The transactions that have run long here.
    pub fn experience(&self) -> &Experience {
        &self.experience
    }

    /// The coordinator's figures for its size.
    pub fn account(&self) -> Option<&Arc<SizingSnapshot>> {
        self.account.as_ref()
    }

    /// The coordinator has sent its figures for the pool's size.
    pub fn sized(&mut self, account: Arc<SizingSnapshot>) {
        self.account = Some(account);
    }

    #[inline]
    pub fn wait_sampling(&self) -> Option<&WaitSampling> {
        self.wait_sampling.as_deref()
    }

    pub fn wait_sampling_mut(&mut self) -> Option<&mut WaitSampling> {
        self.wait_sampling.as_deref_mut()
    }

    /// The pool's size may be fixed from now on.
    pub fn forget_wait_sample(&mut self) {
        if let Some(waits) = &mut self.wait_sampling {
            waits.forget();
        }
    }

    /// The coordinator asks for a sample of the servers' wait events.
    pub fn request_wait_sample(&mut self, now: Time) {
        self.wait_sampling.get_or_insert_default().request(now);
    }

    /// Takes up the settings of what is noted of statements. `logs_slow`: slow ones of the pool are logged.
    pub(crate) fn configure(&mut self, settings: &Settings, logs_slow: bool) {
        self.sampler = Sampler::of(settings);
        self.hears_texts = logs_slow || self.sampler.is_some();
    }
}
