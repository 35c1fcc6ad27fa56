//! Where it is listened, and who has connected: over TCP, or over a Unix socket.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::task::{Context, Poll, ready};

use rustix::net::{Shutdown, shutdown};
use tokio::net;

/// What an address of a Unix socket begins with.
const UNIX: &str = "unix:";

/// Where it is listened.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    pub(crate) fn bind(address: &str) -> io::Result<Listener> {
        match address.strip_prefix(UNIX) {
            Some(path) => bind_unix(Path::new(path)).map(Listener::Unix),
            None => bind_tcp(address).map(Listener::Tcp),
        }
    }

    /// `None`: it is none of TCP.
    pub(crate) fn address(&self) -> io::Result<Option<SocketAddr>> {
        match self {
            Listener::Tcp(listener) => listener.local_addr().map(Some),
            Listener::Unix(_) => Ok(None),
        }
    }

    /// On the thread whose runtime accepts.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn listen(self) -> io::Result<Listening> {
        match self {
            Listener::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                net::TcpListener::from_std(listener).map(Listening::Tcp)
            }
            Listener::Unix(listener) => {
                listener.set_nonblocking(true)?;
                net::UnixListener::from_std(listener).map(Listening::Unix)
            }
        }
    }
}

/// Where it is listened, without waiting.
#[derive(Debug)]
pub(crate) enum Listening {
    Tcp(net::TcpListener),
    Unix(net::UnixListener),
}

impl Listening {
    pub(crate) async fn accept(&self) -> io::Result<Stream> {
        match self {
            Listening::Tcp(listener) => listener.accept().await.map(|(stream, _)| Stream::Tcp(stream)),
            Listening::Unix(listener) => listener.accept().await.map(|(stream, _)| Stream::Unix(stream)),
        }
    }
}

/// Whether there are such addresses here. Takes no port, so that one in use does no harm. Returns them; none of a Unix socket.
///
/// # Errors
/// The system's.
pub fn probe(address: &str) -> io::Result<Vec<SocketAddr>> {
    if address.starts_with(UNIX) {
        return Ok(Vec::new());
    }
    let all = address.strip_prefix("*:").map(|port| [format!("[::]:{port}"), format!("0.0.0.0:{port}")]);
    let asked = all.map_or_else(|| vec![address.to_owned()], Vec::from);
    let mut outcome = Err(ErrorKind::AddrNotAvailable.into());
    for address in asked {
        outcome = names::look_up_with_port(&address);
        let bound = outcome
            .as_ref()
            .is_ok_and(|found| found.iter().any(|address| TcpListener::bind(SocketAddr::new(address.ip(), 0)).is_ok()));
        if bound {
            return outcome;
        }
    }
    outcome.and(Err(ErrorKind::AddrNotAvailable.into()))
}

/// `*:9127` is all addresses of both families, or of IPv4 where the system has no IPv6.
fn bind_tcp(address: &str) -> io::Result<TcpListener> {
    let bind = |address: &str| TcpListener::bind(&*names::look_up_with_port(address)?);
    let Some(port) = address.strip_prefix("*:") else { return bind(address) };
    match bind(&format!("[::]:{port}")) {
        Err(error) if error.kind() != ErrorKind::AddrInUse => bind(&format!("0.0.0.0:{port}")),
        bound => bound,
    }
}

/// A socket that a process has left behind is replaced, one at which somebody answers is not, nor is any other file.
fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    match UnixListener::bind(path) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            let is_socket = path.symlink_metadata()?.file_type().is_socket();
            let is_left = UnixStream::connect(path).is_err_and(|why| why.kind() == ErrorKind::ConnectionRefused);
            if !(is_socket && is_left) {
                return Err(error);
            }
            std::fs::remove_file(path)?;
            UnixListener::bind(path)
        }
        bound => bound,
    }
}

/// Who has connected.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(net::TcpStream),
    Unix(net::UnixStream),
}

/// Tries again as long as the kernel was thought to be ready and was not.
macro_rules! when_ready {
    ($ready:expr, $act:expr) => {
        loop {
            ready!($ready)?;
            match $act {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    };
}

impl Stream {
    /// `None`: it has none, or is gone.
    pub(crate) fn peer(&self) -> Option<IpAddr> {
        match self {
            // An address of IPv4 that came by a socket of both families is one of IPv4.
            Stream::Tcp(stream) => stream.peer_addr().ok().map(|peer| peer.ip().to_canonical()),
            Stream::Unix(_) => None,
        }
    }

    pub(crate) fn poll_read(&self, cx: &mut Context<'_>, part: &mut [u8]) -> Poll<io::Result<usize>> {
        match self {
            Stream::Tcp(stream) => when_ready!(stream.poll_read_ready(cx), stream.try_read(part)),
            Stream::Unix(stream) => when_ready!(stream.poll_read_ready(cx), stream.try_read(part)),
        }
    }

    pub(crate) fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Stream::Tcp(stream) => when_ready!(stream.poll_write_ready(cx), stream.try_write(bytes)),
            Stream::Unix(stream) => when_ready!(stream.poll_write_ready(cx), stream.try_write(bytes)),
        }
    }

    /// The client is told that nothing more comes; it may still be read.
    pub(crate) fn end_writing(&self) -> io::Result<()> {
        let ended = match self {
            Stream::Tcp(stream) => shutdown(stream, Shutdown::Write),
            Stream::Unix(stream) => shutdown(stream, Shutdown::Write),
        };
        ended.map_err(io::Error::from)
    }
}
