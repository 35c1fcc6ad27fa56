//! One thread, one epoll: the clients of the load and the fake PostgreSQL, with the contestant between them.
//!
//! Promises: every client has at most one question under way; the first wrong answer, lost connection or stall ends
//! the measurement with a sentence that says which. Does not: measure what the contestant costs (see `process`).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use measure::client::{Client, Progress};
use measure::interrupt;
use measure::sockets::{Connection, Ready, Sockets};
use measure::statistics::Seeded;
use measure::work::Work;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use crate::fake::FakeServer;

/// How the clients of a fleet ask.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    /// They stay connected and say nothing.
    Still,
    /// Each asks again as soon as it is answered.
    Closed,
    /// Each thinks before it asks, and after each answer: any time up to twice `mean`.
    Thinking { mean: Duration },
    /// Questions arrive at a fixed interval, whatever the answers do.
    Open { interval: Duration },
    /// So many at a time log in, ask once, and leave.
    Storm { at_a_time: usize },
}

/// Which fleet: one for each contestant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FleetId(usize);

/// The clients of one contestant.
struct Fleet {
    port: u16,
    work: Arc<Work>,
    mode: Mode,
    /// Slots of the clients that wait to be asked to ask.
    idle: Vec<usize>,
    /// Connections of this fleet, logged in or not.
    connected: usize,
    /// Arrivals of an open load that found every client busy.
    late: VecDeque<Instant>,
    due: Instant,
    done: u64,
    refused: u64,
    resumed: u64,
    latencies_ns: Vec<u32>,
}

enum Peer {
    Door { is_standby: bool },
    Fake(FakeServer),
    Client { client: Client, fleet: usize, since: Instant },
}

/// The load and the fake PostgreSQL.
pub struct World {
    sockets: Sockets<Peer>,
    fleets: Vec<Fleet>,
    /// Slots of clients that think, and until when.
    thinking: BinaryHeap<Reverse<(Instant, usize)>>,
    random: Seeded,
    fake_links: usize,
    pub port: u16,
    /// Where the fake PostgreSQL's Unix socket lies.
    path: PathBuf,
}

/// The most that one read takes.
const READ_BYTES: usize = 256 << 10;
/// An open load that is this far behind measures nothing but its own queue.
const LATE_MAX: usize = 100_000;
/// Nothing in a measurement takes this long; whatever does has stalled.
const STALL: Duration = Duration::from_secs(20);
/// Logins under way at once while a fleet connects: below every contestant's listen backlog.
const LOGINS_AT_ONCE: usize = 32;

impl World {
    /// Opens the fake PostgreSQL's doors: TCP on a free port, and a Unix socket of that port in `folder`.
    pub fn open(folder: &Path) -> Result<World, String> {
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(words("listen on TCP"))?;
        let port = tcp.local_addr().map_err(words("ask for the port"))?.port();
        let path = folder.join(format!(".s.PGSQL.{port}"));
        let unix = UnixListener::bind(&path).map_err(words("listen on a Unix socket"))?;
        let everybody = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(&path, everybody).map_err(words("open the Unix socket to everybody"))?;
        tcp.set_nonblocking(true).map_err(words("set a socket"))?;
        unix.set_nonblocking(true).map_err(words("set a socket"))?;
        let sockets = Sockets::open(READ_BYTES).map_err(words("create an epoll"))?;
        let mut world = World {
            sockets,
            fleets: Vec::new(),
            thinking: BinaryHeap::new(),
            random: Seeded::new(1),
            fake_links: 0,
            port,
            path,
        };
        world.add(tcp.into(), Peer::Door { is_standby: false }, Vec::new())?;
        world.add(unix.into(), Peer::Door { is_standby: false }, Vec::new())?;
        Ok(world)
    }

