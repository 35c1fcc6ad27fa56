//! One server: a thread that asks it, and what is known of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use activity::{Answer, LockCounts, Reading};
use ask::{Monitor, Target};
use control::Sight;
use engine::Handle;
use machine::Level;
use observe::{ACTIVITY, Backend, COUNTS, LOCKS, Lock, Prepared, State, backends, counts, locks, prepared};
use sql::{Key, Marks, Memo, Rules, Text};

use super::pace::{PATIENCE, Pace, stays};
use super::targets::Wanted;
use super::usage::Usages;
use super::{Word, wall_clock};

/// How PostgreSQL sees us.
const NAME: &str = "pgweir observer";

/// Locks are counted so often while nobody waits for one, and nobody looks.
const COUNT_EVERY: Duration = Duration::from_secs(60);

/// What holds for this connection: it never waits, writes, or takes more than a share.
const SETTINGS: &str = "SET statement_timeout = 4000; SET lock_timeout = 500; SET default_transaction_read_only = on; \
     SET idle_in_transaction_session_timeout = 0; SET max_parallel_workers_per_gather = 0; SET jit = off";

/// PostgreSQL waits five seconds for a database to be left, before it is dropped, renamed or copied.
const AWAY: Duration = Duration::from_secs(10);
const LEFT: &str = "a database is to be empty";

/// For statements of backends, in bytes.
const MEMO_LEN: usize = 1 << 18;

/// A task of a server's thread.
enum Task {
    Ask(Question),
    /// Closes the connection until the next question.
    Leave,
}

/// What is to be asked.
struct Question {
    /// For somebody who wants to see that.
    sight: Option<Sight>,
    /// When the next one comes, unless somebody wants to see.
    interval: Duration,
}

/// What has come of a question.
pub(super) struct Said {
    pub(super) host: u64,
    answer: Result<Answer, String>,
    asked_at: Instant,
    /// Without the locks, which rest by themselves.
    took: Duration,
}

/// A server, as the observer knows it.
pub(super) struct Host {
    id: u64,
    wanted: Wanted,
    tasks: Sender<Task>,
    asked: Option<Instant>,
    last: Option<(Instant, Result<Answer, String>)>,
    pace: Pace,
    /// It has been said that it cannot be asked.
    is_known_silent: bool,
    /// It has been said that it does not tell everything.
    is_known_partial: bool,
}

