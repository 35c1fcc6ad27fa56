//! Connects to a PostgreSQL without blocking: tries one address after the other until one answers.
//!
//! An address that is silent for [`CONNECT_NEXT`] is left for the next one, if there is one; the last may take as long as its machine
//! waits. Every [`Dialer::begin`] has exactly one outcome, unless [`Dialer::give_up`] takes it back. It uses neither epoll nor
//! machines: each step returns what the caller has to do next.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use connections::databases::{Address, Host};
use machine::Ends;
use names::{Found, Names};
use rustix::io::Errno;
use rustix::net::{SocketAddrAny, getpeername, getsockname};
use socket2::{Domain, SockAddr, Socket, Type};
use units::limits::CONNECT_NEXT;
use units::{ConnId, Time};

use crate::options::TcpOptions;
use crate::tcp;

/// The next step for a connection that is being opened.
pub(crate) enum Dial {
    /// Watch this socket for writability, then call [`Dialer::verdict`].
    Watch(OwnedFd),
    /// It is open already, like every Unix socket.
    Standing(OwnedFd),
    /// Look this name up, then call [`Dialer::resolved`].
    Resolve(String),
    Failed(String),
}

struct Attempt {
    /// The name that was looked up.
    name: Option<String>,
    port: u16,
    /// Being tried.
    current: Option<IpAddr>,
    /// Not yet tried, last first.
    targets: Vec<IpAddr>,
    /// When the next one is tried.
    until: Time,
}

impl Attempt {
    fn new(name: Option<String>, port: u16, targets: Vec<IpAddr>) -> Attempt {
        Attempt { name, port, current: None, targets, until: Time::NEVER }
    }
}

pub(crate) struct Dialer {
    tcp: TcpOptions,
    /// They are told which addresses have failed.
    names: Names,
    attempts: BTreeMap<ConnId, Attempt>,
}

impl Dialer {
    pub(crate) fn new(tcp: TcpOptions, names: Names) -> Dialer {
        Dialer { tcp, names, attempts: BTreeMap::new() }
    }

    /// Connections that are opened from now on get these options.
    pub(crate) fn set_tcp(&mut self, tcp: TcpOptions) {
        self.tcp = tcp;
    }

    pub(crate) fn begin(&mut self, conn: ConnId, address: &Address, now: Time) -> Dial {
        match &address.host {
            Host::Unix(dir) => match connect_unix(dir, address.port) {
                Ok(socket) => Dial::Standing(socket),
                Err(error) => Dial::Failed(format!("connect failed: {error}")),
            },
            Host::Ip(ip) => {
                self.attempts.insert(conn, Attempt::new(None, address.port, vec![*ip]));
                self.next(conn, None, now)
            }
            Host::Name(name) => {
                self.attempts.insert(conn, Attempt::new(Some(name.clone()), address.port, Vec::new()));
                Dial::Resolve(name.clone())
            }
        }
    }

    /// The answer to `Dial::Resolve`; `None` if the connection was given up meanwhile.
    pub(crate) fn resolved(&mut self, conn: ConnId, found: Found, now: Time) -> Option<Dial> {
        let attempt = self.attempts.get_mut(&conn)?;
        match found {
            Ok(addresses) => {
                attempt.targets = addresses.iter().rev().copied().collect();
                Some(self.next(conn, None, now))
            }
            Err(why) => {
                self.attempts.remove(&conn);
                Some(Dial::Failed(why))
            }
        }
    }

    /// The watched socket has become ready. `None`: it is open.
    pub(crate) fn verdict(&mut self, conn: ConnId, error: Option<io::Error>, now: Time) -> Option<Dial> {
        match error {
            None => {
                self.attempts.remove(&conn);
                None
            }
            Some(error) => Some(self.next(conn, Some(error), now)),
        }
    }

    /// When the next address of a connection has to be tried.
    #[inline]
    pub(crate) fn deadline(&self) -> Time {
        if self.attempts.is_empty() {
            return Time::NEVER;
        }
        self.attempts.values().map(|attempt| attempt.until).min().unwrap_or(Time::NEVER)
    }

