//! Asks each host how it is, by a connection of its own: one thread a host, since a host may never answer.
//!
//! ```text
//!   configure ──► seat (a host) ◄── urge            pace: when it is asked next
//!                   │
//!                 asker ──► PostgreSQL              facts: what it is asked, and its answer
//!                   │
//!                 Outlet::probed                    findings: what the answer, or its absence, means for others
//! ```
//!
//! Promises: an observation is as old as its question, never younger; a host counts as silent once it has not answered for `host_timeout`, and not
//! before; nothing waits for this crate. Decides nothing: who is the primary is the coordinator's business.

mod asker;
mod facts;
mod findings;
mod pace;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use ask::Target;
use connections::databases::Address;
use machine::{HostState, Level, Observed, Origin, Upstream};
use units::Time;

pub use facts::Facts;
use pace::Pace;

/// A host that can be asked.
#[derive(Clone)]
pub struct Host {
    pub address: Arc<Address>,
    /// Addresses and users, tried in order until a login succeeds. A login that needs a password that is not known shows all the same that the host answers.
    pub targets: Vec<Target>,
    /// A database chooses among this host and others, so it is asked at rest, too.
    pub is_watched: bool,
}

/// The hosts to probe, and how often.
#[derive(Clone, Default)]
pub struct Options {
    pub hosts: Vec<Host>,
    /// The hosts of each database: who urges one of them urges all.
    pub groups: Vec<Vec<Address>>,
    /// `host_check_interval`; `None`: nobody is asked.
    pub interval: Option<Duration>,
    /// `host_timeout`; `None`: no host counts as silent.
    pub timeout: Option<Duration>,
    /// `server_login_retry`
    pub retry: Duration,
}

/// The receiver of observations.
pub trait Outlet: Send + Sync {
    /// The time by the clock of all machines.
    fn now(&self) -> Time;
    fn probed(&self, observed: Observed, origin: Option<Origin>);
    fn say(&self, level: Level, text: String);
    /// The addresses of a name, as the worker that opens servers finds them.
    ///
    /// # Errors
    /// Why there are no addresses.
    fn look_up(&self, name: &str) -> Result<Arc<[IpAddr]>, String>;
}

/// A host as it was seen last.
#[derive(Clone, Debug)]
pub struct Seen {
    pub address: Arc<Address>,
    /// `None`: it was not asked yet.
    pub last: Option<Last>,
}

/// The last answer of a host, or why there was none.
#[derive(Clone, Debug)]
pub struct Last {
    pub asked_at: Instant,
    pub answer: Result<Facts, String>,
}

/// All threads that ask. They end when this is dropped, or other hosts are to be asked, each after the answer that it waits for.
pub struct Prober {
    outlet: Arc<dyn Outlet>,
    state: Mutex<State>,
}

/// The hosts that are not asked for now. The prober has no connection to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resting {
    These(BTreeSet<Address>),
    All,
}

impl Default for Resting {
    /// All hosts are asked.
    fn default() -> Self {
        Resting::These(BTreeSet::new())
    }
}

impl Resting {
    fn includes(&self, address: &Address) -> bool {
        match self {
            Resting::These(hosts) => hosts.contains(address),
            Resting::All => true,
        }
    }
}

#[derive(Default)]
struct State {
    options: Options,
    resting: Resting,
    seats: Vec<Arc<Seat>>,
}

impl State {
    /// Starts a thread for each host that is to be asked and has none, and ends the threads of the other hosts. A thread that stays follows the new
    /// options, and keeps what it knows of its host.
    fn renew(&mut self, outlet: &Arc<dyn Outlet>) {
        let mut before = std::mem::take(&mut self.seats);
        let hosts = self.options.hosts.iter().filter(|host| !self.resting.includes(&host.address));
        for host in hosts {
            let Some(plan) = Plan::of(host, &self.options) else { break };
            if let Some(at) = before.iter().position(|seat| seat.address == host.address) {
                let seat = before.swap_remove(at);
                seat.follow(plan);
                self.seats.push(seat);
                continue;
            }
            let seat = Arc::new(Seat::new(plan));
            match asker::start(&seat, outlet) {
                Ok(()) => self.seats.push(seat),
                Err(why) => outlet.say(Level::Error, format!("prober: cannot start a thread: {why}")),
            }
        }
        for seat in before {
            if seat.end() {
                // Nobody would notice that it answers again.
                let unknown = Upstream::new(outlet.now(), HostState::Alive { role: None });
                outlet.probed(Observed { host: Arc::clone(&seat.address), upstream: unknown }, None);
            }
        }
    }
}