impl Host {
    pub(super) fn new(wanted: Wanted, words: &Sender<Word>, handle: &Handle) -> Host {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let (tasks, given) = channel();
        let mut is_known_silent = false;
        match &wanted.target {
            Ok(target) => {
                let (target, words) = (target.clone(), words.clone());
                let ask = move || Asker::new(id, target).run(&given, &words);
                if let Err(why) = thread::Builder::new().name("observer-host".to_owned()).spawn(ask) {
                    handle.log().say(Level::Error, format!("observer: cannot start a thread: {why}"));
                }
            }
            Err(why) => {
                let text = format!("observer: {} is not asked what its backends do: {why}", wanted.address);
                handle.log().say(Level::Log, text);
                is_known_silent = true;
            }
        }
        Host {
            id,
            wanted,
            tasks,
            asked: None,
            last: None,
            pace: Pace::default(),
            is_known_silent,
            is_known_partial: false,
        }
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    pub(super) fn is_for(&self, wanted: &Wanted) -> bool {
        let place = |target: &Target| {
            let Target { host, port, user, password, database, .. } = target.clone();
            (host, port, user, password, database)
        };
        let [ours, theirs] = [&self.wanted, wanted].map(|wanted| wanted.target.as_ref().map(place));
        self.wanted.address == wanted.address && self.wanted.means == wanted.means && ours == theirs
    }

    /// Unless it is asked already, or rests. `sight`: for somebody who wants to see that.
    pub(super) fn ask(&mut self, sight: Option<Sight>, interval: Duration) {
        let now = Instant::now();
        if self.wanted.target.is_err() || self.asked.is_some() || !self.pace.allows(now, sight) {
            return;
        }
        if self.tasks.send(Task::Ask(Question { sight, interval })).is_ok() {
            self.asked = Some(now);
        }
    }

    pub(super) fn address(&self) -> &str {
        &self.wanted.address
    }

    /// Whether there is an answer, or why there was none.
    pub(super) fn has_answered(&self) -> bool {
        self.last.is_some()
    }

    /// Leaves the server, whose last answer is forgotten, until it is asked again. One that is asked now is left after its answer, by the next
    /// call.
    pub(super) fn leave(&mut self) {
        if self.asked.is_none() && self.last.take().is_some() {
            // Fails when its thread could not be started.
            let _ = self.tasks.send(Task::Leave);
        }
    }

    pub(super) fn is_asked_since(&self, moment: Instant) -> bool {
        self.asked.is_some_and(|asked| asked >= moment)
    }

    /// Returns what the log is to be told.
    pub(super) fn take(&mut self, told: Said) -> Option<(Level, String)> {
        self.asked = None;
        let now = Instant::now();
        let address = Arc::clone(&self.wanted.address);
        self.pace = Pace::after(now, told.took, told.answer.is_err());
        let was_silent = self.is_known_silent;
        self.is_known_silent = told.answer.is_err();
        let words = match &told.answer {
            Err(why) if why == LEFT => {
                self.is_known_silent = was_silent;
                None
            }
            Err(why) if !was_silent => {
                let text =
                    format!("observer: {address} cannot be asked what its backends do: {why}; it is tried again");
                Some((Level::Warning, text))
            }
            Ok(_) if was_silent => Some((Level::Log, format!("observer: {address} answers again"))),
            Ok(answer) if answer.is_partial() && !self.is_known_partial => {
                self.is_known_partial = true;
                let user = self.wanted.target.as_ref().map_or("", |target| &target.user);
                let text = format!(
                    "observer: {address} does not tell \"{user}\" what other users do: GRANT pg_monitor TO \"{user}\" shows it"
                );
                Some((Level::Log, text))
            }
            _ => None,
        };
        self.last = Some((told.asked_at, told.answer));
        words
    }

    /// As of now. `None`: it was not asked yet.
    pub(super) fn reading(&self, now: Instant) -> Option<Reading> {
        let address = Arc::clone(&self.wanted.address);
        if let Err(why) = &self.wanted.target {
            return Some(Reading { address, answer: Err(why.clone()) });
        }
        if let Some(since) = self.asked.filter(|since| now.duration_since(*since) > Duration::from_secs(1)) {
            let seconds = now.duration_since(since).as_secs();
            return Some(Reading { address, answer: Err(format!("it has not answered for {seconds} s")) });
        }
        let (asked_at, answer) = self.last.as_ref()?;
        let answer = answer.clone().map(|answer| Answer { age: now.duration_since(*asked_at), ..answer });
        Some(Reading { address, answer })
    }
}

/// When locks are read, and what they were.
#[derive(Default)]
struct LocksPace {
    pace: Pace,
    counted_at: Option<Instant>,
    counts: Option<LockCounts>,
    read: LocksRead,
}

/// One answer to [`LOCKS`].
#[derive(Clone, Default)]
struct LocksRead {
    locks: Vec<Lock>,
    prepared: BTreeMap<i32, Prepared>,
}

/// The thread that asks.
struct Asker {
    id: u64,
    target: Target,
    monitor: Option<Monitor>,
    locks: LocksPace,
    usages: Usages,
    memo: Memo,
    /// It stays away until then.
    leaves_until: Option<Instant>,
}

impl Asker {
    fn new(id: u64, target: Target) -> Asker {
        // Which statements there are is no secret from whoever may see them here.
        let memo = Memo::new(Key::from_seed(id), MEMO_LEN);
        Asker {
            id,
            target,
            monitor: None,
            locks: LocksPace::default(),
            usages: Usages::default(),
            memo,
            leaves_until: None,
        }
    }

