//! The thread of one host.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, thread};

use ask::{Is, Monitor, Target, Trouble};
use connections::databases;
use machine::{HostState, Level, Observed, Upstream};

use crate::facts::{Facts, QUESTION};
use crate::findings::{Finding, find};
use crate::pace::{Came, SILENT};
use crate::{Host, Last, Outlet, Plan, Seat};

/// How PostgreSQL sees us.
const NAME: &str = "pgweir prober";

/// How long an answer is waited for where no host counts as silent.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) fn start(seat: &Arc<Seat>, outlet: &Arc<dyn Outlet>) -> io::Result<()> {
    let (seat, outlet, plan) = (Arc::clone(seat), Arc::clone(outlet), Arc::clone(&seat.inner().plan));
    let asker = Asker { seat, plan, outlet, connected: None, unanswered_since: None, told: None, failed_told_at: None };
    thread::Builder::new().name("prober".to_owned()).spawn(move || asker.run()).map(drop)
}

/// A connection to a host.
struct Connected {
    monitor: Monitor,
    /// The other addresses of its name, until it is known that none leads to another server.
    others: Vec<IpAddr>,
}

/// Connects to the first address that lets anybody in; or else the trouble with the last.
fn connect(host: &Host, outlet: &dyn Outlet, patience: Duration) -> Result<Connected, Trouble> {
    let databases::Host::Name(name) = &host.address.host else {
        let monitor = connect_to(&host.targets, None, patience)?;
        return Ok(Connected { monitor, others: Vec::new() });
    };
    let unresolved = |words| Trouble { is: Is::Unresolved, sqlstate: None, words };
    let addresses = outlet.look_up(name).map_err(unresolved)?;
    let mut last = unresolved(format!("{name} has no address"));
    for address in addresses.iter() {
        match connect_to(&host.targets, Some(*address), patience) {
            Ok(monitor) => {
                let others = addresses.iter().copied().filter(|other| other != address).collect();
                return Ok(Connected { monitor, others });
            }
            Err(trouble) => last = trouble,
        }
    }
    Err(last)
}

/// Whether another address of a name may lead to another server than the one with these facts. An address that does not answer, or refuses connections,
/// leads to no server now.
fn may_be_another(targets: &[Target], other: IpAddr, facts: &Facts) -> bool {
    let answer = connect_to(targets, Some(other), SILENT).and_then(|mut monitor| monitor.try_row(QUESTION));
    match answer {
        Ok(row) => Facts::read(&row).is_none_or(|found| !facts.origin().is_same_server(&found.origin())),
        Err(trouble) => trouble.is == Is::Answering,
    }
}

/// As the first that is let in, or else the trouble of the last.
fn connect_to(targets: &[Target], address: Option<IpAddr>, patience: Duration) -> Result<Monitor, Trouble> {
    let mut refused = Trouble { is: Is::Answering, sqlstate: None, words: "nobody can log in there".to_owned() };
    for target in targets {
        match Monitor::try_connect(&Target { address, ..target.clone() }, NAME, patience) {
            Err(trouble) if is_final(&trouble) => refused = trouble,
            connected => return connected,
        }
    }
    Err(refused)
}

/// No such database, or no right to connect to it. A password that is wrong is so for each database.
fn is_final(trouble: &Trouble) -> bool {
    trouble.sqlstate.as_deref().is_some_and(|code| ["3D000", "42501", "28000"].contains(&code))
}

struct Asker {
    seat: Arc<Seat>,
    plan: Arc<Plan>,
    outlet: Arc<dyn Outlet>,
    connected: Option<Connected>,
    /// When the first question was asked that it has not answered.
    unanswered_since: Option<Instant>,
    /// The last line in the log about this host.
    told: Option<Condition>,
    failed_told_at: Option<Instant>,
}

/// The state of a host in the log.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Condition {
    Answers,
    Silent,
    Failed,
    Refused,
}

impl Asker {
    fn run(mut self) {
        while self.wait() {
            let (asked_at, time) = (Instant::now(), self.outlet.now());
            let was_connected = self.connected.is_some();
            let mut answer = self.ask();
            if was_connected && answer.as_ref().is_err_and(|trouble| trouble.is != Is::Silent) {
                // Only this connection may have been ended.
                self.connected = None;
                answer = self.ask();
            }
            match &answer {
                Err(trouble) if trouble.is == Is::Silent => {
                    self.unanswered_since = self.unanswered_since.or(Some(asked_at))
                }
                _ => self.unanswered_since = None,
            }
            if answer.is_err() {
                self.connected = None;
            }
            let unanswered = self.unanswered_since.map_or(Duration::ZERO, |since| since.elapsed());
            let finding = find(&answer, (self.outlet.now(), self.plan.retry), (unanswered, self.plan.timeout));
            // An answer is as old as its question; that there is none is seen now. An observation after the end of this seat has a later time.
            let is_answer = matches!(finding.state, Some(HostState::Alive { .. }));
            let at = if is_answer { time } else { self.outlet.now() };
            if !self.note(asked_at, &finding, &answer) {
                return;
            }
            if let Some(state) = finding.state.filter(|state| self.is_news(*state)) {
                let host = Arc::clone(&self.plan.host.address);
                let origin = answer.as_ref().ok().map(Facts::origin);
                self.outlet.probed(Observed { host, upstream: Upstream::new(at, state) }, origin);
            }
            self.log(&finding, &answer);
        }
    }

