//! What the two processes send each other: a head of eight bytes, with which sockets come, and a body.
//!
//! ```text
//!   ┌───────────────┬────────────────────┬──────────────────────┐
//!   │ length, u32   │ count of sockets   │ a Frame, MessagePack │
//!   └───────────────┴────────────────────┴──────────────────────┘
//! ```

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use machine::Orders;
use machine::processes::{ToGranter, ToMember};
use machine::upgrade::{Luggage, ServersLeft};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};

/// At most so many sockets come with one frame: listeners are not many more, and Linux takes 253.
pub(crate) const SOCKETS_MAX: usize = 128;

/// A session keeps no more than this: `limits::STATEMENT_BYTES_PER_CLIENT_MAX` and what else it may keep, written out.
const BODY_LEN_MAX: u32 = 256 << 20;

/// One message.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Frame {
    Hello {
        format: u32,
        version: String,
        pid: u32,
    },
    /// Not now, and why.
    Refused(String),
    /// With the listening sockets.
    Welcome {
        version: String,
        pid: u32,
        clock_zero: i64,
        names: [u8; 32],
        orders: Orders,
        /// How many descriptors it has open: the new process will need as many.
        descriptors: u64,
    },
    Started,
    /// From a process that takes another one's place: whether a third one takes its own meanwhile.
    HasSuccessor(bool),
    ToSuccessor(ToGranter),
    ToPredecessor(ToMember),
    /// To the predecessor: what is ordered now. It is to do the same with what is left there.
    Orders(Box<Orders>),
    /// To the predecessor: which servers has it still? `Servers` answers.
    ServersAsked,
    Servers(Vec<ServersLeft>),
    /// With its sockets, the session's first.
    Luggage(Box<Luggage>),
}

/// Sends a frame, and sockets with it, and waits until it is written.
pub(crate) fn send(mut to: &UnixStream, frame: &Frame, sockets: &[OwnedFd]) -> io::Result<()> {
    let body = rmp_serde::to_vec_named(frame).map_err(io::Error::other)?;
    let len = u32::try_from(body.len()).ok().filter(|len| *len <= BODY_LEN_MAX).ok_or_else(too_long)?;
    if sockets.len() > SOCKETS_MAX {
        return Err(too_long());
    }
    let mut head = [0; 8];
    head[..4].copy_from_slice(&len.to_be_bytes());
    head[4..].copy_from_slice(&(sockets.len() as u32).to_be_bytes());
    let borrowed: Vec<BorrowedFd<'_>> = sockets.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !borrowed.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(&borrowed)) {
        return Err(too_long());
    }
    // The sockets come with the first byte. Eight fit whatever has room for one, but the kernel promises nothing.
    let sent = loop {
        match sendmsg(to, &[IoSlice::new(&head)], &mut ancillary, SendFlags::NOSIGNAL) {
            Err(rustix::io::Errno::INTR) => {}
            other => break other?,
        }
    };
    to.write_all(&head[sent..])?;
    to.write_all(&body)
}

/// Whether an error is what is left to read of a process that was killed. It says nothing else about the process.
pub(crate) fn is_end(why: &io::Error) -> bool {
    // The end comes in the midst of a frame, or before that process has read all that was sent to it.
    matches!(why.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset)
}

/// Waits for a frame. `None`: the other process has closed the connection.
///
/// # Errors
/// The system's, [`is_end`] among them; or what came is no frame, or came without its sockets: without free descriptors the kernel leaves them out.
pub(crate) fn receive(mut from: &UnixStream) -> io::Result<Option<(Frame, Vec<OwnedFd>)>> {
    let mut head = [0; 8];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let read = loop {
        let mut into = [IoSliceMut::new(&mut head)];
        match recvmsg(from, &mut into, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            other => break other?.bytes,
        }
    };
    let mut sockets = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(came) = message {
            sockets.extend(came);
        }
    }
    if read == 0 {
        return Ok(None);
    }
    from.read_exact(&mut head[read..])?;
    let number = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let (len, count) = (number(0), number(4));
    if sockets.len() != count as usize {
        let words = format!("{} of {count} sockets have come: there may be no free descriptors", sockets.len());
        return Err(io::Error::new(io::ErrorKind::InvalidData, words));
    }
    if len > BODY_LEN_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame of a hand-over cannot be read"));
    }
    let mut body = vec![0; len as usize];
    from.read_exact(&mut body)?;
    let frame = rmp_serde::from_slice(&body).map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))?;
    Ok(Some((frame, sockets)))
}

fn too_long() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "too much for one frame of a hand-over")
}