/// How a host is asked.
struct Plan {
    host: Host,
    interval: Duration,
    timeout: Option<Duration>,
    retry: Duration,
}

impl Plan {
    /// `None`: nobody is asked.
    fn of(host: &Host, options: &Options) -> Option<Arc<Plan>> {
        let interval = options.interval?;
        Some(Arc::new(Plan { host: host.clone(), interval, timeout: options.timeout, retry: options.retry }))
    }
}

/// One host, between its thread and others.
struct Seat {
    address: Arc<Address>,
    inner: Mutex<Inner>,
    changed: Condvar,
}

struct Inner {
    plan: Arc<Plan>,
    pace: Pace,
    last: Option<Last>,
    is_silent: bool,
    is_over: bool,
}

impl Seat {
    fn new(plan: Arc<Plan>) -> Seat {
        let (address, pace) = (Arc::clone(&plan.host.address), Pace::new(plan.host.is_watched));
        let inner = Inner { plan, pace, last: None, is_silent: false, is_over: false };
        Seat { address, inner: Mutex::new(inner), changed: Condvar::new() }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("nothing panics while it holds this lock")
    }

    fn follow(&self, plan: Arc<Plan>) {
        let mut inner = self.inner();
        inner.pace.is_watched = plan.host.is_watched;
        inner.plan = plan;
        self.changed.notify_all();
    }

    /// Asks this host no more. The result is whether it was found silent, and not in any other state since.
    fn end(&self) -> bool {
        let mut inner = self.inner();
        inner.is_over = true;
        self.changed.notify_all();
        inner.is_silent
    }
}

impl Prober {
    #[must_use]
    pub fn new(outlet: Arc<dyn Outlet>) -> Prober {
        Prober { outlet, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds this lock")
    }

    /// Asks these hosts from now on. Each thread closes its connection once its question is answered, and opens another.
    pub fn configure(&self, options: Options) {
        let mut state = self.state();
        state.options = options;
        state.renew(&self.outlet);
    }

    /// Stops asking these hosts for now, and asks all others.
    pub fn rest(&self, resting: Resting) {
        let mut state = self.state();
        if state.resting != resting {
            state.resting = resting;
            state.renew(&self.outlet);
        }
    }

    /// Asks a host for a while. `is_urgent`: at once and often, and with it all hosts of its databases.
    pub fn ask(&self, address: &Address, is_urgent: bool) {
        let state = self.state();
        let now = Instant::now();
        if !is_urgent {
            for seat in state.seats.iter().filter(|seat| *seat.address == *address) {
                seat.inner().pace.want(now);
                seat.changed.notify_all();
            }
            return;
        }
        let with = |group: &&Vec<Address>| group.contains(address);
        let others: Vec<&Address> = state.options.groups.iter().filter(with).flatten().collect();
        for seat in &state.seats {
            let host = &*seat.address;
            if host == address || others.contains(&host) {
                seat.inner().pace.urge(now);
                seat.changed.notify_all();
            }
        }
    }

    /// All hosts as they were seen last.
    #[must_use]
    pub fn seen(&self) -> Vec<Seen> {
        let state = self.state();
        let seen = |seat: &Arc<Seat>| Seen { address: Arc::clone(&seat.address), last: seat.inner().last.clone() };
        state.seats.iter().map(seen).collect()
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        for seat in &self.state().seats {
            seat.end();
        }
    }
}
