//! The parts of a pool: fields that change together.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use connections::databases::{Address, Database, LoadBalanceHosts};
use connections::server_login::Derived;
use machine::histogram::{Bucket, Spans};
use machine::snapshot::{Deadlocks, FidelityCounts, Totals};
use machine::{Proved, Settings};
use queueing::board::Cell;
use queueing::queue::ClassQueue;
use queueing::sizing::SizingSnapshot;
use queueing::wait_events::WaitSampling;
use session_state::catalogue::Known;
use session_state::login_report::LoginReport;
use session_state::parameter_set::ParameterSet;
use session_state::spelling::Learnt;
use session_state::state::Base;
use units::{ConnId, Time, WorkerId};

use crate::experience::Experience;
use crate::published::Published;
use crate::sampling::Sampler;

/// How more servers are asked for and opened.
#[derive(Debug, Default)]
pub struct Opening {
    /// Tokens requested and not granted yet.
    pub requested: u32,
    /// Since when some are requested without one being granted.
    pub requested_since: Time,
    pub requested_reserve: bool,
    /// A pause, if the last server that was opened did not log in.
    pub pause: Option<Pause>,
    /// A login was refused for good: nothing is opened for min_pool_size before this.
    pub spare_after: Time,
    /// The index of the next host.
    next_host: usize,
    /// Hosts at which a login has failed lately, and until when others go before them.
    down: Vec<(Address, Time)>,
    /// Keys that a login has derived, so that the next one need not.
    pub derived: Option<Derived>,
    /// What a client has proved last, good for its user's servers.
    pub proved: Arc<Proved>,
}

impl Opening {
    /// No server is opened for now, because a login has failed.
    #[inline]
    pub fn is_paused(&self, now: Time) -> bool {
        self.pause.is_some_and(|pause| now < pause.until)
    }

    /// The host for the next server: the next in turn that is not known to be down, or else simply the next.
    //= pgbouncer config.md#host
    //= pgbouncer config.md#load_balance_hosts
    pub fn take_host(&mut self, database: &Database, now: Time) -> Address {
        let hosts = &database.hosts;
        let in_turn = (0..hosts.len()).map(|step| (self.next_host + step) % hosts.len());
        let chosen = in_turn.clone().find(|&index| !self.is_down(&hosts[index], now));
        let chosen = chosen.unwrap_or(self.next_host % hosts.len());
        self.next_host = match database.load_balance_hosts {
            LoadBalanceHosts::RoundRobin => (chosen + 1) % hosts.len(),
            LoadBalanceHosts::Disable => chosen,
        };
        hosts[chosen].clone()
    }

    fn is_down(&self, host: &Address, now: Time) -> bool {
        self.down.iter().any(|(down, until)| down == host && now < *until)
    }

    /// A server could not be opened there: until then others go before it.
    pub fn host_failed(&mut self, database: &Database, host: &Address, now: Time, until: Time) {
        self.down.retain(|(down, until)| down != host && now < *until);
        self.down.push((host.clone(), until));
        let is_next = database.hosts.get(self.next_host).is_some_and(|next| next == host);
        if is_next && database.load_balance_hosts == LoadBalanceHosts::Disable {
            // Also when all are down they take turns.
            self.next_host = (self.next_host + 1) % database.hosts.len();
        }
    }

    /// A server has logged in there.
    pub fn host_lives(&mut self, host: &Address) {
        self.down.retain(|(down, _)| down != host);
    }

    /// Whether a server can be opened at another host that is not known to be down.
    #[must_use]
    pub fn has_other_host(&self, database: &Database, host: &Address, now: Time) -> bool {
        database.hosts.iter().any(|other| other != host && !self.is_down(other, now))
    }
}

/// No server is opened for a while after a login has failed.
#[derive(Copy, Clone, Debug)]
pub struct Pause {
    /// How many have failed in a row; the pause doubles with each.
    pub failures: u32,
    /// When the last of them was counted.
    pub failed_at: Time,
    pub until: Time,
}

/// Sessions that keep their servers.
#[derive(Debug, Default)]
pub struct PoolPins {
    /// Sessions that wait to be pinned, while as many are pinned as may be.
    pub queue: ClassQueue,
    /// Sessions with a pin permit. Those that are pinned beyond the limit have one too.
    pub count: u32,
}

/// What sessions are sent at the end of their login.
#[derive(Debug, Default)]
pub struct Welcome {
    /// Sessions that wait until the pool's parameters are known.
    pub waiting: Vec<(ConnId, Time)>,
    pub report: Option<Arc<LoginReport>>,
    /// That of the edition before.
    pub last: Option<Arc<LoginReport>>,
    /// The order and the entry that the reporting server was opened by: the count of RECONNECTs, and the database.
    pub reported_by: Option<(u32, Arc<Database>)>,
    /// The base of the last new server. Most servers have the same.
    base: Arc<Base>,
    /// Parameters whose values PostgreSQL's configuration has changed since the servers of the newest order and entry have logged in: each of these
    /// servers has the new value by RESET.
    pub configured: ParameterSet,
    /// Its servers are being replaced, or are gone: new clients wait for the first new server for a second, unless its login fails.
    pub is_stale: bool,
    /// How servers report the settings that clients begin with.
    pub learnt: Learnt,
}

