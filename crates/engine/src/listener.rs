//! Where clients come in: TCP and Unix sockets, accepting, and running out of descriptors.
//!
//! Promises: a client that cannot be served is told so (FATAL 53300) instead of hanging in the kernel's queue; running
//! out of descriptors never becomes a busy loop; a Unix socket left behind by a dead process is replaced, one that
//! somebody answers on is not.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use machine::Peer;
use rustix::io::Errno;
use rustix::net::{SocketAddrAny, SocketFlags, acceptfrom_with, getsockname};
use socket2::{Domain, Socket, Type};

use crate::connect::unix_address;
use crate::options::{Options, UnixOptions};
use crate::tcp;

/// Why the engine could not start.
#[derive(Debug)]
pub struct ListenError {
    /// As the user wrote it.
    pub place: String,
    pub why: String,
}

impl std::fmt::Display for ListenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cannot listen on {}: {}", self.place, self.why)
    }
}

impl std::error::Error for ListenError {}

/// One socket that clients come in by.
pub(crate) struct Listener {
    fd: OwnedFd,
    pub(crate) place: Listening,
    /// The file to remove at the end.
    file: Option<PathBuf>,
}

/// Where a listener is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listening {
    Tcp(SocketAddr),
    /// The socket's file, or its abstract name after `@`.
    Unix(String),
}

impl std::fmt::Display for Listening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Listening::Tcp(address) => write!(f, "{address}"),
            Listening::Unix(name) => write!(f, "unix:{name}"),
        }
    }
}

/// What an attempt to accept brought.
pub(crate) enum Accepted {
    Client(OwnedFd, Peer),
    /// Nobody is waiting.
    Nobody,
    /// No descriptor is free.
    Exhausted,
}

/// Opens all listeners that can be opened. Of the TCP addresses that cannot, `missed` gets to know.
///
/// # Errors
/// A name that cannot be looked up, a Unix socket that cannot be opened, or the first TCP address that could not be listened on,
/// where there is no other place.
pub(crate) fn listen(options: &Options, missed: &mut Vec<ListenError>) -> Result<Vec<Listener>, ListenError> {
    let mut listeners = Vec::new();
    for text in &options.addresses {
        for address in addresses(text, options.port)? {
            let opened = listen_tcp(address, options);
            match opened {
                Ok(listener) => listeners.push(listener),
                // `*` means what this machine has; without IPv6 that is IPv4.
                Err(error) if text == "*" && address.is_ipv6() && is_unsupported(&error) => {}
                Err(error) => missed.push(ListenError { place: address.to_string(), why: error.to_string() }),
            }
        }
    }
    if let Some(unix) = &options.unix {
        // Clients find the socket by its port; with port 0 that is the one TCP got.
        let port = listeners.iter().find_map(Listener::port).unwrap_or(options.port);
        let place = format!("{}/.s.PGSQL.{port}", unix.dir);
        let listener =
            listen_unix(unix, port, options.backlog).map_err(|why| ListenError { place, why: why.to_string() })?;
        listeners.push(listener);
    }
    match missed.is_empty() || !listeners.is_empty() {
        true => Ok(listeners),
        false => Err(missed.remove(0)),
    }
}

fn is_unsupported(error: &io::Error) -> bool {
    [Errno::AFNOSUPPORT, Errno::ADDRNOTAVAIL].map(Errno::raw_os_error).contains(&error.raw_os_error().unwrap_or(0))
}

fn addresses(text: &str, port: u16) -> Result<Vec<SocketAddr>, ListenError> {
    if text == "*" {
        let any = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
        return Ok(any.map(|ip| SocketAddr::new(ip, port)).to_vec());
    }
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    if let Ok(ip) = bare.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, port)]);
    }
    match (text, port).to_socket_addrs() {
        Ok(found) => Ok(found.collect()),
        Err(error) => Err(ListenError { place: text.to_owned(), why: error.to_string() }),
    }
}

