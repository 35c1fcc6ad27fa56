//! What all threads of an engine share: mailboxes, board, log, and the answers for the control plane.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use connections::databases::Address;
use machine::{Fact, Inquiry, Level, Place, Question, Settings, Snapshot, Stop, Verdict};
use names::Names;
use units::{ConnId, DoorId, Time, WorkerId};

use crate::authority::Authority;
use crate::clock::Clock;
use crate::compute::Computers;
use crate::count::ThreadCounters;
use crate::heritage::Upgrade;
use crate::letter::{Letter, Letterbox};
use crate::listener::Listening;
use crate::log::Log;
use crate::shared_board::SharedBoard;
use crate::tenant::Tenant;
use crate::traces::Traces;

/// The only door so far.
pub(crate) const DOOR: DoorId = DoorId(0);

/// Makes a machine: at start, and to replace one after a panic.
pub(crate) type Builder = Arc<dyn Fn(Place, &Arc<Settings>) -> Box<dyn Tenant> + Send + Sync>;

/// A console command on its way to the control plane.
#[derive(Debug)]
pub struct ConsoleRequest {
    pub conn: ConnId,
    pub worker: WorkerId,
    pub question: Question,
}

pub(crate) struct Shared {
    pub(crate) clock: Clock,
    pub(crate) log: Log,
    pub(crate) workers: u16,
    /// One mailbox for each thread; [`Shared::thread_of`] says which thread a machine lives on.
    pub(crate) boxes: Vec<Arc<Letterbox>>,
    pub(crate) board: SharedBoard,
    pub(crate) computers: Computers,
    pub(crate) resolver: Names,
    /// `None`: nobody can be asked.
    pub(crate) authority: Option<Arc<dyn Authority>>,
    pub(crate) questions: Sender<ConsoleRequest>,
    /// Hosts to be probed, and whether that is urgent.
    pub(crate) probes: Sender<(Arc<Address>, bool)>,
    pub(crate) replies: Replies,
    pub(crate) end: End,
    pub(crate) upgrade: Upgrade,
    pub(crate) traces: Arc<Traces>,
    listening: Mutex<Vec<Listening>>,
    told: Told,
    /// Numbers of requests to the threads.
    tickets: AtomicU64,
}

/// What the machines were told last; a machine that replaces another begins with it.
struct Told {
    settings: Mutex<Arc<Settings>>,
    /// How they stop, if they have to.
    stop: Mutex<Option<Stop>>,
}

/// Those whom the machines ask.
pub(crate) struct Asked {
    /// The control plane.
    pub(crate) questions: Sender<ConsoleRequest>,
    pub(crate) probes: Sender<(Arc<Address>, bool)>,
    pub(crate) authority: Option<Arc<dyn Authority>>,
    pub(crate) resolver: Names,
}

impl Shared {
    /// Nothing listens yet.
    pub(crate) fn new(
        clock: Clock,
        log: Log,
        settings: Arc<Settings>,
        boxes: Vec<Arc<Letterbox>>,
        asked: Asked,
        names: [u8; 32],
    ) -> std::io::Result<Shared> {
        let workers = settings.workers.max(1);
        Ok(Shared {
            clock,
            log,
            workers,
            boxes,
            board: SharedBoard::new(workers),
            computers: Computers::start()?,
            resolver: asked.resolver,
            authority: asked.authority,
            questions: asked.questions,
            probes: asked.probes,
            replies: Replies::default(),
            end: End::default(),
            upgrade: Upgrade::new(names),
            traces: Arc::default(),
            listening: Mutex::default(),
            told: Told { settings: Mutex::new(settings), stop: Mutex::default() },
            tickets: AtomicU64::new(1),
        })
    }

    /// Hands a question on; the answer comes through the mailbox.
    pub(crate) fn ask(&self, conn: ConnId, inquiry: Inquiry, mailbox: &Arc<Letterbox>) {
        let mailbox = Arc::clone(mailbox);
        let answer = Box::new(move |verdict| _ = mailbox.insist(Letter::Answered { conn, verdict }));
        match &self.authority {
            Some(authority) => authority.ask(inquiry, answer),
            None => answer(Verdict::Unreachable("this program can ask nobody".to_owned())),
        }
    }

