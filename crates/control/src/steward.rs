//! The control thread: waits for events, answers the console, reloads, keeps the averages, and decides when the process
//! ends.

use std::cell::OnceCell;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use activity::History;
use machine::{Level, Look, Manner, Orders, Question, Snapshot, Stop};

use crate::admin::Show;
use crate::averages::{Averages, by_database};
use crate::command::{Command, When};
use crate::console::{self, Answer, Refusal};
use crate::courtesy::Courtesy;
use crate::events::Announcer;
use crate::metrics;
use crate::past::Past;
use crate::plane::{Asker, EngineFacts, HostsSeen, KnownNames, Loaded, Plane, Wanted};
use crate::show_input::{Detail, ShowInput};
use crate::shutdown::{Act, Phase, Signal, Standstill};
use crate::sight::Sight;
use crate::table::Table;

mod endings;
mod hints;
mod looking;
mod orders;
mod recalling;
mod suspension;

use endings::Countdown;
use looking::{Curious, Looking};
use orders::Waiting;
use recalling::Recalling;
use suspension::Suspending;

/// How often memory is given back to the system.
const MEMORY_PERIOD: Duration = Duration::from_secs(5);

/// What an administrator who is not at the console may order about one client.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ClientOrder {
    /// As KILL_CLIENT.
    Disconnect,
    /// As KILL_QUERY.
    Cancel,
}

/// An event for the control thread.
#[derive(Debug)]
pub enum ControlEvent {
    /// A console client has sent a command.
    Asked { asker: Asker, question: Question },
    /// The process has got a signal.
    Signal(Signal),
    /// Metrics are scraped.
    Scraped(metrics::Format, Sender<String>),
    /// Somebody who is not at the console wants what a `SHOW` has, as an administrator or not. `None`: there is none for such rights. No
    /// answer: not every worker has answered.
    Looked { text: String, admin: bool, to: Sender<Option<Table>> },
    /// And that this is done to a client, by its number. The answer is why not.
    ClientOrdered { order: ClientOrder, client: String, to: Sender<Result<(), String>> },
    /// A sign of life is due.
    LifeAsked,
    /// This file of the configuration has changed, and `watch_config` is on.
    Changed(String),
    /// The name of a host has other addresses than before.
    NameMoved { name: Arc<str>, addresses: Arc<[IpAddr]> },
    /// Another process (its id) is about to take our place: may it, and what was ordered here?
    UpgradeAsked(u32, Sender<Result<Orders, String>>),
    /// It has started.
    UpgradeBegun(u32),
    /// It was given orders: they hold here, too.
    Ordered(Orders),
    /// It asks which servers are left here.
    ServersAsked,
    /// It is gone.
    SuccessorGone,
    /// It is, and a third process has its place.
    SuccessorReplaced,
    /// The process whose place we take has ended.
    PredecessorGone,
    /// It has been looked at PostgreSQL and the sessions, as was asked for.
    Observed(Sight),
    /// What was to be read from disk has been read: its number, as [`Plane::recall`] had it.
    Recalled(u64, Box<Past>),
    /// The data plane has ended: what a soft stop waited for is gone, or it cannot go on.
    Finished,
}

/// What the data plane was seen to have, for one answer.
struct Seen {
    snapshots: Vec<Snapshot>,
    detail: Detail,
    counters: EngineFacts,
    names: KnownNames,
    roles: HostsSeen,
    history: Arc<Mutex<History>>,
}

/// How the process ends.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// No client was cut off.
    Soft,
    /// Connections are closed as they are.
    AtOnce,
    /// All clients are another process's.
    HandedOver,
    /// The data plane has ended by itself: a failure, so that a supervisor starts the process again.
    Broken,
}

/// Something that is done once a period, however many events come.
#[derive(Debug)]
struct Recurring {
    done: Instant,
}

impl Recurring {
    fn new(now: Instant) -> Recurring {
        Recurring { done: now }
    }

    /// How long until it is due.
    fn left(&self, period: Duration, now: Instant) -> Duration {
        period.saturating_sub(now.duration_since(self.done))
    }

    /// If it is due, returns how long ago it was done last, and counts it as done now.
    fn due(&mut self, period: Duration, now: Instant) -> Option<Duration> {
        let since = now.duration_since(self.done);
        let is_due = since >= period;
        if is_due {
            self.done = now;
        }
        is_due.then_some(since)
    }
}

