//! Threads, sockets and time: carries out the machines' actions, and decides nothing.
//!
//! ```text
//!   1 worker:   one thread hosts door, coordinator and worker
//!   N workers:  thread 0 hosts door and coordinator, threads 1..=N a worker each
//!
//!   thread = [`host`]: epoll + machines + sockets ◄── mailboxes ──► other threads, control plane
//! also: 2 threads that compute keys, 1 for names of hosts and those that look them up, 1 that writes the log
//! ```
//!
//! Read [`host`] first (the loop), then `carry` (actions) and `traffic` (bytes). Threads share the `mailbox` (no wake
//! is lost) and the `shared_board`; tests run both under a scheduler that tries the orders of their atomic operations.

mod authority;
mod board_copy;
mod busy_poll;
mod carry;
mod clock;
mod compute;
mod connect;
mod connections;
mod count;
mod gate;
mod handle;
mod heritage;
mod host;
mod inbox;
mod layer;
mod letter;
mod listener;
mod log;
mod log_line;
mod mailbox;
mod options;
mod poll;
mod recover;
mod residents;
mod shared;
mod shared_board;
mod sync;
mod syslog;
mod system_users;
mod tcp;
mod tenant;
mod traces;
mod traffic;
mod upgrade;

#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel, sync_channel};
use std::thread::JoinHandle;

use ::connections::databases::Address;
use machine::{Level, Place, Settings};
use names::{Names, News};
use pooling::{Coordinator, Door, Worker};

pub use authority::Authority;
pub use clock::Clock;
pub use count::{Counters, ThreadCounters};

pub use handle::Handle;
pub use heritage::{Heritage, Leaving};
pub use layer::Keyring;
pub use listener::{ListenError, Listening, probe, probe_group};
pub use log::Log;
pub use options::{Facility, LogFormat, LogOptions, Options, SyslogOptions, TcpOptions, UnixOptions};
pub use shared::ConsoleRequest;
pub use system_users::name as system_user;
pub use traces::{EndedStatement, Exemplar, Traces};
pub use upgrade::OtherControl;

use host::{Host, Plan};
use letter::{EventBell, Letterbox, OFFERED_MAX};
use recover::Supervisor;
use shared::{Asked, Builder, Shared};
use tenant::Tenant;

/// Descriptors for each client at most: its own, and its server's in session mode.
const DESCRIPTORS_A_CLIENT: usize = 2;

/// Descriptors that belong to no client: epolls, eventfds, listeners, files.
const DESCRIPTORS_BESIDE: usize = 256;

/// Room for so many descriptors if the number of clients is not limited: half a megabyte.
const DESCRIPTORS_UNKNOWN: usize = 65_536;