    pub(crate) fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.told.settings.lock().expect("nothing panics while it holds this lock"))
    }

    pub(crate) fn set_settings(&self, settings: Arc<Settings>) {
        *self.told.settings.lock().expect("nothing panics while it holds this lock") = settings;
    }

    /// How the machines stop, if they have to.
    pub(crate) fn stop(&self) -> Option<Stop> {
        *self.told.stop.lock().expect("nothing panics while it holds this lock")
    }

    pub(crate) fn set_stop(&self, stop: Stop) {
        let mut told = self.told.stop.lock().expect("nothing panics while it holds this lock");
        *told = (*told).max(Some(stop));
    }

    pub(crate) fn listening(&self) -> Vec<Listening> {
        self.listening.lock().expect("nothing panics while it holds this lock").clone()
    }

    pub(crate) fn set_listening(&self, places: Vec<Listening>) {
        *self.listening.lock().expect("nothing panics while it holds this lock") = places;
    }

    /// The number of threads for so many workers: one for everything, or one for each worker and one for the door and
    /// the coordinator.
    pub(crate) fn threads(workers: u16) -> usize {
        if workers == 1 { 1 } else { usize::from(workers) + 1 }
    }

    /// The thread a machine lives on.
    pub(crate) fn thread_of(&self, place: Place) -> usize {
        match place {
            Place::Door(_) | Place::Coordinator => 0,
            Place::Worker(_) if self.workers == 1 => 0,
            Place::Worker(worker) => usize::from(worker.0) + 1,
        }
    }

    /// All machines.
    pub(crate) fn places(&self) -> impl Iterator<Item = Place> {
        let workers = (0..self.workers).map(|worker| Place::Worker(WorkerId(worker)));
        [Place::Door(DOOR), Place::Coordinator].into_iter().chain(workers)
    }

    /// Logs a fact. A FATAL one means a broken promise: the process ends at once.
    pub(crate) fn tell(&self, now: Time, fact: Fact) {
        let is_fatal = fact.level == Level::Fatal;
        self.log.tell(now, fact);
        if is_fatal {
            self.log.flush();
            std::process::exit(1);
        }
    }

    /// A machine has ended. After the last one, all threads end.
    pub(crate) fn finish(&self, place: Place) {
        if self.end.finish(place, self.places().count()) {
            self.leave();
        }
    }

    /// Ends all threads.
    pub(crate) fn leave(&self) {
        for mailbox in &self.boxes {
            mailbox.insist(Letter::Leave);
        }
    }

    pub(crate) fn ticket(&self) -> u64 {
        self.tickets.fetch_add(1, Ordering::Relaxed)
    }
}

/// The threads' answers to the control plane, until it fetches them.
#[derive(Default)]
pub(crate) struct Replies {
    open: Mutex<BTreeMap<u64, Reply>>,
    arrived: Condvar,
}

#[derive(Default)]
pub(crate) struct Reply {
    pub(crate) snapshots: Vec<Snapshot>,
    pub(crate) counters: Vec<ThreadCounters>,
}

impl Replies {
    /// Keeps answers to this ticket from now on.
    pub(crate) fn expect(&self, ticket: u64) {
        self.lock().insert(ticket, Reply::default());
    }

    pub(crate) fn snapshot(&self, ticket: u64, snapshot: Snapshot) {
        // A late answer is dropped.
        if let Some(reply) = self.lock().get_mut(&ticket) {
            reply.snapshots.push(snapshot);
            self.arrived.notify_all();
        }
    }

    pub(crate) fn counters(&self, ticket: u64, counters: ThreadCounters) {
        if let Some(reply) = self.lock().get_mut(&ticket) {
            reply.counters.push(counters);
            self.arrived.notify_all();
        }
    }

    /// Waits for so many answers or until the timeout; returns those that have come.
    pub(crate) fn collect(&self, ticket: u64, count: usize, timeout: Duration) -> Reply {
        let until = Instant::now() + timeout;
        let mut open = self.lock();
        loop {
            let have = open.get(&ticket).map_or(count, |reply| reply.snapshots.len() + reply.counters.len());
            let left = until.saturating_duration_since(Instant::now());
            if have >= count || left.is_zero() {
                return open.remove(&ticket).unwrap_or_default();
            }
            open = self.arrived.wait_timeout(open, left).expect("nothing panics while it holds this lock").0;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Reply>> {
        self.open.lock().expect("nothing panics while it holds this lock")
    }
}

/// Which machines have ended.
#[derive(Default)]
pub(crate) struct End {
    pub(crate) over: AtomicBool,
    finished: Mutex<std::collections::BTreeSet<Place>>,
}

impl End {
    /// Whether a machine has ended.
    pub(crate) fn is_finished(&self, place: Place) -> bool {
        self.finished.lock().expect("nothing panics while it holds this lock").contains(&place)
    }

    /// A machine has ended. True: it was the last of `count`.
    pub(crate) fn finish(&self, place: Place, count: usize) -> bool {
        let mut finished = self.finished.lock().expect("nothing panics while it holds this lock");
        let is_last = finished.insert(place) && finished.len() == count;
        self.over.fetch_or(is_last, Ordering::Release);
        is_last
    }
}