    /// A connection whose address was silent for too long, and the next step for it; its socket is of no more use.
    pub(crate) fn overdue(&mut self, now: Time) -> Option<(ConnId, Dial)> {
        let conn = self.attempts.iter().find(|(_, attempt)| attempt.until <= now).map(|(conn, _)| *conn)?;
        Some((conn, self.next(conn, Some(Errno::TIMEDOUT.into()), now)))
    }

    /// The machine no longer wants it.
    pub(crate) fn give_up(&mut self, conn: ConnId) {
        if let Some(attempt) = self.attempts.remove(&conn) {
            self.shun(&attempt);
        }
    }

    /// The address that was being tried has failed, or was too slow.
    fn shun(&self, attempt: &Attempt) {
        if let (Some(name), Some(current)) = (&attempt.name, attempt.current) {
            self.names.shun(name, current);
        }
    }

    /// Gives up all connections.
    pub(crate) fn give_up_all(&mut self) {
        self.attempts.clear();
    }

    /// Tries the next address. If there is none, the connection has failed with the last one's error.
    fn next(&mut self, conn: ConnId, mut last: Option<io::Error>, now: Time) -> Dial {
        let Some(mut attempt) = self.attempts.remove(&conn) else {
            return Dial::Failed("connect failed: it was given up".to_owned());
        };
        self.shun(&attempt);
        while let Some(ip) = attempt.targets.pop() {
            attempt.current = Some(ip);
            match connect_tcp(SocketAddr::new(ip, attempt.port), &self.tcp) {
                Ok(socket) => {
                    attempt.until = if attempt.targets.is_empty() { Time::NEVER } else { now + CONNECT_NEXT };
                    self.attempts.insert(conn, attempt);
                    return Dial::Watch(socket);
                }
                Err(error) => {
                    last = Some(error);
                    self.shun(&attempt);
                }
            }
        }
        let why = last.map_or_else(|| "there is no address".to_owned(), |error| error.to_string());
        Dial::Failed(format!("connect failed: {why}"))
    }
}

/// Begins a connection. If it is open at once, it is writable at once, so the caller need not tell the difference.
fn connect_tcp(address: SocketAddr, options: &TcpOptions) -> io::Result<OwnedFd> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM.nonblocking().cloexec(), None)?;
    tcp::set(&socket, options)?;
    match socket.connect(&SockAddr::from(address)) {
        Ok(()) => Ok(socket.into()),
        Err(error) if error.raw_os_error() == Some(Errno::INPROGRESS.raw_os_error()) => Ok(socket.into()),
        Err(error) => Err(error),
    }
}

//= pg18 runtime-config-connection#GUC-UNIX-SOCKET-DIRECTORIES
pub(crate) fn unix_address(dir: &str, port: u16) -> io::Result<SockAddr> {
    let name = format!("{dir}/.s.PGSQL.{port}");
    match name.strip_prefix('@') {
        // An abstract name starts with a NUL byte.
        Some(name) => SockAddr::unix(format!("\0{name}")),
        None => SockAddr::unix(name),
    }
}

fn connect_unix(dir: &str, port: u16) -> io::Result<OwnedFd> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking().cloexec(), None)?;
    socket.connect(&unix_address(dir, port)?)?;
    Ok(socket.into())
}

/// Reads the outcome of a connect from a socket that has become writable.
pub(crate) fn outcome(fd: impl std::os::fd::AsFd) -> Option<io::Error> {
    match rustix::net::sockopt::socket_error(fd) {
        Ok(Ok(())) => None,
        Ok(Err(error)) | Err(error) => Some(error.into()),
    }
}