    /// Whether somebody waits until all have left a database.
    fn is_to_leave(&mut self, backends: &[Backend]) -> bool {
        let active = backends.iter().filter(|backend| backend.state == Some(State::Active));
        let mut texts = active.filter_map(|backend| backend.query.as_deref());
        texts.any(|text| {
            let text = Text::new(text.as_bytes(), Rules::default());
            self.memo.summary(&text).marks().any(Marks::EMPTY_DATABASE)
        })
    }

    fn run(mut self, tasks: &Receiver<Task>, words: &Sender<Word>) {
        // Ends when the observer has forgotten this server.
        for task in tasks {
            let Task::Ask(question) = task else {
                self.monitor = None;
                continue;
            };
            let asked_at = Instant::now();
            let mut locks_took = Duration::ZERO;
            let answer = self.answer(&question, &mut locks_took);
            // To connect is no question; only if it fails, it is counted.
            let took = answer.as_ref().map_or_else(|_| asked_at.elapsed(), |answer| answer.took);
            let took = took.saturating_sub(locks_took);
            if answer.is_err() || !stays(took, question.interval) {
                self.monitor = None;
            }
            if words.send(Word::Said(Box::new(Said { host: self.id, answer, asked_at, took }))).is_err() {
                return;
            }
        }
    }

    fn answer(&mut self, question: &Question, locks_took: &mut Duration) -> Result<Answer, String> {
        if self.leaves_until.is_some_and(|until| Instant::now() < until) {
            return Err(LEFT.to_owned());
        }
        let monitor = match &mut self.monitor {
            Some(monitor) => monitor,
            none => {
                let mut monitor = Monitor::connect(&self.target, NAME, PATIENCE)?;
                monitor.ask(SETTINGS)?;
                self.usages.connected();
                none.insert(monitor)
            }
        };
        let connected_at = Instant::now();
        let mut answer = Answer { backends: backends(&monitor.rows(ACTIVITY)?), ..Answer::default() };
        let read_at = Instant::now();
        if self.is_to_leave(&answer.backends) {
            self.leaves_until = Some(read_at + AWAY);
            return Err(LEFT.to_owned());
        }
        let monitor = self.monitor.as_mut().expect("it has just answered");
        let read = self.locks.read(monitor, question.sight, &answer.backends);
        *locks_took = read_at.elapsed();
        LocksRead { locks: answer.locks, prepared: answer.prepared } = read?;
        answer.counts.clone_from(&self.locks.counts);
        answer.took = connected_at.elapsed();
        self.usages.fill(&self.target, &mut answer.backends, question.sight.is_some());
        Ok(answer)
    }
}

impl LocksPace {
    /// Reads locks and counts them if that is due, or if somebody wants to see them. While they rest, those that were read last stand for them.
    fn read(&mut self, monitor: &mut Monitor, sight: Option<Sight>, backends: &[Backend]) -> Result<LocksRead, String> {
        let begun = Instant::now();
        let waits = backends.iter().any(|backend| backend.wait.as_ref().is_some_and(|wait| wait.class == "Lock"));
        let is_due = self.counted_at.is_none_or(|at| begun.duration_since(at) > COUNT_EVERY);
        // Nobody else cuts their rest short.
        let sight = sight.filter(|sight| *sight == Sight::Locks);
        if (waits || is_due || sight.is_some()) && self.pace.allows(begun, sight) {
            let done = self.ask(monitor, waits);
            self.counted_at = Some(begun);
            self.pace = Pace::after(Instant::now(), begun.elapsed(), done.is_err());
            done?;
        }
        Ok(if waits { self.read.clone() } else { LocksRead::default() })
    }

    fn ask(&mut self, monitor: &mut Monitor, waits: bool) -> Result<(), String> {
        if waits {
            let rows = monitor.rows(LOCKS)?;
            self.read = LocksRead { locks: locks(&rows), prepared: prepared(&rows) };
        }
        self.counts = Some(LockCounts { at: wall_clock(), counts: counts(&monitor.rows(COUNTS)?) });
        Ok(())
    }
}
