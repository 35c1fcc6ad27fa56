//! The thread: takes requests, and starts a task for each lookup. It waits for none of them.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, WeakUnboundedSender};
use tokio::time::{Instant, timeout, timeout_at};

use crate::asking::{Addresses, Serials, Way};
use crate::book::{Asked, Outcome};
use crate::{Answer, Found, LOOKUP_MAX, News, Options, SharedBook, lock, resolv_conf};

/// Lookups that are under way at one time, and so threads that may wait in getaddrinfo. The others wait their turn, which comes
/// when one of these ends, after [`LOOKUP_MAX`] at most.
const LOOKUPS_MAX: usize = 64;

pub(crate) enum Request {
    LookUp {
        name: String,
        answer: Answer,
    },
    LookedUp {
        name: String,
        found: Addresses,
    },
    Serial {
        zone: String,
        serial: u32,
    },
    /// A connection to it has failed.
    Doubt {
        name: String,
    },
    /// How often zones are checked from now on; `None`: never.
    CheckZones(Option<Duration>),
}

/// Both ends of the queue of requests; the sender is for answers of lookups.
type Queue = (WeakUnboundedSender<Request>, UnboundedReceiver<Request>);

/// # Errors
/// The system's, if it has no thread left; or a `resolv_conf` that cannot be used.
pub(crate) fn start(options: Options, book: SharedBook, queue: Queue, news: Sender<News>) -> io::Result<()> {
    let runtime =
        Builder::new_current_thread().enable_all().max_blocking_threads(LOOKUPS_MAX).thread_name("resolve").build()?;
    let way = match &options.resolv_conf {
        None => Way::System,
        Some(path) => {
            let _inside = runtime.enter();
            Way::Own(resolv_conf::resolver(path)?.into())
        }
    };
    let period = options.zone_check_period;
    let desk = Desk { way, book, requests: queue.0, news, running: 0, queued: VecDeque::new() };
    thread::Builder::new().name("names".to_owned()).spawn(move || serve(runtime, desk, queue.1, period))?;
    Ok(())
}

fn serve(runtime: Runtime, mut desk: Desk, mut requests: UnboundedReceiver<Request>, period: Option<Duration>) {
    runtime.block_on(async {
        let mut period = period;
        let mut checked = Instant::now();
        loop {
            // A year: never.
            let zones = checked + period.unwrap_or(Duration::from_secs(31_536_000));
            let doubted = desk.next_recheck();
            let due = doubted.map_or(zones, |doubted| zones.min(doubted));
            match timeout_at(due, requests.recv()).await {
                Ok(Some(Request::CheckZones(other))) => period = other,
                Ok(Some(request)) => desk.serve(request),
                // Nobody is left who could ask.
                Ok(None) => return,
                Err(_) if due == zones => {
                    checked = Instant::now();
                    desk.check_zones();
                }
                Err(_) => desk.recheck(),
            }
        }
    });
    // A lookup that does not end keeps its thread, and nobody waits for it.
    runtime.shutdown_background();
}

struct Desk {
    way: Way,
    book: SharedBook,
    requests: WeakUnboundedSender<Request>,
    news: Sender<News>,
    /// Lookups under way.
    running: usize,
    queued: VecDeque<String>,
}

impl Desk {
    fn serve(&mut self, request: Request) {
        let now = std::time::Instant::now();
        match request {
            Request::LookUp { name, answer } => {
                let asked = lock(&self.book).ask(&name, answer, now);
                match asked {
                    (Asked::Known(found), Some(answer)) => answer(found),
                    (Asked::LookUp, _) => self.look_up(name),
                    (Asked::Known(_) | Asked::Wait, _) => {}
                }
            }
            Request::LookedUp { name, found } => {
                self.running -= 1;
                let Outcome { answers, news, again } = lock(&self.book).found(&name, found, now);
                if let Some(news) = news {
                    // Fails when the process ends.
                    let _ = self.news.send(news);
                }
                let answer_all = |(answer, found): (Answer, Found)| answer(found);
                answers.into_iter().for_each(answer_all);
                if again {
                    self.look_up(name);
                }
                if let Some(next) = self.queued.pop_front() {
                    self.look_up(next);
                }
            }
            Request::Doubt { name } => lock(&self.book).doubt(&name, now),
            Request::Serial { zone, serial } => {
                let changed = lock(&self.book).serial_found(&zone, serial, now);
                changed.into_iter().for_each(|name| self.look_up(name));
            }
            Request::CheckZones(_) => unreachable!("the loop takes it"),
        }
    }

    /// When names in doubt are due.
    fn next_recheck(&self) -> Option<Instant> {
        lock(&self.book).next_recheck(std::time::Instant::now()).map(Instant::from_std)
    }

    /// Looks up the names in doubt that are due.
    fn recheck(&mut self) {
        let due = lock(&self.book).recheck(std::time::Instant::now());
        due.into_iter().for_each(|name| self.look_up(name));
    }

    fn look_up(&mut self, name: String) {
        if self.running >= LOOKUPS_MAX {
            return self.queued.push_back(name);
        }
        self.running += 1;
        let (way, requests) = (self.way.clone(), self.requests.clone());
        tokio::spawn(async move {
            let found = way.addresses(name.clone()).await;
            if let Some(requests) = requests.upgrade() {
                let _ = requests.send(Request::LookedUp { name, found });
            }
        });
    }

    //= pgbouncer config.md#dns_zone_check_period
    fn check_zones(&self) {
        let serials = Serials::of(&self.way);
        for zone in lock(&self.book).zones() {
            let (serials, requests) = (serials.clone(), self.requests.clone());
            tokio::spawn(async move {
                let Ok(Some(serial)) = timeout(LOOKUP_MAX, serials.of_zone(zone.clone())).await else { return };
                if let Some(requests) = requests.upgrade() {
                    let _ = requests.send(Request::Serial { zone, serial });
                }
            });
        }
    }
}
