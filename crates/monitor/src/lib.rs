//! HTTP for those who watch: `/metrics`, `/live` and `/ready`, and whatever routes the caller adds.
//!
//! ```text
//!   listener ─► one thread: hyper's and axum's futures, CONNECTIONS_MAX connections ─► routes, answers
//!                   │
//!                   └─► what has to wait (a page of metrics): MAKERS_MAX threads, made when they are needed
//! ```
//!
//! Promises that strangers cost little: a connection has [`PATIENCE`] for its request and as long for its answer, however it spreads its bytes over
//! them; a request's head has [`HEAD_LEN_MAX`] bytes; all who take the page of metrics at one time share one copy. Beyond [`CONNECTIONS_MAX`] a newcomer
//! replaces the connection that has sent no request for longest, or else the one whose last request is oldest: slow clients keep no probe out. Threads
//! do not grow with connections. Nothing that a request says is kept or given on but its method, path and the format that it asks for, unless to a
//! route that was added. A connection goes on after an answer for these only, and has [`PATIENCE`] to ask again.
//! Does not: TLS, users.
//!
//! //= rfc9112#section-9.6

mod answers;
mod format;
mod makers;
mod patient;
mod room;
mod serving;
mod socket;
mod timer;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use axum::Router;
use tokio::sync::watch;

pub use answers::said;
pub use makers::{MAKERS_MAX, Makers, Making};
use socket::Listener;
pub use socket::probe;

/// The longest head of a request, in bytes: scrapers send some hundred, browsers a few thousand.
pub const HEAD_LEN_MAX: usize = 8 * 1024;

/// Headers of a request.
const HEADERS_MAX: usize = 64;

/// Connections at a time: a scraper or two, probes, some browsers with some each, and room for some that say nothing.
pub const CONNECTIONS_MAX: usize = 32;

/// How long a client may take to send its request, and to take its answer.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// How metrics are written.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus's exposition format 0.0.4.
    Text,
    /// OpenMetrics 1.0.0.
    OpenMetrics,
}

impl Format {
    fn media_type(self) -> &'static str {
        match self {
            Format::Text => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// What is watched.
pub trait Source: Send + Sync + 'static {
    /// All metrics. `None`: they are not to be had in time. A call may wait, on a thread of [`Makers`].
    fn metrics(&self, format: Format) -> Option<Arc<str>>;

    /// Whether new clients are taken. Does not wait.
    fn is_ready(&self) -> bool;
}

/// Who has sent a request: an extension of each request for the routes that are added.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// `None`: it came over a Unix socket.
    pub address: Option<IpAddr>,
}

/// Begins to serve at an address, as `127.0.0.1:9127`, `*:9127` or `unix:/run/pgweir/http`, and says which it is, if it is one of TCP: port 0 is
/// any that is free. `more`: routes besides those of this crate.
///
/// # Errors
/// The address is none, or cannot be listened on.
pub fn serve(address: &str, source: Arc<dyn Source>, more: Option<Router>) -> io::Result<Monitor> {
    let listener = Listener::bind(address)?;
    let bound = listener.address()?;
    let router = answers::router(source, more);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(2 * MAKERS_MAX)
        .thread_name("monitor")
        .build()?;
    let (alive, is_over) = watch::channel(());
    let run = move || {
        runtime.block_on(serving::serve(listener, router, is_over));
        // Whoever waits for metrics still has no connection to answer on.
        runtime.shutdown_background();
    };
    thread::Builder::new().name("monitor".to_owned()).spawn(run)?;
    Ok(Monitor { bound, _alive: alive })
}

/// Where it is served, until this is dropped: then it stops to listen, and another process may. Requests that have come are answered.
#[derive(Debug)]
#[must_use]
pub struct Monitor {
    bound: Option<SocketAddr>,
    /// Its drop is what the thread waits for.
    _alive: watch::Sender<()>,
}

impl Monitor {
    /// If it is one of TCP.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.bound
    }
}