    /// Opens two standbys of the fake PostgreSQL, on the same port; the addresses of all three hosts, the primary's first.
    pub fn add_standbys(&mut self) -> Result<[Ipv4Addr; 3], String> {
        let hosts = [1, 2, 3].map(|last| Ipv4Addr::new(127, 0, 0, last));
        for host in &hosts[1..] {
            let tcp = TcpListener::bind((*host, self.port)).map_err(words("listen as a standby"))?;
            tcp.set_nonblocking(true).map_err(words("set a socket"))?;
            self.add(tcp.into(), Peer::Door { is_standby: true }, Vec::new())?;
        }
        Ok(hosts)
    }

    /// A fleet for a contestant that listens on a port of 127.0.0.1; nobody is connected yet.
    pub fn fleet(&mut self, port: u16, work: Work) -> FleetId {
        self.fleets.push(Fleet {
            port,
            work: Arc::new(work),
            mode: Mode::Still,
            idle: Vec::new(),
            connected: 0,
            late: VecDeque::new(),
            due: Instant::now(),
            done: 0,
            refused: 0,
            resumed: 0,
            latencies_ns: Vec::new(),
        });
        FleetId(self.fleets.len() - 1)
    }

    /// Logs in until the fleet has `count` clients, all idle.
    pub fn connect(&mut self, fleet: FleetId, count: usize) -> Result<(), String> {
        let limit = Instant::now() + STALL.max(Duration::from_millis(20) * count as u32);
        while self.fleets[fleet.0].idle.len() < count {
            let under_way = self.fleets[fleet.0].connected - self.fleets[fleet.0].idle.len();
            let missing = count - self.fleets[fleet.0].connected;
            for _ in 0..missing.min(LOGINS_AT_ONCE.saturating_sub(under_way)) {
                self.dial(fleet.0)?;
            }
            self.poll_once(limit)?;
            if Instant::now() >= limit {
                let idle = self.fleets[fleet.0].idle.len();
                return Err(format!("only {idle} of {count} clients could log in"));
            }
        }
        Ok(())
    }

    /// So many clients log in and leave without a question, `at_a_time` of them at a time.
    pub fn visit(&mut self, fleet: FleetId, count: usize, at_a_time: usize) -> Result<(), String> {
        let (mut begun, mut ended, mut limit) = (0, 0, Instant::now() + STALL);
        while ended < count {
            while begun < count.min(ended + at_a_time) {
                self.dial(fleet.0)?;
                begun += 1;
            }
            self.poll_once(limit)?;
            let gone = self.fleets[fleet.0].idle.len();
            self.disconnect(fleet)?;
            ended += gone;
            if gone > 0 {
                limit = Instant::now() + STALL;
            } else if Instant::now() >= limit {
                return Err(format!("only {ended} of {count} clients could log in"));
            }
        }
        Ok(())
    }

    /// So many clients come at once, and stay. How long it takes from the first one's SYN to the last one's ReadyForQuery.
    pub fn crowd(&mut self, fleet: FleetId, count: usize) -> Result<Duration, String> {
        let began = Instant::now();
        for _ in 0..count {
            self.dial(fleet.0)?;
        }
        while self.fleets[fleet.0].idle.len() < count {
            self.poll_once(began + STALL)?;
            if began.elapsed() >= STALL {
                let idle = self.fleets[fleet.0].idle.len();
                return Err(format!("only {idle} of {count} clients could log in"));
            }
        }
        Ok(began.elapsed())
    }

    /// Closes all connections of a fleet whose clients are idle, with a Terminate.
    pub fn disconnect(&mut self, fleet: FleetId) -> Result<(), String> {
        for slot in std::mem::take(&mut self.fleets[fleet.0].idle) {
            self.say_goodbye(slot)?;
        }
        Ok(())
    }

    /// Sets the load of a fleet going. Storms begin with no client connected.
    pub fn start(&mut self, fleet: FleetId, mode: Mode) -> Result<(), String> {
        let this = &mut self.fleets[fleet.0];
        this.mode = mode;
        this.due = Instant::now();
        match mode {
            Mode::Closed => {
                for slot in std::mem::take(&mut this.idle) {
                    self.ask(slot, Instant::now())?;
                }
            }
            Mode::Thinking { mean } => {
                for slot in std::mem::take(&mut this.idle) {
                    self.think(slot, mean);
                }
            }
            Mode::Storm { at_a_time } => {
                for _ in 0..at_a_time {
                    self.dial(fleet.0)?;
                }
            }
            Mode::Still | Mode::Open { .. } => {}
        }
        Ok(())
    }