/// Both addresses of an open connection; `None` for a Unix socket.
pub(crate) fn ends(fd: impl std::os::fd::AsFd) -> Option<Ends> {
    let address = |found: SocketAddrAny| SocketAddr::try_from(found).ok();
    let (local, remote) = (getsockname(&fd).ok()?, getpeername(&fd).ok()??);
    Some(Ends { local: address(local)?, remote: address(remote)? })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn conn() -> ConnId {
        ConnId::from_bits(2 << 60)
    }

    fn dialer() -> Dialer {
        let (news, _) = std::sync::mpsc::channel();
        Dialer::new(TcpOptions::default(), Names::start(names::Options::default(), news).expect("a thread"))
    }

    /// Waits for the socket as epoll would.
    fn wait(fd: &OwnedFd) -> Option<io::Error> {
        use rustix::event::{PollFd, PollFlags, poll};
        poll(&mut [PollFd::new(fd, PollFlags::OUT)], None).expect("a socket can be polled");
        outcome(fd)
    }

    #[test]
    fn the_next_address_is_tried_when_one_refuses() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let port = listener.local_addr().expect("bound").port();
        let mut dialer = dialer();
        let idle = std::time::Duration::from_secs(7);
        let patience = std::time::Duration::from_millis(900);
        let options = TcpOptions { keepalive_idle: Some(idle), user_timeout: Some(patience), ..TcpOptions::default() };
        dialer.set_tcp(options);
        let address = Address { host: Host::Name("db".to_owned()), port };
        assert!(matches!(dialer.begin(conn(), &address, Time::ZERO), Dial::Resolve(name) if name == "db"));
        // Nothing listens on 127.0.0.2, which is this machine too.
        let addresses = ["127.0.0.2".parse().expect("an address"), "127.0.0.1".parse().expect("an address")];
        let mut dial = dialer.resolved(conn(), Ok(addresses.into()), Time::ZERO).expect("it was asked for");
        let mut refused = 0;
        loop {
            let Dial::Watch(socket) = dial else { panic!("the second address answers") };
            let set = socket2::SockRef::from(&socket);
            assert_eq!(set.tcp_keepalive_time().ok(), Some(idle), "as set last");
            assert_eq!(set.tcp_user_timeout().ok(), Some(Some(patience)));
            match dialer.verdict(conn(), wait(&socket), Time::ZERO) {
                None => break,
                Some(next) => (dial, refused) = (next, refused + 1),
            }
        }
        assert_eq!(refused, 1);
        assert!(dialer.attempts.is_empty());
    }

    #[test]
    fn an_address_that_is_silent_is_left_for_the_next_and_the_last_is_not() {
        // A full queue of connections makes a listener silent: the kernel drops what comes.
        let silent = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        silent.bind(&any.into()).and_then(|()| silent.listen(0)).expect("loopback");
        let port = silent.local_addr().expect("bound").as_socket().expect("of IPv4").port();
        let full: Vec<_> = (0..3).map(|_| connect_tcp(([127, 0, 0, 1], port).into(), &TcpOptions::default())).collect();
        let listener = TcpListener::bind(("127.0.0.2", port)).expect("nobody has that address");
        let mut dialer = dialer();
        dialer.begin(conn(), &Address { host: Host::Name("db".to_owned()), port }, Time::ZERO);
        let addresses = [IpAddr::from([127, 0, 0, 1]), IpAddr::from([127, 0, 0, 2])];
        let first = dialer.resolved(conn(), Ok(addresses.into()), Time::ZERO);
        assert!(matches!(first, Some(Dial::Watch(_))));
        assert_eq!(dialer.deadline(), Time::ZERO + CONNECT_NEXT);
        assert!(dialer.overdue(Time::ZERO).is_none());
        let later = dialer.deadline();
        let Some((_, Dial::Watch(second))) = dialer.overdue(later) else { panic!("it was silent") };
        assert_eq!(dialer.deadline(), Time::NEVER, "the last one");
        assert!(dialer.verdict(conn(), wait(&second), later).is_none());
        drop((listener, full));
    }

    #[test]
    fn out_of_addresses_it_fails_in_words() {
        let mut dialer = dialer();
        let address = Address { host: Host::Name("db".to_owned()), port: 1 };
        dialer.begin(conn(), &address, Time::ZERO);
        let Some(Dial::Failed(why)) = dialer.resolved(conn(), Err("no such name".to_owned()), Time::ZERO) else {
            panic!("failed")
        };
        assert_eq!(why, "no such name");
        assert!(dialer.resolved(conn(), Err(String::new()), Time::ZERO).is_none(), "one outcome only");
        let nowhere = Address { host: Host::Unix("/nowhere".to_owned()), port: 1 };
        assert!(
            matches!(dialer.begin(conn(), &nowhere, Time::ZERO), Dial::Failed(why) if why.starts_with("connect failed: "))
        );
    }
}
