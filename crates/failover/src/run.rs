//! One run: a contestant, its clients, and a fault.
//!
//! ```text
//!   healed cluster ──► clients at work ──► fault ──► direct writers recover ──► clients are served ──► end ──► healed ──► verdict
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use demo::random_password;
use measure::interrupt;
use measure::login::Account;

use crate::case::{Case, Fault};
use crate::clients::Clients;
use crate::cluster::Cluster;
use crate::contestant::{Contestant, Running};
use crate::ledger::{self, DATABASE, Ledger, ROLE};
use crate::outcome::{Outage, Outcome};
use crate::pool::{Application, Pool};
use crate::probe::Probe;
use crate::seen::{Commits, Seen};

/// All clients log in and have a commit in a second or two.
const WORKS_WITHIN: Duration = Duration::from_secs(60);
/// Patroni promotes another host after its `ttl` of 20 s, and a little.
const RECOVERS_WITHIN: Duration = Duration::from_secs(90);
/// From another host's first write to the thaw of the frozen one.
const WAKES_AFTER: Duration = Duration::from_secs(5);
/// How long two primaries are observed, and clients after the end of any other case.
const TWO_FOR: Duration = Duration::from_secs(10);
const STAYS_FOR: Duration = Duration::from_secs(2);
/// For requests that are under way at the end.
const GRACE: Duration = Duration::from_secs(5);
const LOOKS_EVERY: Duration = Duration::from_millis(20);

/// A run to be played.
#[derive(Clone, Debug)]
pub struct Plan {
    pub case: Case,
    pub contestant: Contestant,
    /// The pool that the clients have in their application; `None`: each has a connection of its own.
    pub pool: Option<Pool>,
    pub clients: usize,
    /// The time after the server's recovery in which a client must have a commit, or it counts as never served again.
    pub patience: Duration,
}

/// An outcome, and what each client has seen.
pub struct Played {
    pub outcome: Outcome,
    pub seen: Vec<Seen>,
    /// The contestant's log.
    pub log: String,
}

/// The ledger's clients.
enum Crowd {
    Own(Clients),
    Application(Application),
}

impl Crowd {
    fn start(plan: &Plan, running: &Running, began: Instant) -> Result<Self, String> {
        let Some(pool) = &plan.pool else {
            return Clients::start(&running.access, plan.clients, began).map(Crowd::Own);
        };
        let pooler = running.pooler().ok_or("pools of applications are measured through a pooler only")?;
        Application::start(pool, pooler.place, pooler.folder, plan.clients, began).map(Crowd::Application)
    }

    fn commits(&self) -> &Commits {
        match self {
            Crowd::Own(clients) => clients.commits(),
            Crowd::Application(application) => application.commits(),
        }
    }

    fn without_commit_since(&self, time: f64) -> usize {
        self.commits().missing_since(time)
    }

    fn finish(self, grace: Duration) -> Result<Vec<Seen>, String> {
        match self {
            Crowd::Own(clients) => Ok(clients.finish(grace)),
            Crowd::Application(application) => application.finish(grace),
        }
    }

    /// The output of an application.
    fn log(&self) -> String {
        match self {
            Crowd::Own(_) => String::new(),
            Crowd::Application(application) => application.log(),
        }
    }
}

