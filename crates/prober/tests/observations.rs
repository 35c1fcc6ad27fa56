//! Observations of a host that answers late, or not at all. A host that is silent when it is asked no more is not silent for ever: nobody would
//! notice that it answers again.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use ask::Target;
use connections::databases::{Address, Host};
use machine::{HostState, Level, Observed, Origin, Upstream};
use prober::{Options, Outlet, Prober, Resting};
use units::Time;

/// A prober of one host. Its kernel takes connections.
struct Scene {
    listener: TcpListener,
    outlet: Arc<Recorder>,
    prober: Arc<Prober>,
}

/// Keeps what it is sent.
#[derive(Default)]
struct Recorder {
    clock: AtomicU64,
    observed: Mutex<Vec<Upstream>>,
    lookups: AtomicU64,
    has_no_address: AtomicBool,
    /// The prober to stop as soon as one of its threads has found anew that the host does not answer.
    to_stop: OnceLock<Arc<Prober>>,
    /// When the host was asked whose first silence was reported.
    silent_at: OnceLock<Option<Instant>>,
    was_stopped: AtomicBool,
}

impl Recorder {
    fn observed(&self) -> Vec<Upstream> {
        self.observed.lock().expect("nothing panics with it").clone()
    }

    /// The state that holds in the end: the later observation wins, in any order of arrival.
    fn last(&self) -> Option<HostState> {
        self.observed().iter().max().map(|upstream| upstream.state)
    }

    fn has_seen_silence(&self) -> bool {
        self.observed().iter().any(|upstream| upstream.is_silent())
    }
}

impl Outlet for Recorder {
    fn now(&self) -> Time {
        let is_asker = thread::current().name() == Some("prober");
        if let Some(prober) = self.to_stop.get().filter(|_| is_asker && !self.was_stopped.load(Ordering::SeqCst)) {
            let asked_at = prober.seen().iter().find_map(|seen| Some(seen.last.as_ref()?.asked_at));
            // Its silence was reported before, and is found again: the kernel may end the first wait a moment before `host_timeout`.
            if self.has_seen_silence() && *self.silent_at.get_or_init(|| asked_at) != asked_at {
                self.was_stopped.store(true, Ordering::SeqCst);
                prober.rest(Resting::All);
            }
        }
        Time(self.clock.fetch_add(1, Ordering::SeqCst))
    }

    fn probed(&self, observed: Observed, _: Option<Origin>) {
        self.observed.lock().expect("nothing panics with it").push(observed.upstream);
    }

    fn say(&self, _: Level, _: String) {}

    fn look_up(&self, _: &str) -> Result<Arc<[IpAddr]>, String> {
        self.lookups.fetch_add(1, Ordering::SeqCst);
        match self.has_no_address.load(Ordering::SeqCst) {
            true => Err("no such name".to_owned()),
            false => Ok([IpAddr::from(Ipv4Addr::LOCALHOST)].into()),
        }
    }
}

impl Scene {
    fn new() -> Scene {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let outlet = Arc::new(Recorder::default());
        let prober = Arc::new(Prober::new(Arc::clone(&outlet) as Arc<dyn Outlet>));
        Scene { listener, outlet, prober }
    }

    fn ask(&self, timeout: Duration) {
        let port = self.listener.local_addr().expect("it listens").port();
        let target = Target {
            host: "db".to_owned(),
            address: None,
            port,
            user: "u".to_owned(),
            password: None,
            database: "d".to_owned(),
            verifier: None,
            encryption: None,
        };
        let address = Arc::new(Address { host: Host::Name("db".to_owned()), port });
        self.prober.configure(Options {
            hosts: vec![prober::Host { address, targets: vec![target], is_watched: true }],
            groups: Vec::new(),
            interval: Some(Duration::from_millis(10)),
            timeout: Some(timeout),
            retry: Duration::from_secs(1),
        });
    }

    /// Waits until no thread asks: each keeps the outlet, as the prober and this do.
    fn wait_for_threads(&self) {
        until(|| Arc::strong_count(&self.outlet) == 2);
    }
}

fn until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        thread::sleep(Duration::from_millis(1));
    }
}

/// As `host_timeout`.
const SOON: Duration = Duration::from_millis(50);

const UNKNOWN: Option<HostState> = Some(HostState::Alive { role: None });

#[test]
fn silence_ends_at_a_host_that_is_asked_no_more() {
    let silent = Scene::new();
    silent.ask(SOON);
    until(|| silent.outlet.has_seen_silence());
    assert_eq!(silent.outlet.last(), Some(HostState::Silent));
    silent.prober.rest(Resting::All);
    silent.wait_for_threads();
    assert_eq!(silent.outlet.last(), UNKNOWN);
}

#[test]
fn silence_ends_at_a_host_that_is_asked_no_more_just_when_it_is_found() {
    let silent = Scene::new();
    assert!(silent.outlet.to_stop.set(Arc::clone(&silent.prober)).is_ok());
    silent.ask(SOON);
    until(|| silent.outlet.was_stopped.load(Ordering::SeqCst));
    silent.wait_for_threads();
    assert!(silent.outlet.has_seen_silence());
    assert_eq!(silent.outlet.last(), UNKNOWN);
}

#[test]
fn silence_ends_at_a_host_whose_name_has_no_address_any_more() {
    let silent = Scene::new();
    silent.ask(SOON);
    until(|| silent.outlet.has_seen_silence());
    silent.outlet.has_no_address.store(true, Ordering::SeqCst);
    let before = silent.outlet.lookups.load(Ordering::SeqCst);
    until(|| silent.outlet.lookups.load(Ordering::SeqCst) > before + 3);
    assert_eq!(silent.outlet.last(), Some(HostState::Silent), "no address is no answer");
    silent.prober.rest(Resting::All);
    silent.wait_for_threads();
    assert_eq!(silent.outlet.last(), UNKNOWN);
}

#[test]
fn a_refusal_is_as_old_as_its_question() {
    let scene = Scene::new();
    scene.ask(Duration::from_secs(60));
    let (mut connection, _) = scene.listener.accept().expect("the prober connects");
    let mut startup = [0; 8];
    connection.read_exact(&mut startup).expect("it logs in");
    let asked = scene.outlet.now();
    connection.write_all(b"E\0\0\0\x23SFATAL\0VFATAL\0C53300\0Mno room\0\0").expect("it reads");
    until(|| !scene.outlet.observed().is_empty());
    let observed = scene.outlet.observed()[0];
    assert_eq!(Some(observed.state), UNKNOWN);
    assert!(observed.at < asked, "{observed:?}: what it was when the answer came is not known");
}
