//! The sockets of one thread: which descriptor a connection has, what is wanted of it, what the kernel was told.
//!
//! Tables by kind and slot, checked against the whole id, so that an event for a connection that is gone never hits the
//! slot's next tenant. A changed interest is told to the kernel before the next wait, not at once: one that is changed
//! back within the round costs nothing.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use pooling::{ConnId, Kind};

use crate::poll::{Interest, Poll, Token};

/// A socket between two owners, on its way with a message.
#[derive(Debug)]
pub(crate) struct Parcel {
    pub(crate) fd: OwnedFd,
    /// It is still in this thread's epoll, under its old name.
    pub(crate) registered: bool,
}

struct Slot {
    conn: ConnId,
    fd: Option<OwnedFd>,
    wanted: Interest,
    /// As the kernel knows it; `None`: not registered.
    told: Option<Interest>,
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

impl Slot {
    fn empty() -> Slot {
        let nobody = ConnId::from_bits(u64::MAX);
        Slot { conn: nobody, fd: None, wanted: Interest::NONE, told: None, phase: Phase::Ended, behind: false }
    }
}

#[derive(Default)]
pub(crate) struct Connections {
    tables: [Vec<Slot>; 4],
    /// Those whose interest may differ from what the kernel was told.
    changed: Vec<ConnId>,
}

impl Connections {
    fn slot(&self, conn: ConnId) -> Option<&Slot> {
        let slot = self.tables[conn.kind() as usize].get(conn.slot())?;
        (slot.conn == conn && slot.fd.is_some()).then_some(slot)
    }

    fn slot_mut(&mut self, conn: ConnId) -> Option<&mut Slot> {
        let slot = self.tables[conn.kind() as usize].get_mut(conn.slot())?;
        (slot.conn == conn && slot.fd.is_some()).then_some(slot)
    }

    /// The socket, if the connection still stands.
    pub(crate) fn fd(&self, conn: ConnId) -> Option<BorrowedFd<'_>> {
        self.slot(conn)?.fd.as_ref().map(AsFd::as_fd)
    }

    pub(crate) fn phase(&self, conn: ConnId) -> Option<Phase> {
        self.slot(conn).map(|slot| slot.phase)
    }

    pub(crate) fn set_phase(&mut self, conn: ConnId, phase: Phase) {
        if let Some(slot) = self.slot_mut(conn) {
            slot.phase = phase;
        }
    }

    #[inline]
    pub(crate) fn outlet(&self, conn: ConnId) -> Option<Outlet<'_>> {
        let slot = self.slot(conn)?;
        Some(Outlet { fd: slot.fd.as_ref()?.as_fd(), phase: slot.phase, behind: slot.behind })
    }

    /// How far a connection is, and what is wanted of it.
    #[inline]
    pub(crate) fn outlook(&self, conn: ConnId) -> Option<(Phase, Interest)> {
        self.slot(conn).map(|slot| (slot.phase, slot.wanted))
    }

    pub(crate) fn set_behind(&mut self, conn: ConnId, behind: bool) {
        if let Some(slot) = self.slot_mut(conn) {
            slot.behind = behind;
        }
    }

    pub(crate) fn wanted(&self, conn: ConnId) -> Interest {
        self.slot(conn).map_or(Interest::NONE, |slot| slot.wanted)
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
        if parcel.registered {
            poll.modify(&parcel.fd, Token::Conn(conn), wanted)?;
        } else {
            poll.add(&parcel.fd, Token::Conn(conn), wanted)?;
        }
        let table = &mut self.tables[conn.kind() as usize];
        while table.len() <= conn.slot() {
            table.push(Slot::empty());
        }
        let slot = &mut table[conn.slot()];
        debug_assert!(slot.fd.is_none(), "a slot is closed before it is used again");
        *slot = Slot { conn, fd: Some(parcel.fd), wanted, told: Some(wanted), phase, behind: false };
        Ok(())
    }

    /// Takes a socket out, for closing or for its way to another owner; its interest is forgotten.
    pub(crate) fn remove(&mut self, conn: ConnId) -> Option<Parcel> {
        let slot = self.slot_mut(conn)?;
        let parcel = Parcel { fd: slot.fd.take()?, registered: slot.told.is_some() };
        *slot = Slot::empty();
        Some(parcel)
    }

    /// From now on, report this.
    pub(crate) fn want(&mut self, conn: ConnId, wanted: Interest) {
        let Some(slot) = self.slot_mut(conn) else { return };
        // A connection that is being opened has no reader yet, one that has ended has nothing more to report.
        if slot.wanted == wanted || matches!(slot.phase, Phase::Connecting | Phase::Ended) {
            return;
        }
        slot.wanted = wanted;
        self.changed.push(conn);
    }

    /// Tells the kernel what has changed since the last wait.
    pub(crate) fn settle(&mut self, poll: &mut Poll) {
        let mut changed = std::mem::take(&mut self.changed);
        for conn in changed.drain(..) {
            let Some(slot) = self.slot_mut(conn) else { continue };
            let Some(fd) = &slot.fd else { continue };
            let result = match slot.told {
                Some(told) if told == slot.wanted => continue,
                Some(_) => poll.modify(fd, Token::Conn(conn), slot.wanted),
                None if slot.phase == Phase::Ended => continue,
                None => poll.add(fd, Token::Conn(conn), slot.wanted),
            };
            // Both fail only for want of kernel memory; the connection then stays silent until its deadline ends it.
            slot.told = result.is_ok().then_some(slot.wanted);
        }
        self.changed = changed;
    }

    /// No longer watches a connection, until its interest changes: a level-triggered hang-up would be reported for ever.
    pub(crate) fn ignore(&mut self, poll: &mut Poll, conn: ConnId) {
        let Some(slot) = self.slot_mut(conn) else { return };
        let Some(fd) = &slot.fd else { return };
        if slot.told.take().is_some() {
            // Fails only for a descriptor that is not registered.
            let _ = poll.delete(fd);
        }
    }

    /// Closes everything of one kind.
    pub(crate) fn close_all(&mut self, kind: Kind) {
        for slot in &mut self.tables[kind as usize] {
            *slot = Slot::empty();
        }
    }
}
