//! Where a server listens, and how to get a socket to it.

use std::fmt;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};

/// One address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Tcp(SocketAddr),
    /// The socket itself, not its directory.
    Unix(PathBuf),
}

/// A Unix socket's backlog may be full for a moment: so many tries, a millisecond apart.
const UNIX_TRIES: u32 = 2000;

impl Place {
    /// `host` as in a URL or an ini file: a name, an address, or the directory of a Unix socket.
    ///
    /// # Errors
    /// Nobody knows the name.
    pub(crate) fn of(host: &str, port: u16) -> Result<Self, String> {
        if host.starts_with('/') {
            return Ok(Place::Unix(PathBuf::from(host).join(format!(".s.PGSQL.{port}"))));
        }
        let found = (host, port).to_socket_addrs().map_err(|error| format!("host {host}: {error}"))?.next();
        found.map(Place::Tcp).ok_or_else(|| format!("host {host} has no address"))
    }

    /// A socket that does not block, its connection perhaps still under way.
    pub(crate) fn dial(&self) -> Result<OwnedFd, String> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let family = match self {
            Place::Unix(_) => AddressFamily::UNIX,
            Place::Tcp(SocketAddr::V4(_)) => AddressFamily::INET,
            Place::Tcp(SocketAddr::V6(_)) => AddressFamily::INET6,
        };
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)
            .map_err(|error| format!("cannot make a socket: {error}"))?;
        let connected = match self {
            Place::Tcp(address) => {
                sockopt::set_tcp_nodelay(&socket, true).map_err(|error| format!("cannot set a socket: {error}"))?;
                rustix::net::connect(&socket, address)
            }
            Place::Unix(path) => {
                let address = SocketAddrUnix::new(path).map_err(|error| format!("{self}: {error}"))?;
                connect_unix(&socket, &address)
            }
        };
        match connected {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
            Err(error) => Err(format!("cannot connect to {self}: {error}")),
        }
    }

    /// A socket that blocks, and gives up connecting and reading after `patience`.
    pub(crate) fn dial_blocking(&self, patience: Duration) -> Result<Box<dyn Stream>, String> {
        let words = |error: std::io::Error| format!("cannot connect to {self}: {error}");
        match self {
            Place::Tcp(address) => {
                let stream = TcpStream::connect_timeout(address, patience).map_err(words)?;
                stream.set_nodelay(true).and_then(|()| stream.set_read_timeout(Some(patience))).map_err(words)?;
                Ok(Box::new(stream))
            }
            Place::Unix(path) => {
                let stream = UnixStream::connect(path).map_err(words)?;
                stream.set_read_timeout(Some(patience)).map_err(words)?;
                Ok(Box::new(stream))
            }
        }
    }
}

fn connect_unix(socket: &OwnedFd, address: &SocketAddrUnix) -> Result<(), Errno> {
    for _ in 0..UNIX_TRIES {
        match rustix::net::connect(socket, address) {
            Err(Errno::AGAIN) => std::thread::sleep(Duration::from_millis(1)),
            other => return other,
        }
    }
    Err(Errno::AGAIN)
}

/// Either kind of socket.
pub(crate) trait Stream: std::io::Read + std::io::Write + Send {}

impl<T: std::io::Read + std::io::Write + Send> Stream for T {}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Tcp(address) => write!(f, "{address}"),
            Place::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}