/// The control thread's state. `L` reads the configuration, or returns what is wrong with it, one line each.
#[derive(Debug)]
pub struct Steward<P, L> {
    plane: P,
    load: L,
    loaded: Loaded,
    averages: Averages,
    announcer: Announcer,
    phase: Phase,
    /// Whether new clients are taken, for whoever asks without waiting.
    ready: Arc<AtomicBool>,
    /// What was ordered at the console.
    orders: Orders,
    /// Commands that are answered when servers are closed, or all is sent.
    waiting: Vec<Waiting>,
    /// Questions that are answered once it has been looked.
    looking: Looking,
    /// Questions that are answered once the disk is read.
    recalling: Recalling,
    /// What SUSPEND has come to, while it is in force.
    suspending: Suspending,
    /// The end that has begun.
    end: Countdown,
    /// Another process takes our place, whatever else has been ordered since.
    has_successor: bool,
}

impl<P: Plane, L: FnMut(Wanted<'_>) -> Result<Loaded, Vec<String>>> Steward<P, L> {
    /// `loaded` is the configuration that the engine was started with.
    #[must_use]
    pub fn new(plane: P, load: L, loaded: Loaded) -> Steward<P, L> {
        Steward {
            plane,
            load,
            // What was ordered in a process whose place we take holds here.
            orders: loaded.settings.orders.clone(),
            loaded,
            averages: Averages::default(),
            announcer: Announcer::default(),
            phase: Phase::Running,
            ready: Arc::default(),
            waiting: Vec::new(),
            looking: Looking::default(),
            recalling: Recalling::default(),
            suspending: Suspending::default(),
            end: Countdown::default(),
            has_successor: false,
        }
    }

    /// Whether new clients are taken: from [`Steward::run`] until a shutdown begins.
    #[must_use]
    pub fn readiness(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.ready)
    }

    /// Serves events until the process is to end, or no sender is left.
    pub fn run(&mut self, events: &Receiver<ControlEvent>) -> Ending {
        self.ready.store(true, Ordering::Relaxed);
        let begun = Instant::now();
        let (mut statistics, mut memory, mut looks) =
            (Recurring::new(begun), Recurring::new(begun), Recurring::new(begun));
        loop {
            let period = self.loaded.stats_period.max(Duration::from_secs(1));
            let now = Instant::now();
            let look = if self.awaits_looks() { looks.left(orders::POLL, now) } else { Duration::MAX };
            let timeout = statistics.left(period, now).min(memory.left(MEMORY_PERIOD, now)).min(look);
            let answers = self.looking.left(now).min(self.recalling.left(now));
            let timeout = timeout.min(answers.max(looks.left(orders::POLL, now)));
            match events.recv_timeout(timeout.min(self.end.left(now))) {
                Ok(event) => {
                    if let Some(ending) = self.serve(event) {
                        return ending;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ending::AtOnce,
            }
            let now = Instant::now();
            if let Some(ending) = self.attend_end(now) {
                return ending;
            }
            if looks.due(orders::POLL, now).is_some() {
                let _ = self.review(now);
            }
            if memory.due(MEMORY_PERIOD, now).is_some() {
                self.plane.give_memory_back();
            }
            if let Some(lasted) = statistics.due(period, now) {
                self.end_period(lasted);
            }
        }
    }

    /// Serves one event. Returns how the process ends, if it now does.
    pub fn serve(&mut self, event: ControlEvent) -> Option<Ending> {
        match event {
            ControlEvent::Asked { asker, question } => return self.asked(asker, &question),
            ControlEvent::Signal(signal) => {
                let verdict = self.phase.on(signal, Standstill::of(&self.orders));
                self.plane.tell(verdict.level, verdict.text.to_owned());
                match verdict.act {
                    Act::Nothing => {}
                    Act::Reload => _ = self.reload(),
                    Act::Stop(stop) => return self.stop(stop),
                    Act::Pause => self.pause_all(),
                    // The verdict is only given while it is paused or suspended.
                    Act::Resume => _ = self.resume(None),
                }
            }
            ControlEvent::Scraped(format, to) => {
                // Without a page, whoever waits for it is told so. It may have given up.
                let _ = self.metrics(format).map(|page| to.send(page));
            }
            ControlEvent::Looked { text, admin, to } => self.look(&text, admin, &to),
            ControlEvent::ClientOrdered { order, client, to } => {
                _ = to.send(orders::order_client(&mut self.plane, order, &client));
            }
            ControlEvent::LifeAsked => self.plane.show_life(),
            ControlEvent::Changed(file) => {
                self.plane.tell(Level::Log, format!("{file} has changed, re-reading config"));
                // The log has the problems.
                _ = self.reload();
            }
            ControlEvent::NameMoved { name, addresses } => self.name_moved(&name, &addresses),
            ControlEvent::UpgradeAsked(pid, to) => {
                // Who asked may have given up.
                let _ = to.send(self.may_hand_over(pid));
            }
            ControlEvent::Observed(sight) => {
                for Curious { asker, question, .. } in self.looking.seen(sight) {
                    self.answer_late(asker, &question, None);
                }
            }
            ControlEvent::Recalled(number, past) => {
                // None: it has been answered.
                if let Some(waiting) = self.recalling.take(number) {
                    self.answer_late(waiting.asker, &waiting.question, Some(*past));
                }
            }
            ControlEvent::UpgradeBegun(pid) => self.hand_over(pid),
            ControlEvent::Ordered(orders) => self.follow_orders(orders),
            ControlEvent::ServersAsked => orders::tell_servers(&mut self.plane, &self.loaded),
            ControlEvent::SuccessorGone | ControlEvent::SuccessorReplaced | ControlEvent::PredecessorGone => {
                self.neighbour_gone(&event);
            }
            ControlEvent::Finished => {
                let (level, text, ending) = match self.phase.last_words() {
                    Some(text) => (Level::Log, text, Ending::Soft),
                    None => (Level::Fatal, "the data plane has ended by itself", Ending::Broken),
                };
                self.plane.tell(level, text.to_owned());
                return Some(ending);
            }
        }
        None
    }

    /// Ends a period of statistics.
    pub fn end_period(&mut self, lasted: Duration) {
        let micros = u64::try_from(lasted.as_micros()).unwrap_or(u64::MAX);
        let snapshots = self.plane.look(Look::Pools);
        if !is_whole(&self.loaded, &snapshots) {
            return self.averages.period_missed(micros);
        }
        let turned_away = self.plane.counters().door.turned_away;
        for (level, line) in self.announcer.period_ended(&snapshots, turned_away, lasted) {
            self.plane.tell(level, line);
        }
        let totals = by_database(&snapshots);
        self.averages.period_ended(totals, micros);
        if self.loaded.log_stats {
            self.plane.tell(Level::Log, self.averages.overall().log_line());
        }
    }

    fn asked(&mut self, asker: Asker, question: &Question) -> Option<Ending> {
        if let Some(sight) = console::wanted_sight(question)
            && self.plane.observe(sight)
        {
            self.looking.add(asker, question.clone(), sight);
            return None;
        }
        if let Some(wanted) = recalling::wanted(&mut self.plane, &self.loaded.settings, question) {
            let number = self.recalling.add(asker, question.clone());
            if self.plane.recall(number, wanted) {
                return None;
            }
            self.recalling.take(number);
        }
        let answer = match console::command(question) {
            Ok(command) if matches!(question.manner, Manner::Describe { .. }) => self.columns(&command, &question.user),
            Ok(Command::Show(_)) => self.shown(question, None)?,
            Ok(Command::Courtesy(courtesy)) => courteous(&courtesy, &question.user),
            Ok(Command::Reload) => {
                self.plane.tell(Level::Log, "RELOAD command issued".to_owned());
                match self.reload() {
                    Ok(()) => Answer::done("RELOAD"),
                    Err(problems) => Answer::Refused(Refusal::ReloadFailed(problems)),
                }
            }
            Ok(Command::Shutdown(when)) => return self.shutdown(asker, when),
            Ok(Command::Set { key, value }) => self.set(&key, &value),
            // Without an answer now, it comes later.
            Ok(Command::Order(order)) => self.order(asker, &order)?,
            Err(refusal) => Answer::Refused(refusal),
        };
        if let Answer::Refused(refusal) = &answer {
            self.plane.tell(Level::Error, refusal.text());
        }
        self.plane.answer(asker, answer.encode_for(&question.manner), false);
        None
    }

    /// Answers a SHOW that has waited for a look or for the disk.
    fn answer_late(&mut self, asker: Asker, question: &Question, past: Option<Past>) {
        if let Some(answer) = self.shown(question, past) {
            self.plane.answer(asker, answer.encode_for(&question.manner), false);
        }
    }

    /// `None`: it is no SHOW.
    fn shown(&mut self, question: &Question, past: Option<Past>) -> Option<Answer> {
        let Ok(Command::Show(shown)) = console::command(question) else { return None };
        // The sums of SHOW WAITS are of use without the disk. SHOW HISTORY would look as if there had been nothing.
        let past = match past {
            Some(Past::Refused(words)) if shown.show == Show::Waits => {
                let notice = format!("the history on disk is left out: {words}");
                return Some(Answer::Noticed(notice, Box::new(self.shown(question, None)?)));
            }
            Some(Past::Refused(words)) => return Some(Answer::Refused(Refusal::Words(words))),
            past => past,
        };
        let seen = self.seen(shown.show);
        let show = |input: &ShowInput<'_>| match shown.excess(&input.now) {
            Some(words) => Answer::Refused(Refusal::Words(words)),
            None => shown.table(input, past).map_or(Answer::Help, Answer::Rows),
        };
        let mut answer = self.with_input(&seen, question.admin, show);
        if let Some(pattern) = &shown.like {
            answer = answer.like(pattern);
        }
        let answer = answer.in_format(shown.format);
        match shown.why_empty(&self.loaded.settings, question.admin) {
            Some(notice) => Some(Answer::Noticed(notice, Box::new(answer))),
            None => Some(answer),
        }
    }

    /// What a command would answer with, of which nothing is done.
    fn columns(&mut self, command: &Command, user: &str) -> Answer {
        let show = match command {
            Command::Show(shown) => shown,
            Command::Courtesy(Courtesy::Parameter(parameter)) => return Answer::Columns(Some(parameter.table())),
            Command::Courtesy(Courtesy::Known(known, parameters)) => {
                return Answer::Selection(known.table(user), *parameters);
            }
            _ => return Answer::Columns(None),
        };
        // Columns do not depend on what there is to show.
        let nothing = Seen {
            snapshots: Vec::new(),
            detail: Detail::Nothing,
            counters: EngineFacts::default(),
            names: KnownNames::default(),
            roles: HostsSeen::default(),
            history: Arc::default(),
        };
        Answer::Columns(
            self.with_input(&nothing, false, |input| show.table(input, None)).map(|table| table.in_format(show.format)),
        )
    }

    /// What a `SHOW` has, for whoever may see it and draws it: sums that fall and rise again would look like a restart.
    fn look(&mut self, text: &str, admin: bool, to: &Sender<Option<Table>>) {
        let table = match Command::parse(text) {
            Some(Command::Show(shown)) if admin || shown.show.is_for_stats_users() => {
                let seen = self.seen(shown.show);
                if seen.detail != Detail::Nothing && !is_whole(&self.loaded, &seen.snapshots) {
                    return;
                }
                self.with_input(&seen, admin, |input| shown.table(input, None))
            }
            _ => None,
        };
        // Whoever has asked may be gone.
        let _ = to.send(table);
    }

    fn seen(&mut self, show: Show) -> Seen {
        let detail = show.detail();
        let snapshots = match detail {
            Detail::Nothing => Vec::new(),
            Detail::Pools => self.plane.look(Look::Pools),
            Detail::Busy => self.plane.look(Look::Busy),
            Detail::Connections => self.plane.look(Look::Connections),
            Detail::Statements => self.plane.look(Look::Statements),
        };
        let is_counted = matches!(show, Show::Workers | Show::Events | Show::PeerPools | Show::Lists);
        let counters = if is_counted { self.plane.counters() } else { EngineFacts::default() };
        let is_of_names = matches!(show, Show::DnsHosts | Show::DnsZones | Show::Lists);
        let names = if is_of_names { self.plane.names() } else { KnownNames::default() };
        let is_of_hosts = matches!(show, Show::Hosts | Show::Why);
        let roles = if is_of_hosts { self.plane.hosts_seen() } else { HostsSeen::default() };
        let history = if show.is_of_history() { self.plane.history() } else { None }.unwrap_or_default();
        Seen { snapshots, detail, counters, names, roles, history }
    }

    /// `None`: not every worker has answered. Sums that fall and rise again would look like a restart.
    fn metrics(&mut self, format: metrics::Format) -> Option<String> {
        let snapshots = self.plane.look(Look::Pools);
        if !is_whole(&self.loaded, &snapshots) {
            return None;
        }
        let (counters, names) = (self.plane.counters(), self.plane.names());
        let history = self.plane.history().unwrap_or_default();
        let roles = self.plane.hosts_seen();
        let seen = Seen { snapshots, detail: Detail::Pools, counters, names, roles, history };
        Some(self.with_input(&seen, false, |input| metrics::text(input, format)))
    }

    fn with_input<T>(&mut self, seen: &Seen, shows_statements: bool, make: impl FnOnce(&ShowInput<'_>) -> T) -> T {
        let log_lines_lost = self.plane.log_lines_lost();
        let history = seen.history.lock().expect("nothing panics while it holds this lock");
        let input = ShowInput {
            settings: &self.loaded.settings,
            rows: &self.loaded.rows,
            listen_port: self.loaded.listen_port,
            snapshots: &seen.snapshots,
            detail: seen.detail,
            workers: &seen.counters.workers,
            averages: &self.averages,
            names: &seen.names,
            hosts_seen: &seen.roles,
            door: seen.counters.door,
            peer_pools: &seen.counters.peer_pools,
            exemplars: &seen.counters.exemplars,
            log_lines_lost,
            shows_statements,
            history: &history,
            now: self.plane.wall_clock(),
            pools: OnceCell::new(),
        };
        make(&input)
    }

    fn shutdown(&mut self, asker: Asker, when: When) -> Option<Ending> {
        let (stop, text) = match when {
            When::Now => (Stop::Immediate, "SHUTDOWN command issued"),
            When::ServersReleased => (Stop::WaitForServers, "SHUTDOWN WAIT_FOR_SERVERS command issued"),
            When::ClientsGone => (Stop::WaitForClients, "SHUTDOWN WAIT_FOR_CLIENTS command issued"),
        };
        self.plane.tell(Level::Log, text.to_owned());
        if when != When::Now {
            self.plane.answer(asker, Answer::done("SHUTDOWN").encode(), false);
        }
        self.stop(stop)
    }

    fn stop(&mut self, stop: Stop) -> Option<Ending> {
        self.ready.store(false, Ordering::Relaxed);
        self.phase = Phase::Ending(stop);
        self.resume_for_shutdown();
        self.time_shutdown(stop);
        self.plane.stop(stop);
        (stop == Stop::Immediate).then_some(Ending::AtOnce)
    }

    /// Changes one setting until the next RELOAD.
    fn set(&mut self, key: &str, value: &str) -> Answer {
        match (self.load)(Wanted::Set { key, value }) {
            Ok(loaded) => {
                // As SHOW CONFIG has it: a value may hold a password.
                let shown = loaded.rows.iter().find(|row| row.key == key).and_then(|row| row.value.as_deref());
                self.plane.tell(Level::Log, format!("SET {key}={} command issued", shown.unwrap_or_default()));
                for warning in &loaded.warnings {
                    self.plane.tell(Level::Warning, warning.clone());
                }
                self.put_in_force(loaded);
                Answer::Done(format!("SET {key}={value}").into())
            }
            Err(problems) => {
                self.plane.tell(Level::Log, format!("SET {key} command issued"));
                problems.iter().for_each(|problem| self.plane.tell(Level::Error, problem.clone()));
                Answer::Refused(Refusal::SetFailed(problems))
            }
        }
    }

    fn put_in_force(&mut self, mut loaded: Loaded) {
        self.keep_orders(&mut loaded);
        self.plane.configure(Arc::clone(&loaded.settings));
        self.loaded = loaded;
    }

    /// Reads the configuration again. If that fails, everything stays as it is and the log says why.
    fn reload(&mut self) -> Result<(), Vec<String>> {
        match (self.load)(Wanted::Again) {
            Ok(loaded) => {
                for warning in &loaded.warnings {
                    self.plane.tell(Level::Warning, warning.clone());
                }
                self.put_in_force(loaded);
                Ok(())
            }
            Err(problems) => {
                for problem in &problems {
                    self.plane.tell(Level::Error, problem.clone());
                }
                self.plane.tell(Level::Warning, "config file loading failed".to_owned());
                Err(problems)
            }
        }
    }
}

/// Whether every worker has answered in time.
fn is_whole(loaded: &Loaded, snapshots: &[Snapshot]) -> bool {
    snapshots.len() >= usize::from(loaded.settings.workers)
}

fn courteous(courtesy: &Courtesy, user: &str) -> Answer {
    match courtesy {
        Courtesy::Tag(tag) => Answer::done(tag),
        Courtesy::Parameter(parameter) => Answer::Rows(parameter.table()),
        Courtesy::Known(known, _) => Answer::Selected(known.table(user)),
        Courtesy::Silence => Answer::Empty,
        Courtesy::Several(all) => Answer::Several(all.iter().map(|courtesy| courteous(courtesy, user)).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_ends_however_often_events_come() {
        let began = Instant::now();
        let mut memory = Recurring::new(began);
        let after = |millis| began + Duration::from_millis(millis);
        let due: Vec<u64> = (1..=20)
            .map(|event| event * 700)
            .filter(|&millis| memory.due(Duration::from_secs(5), after(millis)).is_some())
            .collect();
        assert_eq!(due, [5_600, 11_200]);
        assert_eq!(memory.left(Duration::from_secs(5), after(12_200)), Duration::from_secs(4));
        assert_eq!(memory.left(Duration::from_secs(1), after(60_000)), Duration::ZERO);
    }
}
