//! Where it is listened, and who has connected: over TCP, or over a Unix socket.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

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

    /// Connects to it, so that whoever waits for a client wakes.
    pub(crate) fn wake(address: &str) {
        // Fails if nobody waits.
        match address.strip_prefix(UNIX) {
            Some(path) => drop(UnixStream::connect(path)),
            None => drop(TcpStream::connect(address)),
        }
    }

    pub(crate) fn accept(&self) -> io::Result<Stream> {
        match self {
            Listener::Tcp(listener) => listener.accept().map(|(stream, _)| Stream::Tcp(stream)),
            Listener::Unix(listener) => listener.accept().map(|(stream, _)| Stream::Unix(stream)),
        }
    }
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
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    pub(crate) fn set_read_timeout(&self, timeout: Duration) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_read_timeout(Some(timeout)),
            Stream::Unix(stream) => stream.set_read_timeout(Some(timeout)),
        }
    }

    pub(crate) fn set_write_timeout(&self, timeout: Duration) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_write_timeout(Some(timeout)),
            Stream::Unix(stream) => stream.set_write_timeout(Some(timeout)),
        }
    }

    pub(crate) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.shutdown(how),
            Stream::Unix(stream) => stream.shutdown(how),
        }
    }

    pub(crate) fn read(&self, part: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => { stream }.read(part),
            Stream::Unix(stream) => { stream }.read(part),
        }
    }

    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => { stream }.write(bytes),
            Stream::Unix(stream) => { stream }.write(bytes),
        }
    }
}
