//! Looks at everything once a second: at PostgreSQL, through one connection to each server, and at the workers; joins both, and keeps the last hour.
//!
//! ```text
//!   observer, a thread ──ask──► host, a thread for each server ──► PostgreSQL
//!        │        ◄──reading──┘
//!        ├── look ──► workers
//!        ├── join ──► History, which the console and the page read ──► archive: a thread writes it to disk
//!        └── ControlEvent::Observed, to whoever has asked for a fresh look
//! ```
//!
//! With `observe_when = trouble`, a server is asked only while it is needed. In between, the history has only what the workers know.
//!
//! Promises: nothing of it is in traffic's way; a server that is slow or silent delays nobody but itself, and is rested for at least twenty times as
//! long as it took. What goes wrong is said once, and once more when it is over.

mod disk;
mod host;
mod lock_waits;
mod looks;
mod need;
mod pace;
pub(crate) mod past;
mod targets;
mod turns;
mod usage;
mod verdict_log;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use activity::history::{Options, SECONDS_MAX, Span};
use activity::{At, History, join};
use archive::{Archive, Location, read_back};
use config::Config;
use control::past::Recall;
use control::{ControlEvent, Sight};
use engine::Handle;
use machine::{Level, Look, Orders, Settings, Snapshot};
use settings::ObserveWhen;

use disk::Disk;
use host::{Host, Said};
use lock_waits::LockWaits;
use looks::{Due, Looks};
use need::{Need, Signs};
use past::Past;
use targets::Wanted;
pub(crate) use targets::{count as connections, target_as};
use verdict_log::VerdictLog;

/// How long servers may take until the moment is made without their answers: once a second, and if somebody waits to see it.
const ANSWERS_MAX: Duration = Duration::from_millis(400);
const LOOK_ANSWERS_MAX: Duration = Duration::from_millis(2500);

/// How long workers may.
const LOOK: Duration = Duration::from_millis(300);

/// What the observer is told.
enum Word {
    /// This holds now.
    Configure(Box<Config>),
    /// The files of TLS have changed.
    Renew,
    /// Somebody wants to see how it is now.
    Look(Sight),
    /// A server has answered, or has not.
    Said(Box<Said>),
    /// Another process looks from now on, or not any more.
    Rest(bool),
    /// This is ordered at the console.
    Order(Box<Orders>),
}

/// The thread, as others see it. It ends with the process.
#[derive(Clone)]
pub(crate) struct Observer {
    words: Sender<Word>,
    control: Sender<ControlEvent>,
    past: Past,
    is_looked_at: Arc<AtomicBool>,
}

impl Observer {
    /// Begins to observe. `rests`: not before it is told, by [`Observer::rest`]: another process still has our place.
    ///
    /// # Errors
    /// There is no thread for it.
    pub(crate) fn start(
        config: &Config,
        handle: Handle,
        control: Sender<ControlEvent>,
        rests: bool,
    ) -> Result<Observer, String> {
        let (words, heard) = channel();
        let past = Past::new(History::new(options(config))).with_log({
            let handle = handle.clone();
            move |complaint| handle.log().say(Level::Warning, format!("observer: history: {complaint}"))
        });
        let need = Need::default();
        let is_looked_at = Arc::clone(&need.is_looked_at);
        let mut watch = Lookout {
            settings: Arc::new(config.pooling.clone()),
            interval: None,
            next: Instant::now(),
            hosts: Vec::new(),
            handle,
            control: control.clone(),
            past: past.clone(),
            words: words.clone(),
            rests,
            looks: Looks::default(),
            need,
            orders: Orders::default(),
            wanted: Vec::new(),
            lines: Lines::default(),
            disk: Disk::default(),
        };
        let first = config.clone();
        let run = move || {
            watch.read_back(&first);
            watch.configure(&first);
            watch.run(&heard);
        };
        let started = thread::Builder::new().name("observer".to_owned()).spawn(run);
        started.map_err(|why| format!("cannot start a thread: {why}"))?;
        Ok(Observer { words, control, past, is_looked_at })
    }

    /// Puts a new configuration in force.
    pub(crate) fn configure(&self, config: &Config) {
        // Fails when the process is about to end, as do the others.
        let _ = self.words.send(Word::Configure(Box::new(config.clone())));
    }

    /// The files of TLS have changed: connections that were made from what they held are made anew.
    pub(crate) fn renew(&self) {
        let _ = self.words.send(Word::Renew);
    }

    /// Looks now. `ControlEvent::Observed` follows. Whether anybody does.
    pub(crate) fn look(&self, sight: Sight) -> bool {
        self.words.send(Word::Look(sight)).is_ok()
    }

    /// Asks no server any more, and stays connected to none; or asks them again. Another process has our place, or is gone.
    pub(crate) fn rest(&self, rests: bool) {
        let _ = self.words.send(Word::Rest(rests));
    }