    /// Waits until the host is to be asked. False: it is to be asked no more.
    fn wait(&mut self) -> bool {
        let seat = Arc::clone(&self.seat);
        let mut inner = seat.inner();
        loop {
            if inner.is_over {
                return false;
            }
            let now = Instant::now();
            if !Arc::ptr_eq(&self.plan, &inner.plan) {
                self.plan = Arc::clone(&inner.plan);
                self.connected = None;
            }
            inner = match inner.pace.next(now, self.plan.interval) {
                Some(at) if at <= now => return true,
                Some(at) => seat.changed.wait_timeout(inner, at - now).expect("nothing panics with it").0,
                None => {
                    // Nobody wants to know, so no connection is kept.
                    self.connected = None;
                    seat.changed.wait(inner).expect("nothing panics with it")
                }
            };
        }
    }

    fn ask(&mut self) -> Result<Facts, Trouble> {
        let usual = self.plan.timeout.unwrap_or(PATIENCE);
        let patience = if self.unanswered_since.is_some() { SILENT.min(usual) } else { usual };
        let connected = match &mut self.connected {
            Some(connected) => connected,
            none => {
                let connected = connect(&self.plan.host, &*self.outlet, patience)?;
                connected.monitor.set_patience(usual);
                none.insert(connected)
            }
        };
        let row = connected.monitor.try_row(QUESTION)?;
        let answering = |words: &str| Trouble { is: Is::Answering, sqlstate: None, words: words.to_owned() };
        let facts = Facts::read(&row).ok_or_else(|| answering("the answer is not PostgreSQL's"))?;
        for other in &connected.others {
            if may_be_another(&self.plan.host.targets, *other, &facts) {
                return Err(answering("its name has several addresses, which may have different roles"));
            }
        }
        connected.others.clear();
        Ok(facts)
    }

    /// Notes the answer for those who look. False: the host is to be asked no more.
    fn note(&self, asked_at: Instant, finding: &Finding, answer: &Result<Facts, Trouble>) -> bool {
        let mut inner = self.seat.inner();
        inner.pace.asked(asked_at, finding.how);
        inner.is_silent = finding.state.map_or(inner.is_silent, |state| state == HostState::Silent);
        inner.last = Some(Last { asked_at, answer: answer.clone().map_err(|trouble| trouble.words) });
        !inner.is_over
    }

    /// Whether an observation has to be sent. Failures are sent each time, since a failure counts for a limited time only.
    fn is_news(&mut self, state: HostState) -> bool {
        if !matches!(state, HostState::Failed { .. }) {
            self.failed_told_at = None;
            return true;
        }
        let is_due = self.failed_told_at.is_none_or(|at| at.elapsed() >= self.plan.retry / 2);
        if is_due {
            self.failed_told_at = Some(Instant::now());
        }
        is_due
    }

    /// One line for each change.
    fn log(&mut self, finding: &Finding, answer: &Result<Facts, Trouble>) {
        let host = &self.plan.host.address;
        let (condition, level, text) = match (finding.state, finding.how, answer) {
            (Some(HostState::Silent), ..) => {
                let seconds = self.plan.timeout.unwrap_or_default().as_secs_f64();
                (Condition::Silent, Level::Warning, format!("host {host} has not answered for {seconds} s"))
            }
            // Whoever opens servers at an only host logs why that fails, as for a name without an address.
            (Some(HostState::Failed { .. }), _, Err(trouble)) if self.plan.host.is_watched => {
                (Condition::Failed, Level::Warning, format!("host {host} lets nobody in: {}", trouble.words))
            }
            (_, Came::Refused | Came::Unknown, Err(trouble)) if self.plan.host.is_watched => {
                (Condition::Refused, Level::Log, format!("host {host} does not tell its role: {}", trouble.words))
            }
            (Some(HostState::Alive { .. }), ..) => {
                (Condition::Answers, Level::Log, format!("host {host} answers again"))
            }
            _ => return,
        };
        let before = self.told.replace(condition);
        let is_first_answer = before.is_none() && condition == Condition::Answers;
        if before != Some(condition) && !is_first_answer {
            self.outlet.say(level, text);
        }
    }
}
