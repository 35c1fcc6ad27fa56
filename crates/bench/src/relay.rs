//! What copying alone costs: a client, a server of its own, and bytes between them.
//!
//! Promises: recv, send and a share of epoll_wait, on one thread with one buffer; whatever a pooler does beyond that is
//! missing. So its CPU time is about what the kernel asks of every pooler with sockets on both sides: a ceiling for what
//! any of them can gain. Not a strict bound: 64 clients have 64 servers here and twenty in a pooler.
//! Does not: read a message, share a server, limit anything. Logins pass through it.

use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sockopt};

/// The one buffer.
const BUFFER_BYTES: usize = 64 << 10;
/// The listener's token; connections count from zero.
const DOOR: u64 = u64::MAX;

/// Where clients are accepted and where their servers are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    pub listen_port: u16,
    /// An IPv4 address, or the folder of a Unix socket.
    pub host: String,
    pub port: u16,
}

impl Route {
    /// Reads as much of the contestants' common ini file as matters here. Errors: a part is missing.
    pub fn parse(ini: &str) -> Result<Route, String> {
        let line = |start: &str| ini.lines().find_map(|line| line.strip_prefix(start));
        let target = line("bench = ").ok_or("no database 'bench'")?;
        let word = |key: &str| target.split_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
        let port = |text: Option<&str>| text.and_then(|text| text.trim().parse().ok());
        Ok(Route {
            listen_port: port(line("listen_port = ")).ok_or("no listen_port")?,
            host: word("host").ok_or("no host")?.to_owned(),
            port: port(word("port")).ok_or("no port")?,
        })
    }
}

/// One of the two sockets of a client.
struct End {
    socket: OwnedFd,
    peer: usize,
    /// Bytes that this socket did not take; while there are any, nothing is read from the other.
    rest: Vec<u8>,
}

/// The relay.
pub struct Relay {
    epoll: OwnedFd,
    door: OwnedFd,
    route: Route,
    ends: Vec<Option<End>>,
    /// Slots that may be used again.
    free: Vec<usize>,
    /// Slots that were closed in this batch: events of the batch may still name them.
    closed: Vec<usize>,
    buffer: Box<[u8]>,
}

