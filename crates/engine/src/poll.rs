//! Waits for many descriptors at once: epoll, level-triggered. Each descriptor stays registered as long as it is open.
//!
//! A token names a socket of [`Connections`](crate::connections::Connections), or, with the top bit set, the thread's
//! bell or one of its listeners.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;

use crate::busy_poll::BusyPoll;

/// At most so many descriptors are reported at once. The others are reported in the next round, since epoll is
/// level-triggered.
const READY_MAX: usize = 4096;

const OWN: u64 = 1 << 63;

/// An entry of the socket table with a generation, so that an event of an earlier socket is not taken for one of the
/// present socket.
///
/// ```text
/// 0 s gggggggggggggggggggggggggggggg nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn s: a server or a cancel, served before clients
/// ```
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct SocketId(u64);

impl SocketId {
    const SERVES: u64 = 1 << 62;
    const GENERATION: u64 = 1 << 32;

    pub(crate) fn first(number: usize, serves: bool) -> SocketId {
        debug_assert!(number < u32::MAX as usize, "descriptors run out long before entries do");
        SocketId(number as u64 | if serves { SocketId::SERVES } else { 0 })
    }

    /// The same entry for its next socket.
    pub(crate) fn next(self, serves: bool) -> SocketId {
        let generation = ((self.0 & !SocketId::SERVES) + SocketId::GENERATION) & (SocketId::SERVES - 1);
        SocketId(generation | if serves { SocketId::SERVES } else { 0 })
    }

    #[inline]
    pub(crate) fn number(self) -> usize {
        (self.0 & (SocketId::GENERATION - 1)) as usize
    }

    #[inline]
    pub(crate) fn serves(self) -> bool {
        self.0 & SocketId::SERVES != 0
    }
}

/// What has become ready.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    Socket(SocketId),
    Bell,
    Listener(usize),
}

impl Token {
    fn to_bits(self) -> u64 {
        match self {
            Token::Socket(socket) => socket.0,
            Token::Bell => OWN,
            Token::Listener(index) => OWN | (index as u64 + 1),
        }
    }

    #[inline]
    fn from_bits(bits: u64) -> Token {
        match bits {
            OWN => Token::Bell,
            _ if bits & OWN != 0 => Token::Listener((bits & !OWN) as usize - 1),
            _ => Token::Socket(SocketId(bits)),
        }
    }
}

/// What a descriptor is watched for. Hang-ups and errors are always reported.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interest {
    pub(crate) read: bool,
    pub(crate) write: bool,
}

impl Interest {
    pub(crate) const NONE: Interest = Interest { read: false, write: false };
    pub(crate) const READ: Interest = Interest { read: true, write: false };
    pub(crate) const WRITE: Interest = Interest { read: false, write: true };

    /// With `read`, the end of the peer's sending is reported too, together with the last bytes.
    fn flags(self) -> EventFlags {
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN | EventFlags::RDHUP, self.read);
        flags.set(EventFlags::OUT, self.write);
        flags
    }
}

/// What a descriptor is ready for.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Ready {
    pub(crate) read: bool,
    pub(crate) write: bool,
    /// Both directions are shut, or an error is pending.
    pub(crate) hangup: bool,
    pub(crate) error: bool,
    /// The peer will send nothing more.
    pub(crate) leaves: bool,
}

pub(crate) struct Poll {
    epoll: OwnedFd,
    ready: Vec<epoll::Event>,
    /// `epoll_ctl` calls so far.
    pub(crate) ctls: u64,
    pub(crate) busy: BusyPoll,
}