/// Why the engine could not start.
#[derive(Debug)]
pub enum StartError {
    Listen(ListenError),
    /// The log's file cannot be opened.
    Log(io::Error),
    /// The system has refused a thread or a descriptor.
    System(&'static str, io::Error),
}

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StartError::Listen(error) => error.fmt(f),
            StartError::Log(error) => write!(f, "cannot open the log: {error}"),
            StartError::System(what, error) => write!(f, "{what}: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

/// A running data plane.
pub struct Engine {
    handle: Handle,
    questions: Option<Receiver<ConsoleRequest>>,
    probes: Option<Receiver<(Arc<Address>, bool)>>,
    news: Option<Receiver<News>>,
    threads: Vec<JoinHandle<()>>,
}

impl Engine {
    /// Listens and starts the threads. Privileges must be dropped before this call, since each thread has its own ids.
    ///
    /// # Errors
    /// No address can be listened on, the Unix socket or the log cannot be opened, or there are no threads or
    /// descriptors.
    pub fn start(options: &Options, settings: Arc<Settings>) -> Result<Engine, StartError> {
        // Read here once, so that a system without randomness is an error at start and not a panic later.
        let fresh = seed().map_err(|error| StartError::System("no randomness", error))?;
        let names = options.heritage.as_ref().map_or(fresh, |heritage| heritage.names);
        let succeeds = options.heritage.is_some();
        let builder: Builder = Arc::new(move |place, settings| build(place, settings, &names, succeeds));
        Engine::start_named(options, settings, builder, names)
    }

    #[cfg(test)]
    pub(crate) fn start_with(
        options: &Options,
        settings: Arc<Settings>,
        builder: Builder,
    ) -> Result<Engine, StartError> {
        Engine::start_named(options, settings, builder, [0; 32])
    }

    fn start_named(
        options: &Options,
        settings: Arc<Settings>,
        builder: Builder,
        names: [u8; 32],
    ) -> Result<Engine, StartError> {
        gate::raise_descriptor_limit();
        gate::make_room(descriptors(&settings));
        let clock =
            options.heritage.as_ref().map_or_else(Clock::start, |heritage| Clock::with_zero(heritage.clock_zero));
        let log = Log::start(&options.log, clock).map_err(StartError::Log)?;
        let mut missed = Vec::new();
        let listeners = listener::listen(options, &mut missed).map_err(StartError::Listen)?;
        for place in missed {
            log.say(Level::Warning, place.to_string());
        }
        let places = listeners.iter().map(|listener| listener.place.clone()).collect();
        let (asker, questions) = channel();
        let (prober, probes) = channel();
        let (teller, news) = channel();
        let tells_first = options.heritage.is_some();
        let resolver = Names::start(names::Options { tells_first, ..options.names.clone() }, teller)
            .map_err(|error| StartError::System("cannot look names up", error))?;
        let make = || -> io::Result<Arc<Shared>> {
            let boxes = boxes(Shared::threads(settings.workers.max(1)))?;
            let asked = Asked { questions: asker, probes: prober, authority: options.authority.clone(), resolver };
            Ok(Arc::new(Shared::new(clock, log, settings, boxes, asked, names)?))
        };
        let system = |error| StartError::System("cannot start", error);
        let shared = make().map_err(system)?;
        shared.set_listening(places);
        let handle = Handle::new(Arc::clone(&shared));
        if options.heritage.is_some() {
            // Nobody is accepted before it is counted what the other process has. It is the first letter of that thread.
            handle.accept(false);
        }
        let mut engine =
            Engine { handle, questions: Some(questions), probes: Some(probes), news: Some(news), threads: Vec::new() };
        for plan in plans(&shared, &builder, options, listeners) {
            // If one cannot be started, dropping the engine ends the others.
            engine.threads.push(start_thread(plan).map_err(system)?);
        }
        Ok(engine)
    }

    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// The receiver of the console's commands, which [`Handle::answer`] answers. `None`: it was taken already.
    pub fn questions(&mut self) -> Option<Receiver<ConsoleRequest>> {
        self.questions.take()
    }

    /// The receiver of hosts that are to be probed, and whether that is urgent. `None`: it was taken already.
    pub fn probes(&mut self) -> Option<Receiver<(Arc<Address>, bool)>> {
        self.probes.take()
    }

    /// The receiver of what is new about names of hosts. `None`: it was taken already.
    pub fn news(&mut self) -> Option<Receiver<News>> {
        self.news.take()
    }

    /// Waits until a [`Handle::stop`] is complete, and the log's last lines are written.
    pub fn wait(mut self) {
        for thread in self.threads.drain(..) {
            // A thread does not panic: it catches the panics of its machines.
            let _ = thread.join();
        }
        self.handle.log().flush();
    }
}

impl Drop for Engine {
    /// Ends all threads at once. After [`Engine::wait`] there are none.
    fn drop(&mut self) {
        if self.threads.is_empty() {
            return;
        }
        self.handle.stop(machine::Stop::Immediate);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// For how many descriptors to make room. A `max_client_conn` of zero means no limit.
fn descriptors(settings: &Settings) -> usize {
    match settings.global.pools.max_client_conn as usize {
        0 => DESCRIPTORS_UNKNOWN,
        clients => clients * DESCRIPTORS_A_CLIENT + DESCRIPTORS_BESIDE,
    }
}

fn boxes(count: usize) -> io::Result<Vec<Arc<Letterbox>>> {
    (0..count).map(|_| Ok(Arc::new(Letterbox::new(OFFERED_MAX, EventBell::new()?)))).collect()
}

/// The plan of each thread's host.
fn plans(
    shared: &Arc<Shared>,
    builder: &Builder,
    options: &Options,
    listeners: Vec<listener::Listener>,
) -> impl Iterator<Item = Plan> {
    // The first thread is the door's.
    let mut listeners = Some(listeners);
    let tls = Arc::new(options.tls.clone());
    (0..shared.boxes.len()).map(move |thread| Plan {
        thread,
        places: shared.places().filter(|place| shared.thread_of(*place) == thread).collect(),
        builder: Arc::clone(builder),
        shared: Arc::clone(shared),
        tcp: options.tcp.clone(),
        busy_poll: options.busy_poll,
        tls: Arc::clone(&tls),
        listeners: listeners.take().unwrap_or_default(),
    })
}

/// Starts a thread, which makes its own machines. Returns when they are made.
fn start_thread(plan: Plan) -> io::Result<JoinHandle<()>> {
    let (ready, readiness) = sync_channel(1);
    let name = match plan.places.last() {
        Some(Place::Worker(worker)) => format!("worker-{}", worker.0),
        Some(Place::Door(_) | Place::Coordinator) | None => "door".to_owned(),
    };
    let thread = std::thread::Builder::new().name(name).spawn(move || {
        let made = Host::new(plan);
        let (host, result) = match made {
            Ok(host) => (Some(host), Ok(())),
            Err(error) => (None, Err(error)),
        };
        let _ = ready.send(result);
        if let Some(host) = host {
            Supervisor::new(host).run();
        }
    })?;
    readiness.recv().unwrap_or_else(|_| Err(io::Error::other("a thread ended while it was started")))?;
    Ok(thread)
}

/// Makes the real machines. `secret`: that of the process. `succeeds`: they take the place of another process's.
fn build(place: Place, settings: &Arc<Settings>, secret: &[u8; 32], succeeds: bool) -> Box<dyn Tenant> {
    let workers = settings.workers.max(1);
    let seed = || seed().expect("there was randomness at start");
    let settings = Arc::clone(settings);
    match place {
        Place::Door(door) => {
            let mut door = Door::new(door, settings, seed());
            if succeeds {
                pooling::beside_predecessor(&mut door);
            }
            pooling::set_secret(&mut door, secret);
            door.system_users.set_owner(rustix::process::geteuid().as_raw());
            Box::new(door)
        }
        Place::Coordinator => Box::new(Coordinator::new(workers, settings)),
        Place::Worker(worker) => {
            let mut worker = Worker::new(worker, workers, settings, seed());
            worker.set_secret(secret);
            Box::new(worker)
        }
    }
}

fn seed() -> io::Result<[u8; 32]> {
    let mut seed = [0; 32];
    let count = rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty())?;
    if count < seed.len() {
        return Err(io::Error::other("too little randomness"));
    }
    Ok(seed)
}
