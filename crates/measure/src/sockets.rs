//! Thousands of sockets in one thread, on one epoll: slots, what is still to be sent, whether it can be.
//!
//! Promises: an event of a socket that has been closed meanwhile reaches nobody, though another may have its slot.
//! Does not know what the bytes are, nor who is at the other end: that is the peer's, `P`.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::SendFlags;

/// Events of one turn.
const EVENTS_MAX: usize = 256;

/// One socket, and what it is to the load.
pub struct Connection<P> {
    pub peer: P,
    /// What is to be sent next.
    pub out: Vec<u8>,
    sent: usize,
    /// A registered wish to be told when the socket can be written.
    wants_write: bool,
    socket: OwnedFd,
}

impl<P> Connection<P> {
    #[must_use]
    pub fn socket(&self) -> &OwnedFd {
        &self.socket
    }
}

/// A connection, and the bytes that it has had now.
pub type Received<'a, P> = (&'a mut Connection<P>, &'a [u8]);

/// What a socket is ready for.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    pub slot: usize,
    generation: u32,
    pub can_write: bool,
    /// It has bytes, an end, or an error.
    pub can_read: bool,
}

/// All sockets of a load.
pub struct Sockets<P> {
    epoll: OwnedFd,
    slots: Vec<Option<Connection<P>>>,
    generations: Vec<u32>,
    free: Vec<usize>,
    read: Box<[u8]>,
    ready: Vec<Ready>,
}