    /// After an order connections of before are closed, one that waits for an answer as soon as it has it; and none is opened while anything is
    /// paused: PostgreSQL may be about to stop.
    pub(crate) fn order(&self, orders: &Orders) {
        let _ = self.words.send(Word::Order(Box::new(orders.clone())));
    }

    /// Reads from disk, on a thread. `ControlEvent::Recalled` follows. Whether there is anything on disk.
    pub(crate) fn recall(&self, number: u64, wanted: Recall) -> bool {
        self.past.recall(wanted, {
            let control = self.control.clone();
            // Fails when the process is about to end.
            move |past| _ = control.send(ControlEvent::Recalled(number, Box::new(past)))
        })
    }

    pub(crate) fn past(&self) -> &Past {
        &self.past
    }

    /// To be set by each look at the history that is for a person.
    pub(crate) fn is_looked_at(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_looked_at)
    }
}

fn options(config: &Config) -> Options {
    let own = &config.pooling.global.observing;
    Options {
        memory_max: own.observe_memory as usize,
        tags: own.observe_tags.iter().map(|tag| tag.as_str().into()).collect(),
        literals: own.observe_literals,
        ..Options::default()
    }
}

/// Where the history is on disk, if it is.
fn place(config: &Config) -> Option<Location> {
    let own = &config.pooling.global.observing;
    let path = own.observe_file.as_ref().map(PathBuf::from)?;
    Some(Location { path, size_max: own.observe_file_size.into() })
}

/// The lines of the log about what was seen.
#[derive(Default)]
struct Lines {
    lock_waits: LockWaits,
    verdicts: VerdictLog,
}

/// What the thread has.
struct Lookout {
    settings: Arc<Settings>,
    /// `None`: it looks only when it is asked to.
    interval: Option<Duration>,
    /// When it looks by itself.
    next: Instant,
    hosts: Vec<Host>,
    handle: Handle,
    control: Sender<ControlEvent>,
    past: Past,
    words: Sender<Word>,
    rests: bool,
    looks: Looks,
    need: Need,
    orders: Orders,
    wanted: Vec<Wanted>,
    lines: Lines,
    disk: Disk,
}

impl Lookout {
    fn run(&mut self, words: &Receiver<Word>) {
        loop {
            if let Some(due) = self.looks.due(Instant::now()) {
                self.show(words, due);
                continue;
            }
            let left = self.interval.map(|_| self.next.saturating_duration_since(Instant::now()));
            // An hour: nothing is due.
            match words.recv_timeout(left.unwrap_or(Duration::from_secs(3600))) {
                Ok(word) => self.hear(word),
                // Time is over: it never ends in another way, since it has a sender itself.
                Err(_) => {
                    if let Some(interval) = self.interval {
                        self.observe(words, None);
                        self.next = after(self.next, interval);
                    }
                }
            }
        }
    }

    /// For those who want to see.
    fn show(&mut self, words: &Receiver<Word>, due: Due) {
        let (Due::Look(sight) | Due::Tell(sight)) = due;
        if due == Due::Look(sight) {
            self.observe(words, Some(sight));
            self.looks.seen(sight);
        }
        // Fails when the process is about to end.
        let _ = self.control.send(ControlEvent::Observed(sight));
    }

    fn hear(&mut self, word: Word) {
        match word {
            Word::Configure(config) => self.configure(&config),
            Word::Renew => self.find_wanted(),
            Word::Said(told) => self.told(*told),
            Word::Rest(rests) => {
                self.rests = rests;
                self.find_hosts();
            }
            Word::Order(orders) if *orders == self.orders => {}
            Word::Order(orders) => {
                self.orders = *orders;
                self.hosts.clear();
                self.find_hosts();
            }
            Word::Look(sight) => self.looks.wish(sight),
        }
    }

    fn configure(&mut self, config: &Config) {
        self.settings = Arc::new(config.pooling.clone());
        let interval = config.pooling.global.observing.observe_interval;
        if interval != self.interval {
            (self.interval, self.next) = (interval, Instant::now());
        }
        self.past.history.lock().expect("nothing panics while it holds this lock").configure(options(config));
        self.open_file(place(config));
        self.find_wanted();
    }

    fn find_wanted(&mut self) {
        self.wanted = if self.interval.is_some() { targets::of(&self.settings) } else { Vec::new() };
        self.find_hosts();
    }

    fn find_hosts(&mut self) {
        let is_away = self.rests || self.orders.pause_anything();
        let wanted = if is_away { Vec::new() } else { self.wanted.clone() };
        let mut before = std::mem::take(&mut self.hosts);
        for target in wanted {
            let same = before.iter().position(|host| host.is_for(&target));
            let host = same.map(|place| before.swap_remove(place));
            self.hosts.push(host.unwrap_or_else(|| Host::new(target, &self.words, &self.handle)));
        }
    }

