//! The sockets of one thread: each connection's descriptor, the wanted interest, and the interest registered in epoll.
//!
//! ```text
//!   epoll ──token──► entry: conn, descriptor, interest ◄──kind and slot── ConnId
//! ```
//!
//! A socket keeps its entry when its connection gets another id on the same thread, as a client does after login, so
//! that epoll need not change. Look-ups check the entry's generation or the whole id, so that an event for a connection
//! that is gone never reaches its entry's next one. A changed interest is registered before the next wait, not at once:
//! one that is changed back within the round costs nothing.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use units::{ConnId, Kind};

use crate::layer::Layer;
use crate::poll::{Interest, Poll, SocketId, Token};

/// A socket between two owners, on its way with a message.
#[derive(Debug)]
pub(crate) struct Parcel {
    pub(crate) fd: OwnedFd,
    /// If it is encrypted.
    pub(crate) layer: Option<Box<Layer>>,
    /// Its token and interest, if it is still in this thread's epoll.
    pub(crate) registered: Option<(SocketId, Interest)>,
    /// A second socket that comes with it, to be adopted after it.
    pub(crate) companion: Option<Box<Parcel>>,
}

impl Parcel {
    /// A socket that is in no epoll yet, and not encrypted.
    pub(crate) fn new(fd: OwnedFd) -> Parcel {
        Parcel { fd, layer: None, registered: None, companion: None }
    }

    /// A socket that leaves the thread leaves its epoll.
    pub(crate) fn unregistered(mut self, poll: &mut Poll) -> Parcel {
        if self.registered.take().is_some() {
            // Fails only for a descriptor that is not registered.
            let _ = poll.delete(&self.fd);
        }
        self
    }
}

struct Socket {
    /// Its token in epoll.
    id: SocketId,
    conn: ConnId,
    fd: Option<OwnedFd>,
    interest: Interest,
    /// The interest registered in epoll; `None`: not registered.
    in_epoll: Option<Interest>,
    phase: Phase,
    /// Its machine has a backlog for it, after which further bytes are sent.
    has_backlog: bool,
    /// If it is encrypted.
    layer: Option<Box<Layer>>,
}

/// The state of a connection that matters for sending.
pub(crate) struct Outlet<'a> {
    pub(crate) fd: BorrowedFd<'a>,
    pub(crate) phase: Phase,
    pub(crate) has_backlog: bool,
    pub(crate) is_encrypted: bool,
}

impl Outlet<'_> {
    /// Whether the socket may take bytes now.
    #[inline]
    pub(crate) fn takes(&self) -> bool {
        self.phase == Phase::Open && !self.has_backlog
    }

    /// Whether it will take bytes, now or later.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Connecting | Phase::Open)
    }
}

/// The phase of a connection.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Connecting,
    Open,
    /// Nothing can be sent any more. What can still be read is delivered first, then the hang-up.
    Deaf,
    /// The hang-up has been delivered, and the socket is not watched any more.
    Ended,
}

/// So many of the entries that became free last are searched for a socket's own one.
const SEARCHED_ENTRIES_MAX: usize = 8;

#[derive(Default)]
pub(crate) struct Connections {
    sockets: Vec<Socket>,
    /// Sockets without a descriptor.
    free: Vec<u32>,
    /// By kind and slot of the id: the number of the socket's entry.
    tables: [Vec<u32>; Kind::COUNT],
    /// Connections whose interest may differ from the registered one.
    changed: Vec<ConnId>,
}

impl Connections {
    #[inline]
    fn socket(&self, conn: ConnId) -> Option<&Socket> {
        let number = *self.tables[conn.kind() as usize].get(conn.slot())?;
        let socket = self.sockets.get(number as usize)?;
        (socket.conn == conn && socket.fd.is_some()).then_some(socket)
    }

    #[inline]
    fn socket_mut(&mut self, conn: ConnId) -> Option<&mut Socket> {
        let number = *self.tables[conn.kind() as usize].get(conn.slot())?;
        let socket = self.sockets.get_mut(number as usize)?;
        (socket.conn == conn && socket.fd.is_some()).then_some(socket)
    }

    /// The connection whose socket an event is about, its phase and its wanted interest.
    #[inline]
    pub(crate) fn occupied(&self, id: SocketId) -> Option<(ConnId, Phase, Interest)> {
        let socket = self.sockets.get(id.number())?;
        (socket.id == id && socket.fd.is_some()).then_some((socket.conn, socket.phase, socket.interest))
    }

