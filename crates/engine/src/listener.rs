//! Listening sockets, TCP and Unix, and accepting clients.
//!
//! A Unix socket file left by a dead process is replaced; one that another process listens on is not. Sockets that a service
//! manager has opened are taken as they are, in place of all others. `gate` deals with running out of descriptors.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use machine::Peer;
use rustix::io::Errno;
use rustix::net::{SocketAddrAny, SocketFlags, acceptfrom_with, getsockname};
use socket2::{Domain, SockRef, Socket, Type};

use crate::connect::unix_address;
use crate::options::{Options, TcpOptions, UnixOptions};
use crate::tcp;

/// Why the engine could not start.
#[derive(Debug)]
pub struct ListenError {
    /// The address as in the settings.
    pub place: String,
    pub why: String,
}

impl std::fmt::Display for ListenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cannot listen on {}: {}", self.place, self.why)
    }
}

impl std::error::Error for ListenError {}

/// One listening socket.
pub(crate) struct Listener {
    fd: OwnedFd,
    pub(crate) place: Listening,
    /// The file to remove at the end.
    file: Option<PathBuf>,
    /// It is another process's: still, or by now.
    pub(crate) keeps_file: bool,
}

/// The address of a listener.
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

/// The result of an attempt to accept.
pub(crate) enum Accepted {
    Client(OwnedFd, Peer),
    /// No client is waiting.
    Nobody,
    /// No descriptor is free.
    Exhausted,
}

/// Opens all listeners that can be opened. TCP addresses that cannot be are added to `missed`.
///
/// # Errors
/// A name cannot be looked up, the Unix socket cannot be opened, or none of the TCP addresses can be listened on: then the
/// first one's error.
pub(crate) fn listen(options: &Options, missed: &mut Vec<ListenError>) -> Result<Vec<Listener>, ListenError> {
    if !options.passed.is_empty() {
        return passed(options);
    }
    let inherited = options.heritage.as_ref().map_or(&[][..], |heritage| &heritage.listeners);
    let mut inherited = inherit(inherited, options)?;
    let mut listeners = Vec::new();
    for text in &options.addresses {
        for address in addresses(text, options.port)? {
            let wanted = |listener: &Listener| listener.place == Listening::Tcp(address);
            let opened = match inherited.iter().position(wanted) {
                Some(index) => Ok(inherited.swap_remove(index)),
                None => listen_tcp(address, options),
            };
            match opened {
                Ok(listener) => listeners.push(listener),
                // `*` means what this machine has: without IPv6, only IPv4.
                Err(error) if text == "*" && address.is_ipv6() && is_unsupported(&error) => {}
                Err(error) => missed.push(ListenError { place: address.to_string(), why: why(&error) }),
            }
        }
    }
    // The Unix socket alone would not do: who comes by TCP would be refused, or come to whoever has the port.
    if listeners.is_empty() && !missed.is_empty() {
        return Err(missed.remove(0));
    }
    if let Some(unix) = &options.unix {
        // The socket's name contains the port; with port 0 it is the one that TCP got.
        let port = listeners.iter().find_map(Listener::port).unwrap_or(options.port);
        let place = format!("{}/.s.PGSQL.{port}", unix.dir);
        let wanted = |listener: &Listener| listener.place == Listening::Unix(place.clone());
        let listener = match inherited.iter().position(wanted) {
            Some(index) => Ok(inherited.swap_remove(index).with_file(unix)),
            None => listen_unix(unix, port, options.backlog),
        };
        listeners.push(listener.map_err(|why| ListenError { place, why: why.to_string() })?);
    }
    Ok(listeners)
}

/// Whether there are such addresses here; of several, one. Takes no port, so that one in use does no harm. Returns those there are.
///
/// # Errors
/// A name cannot be looked up, or there is none of the addresses.
pub fn probe(listen_addr: &[String], port: u16) -> Result<Vec<SocketAddr>, ListenError> {
    let mut found = Vec::new();
    let mut missed = None;
    for text in listen_addr {
        for address in addresses(text, port)? {
            match std::net::TcpListener::bind(SocketAddr::new(address.ip(), 0)) {
                Ok(_) => found.push(address),
                Err(error) => _ = missed.get_or_insert(ListenError { place: address.to_string(), why: why(&error) }),
            }
        }
    }
    if let Some(missed) = missed.filter(|_| found.is_empty()) {
        return Err(missed);
    }
    Ok(found)
}

/// Whether this process may give its files to a group.
///
/// # Errors
/// There is none of this name, or the process is not a member of it.
pub fn probe_group(group: &str) -> io::Result<()> {
    let id = group_id(group)?;
    let own = rustix::process::getgroups()?.into_iter().chain([rustix::process::getegid()]);
    let is_own = own.into_iter().any(|own| own.as_raw() == id);
    let is_allowed = is_own || rustix::process::geteuid().is_root();
    if is_allowed { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

/// The system's words, and what to do where another process has the port.
fn why(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!("{error}: another process has the port (ss -ltnp shows which); stop it, or change listen_port")
        }
        _ => error.to_string(),
    }
}

/// The sockets that were opened for us.
fn passed(options: &Options) -> Result<Vec<Listener>, ListenError> {
    let number = |(index, fd): (usize, &Arc<OwnedFd>)| {
        take_over(fd, options)
            .map_err(|why| ListenError { place: format!("passed socket {index}"), why: why.to_string() })
    };
    options.passed.iter().enumerate().map(number).collect()
}