impl Poll {
    pub(crate) fn new() -> io::Result<Poll> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Poll { epoll, ready: Vec::with_capacity(READY_MAX), ctls: 0, busy: BusyPoll::default() })
    }

    pub(crate) fn add(&mut self, fd: impl AsFd, token: Token, interest: Interest) -> io::Result<()> {
        self.ctls += 1;
        Ok(epoll::add(&self.epoll, fd, EventData::new_u64(token.to_bits()), interest.flags())?)
    }

    pub(crate) fn modify(&mut self, fd: impl AsFd, token: Token, interest: Interest) -> io::Result<()> {
        self.ctls += 1;
        Ok(epoll::modify(&self.epoll, fd, EventData::new_u64(token.to_bits()), interest.flags())?)
    }

    pub(crate) fn delete(&mut self, fd: impl AsFd) -> io::Result<()> {
        self.ctls += 1;
        Ok(epoll::delete(&self.epoll, fd)?)
    }

    /// Waits until something is ready or the timeout has passed; `None` waits for ever. After an interrupted wait
    /// nothing is ready. A look before it may prolong it by the time that the look takes.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.ready.clear();
        if timeout != Some(Duration::ZERO)
            && let Some(span) = self.busy.next_look()
        {
            let found = self.look(span)?;
            self.busy.looked(found);
            if found {
                return Ok(());
            }
        }
        self.fetch(timeout)
    }

    /// Looks again and again until something is ready or `span` has passed. Returns whether something is ready.
    #[inline(never)]
    fn look(&mut self, span: Duration) -> io::Result<bool> {
        let began = Instant::now();
        loop {
            self.fetch(Some(Duration::ZERO))?;
            if !self.ready.is_empty() {
                return Ok(true);
            }
            if began.elapsed() >= span {
                return Ok(false);
            }
        }
    }

    fn fetch(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let timeout = timeout.map(|span| rustix::event::Timespec {
            tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(span.subsec_nanos()),
        });
        match epoll::wait(&self.epoll, spare_capacity(&mut self.ready), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn ready_count(&self) -> usize {
        self.ready.len()
    }

    /// What the event with this index is about.
    #[inline]
    pub(crate) fn token(&self, index: usize) -> Token {
        Token::from_bits(self.ready[index].data.u64())
    }

    /// Something has happened on a server or a cancel connection.
    pub(crate) fn has_servers_ready(&self) -> bool {
        (0..self.ready_count()).any(|index| matches!(self.token(index), Token::Socket(socket) if socket.serves()))
    }

    #[inline]
    pub(crate) fn ready(&self, index: usize) -> Ready {
        let event = &self.ready[index];
        let flags = event.flags;
        Ready {
            read: flags.contains(EventFlags::IN),
            write: flags.contains(EventFlags::OUT),
            hangup: flags.contains(EventFlags::HUP),
            error: flags.contains(EventFlags::ERR),
            leaves: flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_token_keeps_what_it_names() {
        let socket = SocketId::first(0x1234_5678, true);
        for token in [Token::Bell, Token::Listener(0), Token::Listener(7), Token::Socket(socket)] {
            assert_eq!(Token::from_bits(token.to_bits()), token);
        }
    }

    /// A socket that has something to read, and the other end.
    fn ready_socket() -> (UnixStream, UnixStream) {
        let (mut ours, theirs) = UnixStream::pair().expect("two sockets");
        ours.write_all(b"x").expect("there is room");
        (theirs, ours)
    }

    #[test]
    fn a_look_finds_what_is_ready_and_does_not_outlast_its_span() {
        let mut poll = Poll::new().expect("an epoll");
        assert!(!poll.look(Duration::from_micros(1)).expect("valid"), "nothing is watched");
        let (socket, _other) = ready_socket();
        poll.add(&socket, Token::Bell, Interest::READ).expect("it can be watched");
        assert!(poll.look(Duration::from_secs(600)).expect("valid"));
        assert_eq!((poll.ready_count(), poll.token(0)), (1, Token::Bell));
    }

    #[test]
    fn a_wait_after_a_look_finds_what_comes_later() {
        let mut poll = Poll::new().expect("an epoll");
        poll.busy.set_span(Duration::from_micros(1));
        let (socket, mut other) = UnixStream::pair().expect("two sockets");
        poll.add(&socket, Token::Bell, Interest::READ).expect("it can be watched");
        poll.wait(Some(Duration::from_millis(1))).expect("valid");
        assert_eq!(poll.ready_count(), 0);
        assert_eq!(poll.busy.next_look(), None, "the look has found nothing");
        let writer = std::thread::spawn(move || other.write_all(b"x").map(|()| other));
        poll.wait(None).expect("valid");
        assert_eq!(poll.ready_count(), 1);
        let _other = writer.join().expect("it does not panic").expect("there is room");
    }

    #[test]
    fn a_wait_that_must_not_sleep_does_not_look_either() {
        let mut poll = Poll::new().expect("an epoll");
        poll.busy.set_span(Duration::from_secs(600));
        poll.wait(Some(Duration::ZERO)).expect("valid");
        assert_eq!(poll.ready_count(), 0);
    }

    #[test]
    fn an_entry_is_reused_under_another_token() {
        let first = SocketId::first(77, false);
        let (second, third) = (first.next(true), first.next(true).next(false));
        assert_eq!([first, second, third].map(SocketId::number), [77; 3]);
        assert_eq!([first, second, third].map(SocketId::serves), [false, true, false]);
        assert!(first != third && first.next(false) != first);
        // After as many tenancies as there are generations it begins anew, and never becomes one of the thread's own.
        let last = SocketId((SocketId::SERVES - 1) & !(SocketId::GENERATION - 1) | 77);
        assert_eq!(last.next(false), first);
    }
}
