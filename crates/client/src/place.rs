//! Where a server listens, and how to get a socket to it.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};

/// One address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
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
    pub fn of(host: &str, port: u16) -> Result<Self, String> {
        if host.starts_with('/') {
            return Ok(Place::Unix(PathBuf::from(host).join(format!(".s.PGSQL.{port}"))));
        }
        let found = names::look_up(host, port).map_err(|error| format!("host {host}: {error}"))?.into_iter().next();
        found.map(Place::Tcp).ok_or_else(|| format!("host {host} has no address"))
    }

    /// A socket that does not block, its connection perhaps still under way.
    ///
    /// # Errors
    /// The system refuses; nobody listens on a Unix socket.
    pub fn dial(&self) -> Result<OwnedFd, String> {
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
    ///
    /// # Errors
    /// Nobody listens there, or not in time.
    pub fn dial_blocking(&self, patience: Duration) -> io::Result<Box<dyn Stream>> {
        match self {
            Place::Tcp(address) => {
                let stream = TcpStream::connect_timeout(address, patience)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(patience))?;
                stream.set_write_timeout(Some(patience))?;
                Ok(Box::new(stream))
            }
            Place::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(patience))?;
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

/// Either kind of socket, or one that is played.
pub trait Stream: Read + Write + Send {
    /// # Errors
    /// The socket is gone.
    fn shutdown(&self, _how: Shutdown) -> io::Result<()> {
        Ok(())
    }

    /// # Errors
    /// No time at all.
    fn set_patience(&self, _patience: Duration) -> io::Result<()> {
        Ok(())
    }
}

impl Stream for TcpStream {
    fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        TcpStream::shutdown(self, how)
    }

    fn set_patience(&self, patience: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(patience))
    }
}

impl Stream for UnixStream {
    fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        UnixStream::shutdown(self, how)
    }

    fn set_patience(&self, patience: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(patience))
    }
}

impl From<SocketAddr> for Place {
    fn from(address: SocketAddr) -> Self {
        Place::Tcp(address)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Tcp(address) => write!(f, "{address}"),
            Place::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}
