//! Bytes in and out: receiving, sending, and noticing the end of a connection.
//!
//! One `recv` in a round for each connection that is ready. A short read means that it is drained; after a full one the
//! rest is reported again in the next round, so that no connection delays the others. Nothing that a peer sent before
//! it closed is lost: its end is delivered after its bytes, even if a failed send showed it first.

use std::io::IoSlice;

use machine::{Action, Actions, Event, Hangup, Piece};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, send, sendmsg};
use units::{ConnId, Kind, limits};

use crate::carry::GATHER_MAX;
use crate::connect::outcome;
use crate::connections::Phase;
use crate::host::{Aftermath, Host};
use crate::layer::Incoming;
use crate::poll::{Interest, SocketId};

const SEND: SendFlags = SendFlags::NOSIGNAL.union(SendFlags::DONTWAIT);

impl Host {
    /// Reads once and delivers the bytes.
    #[inline]
    pub(crate) fn receive(&mut self, socket: SocketId, conn: ConnId) {
        let (Some((fd, is_encrypted)), Some(resident)) =
            (self.connections.inlet(socket), self.residents.owner_of(conn))
        else {
            return;
        };
        // Taken out so that the machine can be stepped with its bytes. A panic loses it, and `recover` makes another.
        let mut buffer = std::mem::take(&mut self.buffer);
        self.counters.recvs += 1;
        let most = if conn.kind() == Kind::Login { limits::LOGIN_CHUNK_LEN_MAX } else { buffer.len() };
        match recv(fd, &mut buffer[..most], RecvFlags::DONTWAIT) {
            // The end of an encrypted connection is announced inside it; without that it was cut off.
            Ok((0, _)) => self.hang_up(conn, if is_encrypted { Hangup::Broken } else { Hangup::Closed }),
            Ok((count, _)) if is_encrypted => self.receive_encrypted(resident, conn, &mut buffer[..count]),
            Ok((count, _)) => self.deliver_received(resident, conn, &buffer[..count]),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.hang_up(conn, Hangup::Broken),
        }
        self.buffer = buffer;
    }

    /// Delivers what encrypted bytes say.
    #[inline(never)]
    fn receive_encrypted(&mut self, resident: usize, conn: ConnId, bytes: &mut [u8]) {
        let Some((fd, layer)) = self.connections.encrypted(conn) else { return };
        let Incoming { secured, ended, is_deaf } = layer.receive(fd, bytes, &mut self.encryption);
        let weight = layer.news_of_weight().filter(|_| conn.kind() == Kind::Login);
        let plain = std::mem::take(&mut self.encryption.plain);
        self.connections.watch_unsent(conn);
        if is_deaf {
            self.deafen(conn);
        }
        // Each step may close it, or give it away.
        let stands = |host: &Host| matches!(host.connections.phase(conn), Some(Phase::Open | Phase::Deaf));
        if let Some(bytes) = weight {
            self.deliver_event(resident, Event::Weighed { conn, bytes });
        }
        if let Some(outcome) = secured.filter(|_| stands(self)) {
            self.deliver_event(resident, Event::Secured { conn, outcome });
        }
        if !plain.is_empty() && stands(self) {
            self.deliver_received(resident, conn, &plain);
        }
        self.encryption.plain = plain;
        if let Some(why) = ended.filter(|_| stands(self)) {
            self.hang_up(conn, why);
        }
    }

    /// Delivers the end of a connection, once. From then on it is not watched.
    pub(crate) fn hang_up(&mut self, conn: ConnId, why: Hangup) {
        let Some(resident) = self.residents.owner_of(conn) else { return };
        let why = if self.connections.phase(conn) == Some(Phase::Deaf) { Hangup::Broken } else { why };
        self.connections.set_phase(conn, Phase::Ended);
        self.deliver_event(resident, Event::Hangup { conn, why });
        // Usually it was closed by that, and this costs nothing.
        self.connections.ignore(&mut self.poll, conn);
    }

    /// The peer is gone while the connection is not read. If there are unread bytes, they come first: the connection is
    /// watched again when reading goes on. Otherwise the end is delivered at once.
    pub(crate) fn hang_up_unread(&mut self, conn: ConnId) {
        let Some(fd) = self.connections.fd(conn) else { return };
        match rustix::io::ioctl_fionread(fd) {
            Ok(count) if count > 0 => self.connections.ignore(&mut self.poll, conn),
            Ok(_) | Err(_) => self.hang_up(conn, Hangup::Closed),
        }
    }

