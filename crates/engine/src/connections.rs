//! The sockets of one thread: which descriptor a connection has, what is wanted of it, what the kernel was told.
//!
//! ```text
//!   epoll ──token──► entry: conn, descriptor, interest ◄──kind and slot── ConnId
//! ```
//!
//! A socket keeps its entry while its connection gets another name on the same thread, as a client does that has logged in:
//! the kernel is not involved. Both ways are checked, against the entry's generation and the whole id, so that an event
//! for a connection that is gone never hits the next tenant. A changed interest is told to the kernel before the next wait,
//! not at once: one that is changed back within the round costs nothing.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use units::{ConnId, Kind};

use crate::poll::{Interest, Poll, SocketId, Token};

/// A socket between two owners, on its way with a message.
#[derive(Debug)]
pub(crate) struct Parcel {
    pub(crate) fd: OwnedFd,
    /// It is still in this thread's epoll: by which token, and with what interest.
    pub(crate) registered: Option<(SocketId, Interest)>,
}

struct Socket {
    /// As epoll knows it.
    id: SocketId,
    conn: ConnId,
    fd: Option<OwnedFd>,
    interest: Interest,
    /// As the kernel knows it; `None`: not registered.
    in_epoll: Option<Interest>,
    phase: Phase,
    /// Its machine has a backlog for it: what is sent goes behind that.
    behind: bool,
}

/// What is to be known of a connection before anything is sent.
pub(crate) struct Outlet<'a> {
    pub(crate) fd: BorrowedFd<'a>,
    pub(crate) phase: Phase,
    pub(crate) behind: bool,
}

/// How far a connection is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Connecting,
    Open,
    /// Nothing can be sent any more; what is still to be read comes first, then the hang-up.
    Deaf,
    /// The hang-up has been told, nothing is watched any more.
    Ended,
}

/// How many of the entries that were left last are searched for a socket's own.
const LEFT_LAST: usize = 8;

#[derive(Default)]
pub(crate) struct Connections {
    sockets: Vec<Socket>,
    /// Sockets without a descriptor.
    free: Vec<u32>,
    /// By kind and slot: the number of the socket's entry.
    tables: [Vec<u32>; 4],
    /// Those whose interest may differ from what the kernel was told.
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

    /// Who sits where an event came from, how far it is, and what is wanted of it.
    #[inline]
    pub(crate) fn occupied(&self, id: SocketId) -> Option<(ConnId, Phase, Interest)> {
        let socket = self.sockets.get(id.number())?;
        (socket.id == id && socket.fd.is_some()).then_some((socket.conn, socket.phase, socket.interest))
    }

    /// The socket that this id was made for, if the entry is still that socket's.
    #[inline]
    pub(crate) fn fd_at(&self, id: SocketId) -> Option<BorrowedFd<'_>> {
        let socket = self.sockets.get(id.number()).filter(|socket| socket.id == id)?;
        socket.fd.as_ref().map(AsFd::as_fd)
    }

    /// The socket, if the connection still stands.
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
        Some(Outlet { fd: socket.fd.as_ref()?.as_fd(), phase: socket.phase, behind: socket.behind })
    }

    /// How far a connection is, and what is wanted of it.
    #[inline]
    pub(crate) fn outlook(&self, conn: ConnId) -> Option<(Phase, Interest)> {
        self.socket(conn).map(|socket| (socket.phase, socket.interest))
    }

    pub(crate) fn set_behind(&mut self, conn: ConnId, behind: bool) {
        if let Some(socket) = self.socket_mut(conn) {
            socket.behind = behind;
        }
    }

    pub(crate) fn wanted(&self, conn: ConnId) -> Interest {
        self.socket(conn).map_or(Interest::NONE, |socket| socket.interest)
    }

    /// Takes a socket in under a name.
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
        let Parcel { fd, registered } = parcel;
        let serves = matches!(conn.kind(), Kind::Server | Kind::Cancel);
        let same = |(id, in_epoll): &(SocketId, Interest)| *in_epoll == wanted && id.serves() == serves;
        let id = match registered.filter(same).and_then(|(id, _)| self.sit_again(id)) {
            Some(id) => id,
            None => {
                let id = self.sit(serves);
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
        debug_assert!(socket.fd.is_none(), "a seat is left before it is taken again");
        *socket = Socket { id, conn, fd: Some(fd), interest: wanted, in_epoll: Some(wanted), phase, behind: false };
        Ok(())
    }

    /// A free entry, under a token that no event of its last socket bears.
    fn sit(&mut self, serves: bool) -> SocketId {
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
            behind: false,
        });
        id
    }

    /// The entry that a socket left a moment ago, if no other has taken it.
    fn sit_again(&mut self, id: SocketId) -> Option<SocketId> {
        if self.sockets.get(id.number())?.id != id {
            return None;
        }
        let from = self.free.len().saturating_sub(LEFT_LAST);
        let place = self.free[from..].iter().position(|&number| number as usize == id.number())?;
        self.free.swap_remove(from + place);
        Some(id)
    }

    /// Takes a socket out, for closing or for its way to another owner; its interest is forgotten.
    pub(crate) fn remove(&mut self, conn: ConnId) -> Option<Parcel> {
        let socket = self.socket_mut(conn)?;
        let registered = socket.in_epoll.map(|in_epoll| (socket.id, in_epoll));
        let parcel = Parcel { fd: socket.fd.take()?, registered };
        let number = socket.id.number() as u32;
        self.free.push(number);
        Some(parcel)
    }

    /// From now on, report this.
    pub(crate) fn set_interest(&mut self, conn: ConnId, wanted: Interest) {
        let Some(socket) = self.socket_mut(conn) else { return };
        // A connection that is being opened has no reader yet, one that has ended has nothing more to report.
        if socket.interest == wanted || matches!(socket.phase, Phase::Connecting | Phase::Ended) {
            return;
        }
        socket.interest = wanted;
        self.changed.push(conn);
    }

    /// Tells the kernel what has changed since the last wait.
    pub(crate) fn settle(&mut self, poll: &mut Poll) {
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
            // Both fail only for want of kernel memory; the connection then stays silent until its deadline ends it.
            socket.in_epoll = result.is_ok().then_some(socket.interest);
        }
        self.changed = changed;
    }

    /// No longer watches a connection, until its interest changes: a level-triggered hang-up would be reported for ever.
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