    /// Keeps the load going for so long.
    pub fn run_for(&mut self, time: Duration) -> Result<(), String> {
        let until = Instant::now() + time;
        while Instant::now() < until {
            self.poll_once(until)?;
        }
        Ok(())
    }

    /// Lets a fleet finish what is under way and start nothing more.
    pub fn settle(&mut self, fleet: FleetId) -> Result<(), String> {
        let this = &mut self.fleets[fleet.0];
        this.mode = Mode::Still;
        this.late.clear();
        self.interrupt_thoughts(fleet.0);
        let limit = Instant::now() + STALL;
        while self.fleets[fleet.0].idle.len() < self.fleets[fleet.0].connected {
            self.poll_once(limit)?;
            if Instant::now() >= limit {
                return Err("a client waits for an answer that does not come".to_owned());
            }
        }
        Ok(())
    }

    /// Transactions (or, in a storm, logins with one transaction each) that this fleet has finished.
    pub fn done(&self, fleet: FleetId) -> u64 {
        self.fleets[fleet.0].done
    }

    /// Questions that limits have refused.
    pub fn refused(&self, fleet: FleetId) -> u64 {
        self.fleets[fleet.0].refused
    }

    /// Logins that have gone on with an earlier session of TLS.
    pub fn resumed(&self, fleet: FleetId) -> u64 {
        self.fleets[fleet.0].resumed
    }

    /// Time from question (or its due time in an open load, or dialling in a storm) to answer, since the last call, in ns.
    pub fn take_latencies_ns(&mut self, fleet: FleetId) -> Vec<u32> {
        std::mem::take(&mut self.fleets[fleet.0].latencies_ns)
    }

    /// Connections to the fake PostgreSQL, open now.
    pub fn fake_links(&self) -> usize {
        self.fake_links
    }

    /// Waits for something to happen, at most until `limit`, and handles it.
    fn poll_once(&mut self, limit: Instant) -> Result<(), String> {
        interrupt::check()?;
        let due = [self.serve_arrivals()?, self.wake_thinkers()?];
        let wake = due.into_iter().flatten().fold(limit, Instant::min);
        let rest = wake.saturating_duration_since(Instant::now());
        self.sockets.wait(rest).map_err(words("wait for events"))?;
        while let Some(ready) = self.sockets.next_ready() {
            self.event(ready)?;
        }
        Ok(())
    }

    fn think(&mut self, slot: usize, mean: Duration) {
        let longest = 2 * mean.as_micros() as usize;
        let thought = Duration::from_micros(self.random.below(longest + 1) as u64);
        self.thinking.push(Reverse((Instant::now() + thought, slot)));
    }

    /// Whoever of a fleet thinks is idle instead.
    fn interrupt_thoughts(&mut self, fleet: usize) {
        let thinking = std::mem::take(&mut self.thinking).into_vec();
        let (own, others): (Vec<_>, Vec<_>) =
            thinking.into_iter().partition(|Reverse((_, slot))| self.fleet_of(*slot) == Some(fleet));
        self.thinking = others.into();
        self.fleets[fleet].idle.extend(own.into_iter().map(|Reverse((_, slot))| slot));
    }

    /// Those who have thought enough ask; returns when the next one does.
    fn wake_thinkers(&mut self) -> Result<Option<Instant>, String> {
        while let Some(&Reverse((due, slot))) = self.thinking.peek() {
            let now = Instant::now();
            if due > now {
                return Ok(Some(due));
            }
            self.thinking.pop();
            // What the load itself was late by is not the contestant's.
            self.ask(slot, now)?;
        }
        Ok(None)
    }

    fn fleet_of(&self, slot: usize) -> Option<usize> {
        match &self.sockets.get(slot)?.peer {
            Peer::Client { fleet, .. } => Some(*fleet),
            Peer::Door { .. } | Peer::Fake(_) => None,
        }
    }