    /// A connect has succeeded or failed.
    pub(crate) fn connected(&mut self, conn: ConnId) {
        let Some(fd) = self.connections.fd(conn) else { return };
        let error = outcome(fd);
        match self.dialer.verdict(conn, error, self.now) {
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
        self.deliver_aftermath_to_owner(conn);
    }

    /// Sends what the socket did not take before.
    pub(crate) fn drain(&mut self, conn: ConnId) {
        let Some(resident) = self.residents.owner_of(conn) else { return };
        let backlog = self.residents[resident].machine().backlog(conn);
        let outcome = match self.connections.encrypted(conn) {
            Some((fd, layer)) => layer.drain(fd, backlog, &mut self.encryption),
            None if backlog.is_empty() => Ok(0),
            None => {
                let Some(fd) = self.connections.fd(conn) else { return };
                self.counters.sends += 1;
                send(fd, backlog, SEND)
            }
        };
        let has_unsent = self.connections.encrypted(conn).is_some_and(|(_, layer)| layer.has_unsent());
        if backlog.is_empty() && !has_unsent {
            self.connections.set_has_backlog(conn, false);
            // There is nothing to send. If it were still watched, it would be reported again and again, and the thread
            // could not sleep.
            let read = self.connections.wanted(conn).read;
            self.connections.set_interest(conn, Interest { read, write: false });
            return;
        }
        match outcome {
            Ok(0) if has_unsent => {}
            Ok(count) => {
                let has_backlog = count < backlog.len() || has_unsent;
                self.connections.set_has_backlog(conn, has_backlog);
                self.deliver_event(resident, Event::Drained { conn, count });
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => {
                self.deafen(conn);
                self.deliver_aftermath_to_owner(conn);
            }
        }
    }

    /// Carries out a send that has no other beside it.
    #[inline]
    pub(crate) fn send_one(&mut self, resident: usize, conn: ConnId, piece: Piece, chunk: &[u8]) {
        let Some(outlet) = self.connections.outlet(conn) else { return };
        if !outlet.takes() || outlet.is_encrypted {
            return self.send(resident, conn, &[Action::Send { conn, piece }], chunk);
        }
        self.counters.sends += 1;
        let outcome = send(outlet.fd, self.residents[resident].actions.bytes(piece, chunk), SEND);
        if outcome != Ok(piece.len as usize) {
            self.keep_unsent(resident, conn, &[Action::Send { conn, piece }], chunk, outcome);
        }
    }

    /// Carries out consecutive sends to one connection. What the socket does not take goes to the machine's backlog.
    #[inline]
    pub(crate) fn send(&mut self, resident: usize, conn: ConnId, sends: &[Action], chunk: &[u8]) {
        let Some(outlet) = self.connections.outlet(conn) else { return };
        let mut outcome = Ok(0);
        if outlet.takes() {
            let is_encrypted = outlet.is_encrypted;
            let (_, actions) = self.residents.stepping(resident);
            if is_encrypted {
                let gathered = &mut self.encryption.gathered;
                gathered.clear();
                pieces(sends).for_each(|piece| gathered.extend_from_slice(actions.bytes(piece, chunk)));
                if let Some((fd, layer)) = self.connections.encrypted(conn) {
                    outcome = layer.send(fd, &mut self.encryption);
                    self.connections.watch_unsent(conn);
                }
                if outcome == Ok(self.encryption.gathered.len()) {
                    return;
                }
                return self.keep_unsent(resident, conn, sends, chunk, outcome);
            }
            self.counters.sends += 1;
            outcome = match *sends {
                [Action::Send { piece, .. }] => match send(outlet.fd, actions.bytes(piece, chunk), SEND) {
                    Ok(count) if count == piece.len as usize => return,
                    outcome => outcome,
                },
                _ => send_pieces(outlet.fd, sends, actions, chunk),
            };
        }
        if outlet.is_open() {
            self.keep_unsent(resident, conn, sends, chunk, outcome);
        }
    }

    /// What the socket has not taken of these goes to the machine's backlog.
    fn keep_unsent(
        &mut self,
        resident: usize,
        conn: ConnId,
        sends: &[Action],
        chunk: &[u8],
        outcome: rustix::io::Result<usize>,
    ) {
        let mut sent = match outcome {
            Ok(count) => count,
            Err(Errno::AGAIN | Errno::INTR) => 0,
            Err(_) => return self.deafen(conn),
        };
        let (machine, actions) = self.residents.stepping(resident);
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
            self.connections.set_has_backlog(conn, true);
            let known = self.aftermath.iter().any(|next| matches!(next, Aftermath::Blocked(other) if *other == conn));
            if !known {
                self.aftermath.push_back(Aftermath::Blocked(conn));
            }
        }
    }

    /// The peer takes nothing any more. If the connection is read, its last bytes come first, and reading finds the
    /// end. Otherwise the end is delivered after the actions of this step.
    pub(crate) fn deafen(&mut self, conn: ConnId) {
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

/// Sends all pieces with one system call.
fn send_pieces(
    fd: impl std::os::fd::AsFd,
    sends: &[Action],
    actions: &Actions,
    chunk: &[u8],
) -> rustix::io::Result<usize> {
    let mut slices = [IoSlice::new(&[]); GATHER_MAX];
    let mut count = 0;
    for (slice, piece) in slices.iter_mut().zip(pieces(sends)) {
        *slice = IoSlice::new(actions.bytes(piece, chunk));
        count += 1;
    }
    sendmsg(fd, &slices[..count], &mut SendAncillaryBuffer::default(), SEND)
}
