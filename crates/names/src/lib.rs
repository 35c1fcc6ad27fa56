//! Looks the names of hosts up, off everybody else's way, and knows what was found.
//!
//! ```text
//!   any thread ── ask ──► [ names: a thread that never waits for one name ] ── answer ──► whoever has asked
//!                               │ getaddrinfo, on threads of its own      (no resolv_conf: the system's way,
//!                               │                                          with /etc/hosts and nsswitch.conf;
//!                               │                                          in a static program without the latter)
//!                               └ name servers of a resolv_conf, and serials of zones
//! ```
//!
//! Promises: whoever asks is answered within [`LOOKUP_MAX`], however silent name servers are (unless more names than there are threads for
//! are silent at one time: these take turns); asking, looking at what is known, and the process's end wait for none of them. Decides nothing about connections: it tells when a name's addresses
//! are others than before.

mod asking;
mod book;
mod resolv_conf;
mod run;

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

pub use asking::{IS_STATIC, look_up, look_up_with_port};
use book::{Book, Holds};
pub use resolv_conf::probe as probe_resolv_conf;
use run::Request;

/// The longest that a lookup may take. The system's own way gives up after 5 s for each of its name servers, twice.
pub const LOOKUP_MAX: Duration = Duration::from_secs(10);

/// Addresses in the order to try them, or why there are none.
pub type Found = Result<Arc<[IpAddr]>, String>;

/// Who hears an answer; called on a thread that must not be kept waiting.
type Answer = Box<dyn FnOnce(Found) + Send>;

/// How names are looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// `dns_max_ttl`
    pub answer_holds: Duration,
    /// `dns_nxdomain_ttl`
    pub failure_holds: Duration,
    /// `dns_zone_check_period`; `None`: zones are not asked for.
    pub zone_check_period: Option<Duration>,
    /// `resolv_conf`; `None`: the system's way.
    pub resolv_conf: Option<PathBuf>,
    /// What is found first of a name is news, too: somebody has connected to it before this process was there.
    pub tells_first: bool,
}

impl Default for Options {
    fn default() -> Options {
        let holds = Duration::from_secs(15);
        Options {
            answer_holds: holds,
            failure_holds: holds,
            zone_check_period: None,
            resolv_conf: None,
            tells_first: false,
        }
    }
}

impl Options {
    fn holds(&self) -> Holds {
        Holds { answer: self.answer_holds, failure: self.failure_holds }
    }
}

/// Something that others may want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// A name has other addresses than before, or is known for the first time and that is of interest ([`Options::tells_first`]).
    Moved {
        name: Arc<str>,
        addresses: Arc<[IpAddr]>,
    },
    /// No name server answers, so that the last known addresses are used. Told once, until [`News::Back`].
    NoAnswer {
        name: Arc<str>,
        why: String,
    },
    Back {
        name: Arc<str>,
    },
}

/// Why there are no addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Failure {
    /// No name server has said that there are none.
    is_passing: bool,
    why: String,
}

/// A name that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownName {
    pub name: String,
    /// How long what is known holds.
    pub ttl: Duration,
    /// None: it could not be resolved, or is being looked up for the first time.
    pub addresses: Vec<IpAddr>,
}

/// A zone with names that were asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    pub name: String,
    /// 0: not asked for yet.
    pub serial: u32,
    pub names: usize,
}

/// What is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub names: Vec<KnownName>,
    pub zones: Vec<Zone>,
    /// Lookups that are under way.
    pub lookups: usize,
}

type SharedBook = Arc<Mutex<Book<Answer>>>;

/// Nothing panics while it holds this lock, and nothing waits.
fn lock(book: &SharedBook) -> MutexGuard<'_, Book<Answer>> {
    book.lock().expect("nothing panics while it holds this lock")
}

/// Where names are looked up. The thread ends when the last clone is dropped.
#[derive(Clone)]
pub struct Names {
    requests: UnboundedSender<Request>,
    book: SharedBook,
}

impl Names {
    /// # Errors
    /// The system's, if it has no thread left; or a `resolv_conf` that cannot be used.
    pub fn start(options: Options, news: Sender<News>) -> io::Result<Names> {
        let book: SharedBook = Arc::new(Mutex::new(Book::new(options.holds(), options.tells_first)));
        let (requests, received) = unbounded_channel();
        run::start(options, Arc::clone(&book), (requests.downgrade(), received), news)?;
        Ok(Names { requests, book })
    }

    /// Looks a name up, and hands on what was found; soon, if it is known.
    pub fn look_up(&self, name: String, answer: impl FnOnce(Found) + Send + 'static) {
        // The thread lives as long as this does.
        let _ = self.requests.send(Request::LookUp { name, answer: Box::new(answer) });
    }

    /// An address of the name could not be connected to: others come first for a while.
    pub fn shun(&self, name: &str, address: IpAddr) {
        lock(&self.book).shun(name, address, Instant::now());
    }

    /// A connection to the name has failed, or was closed by the other side: for a while the name is looked up each second, though nobody asks.
    pub fn doubt(&self, name: &str) {
        let _ = self.requests.send(Request::Doubt { name: name.to_owned() });
    }

    /// Whoever asks from now on gets what is looked up from now on.
    pub fn forget_all(&self) {
        lock(&self.book).forget_all(Instant::now());
    }

    /// Other times hold for what is found from now on. `resolv_conf` stays as it was at start.
    pub fn configure(&self, options: &Options) {
        lock(&self.book).holds = options.holds();
        let _ = self.requests.send(Request::CheckZones(options.zone_check_period));
    }

    /// What is known now.
    #[must_use]
    pub fn seen(&self) -> Seen {
        let book = lock(&self.book);
        Seen { names: book.known(Instant::now()), zones: book.known_zones(), lookups: book.in_flight() }
    }
}