impl<P> Sockets<P> {
    /// None yet. `read_bytes`: the most that one read takes.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn open(read_bytes: usize) -> Result<Self, Errno> {
        Ok(Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            slots: Vec::new(),
            generations: Vec::new(),
            free: Vec::new(),
            read: vec![0; read_bytes].into_boxed_slice(),
            ready: Vec::with_capacity(EVENTS_MAX),
        })
    }

    /// Takes a socket that does not block, with what is to be sent first; its slot.
    ///
    /// # Errors
    /// The kernel refuses to watch it.
    pub fn add(&mut self, socket: OwnedFd, peer: P, out: Vec<u8>) -> Result<usize, Errno> {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.generations.push(0);
            self.slots.len() - 1
        });
        epoll::add(&self.epoll, &socket, self.token(slot), epoll::EventFlags::IN)?;
        self.slots[slot] = Some(Connection { peer, out, sent: 0, wants_write: false, socket });
        Ok(slot)
    }

    /// Slots that there have ever been at a time.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    #[must_use]
    pub fn get(&self, slot: usize) -> Option<&Connection<P>> {
        self.slots[slot].as_ref()
    }

    pub fn get_mut(&mut self, slot: usize) -> Option<&mut Connection<P>> {
        self.slots[slot].as_mut()
    }

    /// Every connection.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Connection<P>> {
        self.slots.iter_mut().flatten()
    }

    /// Closes a connection; the kernel takes it out of the epoll.
    pub fn close(&mut self, slot: usize) -> Option<P> {
        let connection = self.slots[slot].take()?;
        self.generations[slot] = self.generations[slot].wrapping_add(1);
        self.free.push(slot);
        Some(connection.peer)
    }

    /// Waits until something can be done, at most for so long; [`Sockets::next_ready`] then says what.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn wait(&mut self, time: Duration) -> Result<(), Errno> {
        let timeout = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
        let none = epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) };
        let mut events = [none; EVENTS_MAX];
        let count = match epoll::wait(&self.epoll, &mut events[..], Some(&timeout)) {
            Err(Errno::INTR) => 0,
            waited => waited?,
        };
        self.ready.clear();
        // The last one first, so that the first is taken first.
        self.ready.extend(events[..count].iter().rev().map(|event| {
            let (token, flags) = (event.data.u64(), event.flags);
            let readable = epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR;
            Ready {
                slot: (token & 0xffff_ffff) as usize,
                generation: (token >> 32) as u32,
                can_write: flags.contains(epoll::EventFlags::OUT),
                can_read: flags.intersects(readable),
            }
        }));
        Ok(())
    }

    /// The next socket of those that the last wait has found, if it is still the one that it was.
    pub fn next_ready(&mut self) -> Option<Ready> {
        while let Some(ready) = self.ready.pop() {
            if self.generations[ready.slot] == ready.generation && self.slots[ready.slot].is_some() {
                return Some(ready);
            }
        }
        None
    }

    /// Reads what there is. `None`: nothing yet. An end is no bytes.
    ///
    /// # Errors
    /// The connection is lost.
    pub fn receive(&mut self, slot: usize) -> Result<Option<Received<'_, P>>, Errno> {
        let Some(connection) = &mut self.slots[slot] else { return Ok(None) };
        match rustix::io::read(connection.socket.as_fd(), &mut self.read[..]) {
            Ok(count) => Ok(Some((connection, &self.read[..count]))),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sends what can be sent, and asks to be told when the rest can.
    ///
    /// # Errors
    /// The kernel refuses. A peer that is gone is no error here: reading tells.
    pub fn flush(&mut self, slot: usize) -> Result<(), Errno> {
        let token = self.token(slot);
        let Some(connection) = &mut self.slots[slot] else { return Ok(()) };
        while connection.sent < connection.out.len() {
            let rest = &connection.out[connection.sent..];
            match rustix::net::send(&connection.socket, rest, SendFlags::NOSIGNAL) {
                Ok(count) => connection.sent += count,
                Err(Errno::AGAIN | Errno::NOTCONN) => break,
                Err(Errno::INTR) => {}
                // The read side will say what happened.
                Err(Errno::PIPE | Errno::CONNRESET) => connection.sent = connection.out.len(),
                Err(error) => return Err(error),
            }
        }
        let is_blocked = connection.sent < connection.out.len();
        if !is_blocked {
            connection.out.clear();
            connection.sent = 0;
        }
        if is_blocked == connection.wants_write {
            return Ok(());
        }
        connection.wants_write = is_blocked;
        let write = if is_blocked { epoll::EventFlags::OUT } else { epoll::EventFlags::empty() };
        epoll::modify(&self.epoll, &connection.socket, token, epoll::EventFlags::IN | write)
    }

    fn token(&self, slot: usize) -> epoll::EventData {
        epoll::EventData::new_u64(u64::from(self.generations[slot]) << 32 | slot as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    fn pair() -> (OwnedFd, OwnedFd) {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).expect("a pair")
    }

    fn sockets() -> Sockets<&'static str> {
        Sockets::open(1 << 16).expect("an epoll")
    }

    #[test]
    fn bytes_arrive_and_an_end_is_no_bytes() {
        let (mut sockets, (ours, theirs)) = (sockets(), pair());
        let slot = sockets.add(ours, "a", b"hello".to_vec()).expect("watched");
        sockets.flush(slot).expect("sent");
        let mut seen = [0; 8];
        assert_eq!(rustix::io::read(&theirs, &mut seen), Ok(5));
        rustix::io::write(&theirs, b"you").expect("sent");
        drop(theirs);
        sockets.wait(Duration::from_secs(60)).expect("waited");
        let ready = sockets.next_ready().expect("it can be read");
        assert!(ready.slot == slot && ready.can_read && !ready.can_write);
        let lengths = [(); 2].map(|()| sockets.receive(slot).expect("no error").map(|(_, bytes)| bytes.len()));
        assert_eq!(lengths, [Some(3), Some(0)]);
    }

    #[test]
    fn an_event_of_a_closed_socket_does_not_reach_who_has_its_slot() {
        let (mut sockets, (first, other), (second, _third)) = (sockets(), pair(), pair());
        let slot = sockets.add(first, "first", Vec::new()).expect("watched");
        rustix::io::write(&other, b"x").expect("sent");
        sockets.wait(Duration::from_secs(60)).expect("waited");
        assert_eq!(sockets.close(slot), Some("first"));
        assert_eq!(sockets.add(second, "second", Vec::new()), Ok(slot));
        assert!(sockets.next_ready().is_none());
        assert!(sockets.receive(slot).expect("no error").is_none(), "nothing has come yet");
    }

    #[test]
    fn what_cannot_be_sent_at_once_is_sent_when_it_can() {
        let (mut sockets, (ours, theirs)) = (sockets(), pair());
        let bytes = 4 << 20;
        let slot = sockets.add(ours, "a", vec![7; bytes]).expect("watched");
        sockets.flush(slot).expect("begun");
        let (mut seen, mut buffer) = (0, vec![0; 1 << 16]);
        while seen < bytes {
            match rustix::io::read(&theirs, &mut buffer) {
                Ok(count) => seen += count,
                Err(Errno::AGAIN) => {
                    sockets.wait(Duration::from_secs(60)).expect("waited");
                    assert!(sockets.next_ready().expect("there is room").can_write);
                    sockets.flush(slot).expect("sent");
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert!(sockets.get(slot).expect("open").out.is_empty());
    }
}