    /// The client that an event is about, if it is still open.
    #[inline]
    pub(crate) fn client(&self, token: Token) -> Option<(SocketId, ConnId, Phase, Interest)> {
        let Token::Socket(socket) = token else { return None };
        if socket.serves() {
            return None;
        }
        self.occupied(socket).map(|(conn, phase, wanted)| (socket, conn, phase, wanted))
    }

    /// The socket that this id was made for, if the entry is still that socket's, and whether it is encrypted.
    #[inline]
    pub(crate) fn inlet(&self, id: SocketId) -> Option<(BorrowedFd<'_>, bool)> {
        let socket = self.sockets.get(id.number()).filter(|socket| socket.id == id)?;
        socket.fd.as_ref().map(|fd| (fd.as_fd(), socket.layer.is_some()))
    }

    /// An encrypted socket.
    pub(crate) fn encrypted(&mut self, conn: ConnId) -> Option<(BorrowedFd<'_>, &mut Layer)> {
        let socket = self.socket_mut(conn)?;
        Some((socket.fd.as_ref()?.as_fd(), socket.layer.as_deref_mut()?))
    }

    /// Encrypts what goes over it from now on.
    pub(crate) fn set_layer(&mut self, conn: ConnId, layer: Layer) {
        if let Some(socket) = self.socket_mut(conn) {
            socket.layer = Some(Box::new(layer));
        }
    }

    /// After something was sent over an encrypted socket: watches it for as long as it has records that were not taken.
    pub(crate) fn watch_unsent(&mut self, conn: ConnId) {
        if self.encrypted(conn).is_some_and(|(_, layer)| layer.has_unsent()) {
            self.set_has_backlog(conn, true);
            self.set_interest(conn, Interest { write: true, ..self.wanted(conn) });
        }
    }