/// Plays a run on a cluster, which is whole afterwards.
///
/// # Errors
/// The cluster or the contestant does not work before the fault, or the cluster does not recover; the run was interrupted.
pub fn play(cluster: &mut Cluster, plan: &Plan) -> Result<Played, String> {
    cluster.heal()?;
    let password = random_password();
    ledger::prepare(cluster, plan.clients, &password)?;
    let mut running = Running::start(&plan.contestant, cluster, plan.clients, &password)?;
    let began = Instant::now();
    let account = Arc::new(Account::new(ROLE, Some(&password), DATABASE, "probe"));
    let probe = Probe::start(&cluster.places(), &account, began);
    let clients = Crowd::start(plan, &running, began)?;
    let now = || began.elapsed().as_secs_f64();
    let works = || clients.without_commit_since(0.0) == 0 && probe.last(|_| true).is_some();
    if !wait(WORKS_WITHIN, works)? {
        let idle = clients.without_commit_since(0.0);
        return Err(format!(
            "{idle} clients without a commit before the fault; {} wrote:\n{}\n{}",
            plan.contestant.name,
            running.log(),
            clients.log()
        ));
    }
    let mut began_fault = 0.0;
    let fault = plan.case.inflict(cluster, || began_fault = now())?;
    let one_again = match fault.second {
        Some(second) => Some(end_the_split(cluster, plan, [fault.old, second], began_fault, &probe, &clients, began)?),
        None => {
            await_recovery(cluster, plan, fault, began_fault, &probe, &clients, began)?;
            None
        }
    };
    let seen = clients.finish(GRACE)?;
    let log = running.log();
    let is_alive = running.is_alive();
    drop(running);
    let writes = probe.stop();
    if fault.second.is_some() {
        cluster.pause(false)?;
    }
    cluster.heal()?;
    let mut outcome = Outcome {
        case: plan.case.name().to_owned(),
        contestant: plan.contestant.name.to_owned(),
        version: plan.contestant.version.clone(),
        pool: plan.pool.as_ref().map_or_else(String::new, |pool| pool.name.to_owned()),
        pool_version: plan.pool.as_ref().map_or_else(String::new, |pool| pool.version.clone()),
        verdict: Ledger::read(cluster)?.judge(seen.iter().flat_map(|client| &client.requests)),
        ..Outcome::default()
    };
    outcome.count(&seen);
    let is_new = |host: usize| host != fault.old;
    let new: Option<&dyn Fn(usize) -> bool> = if plan.case.moves() { Some(&is_new) } else { None };
    let moment = one_again.map(|time| Outage { from: time, to: time });
    let outage = moment.or_else(|| Outage::find(&writes, began_fault, new));
    outcome.time(&seen, began_fault, outage);
    if !is_alive {
        return Err(format!("{} has ended; it wrote:\n{log}", plan.contestant.name));
    }
    Ok(Played { outcome, seen, log })
}

/// Returns when the server has recovered and all clients are served again, or when it is clear that some are not.
fn await_recovery(
    cluster: &Cluster,
    plan: &Plan,
    fault: Fault,
    since: f64,
    probe: &Probe,
    clients: &Crowd,
    began: Instant,
) -> Result<(), String> {
    let case = plan.case;
    // A fault in place is over by now.
    let since = if case.moves() { since } else { began.elapsed().as_secs_f64() };
    let recovered = || probe.last(|host| !case.moves() || host != fault.old).filter(|told| *told > since);
    if !wait(RECOVERS_WITHIN, || recovered().is_some())? {
        return Err(format!("no host could be written to {} s after the fault", RECOVERS_WITHIN.as_secs()));
    }
    let own = recovered().expect("it was there a moment ago");
    if case == Case::Zombie {
        stay(WAKES_AFTER)?;
        cluster.thaw(fault.old);
    }
    wait(plan.patience, || clients.without_commit_since(own) == 0)?;
    stay(if case == Case::Zombie { WAKES_AFTER } else { STAYS_FOR })
}

/// Lets both hosts take writes for a while, ends the second one, and returns when it did, once all clients are served.
fn end_the_split(
    cluster: &Cluster,
    plan: &Plan,
    hosts: [usize; 2],
    since: f64,
    probe: &Probe,
    clients: &Crowd,
    began: Instant,
) -> Result<f64, String> {
    let writes = |wanted: &usize| probe.last(|host| host == *wanted).is_some_and(|told| told > since);
    if !wait(RECOVERS_WITHIN, || hosts.iter().all(writes))? {
        return Err("there are not two hosts that take writes".to_owned());
    }
    stay(TWO_FOR)?;
    cluster.discard(hosts[1])?;
    let ended = began.elapsed().as_secs_f64();
    wait(plan.patience, || clients.without_commit_since(ended) == 0)?;
    stay(STAYS_FOR)?;
    Ok(ended)
}

fn stay(time: Duration) -> Result<(), String> {
    wait(time, || false).map(drop)
}

/// Whether it was so before the time was up.
fn wait(time: Duration, mut is_so: impl FnMut() -> bool) -> Result<bool, String> {
    let until = Instant::now() + time;
    while !is_so() {
        interrupt::check()?;
        if Instant::now() > until {
            return Ok(false);
        }
        std::thread::sleep(LOOKS_EVERY);
    }
    Ok(true)
}