/// The sockets of the process whose place we take.
fn inherit(sockets: &[Arc<OwnedFd>], options: &Options) -> Result<Vec<Listener>, ListenError> {
    let named = |why: io::Error| ListenError { place: "inherited socket".to_owned(), why: why.to_string() };
    sockets.iter().map(|fd| take_over(fd, options).map_err(named)).collect()
}

/// Its file, if it has one, belongs to whoever has opened it.
fn take_over(fd: &OwnedFd, options: &Options) -> io::Result<Listener> {
    let fd = fd.try_clone()?;
    let socket = SockRef::from(&fd);
    socket.set_nonblocking(true)?;
    if !socket.is_listener()? {
        socket.listen(options.backlog)?;
    }
    let address = socket.local_addr()?;
    let place = match (address.as_socket(), address.as_pathname(), address.as_abstract_namespace()) {
        (Some(tcp), ..) => Listening::Tcp(tcp),
        (_, Some(path), _) => Listening::Unix(path.to_string_lossy().into_owned()),
        (.., Some(name)) => Listening::Unix(format!("@{}", String::from_utf8_lossy(name))),
        _ => return Err(io::Error::new(io::ErrorKind::Unsupported, "it has no address of TCP or Unix")),
    };
    if let Listening::Tcp(_) = place {
        tcp::set(&socket, &options.tcp)?;
    }
    Ok(Listener { fd, place, file: None, keeps_file: false })
}

fn is_unsupported(error: &io::Error) -> bool {
    [Errno::AFNOSUPPORT, Errno::ADDRNOTAVAIL].map(Errno::raw_os_error).contains(&error.raw_os_error().unwrap_or(0))
}

fn addresses(text: &str, port: u16) -> Result<Vec<SocketAddr>, ListenError> {
    if text == "*" {
        let any = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
        return Ok(any.map(|ip| SocketAddr::new(ip, port)).to_vec());
    }
    names::look_up(text.trim_start_matches('[').trim_end_matches(']'), port)
        .map_err(|error| ListenError { place: text.to_owned(), why: error.to_string() })
}

fn listen_tcp(address: SocketAddr, options: &Options) -> io::Result<Listener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM.nonblocking().cloexec(), None)?;
    // Otherwise connections of an earlier process in TIME_WAIT would prevent the bind.
    socket.set_reuse_address(true)?;
    if options.reuse_port {
        socket.set_reuse_port(true)?;
    }
    if address.is_ipv6() {
        // Otherwise `*` would conflict with its own IPv4 half.
        socket.set_only_v6(true)?;
    }
    tcp::set(&socket, &options.tcp)?;
    socket.bind(&address.into())?;
    socket.listen(options.backlog)?;
    let bound = socket.local_addr()?.as_socket().unwrap_or(address);
    Ok(Listener { fd: socket.into(), place: Listening::Tcp(bound), file: None, keeps_file: false })
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
        // This is done before `listen`: until then no client can connect, whatever the file's mode.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(options.mode))?;
        if let Some(group) = &options.group {
            std::os::unix::fs::chown(path, None, Some(group_id(group)?))?;
        }
    }
    socket.listen(backlog)?;
    Ok(Listener { fd: socket.into(), place: Listening::Unix(name), file, keeps_file: false })
}

/// Removes a socket file that no process listens on.
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

/// A group's number, from its name in /etc/group or as given.
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
    /// An inherited Unix socket, with its file. That stays the other process's until it has ended: if we end before it does, it goes on.
    fn with_file(mut self, options: &UnixOptions) -> Listener {
        if let Listening::Unix(name) = &self.place
            && !options.dir.starts_with('@')
        {
            self.file = Some(PathBuf::from(name));
            self.keeps_file = true;
        }
        self
    }

    fn port(&self) -> Option<u16> {
        match &self.place {
            Listening::Tcp(address) => Some(address.port()),
            Listening::Unix(_) => None,
        }
    }

    pub(crate) fn is_unix(&self) -> bool {
        matches!(self.place, Listening::Unix(_))
    }

    /// TCP clients that are accepted from now on get these options.
    ///
    /// # Errors
    /// The kernel's, for a value that it does not take.
    pub(crate) fn set_tcp(&self, options: &TcpOptions) -> io::Result<()> {
        match self.place {
            Listening::Tcp(_) => tcp::change(&SockRef::from(&self.fd), options),
            Listening::Unix(_) => Ok(()),
        }
    }

    /// Accepts the next client.
    pub(crate) fn accept(&self) -> Accepted {
        match acceptfrom_with(&self.fd, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Ok((fd, address)) => match self.peer(&fd, address) {
                Some(peer) => Accepted::Client(fd, peer),
                // The client is gone already.
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
        let credentials = rustix::net::sockopt::socket_peercred(fd).ok()?;
        Some(Peer::Unix { pid: credentials.pid.as_raw_nonzero().get().unsigned_abs(), uid: credentials.uid.as_raw() })
    }

    /// The local address that a client connected to. The kernel is asked only for listeners on all addresses.
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
        if let Some(path) = self.file.as_ref().filter(|_| !self.keeps_file) {
            // Fails if it is gone already.
            let _ = std::fs::remove_file(path);
        }
    }
}