    /// What was kept on disk, of the last hour.
    fn read_back(&self, config: &Config) {
        let Some(place) = place(config) else { return };
        let now = wall_clock();
        let hour = At(now.0.saturating_sub(SECONDS_MAX as u64 * 1000));
        // Reading takes a while, in which others want to see the history.
        let mut history = History::new(options(config));
        let back = read_back(&place.path, &mut history, Span { from: hour, to: now });
        // Nothing was observed before.
        *self.past.history.lock().expect("nothing panics while it holds this lock") = history;
        self.past.complain(back.complaints);
        if back.seconds > 0 {
            let path = place.path.display();
            let text = format!("observer: {} s of history were read from {path}", back.seconds);
            self.handle.log().say(Level::Log, text);
        }
    }

    fn open_file(&mut self, place: Option<Location>) {
        if self.disk.place() == place.as_ref() {
            return;
        }
        self.disk.put(None);
        self.past.is_at(place.as_ref().map(|place| place.path.clone()));
        let Some(place) = place else { return };
        let handle = self.handle.clone();
        match Archive::open(place, move |level, text| handle.log().say(level, text)) {
            Ok(file) => self.disk.put(Some(file)),
            Err(why) => {
                self.handle.log().say(Level::Error, format!("observer: cannot start a thread: {why}"));
            }
        }
    }

    fn store(&mut self, (at, second): (At, Vec<u8>)) {
        let (on_disk, line) = self.disk.store(at, second);
        self.past.history.lock().expect("nothing panics while it holds this lock").on_disk = on_disk;
        if let Some(line) = line {
            self.handle.log().say(Level::Warning, line);
        }
    }

    fn told(&mut self, told: Said) {
        // None: the configuration has changed since.
        let Some(host) = self.hosts.iter_mut().find(|host| host.id() == told.host) else { return };
        if let Some((level, text)) = host.take(told) {
            self.handle.log().say(level, text);
        }
    }

    /// Asks the servers that are needed now, and leaves the others. Returns the workers' snapshots where these decide which are needed.
    fn ask(&mut self, sight: Option<Sight>, now: Instant) -> Option<Vec<Snapshot>> {
        let interval = self.interval.unwrap_or_default();
        if self.settings.global.observing.observe_when == ObserveWhen::Always {
            self.hosts.iter_mut().for_each(|host| host.ask(sight, interval));
            return None;
        }
        let snapshots = self.handle.look(Look::Busy, LOOK);
        self.need.see(&Signs::of(&snapshots), &self.settings, sight.is_some(), now);
        for host in &mut self.hosts {
            match self.need.is_asked(host.address()) {
                true => host.ask(sight, interval),
                false => host.leave(),
            }
        }
        Some(snapshots)
    }

    /// Makes a moment. `sight`: for somebody who wants to see that, and waits for it.
    fn observe(&mut self, words: &Receiver<Word>, sight: Option<Sight>) {
        let begun = Instant::now();
        let before = self.ask(sight, begun);
        let patience = if sight.is_some() { LOOK_ANSWERS_MAX } else { ANSWERS_MAX };
        // Whoever has not answered an earlier question is not waited for once more.
        while self.hosts.iter().any(|host| host.is_asked_since(begun)) {
            let left = patience.saturating_sub(begun.elapsed());
            match words.recv_timeout(left) {
                Ok(word) => self.hear(word),
                Err(_) => break,
            }
        }
        // A reading is joined with snapshots that are taken after it.
        let has_answers = self.hosts.iter().any(Host::has_answered);
        let snapshots = before.filter(|_| !has_answers).unwrap_or_else(|| self.handle.look(Look::Busy, LOOK));
        let now = Instant::now();
        let readings = self.hosts.iter().filter_map(|host| host.reading(now)).collect();
        let moment = Arc::new(join(wall_clock(), readings, &snapshots, &self.settings));
        for line in self.lines.lock_waits.seen(&moment, &self.settings.global) {
            self.handle.log().say(Level::Log, line);
        }
        // Another process that has our place writes its seconds itself.
        let (at, is_stored) = (moment.at, !self.rests && self.disk.wants(moment.at));
        let (second, lines) = {
            let mut history = self.past.history.lock().expect("nothing panics while it holds this lock");
            history.push(moment);
            let lines = self.lines.verdicts.seen(at, history.verdicts(), &self.settings.global);
            (if is_stored { history.stored() } else { None }, lines)
        };
        lines.into_iter().for_each(|(level, line)| self.handle.log().say(level, line));
        if let Some(second) = second {
            self.store(second);
        }
    }
}

/// The next moment, without making up for those that were missed.
fn after(last: Instant, interval: Duration) -> Instant {
    (last + interval).max(Instant::now())
}

fn wall_clock() -> At {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    At(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