    /// Hands out the questions of open loads that are due; returns when the next one is.
    fn serve_arrivals(&mut self) -> Result<Option<Instant>, String> {
        let mut next: Option<Instant> = None;
        for index in 0..self.fleets.len() {
            let Mode::Open { interval } = self.fleets[index].mode else { continue };
            let now = Instant::now();
            while self.fleets[index].due <= now {
                let due = self.fleets[index].due;
                self.fleets[index].due = due + interval;
                self.fleets[index].late.push_back(due);
            }
            self.serve_late(index)?;
            if self.fleets[index].late.len() > LATE_MAX {
                return Err("the open load is too much: the queue only grows".to_owned());
            }
            let due = self.fleets[index].due;
            next = Some(next.map_or(due, |other| other.min(due)));
        }
        Ok(next)
    }

    /// Lets idle clients ask what is overdue, in order of arrival.
    fn serve_late(&mut self, fleet: usize) -> Result<(), String> {
        while !self.fleets[fleet].late.is_empty() {
            let Some(slot) = self.fleets[fleet].idle.pop() else { break };
            let due = self.fleets[fleet].late.pop_front().expect("checked above");
            self.ask(slot, due)?;
        }
        Ok(())
    }

    fn event(&mut self, ready: Ready) -> Result<(), String> {
        let slot = ready.slot;
        if self.sockets.get(slot).is_some_and(|connection| matches!(connection.peer, Peer::Door { .. })) {
            return self.accept(slot);
        }
        if ready.can_write {
            self.flush(slot)?;
        }
        if ready.can_read {
            self.receive(slot)?;
        }
        Ok(())
    }

    fn accept(&mut self, door: usize) -> Result<(), String> {
        loop {
            let Some(listener) = self.sockets.get(door) else { return Ok(()) };
            let is_standby = matches!(listener.peer, Peer::Door { is_standby: true });
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let socket = match rustix::net::accept_with(listener.socket(), flags) {
                Ok(socket) => socket,
                Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => return Ok(()),
                Err(error) => return Err(words("accept a connection")(error)),
            };
            // Only TCP knows the option; a Unix socket needs it as little as it has it.
            let _ = sockopt::set_tcp_nodelay(&socket, true);
            self.fake_links += 1;
            let fake = if is_standby { FakeServer::standby() } else { FakeServer::default() };
            self.add(socket, Peer::Fake(fake), Vec::new())?;
        }
    }