impl Welcome {
    /// Whether a client can be sent the login report now. `fails`: no server can log in at the moment.
    pub fn is_known(&self, fails: bool) -> bool {
        self.report.is_some() && (!self.is_stale || fails)
    }

    /// The edition of the report, if there is one.
    #[inline]
    pub fn edition(&self) -> Option<NonZeroU32> {
        self.report.as_ref().map(|report| report.edition)
    }

    /// One copy of equal bases.
    pub fn shared(&mut self, base: Base) -> Arc<Base> {
        if *self.base != base {
            self.base = Arc::new(base);
        }
        Arc::clone(&self.base)
    }

    /// A server has logged in with this report. `is_alone`: the pool has no other server on this worker.
    pub fn learn(&mut self, report: LoginReport, (reconnects, database): (u32, &Arc<Database>), is_alone: bool) {
        let is_newer = |(before, entry): &(u32, Arc<Database>)| *before < reconnects || **entry != **database;
        let is_news = is_alone || self.reported_by.as_ref().is_some_and(is_newer);
        if is_news {
            self.configured = ParameterSet::NONE;
        }
        self.take(report, is_news);
        self.reported_by = Some((reconnects, Arc::clone(database)));
    }

    /// Takes a new login report. `is_news`: sessions that were told other values follow it.
    pub fn take(&mut self, mut report: LoginReport, is_news: bool) {
        if let Some(last) = &self.report {
            report.edition = last.edition;
            if is_news && !last.is_same(&report) {
                report.edition = last.edition.saturating_add(1);
                self.last = Some(Arc::clone(last));
            }
        }
        self.report = Some(Arc::new(report));
        self.is_stale = false;
    }
}

/// The exchange with the other homes of the pool.
#[derive(Debug)]
pub struct Exchange {
    pub homes: u16,
    /// What the board shows for this worker.
    pub published: Cell,
    /// What the board shows for its classes.
    pub published_classes: Published,
    /// For each worker, since when the waiter has waited that a server was lent for: the board may show that waiter a
    /// little longer.
    pub fed: BTreeMap<WorkerId, Time>,
    /// For each worker that was asked for a server, since when the waiter has waited that it was asked for.
    pub begged: BTreeMap<WorkerId, Time>,
    /// Another worker's mailbox was full: nothing is lent before this.
    pub lends_refused_until: Time,
}

impl Exchange {
    /// For a pool with so many homes that has published nothing yet.
    pub(crate) fn of(homes: u16) -> Exchange {
        Exchange {
            homes,
            published: Cell::CALM,
            published_classes: Published::default(),
            fed: BTreeMap::new(),
            begged: BTreeMap::new(),
            lends_refused_until: Time::ZERO,
        }
    }
}

/// Counters of a pool.
#[derive(Debug, Default)]
pub struct PoolCounts {
    /// Sessions of this pool here.
    pub sessions: u32,
    pub cancels: u32,
    pub totals: Totals,
    pub spans: Spans,
    pub fidelity: FidelityCounts,
    pub deadlocks: Deadlocks,
}

impl PoolCounts {
    /// A query that began at `since` has been answered.
    #[inline(always)]
    pub(crate) fn count_query(&mut self, now: Time, since: Time) -> Bucket {
        let micros = now.micros_since(since);
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
pub struct CatalogueNames {
    /// The known side effects of its database's functions, triggers and views.
    pub known: Known,
    /// How often clients here have changed tables, types or functions, as far as texts show.
    pub generation: u64,
}

/// Measurements of a pool.
#[derive(Debug, Default)]
pub struct Measured {
    /// The transactions that have run long here.
    pub experience: Experience,
    /// The coordinator's figures for its size, if that is found by search.
    pub account: Option<Arc<SizingSnapshot>>,
    /// Samples of its servers' wait events, if its size is found by search.
    pub wait_sampling: Option<Box<WaitSampling>>,
    /// Chooses what is traced; `None`: nothing is.
    pub sampler: Option<Sampler>,
    /// Texts are read for the log or for traces.
    pub hears_texts: bool,
    /// Requests and links do not take the short ways, since something is noted of them or told to their servers.
    pub takes_the_long_way: bool,
}

impl Measured {
    pub(crate) fn new(settings: &Settings, logs_slow: bool) -> Measured {
        let mut measured = Measured::default();
        measured.configure(settings, logs_slow);
        measured
    }

    /// Takes up the settings of what is noted of statements. `logs_slow`: slow ones of the pool are logged.
    pub(crate) fn configure(&mut self, settings: &Settings, logs_slow: bool) {
        self.sampler = Sampler::of(settings);
        self.hears_texts = logs_slow || self.sampler.is_some();
        self.takes_the_long_way = self.hears_texts || !settings.global.startup.server_application_name.is_empty();
    }
}