impl Relay {
    /// Listens. Errors: the port is taken.
    pub fn open(route: Route) -> Result<Relay, String> {
        let door = TcpListener::bind((Ipv4Addr::LOCALHOST, route.listen_port)).map_err(words("listen"))?;
        door.set_nonblocking(true).map_err(words("set a socket"))?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(words("create an epoll"))?;
        epoll::add(&epoll, &door, EventData::new_u64(DOOR), EventFlags::IN).map_err(words("watch a socket"))?;
        let buffer = vec![0; BUFFER_BYTES].into_boxed_slice();
        let (ends, free, closed) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Relay { epoll, door: door.into(), route, ends, free, closed, buffer })
    }

    /// Sockets of clients and servers, open now.
    pub fn sockets(&self) -> usize {
        self.ends.iter().flatten().count()
    }

    /// Waits for something to happen, for `timeout` at most or for ever, and carries it out.
    pub fn poll_once(&mut self, timeout: Option<&Timespec>) -> Result<(), String> {
        let mut events = [epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 256];
        let count = match epoll::wait(&self.epoll, &mut events[..], timeout) {
            Ok(count) => count,
            Err(Errno::INTR) => 0,
            Err(error) => return Err(words("wait for events")(error)),
        };
        for event in &events[..count] {
            let (token, flags) = (event.data.u64(), event.flags);
            if token == DOOR {
                self.accept()?;
                continue;
            }
            let slot = token as usize;
            if flags.contains(EventFlags::OUT) {
                self.write_rest(slot)?;
            }
            if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
                self.copy(slot)?;
            }
        }
        self.free.append(&mut self.closed);
        Ok(())
    }

    fn accept(&mut self) -> Result<(), String> {
        loop {
            let client = match rustix::net::accept_with(&self.door, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok(client) => client,
                Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => return Ok(()),
                Err(error) => return Err(words("accept")(error)),
            };
            sockopt::set_tcp_nodelay(&client, true).map_err(words("set a socket"))?;
            // A client whose server cannot be reached is closed; the load will say that it was.
            if let Ok(server) = dial(&self.route) {
                self.add(client, server)?;
            }
        }
    }

    fn add(&mut self, client: OwnedFd, server: OwnedFd) -> Result<(), String> {
        let mut slot = || {
            self.free.pop().unwrap_or_else(|| {
                self.ends.push(None);
                self.ends.len() - 1
            })
        };
        let (one, other) = (slot(), slot());
        for (socket, own, peer) in [(client, one, other), (server, other, one)] {
            let token = EventData::new_u64(own as u64);
            epoll::add(&self.epoll, &socket, token, EventFlags::IN).map_err(words("watch a socket"))?;
            self.ends[own] = Some(End { socket, peer, rest: Vec::new() });
        }
        Ok(())
    }

    /// Closes both sockets of a client; the kernel takes them out of the epoll.
    fn close(&mut self, slot: usize) {
        let Some(end) = self.ends[slot].take() else { return };
        self.ends[end.peer] = None;
        self.closed.extend([slot, end.peer]);
    }

    /// One recv, one send.
    fn copy(&mut self, slot: usize) -> Result<(), String> {
        let Some(end) = &self.ends[slot] else { return Ok(()) };
        let peer = end.peer;
        let Some(Some(target)) = self.ends.get(peer) else { return Ok(()) };
        if !target.rest.is_empty() {
            // Not asked for, so it is the end of the connection: bytes that nobody took are lost with it.
            self.close(slot);
            return Ok(());
        }
        let bytes = match rustix::net::recv(&end.socket, &mut self.buffer[..], rustix::net::RecvFlags::empty()) {
            Ok((0, _)) | Err(Errno::CONNRESET) => {
                self.close(slot);
                return Ok(());
            }
            Ok((count, _)) => &self.buffer[..count],
            Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
            Err(error) => return Err(words("receive")(error)),
        };
        let sent = match rustix::net::send(&target.socket, bytes, SendFlags::NOSIGNAL) {
            Ok(count) => count,
            Err(Errno::AGAIN | Errno::INTR) => 0,
            Err(_) => {
                self.close(slot);
                return Ok(());
            }
        };
        if sent < bytes.len() {
            let rest = bytes[sent..].to_vec();
            self.watch(slot, EventFlags::empty())?;
            self.watch(peer, EventFlags::OUT)?;
            self.ends[peer].as_mut().expect("it was there a moment ago").rest = rest;
        }
        Ok(())
    }

    /// Sends what a socket did not take; when it has all of it, the other one is read again.
    fn write_rest(&mut self, slot: usize) -> Result<(), String> {
        let Some(end) = &mut self.ends[slot] else { return Ok(()) };
        match rustix::net::send(&end.socket, &end.rest, SendFlags::NOSIGNAL) {
            Ok(count) => drop(end.rest.drain(..count)),
            Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
            Err(_) => {
                self.close(slot);
                return Ok(());
            }
        }
        let (peer, done) = (end.peer, end.rest.is_empty());
        if done {
            self.watch(slot, EventFlags::IN)?;
            self.watch(peer, EventFlags::IN)?;
        }
        Ok(())
    }

    fn watch(&self, slot: usize, flags: EventFlags) -> Result<(), String> {
        let Some(end) = &self.ends[slot] else { return Ok(()) };
        epoll::modify(&self.epoll, &end.socket, EventData::new_u64(slot as u64), flags).map_err(words("watch a socket"))
    }
}

/// Connects to a server, waiting for it: on one machine that is no wait.
fn dial(route: &Route) -> Result<OwnedFd, String> {
    let local = Path::new(&route.host).is_absolute();
    let family = if local { AddressFamily::UNIX } else { AddressFamily::INET };
    let socket = rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .map_err(words("create a socket"))?;
    if local {
        let path = format!("{}/.s.PGSQL.{}", route.host, route.port);
        let address = SocketAddrUnix::new(path).map_err(words("name a Unix socket"))?;
        rustix::net::connect(&socket, &address).map_err(words("connect"))?;
    } else {
        let host: Ipv4Addr = route.host.parse().map_err(words("read the server's address"))?;
        rustix::net::connect(&socket, &SocketAddrV4::new(host, route.port)).map_err(words("connect"))?;
        sockopt::set_tcp_nodelay(&socket, true).map_err(words("set a socket"))?;
    }
    rustix::io::ioctl_fionbio(&socket, true).map_err(words("set a socket"))?;
    Ok(socket)
}

/// Turns a system's error into a sentence.
fn words<E: std::fmt::Display>(what: &str) -> impl Fn(E) -> String {
    let what = what.to_owned();
    move |error| format!("relay: cannot {what}: {error}")
}

#[cfg(test)]
#[path = "relay_tests.rs"]
mod tests;