    /// Begins one more login.
    fn dial(&mut self, fleet: usize) -> Result<(), String> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)
            .map_err(words("create a socket"))?;
        sockopt::set_tcp_nodelay(&socket, true).map_err(words("set a socket"))?;
        let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, self.fleets[fleet].port);
        match rustix::net::connect(&socket, &address) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(words("connect to the contestant")(error)),
        }
        let mut out = Vec::new();
        let client = Client::start(&self.fleets[fleet].work, &mut out);
        self.fleets[fleet].connected += 1;
        let slot = self.add(socket, Peer::Client { client, fleet, since: Instant::now() }, out)?;
        self.flush(slot)
    }

    fn add(&mut self, socket: OwnedFd, peer: Peer, out: Vec<u8>) -> Result<usize, String> {
        self.sockets.add(socket, peer, out).map_err(words("watch a socket"))
    }

    fn close(&mut self, slot: usize) {
        match self.sockets.close(slot) {
            None | Some(Peer::Door { .. }) => {}
            Some(Peer::Fake(_)) => self.fake_links -= 1,
            Some(Peer::Client { fleet, .. }) => self.fleets[fleet].connected -= 1,
        }
    }

    fn receive(&mut self, slot: usize) -> Result<(), String> {
        let (connection, bytes) = match self.sockets.receive(slot) {
            Ok(Some(received)) => received,
            Ok(None) => return Ok(()),
            Err(Errno::CONNRESET | Errno::PIPE) => return self.lost(slot),
            Err(error) => return Err(words("read")(error)),
        };
        if bytes.is_empty() {
            return self.lost(slot);
        }
        match &mut connection.peer {
            Peer::Door { .. } => Ok(()),
            Peer::Fake(server) => {
                let flush = server.receive(bytes, &mut connection.out)?;
                if server.is_over() {
                    self.close(slot);
                } else if flush {
                    self.flush(slot)?;
                }
                Ok(())
            }
            Peer::Client { client, fleet, .. } => {
                let progress = client.receive(bytes, &mut connection.out)?;
                let fleet = *fleet;
                self.progressed(slot, fleet, progress)
            }
        }
    }

    /// The other side has closed a connection. Errors: it was a client's.
    fn lost(&mut self, slot: usize) -> Result<(), String> {
        match self.sockets.get(slot).map(|connection| &connection.peer) {
            None | Some(Peer::Door { .. }) => Ok(()),
            Some(Peer::Fake(_)) => {
                self.close(slot);
                Ok(())
            }
            Some(Peer::Client { .. }) => Err("the contestant closed a client's connection".to_owned()),
        }
    }

    /// What a client does next.
    fn progressed(&mut self, slot: usize, fleet: usize, progress: Progress) -> Result<(), String> {
        let mode = self.fleets[fleet].mode;
        if progress == Progress::More {
            return self.flush(slot);
        }
        if progress == Progress::Ready {
            let is_resumed = matches!(self.sockets.get(slot), Some(Connection { peer: Peer::Client { client, .. }, .. }) if client.is_resumed());
            self.fleets[fleet].resumed += u64::from(is_resumed);
        }
        if progress == Progress::Answered {
            self.count(slot, fleet);
        }
        self.fleets[fleet].refused += u64::from(progress == Progress::Refused);
        match (mode, progress) {
            (Mode::Closed, _) => self.ask(slot, Instant::now()),
            (Mode::Thinking { mean }, _) => {
                self.think(slot, mean);
                Ok(())
            }
            // A storm's latency counts from dialling: the time that the connection holds stays as it is.
            (Mode::Storm { .. }, Progress::Ready) => self.ask_again(slot),
            (Mode::Storm { .. }, _) => {
                self.say_goodbye(slot)?;
                self.dial(fleet)
            }
            (Mode::Still | Mode::Open { .. }, _) => {
                self.fleets[fleet].idle.push(slot);
                self.serve_late(fleet)
            }
        }
    }

    fn count(&mut self, slot: usize, fleet: usize) {
        let Some(Connection { peer: Peer::Client { since, .. }, .. }) = self.sockets.get(slot) else { return };
        let waited = since.elapsed().as_nanos();
        self.fleets[fleet].done += 1;
        self.fleets[fleet].latencies_ns.push(u32::try_from(waited).unwrap_or(u32::MAX));
    }

    /// A client asks; its latency counts from `from`.
    fn ask(&mut self, slot: usize, from: Instant) -> Result<(), String> {
        if let Some(Connection { peer: Peer::Client { since, .. }, .. }) = self.sockets.get_mut(slot) {
            *since = from;
        }
        self.ask_again(slot)
    }

    fn ask_again(&mut self, slot: usize) -> Result<(), String> {
        if let Some(Connection { peer: Peer::Client { client, .. }, out, .. }) = self.sockets.get_mut(slot) {
            client.ask(out)?;
        }
        self.flush(slot)
    }

    fn say_goodbye(&mut self, slot: usize) -> Result<(), String> {
        if let Some(Connection { peer: Peer::Client { client, .. }, out, .. }) = self.sockets.get_mut(slot) {
            client.leave(out)?;
        }
        self.flush(slot)?;
        self.close(slot);
        Ok(())
    }

    fn flush(&mut self, slot: usize) -> Result<(), String> {
        self.sockets.flush(slot).map_err(words("write"))
    }
}

impl Drop for World {
    /// The kernel leaves a Unix socket's file behind, and the next world may draw the same port.
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Turns a system's error into a sentence.
fn words<E: std::fmt::Display>(what: &str) -> impl Fn(E) -> String {
    let what = what.to_owned();
    move |error| format!("cannot {what}: {error}")
}

#[cfg(test)]
#[path = "world_tests.rs"]
mod tests;