    /// The socket, if the connection is still open.
    pub(crate) fn fd(&self, conn: ConnId) -> Option<BorrowedFd<'_>> {
        self.socket(conn)?.fd.as_ref().map(AsFd::as_fd)
    }

    pub(crate) fn phase(&self, conn: ConnId) -> Option<Phase> {
        self.socket(conn).map(|socket| socket.phase)
    }

    pub(crate) fn set_phase(&mut self, conn: ConnId, phase: Phase) {
        if let Some(socket) = self.socket_mut(conn) {
            socket.phase = phase;
        }
    }

    #[inline]
    pub(crate) fn outlet(&self, conn: ConnId) -> Option<Outlet<'_>> {
        let socket = self.socket(conn)?;
        let Socket { phase, has_backlog, ref layer, .. } = *socket;
        Some(Outlet { fd: socket.fd.as_ref()?.as_fd(), phase, has_backlog, is_encrypted: layer.is_some() })
    }

    /// A connection's phase and wanted interest.
    #[inline]
    pub(crate) fn outlook(&self, conn: ConnId) -> Option<(Phase, Interest)> {
        self.socket(conn).map(|socket| (socket.phase, socket.interest))
    }

    pub(crate) fn set_has_backlog(&mut self, conn: ConnId, has_backlog: bool) {
        if let Some(socket) = self.socket_mut(conn) {
            socket.has_backlog = has_backlog;
        }
    }

    pub(crate) fn wanted(&self, conn: ConnId) -> Interest {
        self.socket(conn).map_or(Interest::NONE, |socket| socket.interest)
    }

    /// Takes a socket in under an id.
    ///
    /// # Errors
    /// The kernel's, if it could not be registered; the socket is closed then.
    pub(crate) fn insert(
        &mut self,
        poll: &mut Poll,
        conn: ConnId,
        parcel: Parcel,
        phase: Phase,
        wanted: Interest,
    ) -> io::Result<()> {
        let Parcel { fd, layer, registered, companion: _ } = parcel;
        let has_unsent = layer.as_ref().is_some_and(|layer| layer.has_unsent());
        let wanted = Interest { write: wanted.write || has_unsent, ..wanted };
        let serves = matches!(conn.kind(), Kind::Server | Kind::Cancel | Kind::Lookup | Kind::Peer);
        let same = |(id, in_epoll): &(SocketId, Interest)| *in_epoll == wanted && id.serves() == serves;
        let id = match registered.filter(same).and_then(|(id, _)| self.take_entry_again(id)) {
            Some(id) => id,
            None => {
                let id = self.take_entry(serves);
                let outcome = match registered {
                    Some(_) => poll.modify(&fd, Token::Socket(id), wanted),
                    None => poll.add(&fd, Token::Socket(id), wanted),
                };
                if let Err(error) = outcome {
                    self.free.push(id.number() as u32);
                    return Err(error);
                }
                id
            }
        };
        let table = &mut self.tables[conn.kind() as usize];
        if table.len() <= conn.slot() {
            table.resize(conn.slot() + 1, u32::MAX);
        }
        table[conn.slot()] = id.number() as u32;
        let socket = &mut self.sockets[id.number()];
        debug_assert!(socket.fd.is_none(), "an entry is left before it is taken again");
        let (fd, in_epoll, has_backlog) = (Some(fd), Some(wanted), has_unsent);
        *socket = Socket { id, conn, fd, interest: wanted, in_epoll, phase, has_backlog, layer };
        Ok(())
    }

    /// A free entry, with a token that differs from that of its last socket.
    fn take_entry(&mut self, serves: bool) -> SocketId {
        if let Some(number) = self.free.pop() {
            return self.sockets[number as usize].id.next(serves);
        }
        let id = SocketId::first(self.sockets.len(), serves);
        let nobody = ConnId::from_bits(u64::MAX);
        let (wanted, phase) = (Interest::NONE, Phase::Ended);
        self.sockets.push(Socket {
            id,
            conn: nobody,
            fd: None,
            interest: wanted,
            in_epoll: None,
            phase,
            has_backlog: false,
            layer: None,
        });
        id
    }

    /// The entry that a socket had a moment ago, if it is still free.
    fn take_entry_again(&mut self, id: SocketId) -> Option<SocketId> {
        if self.sockets.get(id.number())?.id != id {
            return None;
        }
        let from = self.free.len().saturating_sub(SEARCHED_ENTRIES_MAX);
        let place = self.free[from..].iter().position(|&number| number as usize == id.number())?;
        self.free.swap_remove(from + place);
        Some(id)
    }

    /// Takes a socket out, to close it or to give it to another owner.
    pub(crate) fn remove(&mut self, conn: ConnId) -> Option<Parcel> {
        let socket = self.socket_mut(conn)?;
        let registered = socket.in_epoll.map(|in_epoll| (socket.id, in_epoll));
        let parcel = Parcel { fd: socket.fd.take()?, layer: socket.layer.take(), registered, companion: None };
        let number = socket.id.number() as u32;
        self.free.push(number);
        Some(parcel)
    }

    /// Sets the interest.
    pub(crate) fn set_interest(&mut self, conn: ConnId, wanted: Interest) {
        let Some(socket) = self.socket_mut(conn) else { return };
        let has_unsent = socket.layer.as_ref().is_some_and(|layer| layer.has_unsent());
        let wanted = Interest { write: wanted.write || has_unsent, ..wanted };
        // A connection that is being opened is not read yet, and one that has ended has nothing more to report.
        if socket.interest == wanted || matches!(socket.phase, Phase::Connecting | Phase::Ended) {
            return;
        }
        socket.interest = wanted;
        self.changed.push(conn);
    }

    /// Registers the interests that have changed since the last wait.
    #[inline]
    pub(crate) fn register_interests(&mut self, poll: &mut Poll) {
        if !self.changed.is_empty() {
            self.register_changed(poll);
        }
    }

    fn register_changed(&mut self, poll: &mut Poll) {
        let mut changed = std::mem::take(&mut self.changed);
        for conn in changed.drain(..) {
            let Some(socket) = self.socket_mut(conn) else { continue };
            let Some(fd) = &socket.fd else { continue };
            let result = match socket.in_epoll {
                Some(in_epoll) if in_epoll == socket.interest => continue,
                Some(_) => poll.modify(fd, Token::Socket(socket.id), socket.interest),
                None if socket.phase == Phase::Ended => continue,
                None => poll.add(fd, Token::Socket(socket.id), socket.interest),
            };
            // Both fail only if the kernel has no memory; the connection then stays silent until its deadline ends it.
            socket.in_epoll = result.is_ok().then_some(socket.interest);
        }
        self.changed = changed;
    }

    /// Stops watching a connection until its interest changes. Otherwise a level-triggered hang-up would be reported
    /// for ever.
    pub(crate) fn ignore(&mut self, poll: &mut Poll, conn: ConnId) {
        let Some(socket) = self.socket_mut(conn) else { return };
        let Some(fd) = &socket.fd else { return };
        if socket.in_epoll.take().is_some() {
            // Fails only for a descriptor that is not registered.
            let _ = poll.delete(fd);
        }
    }

    /// Closes everything of one kind.
    pub(crate) fn close_all(&mut self, kind: Kind) {
        for number in 0..self.sockets.len() {
            let conn = self.sockets[number].conn;
            if conn.kind() == kind {
                drop(self.remove(conn));
            }
        }
    }
}