fn listen_tcp(address: SocketAddr, options: &Options) -> io::Result<Listener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM.nonblocking().cloexec(), None)?;
    // Connections of a former process in TIME_WAIT must not keep us out.
    socket.set_reuse_address(true)?;
    if options.reuse_port {
        socket.set_reuse_port(true)?;
    }
    if address.is_ipv6() {
        // Else `*` would clash with its own IPv4 half.
        socket.set_only_v6(true)?;
    }
    tcp::set(&socket, &options.tcp)?;
    socket.bind(&address.into())?;
    socket.listen(options.backlog)?;
    let bound = socket.local_addr()?.as_socket().unwrap_or(address);
    Ok(Listener { fd: socket.into(), place: Listening::Tcp(bound), file: None })
}

fn listen_unix(options: &UnixOptions, port: u16, backlog: i32) -> io::Result<Listener> {
    let address = unix_address(&options.dir, port)?;
    let name = format!("{}/.s.PGSQL.{port}", options.dir);
    let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking().cloexec(), None)?;
    let file = (!options.dir.starts_with('@')).then(|| PathBuf::from(&name));
    if let Some(path) = &file {
        clear_the_way(path, &address)?;
    }
    socket.bind(&address)?;
    if let Some(path) = &file {
        // Before `listen`: until then nobody can come in, whatever the file's mode.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(options.mode))?;
        if let Some(group) = &options.group {
            std::os::unix::fs::chown(path, None, Some(group_id(group)?))?;
        }
    }
    socket.listen(backlog)?;
    Ok(Listener { fd: socket.into(), place: Listening::Unix(name), file })
}

/// Removes a socket file on which nobody answers.
fn clear_the_way(path: &Path, address: &socket2::SockAddr) -> io::Result<()> {
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !metadata.file_type().is_socket() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is a file of that name that is no socket"));
    }
    let probe = Socket::new(Domain::UNIX, Type::STREAM.nonblocking().cloexec(), None)?;
    match probe.connect(address) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(error),
        // Connected, or its queue is full.
        Ok(()) | Err(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "unix socket is in use, cannot continue")),
    }
}

/// A group's number, from its name in /etc/group or as written.
fn group_id(group: &str) -> io::Result<u32> {
    if let Ok(id) = group.parse() {
        return Ok(id);
    }
    let text = std::fs::read_to_string("/etc/group")?;
    let id = text.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(group)).then(|| fields.nth(1)?.parse().ok()).flatten()
    });
    id.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("there is no group {group}")))
}

impl Listener {
    fn port(&self) -> Option<u16> {
        match &self.place {
            Listening::Tcp(address) => Some(address.port()),
            Listening::Unix(_) => None,
        }
    }

    pub(crate) fn is_unix(&self) -> bool {
        matches!(self.place, Listening::Unix(_))
    }

    /// Takes the next client in.
    pub(crate) fn accept(&self) -> Accepted {
        match acceptfrom_with(&self.fd, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Ok((fd, address)) => match self.peer(&fd, address) {
                Some(peer) => Accepted::Client(fd, peer),
                // It is gone already.
                None => Accepted::Nobody,
            },
            Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => Accepted::Exhausted,
            // AGAIN; or an error of that one client's connection, as accept(2) explains.
            Err(_) => Accepted::Nobody,
        }
    }

    fn peer(&self, fd: &OwnedFd, address: Option<SocketAddrAny>) -> Option<Peer> {
        let address = address.and_then(|address| SocketAddr::try_from(address).ok());
        if let Some(from) = address {
            return self.address_of(fd).map(|to| Peer::Tcp { from, to });
        }
        let who = rustix::net::sockopt::socket_peercred(fd).ok()?;
        Some(Peer::Unix { pid: who.pid.as_raw_nonzero().get().unsigned_abs(), uid: who.uid.as_raw() })
    }

    /// Which of our addresses a client came to: asked only of those who came to "any".
    fn address_of(&self, fd: &OwnedFd) -> Option<SocketAddr> {
        match &self.place {
            Listening::Tcp(address) if !address.ip().is_unspecified() => Some(*address),
            _ => SocketAddr::try_from(getsockname(fd).ok()?).ok(),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.file {
            // Gone already: then there is nothing to do.
            let _ = std::fs::remove_file(path);
        }
    }
}
