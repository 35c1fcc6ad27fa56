//! Bytes in and out: receiving, sending, and how a connection's end is noticed.
//!
//! Promises: one `recv` for a connection that is ready, one a round: a short read means that it is drained, and what is
//! left of a full one is reported again, so that nobody reads at everybody's cost. Nothing that a peer sent before it
//! closed is lost: its end is told when its bytes have been read, also when it was noticed by sending.

use std::io::IoSlice;

use machine::{Action, Actions, Event, Hangup, Piece};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, send, sendmsg};
use units::ConnId;

use crate::carry::GATHER_MAX;
use crate::connect::outcome;
use crate::connections::Phase;
use crate::host::{Aftermath, Host};
use crate::poll::{Interest, SocketId};

const SEND: SendFlags = SendFlags::NOSIGNAL.union(SendFlags::DONTWAIT);

impl Host {
    /// Reads once and tells what came.
    #[inline]
    pub(crate) fn receive(&mut self, socket: SocketId, conn: ConnId) {
        let (Some(fd), Some(who)) = (self.connections.fd_at(socket), self.resident_of(conn)) else { return };
        // Taken out so that the machine may be told of its bytes; a panic loses it, and `recover` makes another.
        let mut buffer = std::mem::take(&mut self.buffer);
        self.counters.recvs += 1;
        match recv(fd, &mut buffer[..], RecvFlags::DONTWAIT) {
            Ok((0, _)) => self.hang_up(conn, Hangup::Closed),
            Ok((count, _)) => self.tell_received(who, conn, &buffer[..count]),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.hang_up(conn, Hangup::Broken),
        }
        self.buffer = buffer;
    }

    /// Tells that a connection has ended, once; from then on it is not watched.
    pub(crate) fn hang_up(&mut self, conn: ConnId, why: Hangup) {
        let Some(who) = self.resident_of(conn) else { return };
        let why = if self.connections.phase(conn) == Some(Phase::Deaf) { Hangup::Broken } else { why };
        self.connections.set_phase(conn, Phase::Ended);
        self.tell(who, Event::Hangup { conn, why });
        // Mostly it was closed, and this costs nothing.
        self.connections.ignore(&mut self.poll, conn);
    }

    /// The peer is gone while nobody reads: what it sent before is still to be read, so its end is told at once only if
    /// there is nothing. Otherwise it is watched again when reading goes on.
    pub(crate) fn hang_up_unread(&mut self, conn: ConnId) {
        let Some(fd) = self.connections.fd(conn) else { return };
        match rustix::io::ioctl_fionread(fd) {
            Ok(count) if count > 0 => self.connections.ignore(&mut self.poll, conn),
            Ok(_) | Err(_) => self.hang_up(conn, Hangup::Closed),
        }
    }

    /// A connect has come to its end, good or bad.
    pub(crate) fn connected(&mut self, conn: ConnId) {
        let Some(fd) = self.connections.fd(conn) else { return };
        let error = outcome(fd);
        match self.dialer.verdict(conn, error) {
            None => {
                self.connections.set_phase(conn, Phase::Open);
                self.connections.set_interest(conn, Interest::READ);
                self.aftermath.push_back(Aftermath::Opened(conn));
            }
            Some(next) => {
                drop(self.connections.remove(conn));
                self.dial(conn, next);
            }
        }
        self.tell_aftermath_to_owner(conn);
    }

    /// Sends what the socket did not take before.
    pub(crate) fn drain(&mut self, conn: ConnId) {
        let (Some(fd), Some(who)) = (self.connections.fd(conn), self.resident_of(conn)) else { return };
        let backlog = self.residents[who].machine().backlog(conn);
        if backlog.is_empty() {
            self.connections.set_behind(conn, false);
            // Nothing to send: reported again and again it would keep the thread from sleeping.
            let read = self.connections.wanted(conn).read;
            self.connections.set_interest(conn, Interest { read, write: false });
            return;
        }
        self.counters.sends += 1;
        match send(fd, backlog, SEND) {
            Ok(count) => {
                let behind = count < backlog.len();
                self.connections.set_behind(conn, behind);
                self.tell(who, Event::Drained { conn, count });
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => {
                self.deafen(conn);
                self.tell_aftermath_to_owner(conn);
            }
        }
    }

    /// Carries out neighbouring sends to one connection; what the socket does not take goes to the machine's backlog.
    pub(crate) fn send(&mut self, who: usize, conn: ConnId, sends: &[Action], chunk: &[u8]) {
        let Some(outlet) = self.connections.outlet(conn) else { return };
        let (machine, actions) = self.residents.stepping(who);
        let mut sent = 0;
        match outlet.phase {
            Phase::Deaf | Phase::Ended => return,
            Phase::Connecting => {}
            Phase::Open if outlet.behind => {}
            Phase::Open => {
                self.counters.sends += 1;
                match send_pieces(outlet.fd, sends, actions, chunk) {
                    Ok(count) => sent = count,
                    Err(Errno::AGAIN | Errno::INTR) => {}
                    Err(_) => return self.deafen(conn),
                }
            }
        }
        let mut blocked = false;
        for piece in pieces(sends) {
            let len = piece.len as usize;
            if sent < len {
                machine.keep(conn, &actions.bytes(piece, chunk)[sent..]);
                blocked = true;
            }
            sent -= sent.min(len);
        }
        if blocked {
            self.note_blocked(conn);
        }
    }

    #[cold]
    fn note_blocked(&mut self, conn: ConnId) {
        self.connections.set_behind(conn, true);
        let known = self.aftermath.iter().any(|next| matches!(next, Aftermath::Blocked(other) if *other == conn));
        if !known {
            self.aftermath.push_back(Aftermath::Blocked(conn));
        }
    }

    /// The peer takes nothing any more. While it is read from, its last words come first and reading meets the end;
    /// otherwise the end is told as soon as the list of actions is done.
    fn deafen(&mut self, conn: ConnId) {
        self.connections.set_phase(conn, Phase::Deaf);
        if !self.connections.wanted(conn).read {
            self.aftermath.push_back(Aftermath::Broken(conn));
        }
    }
}

fn pieces(sends: &[Action]) -> impl Iterator<Item = Piece> {
    sends.iter().filter_map(|action| match action {
        Action::Send { piece, .. } => Some(*piece),
        _ => None,
    })
}

/// One system call for all pieces.
fn send_pieces(
    fd: impl std::os::fd::AsFd,
    sends: &[Action],
    actions: &Actions,
    chunk: &[u8],
) -> rustix::io::Result<usize> {
    if let [Action::Send { piece, .. }] = sends {
        return send(fd, actions.bytes(*piece, chunk), SEND);
    }
    let mut slices = [IoSlice::new(&[]); GATHER_MAX];
    let mut count = 0;
    for (slice, piece) in slices.iter_mut().zip(pieces(sends)) {
        *slice = IoSlice::new(actions.bytes(piece, chunk));
        count += 1;
    }
    sendmsg(fd, &slices[..count], &mut SendAncillaryBuffer::default(), SEND)
}
