//! The connections that are served: at most so many. When all seats are taken, a newcomer gets the seat of the connection that has sent no request for
//! longest; if all have sent one, of the one that came first.
//!
//! ```text
//!   enter ─► silent ──(has_asked)──► answered ─► gone
//!     │        └──────────┬─────────────┘          ▲
//!     │               dismissed: its thread ends, but not before what it waits for has come
//!     └── closed: too many threads have not ended, and none does soon
//! ```
//!
//! A dismissed connection has no seat, but its thread and its descriptor count until the thread ends ([`LEAVING_MAX`]).

use std::collections::BTreeMap;
use std::net::Shutdown;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use crate::socket::Stream;

/// Dismissed connections whose threads have not ended yet. Beyond them a newcomer waits for one to end, and is closed if none does.
pub(crate) const LEAVING_MAX: usize = 8;

/// How long it waits: a thread that reads or writes ends at once when it is dismissed, one that waits for metrics does not.
const ENDS_WITHIN: Duration = Duration::from_millis(100);

/// The seats, and who has them.
#[derive(Debug)]
pub(crate) struct Room {
    seats: usize,
    guests: Mutex<Guests>,
    /// A thread has ended.
    left: Condvar,
}

/// By the order in which they came.
#[derive(Debug, Default)]
struct Guests {
    came: u64,
    /// Threads that have not ended, of dismissed connections too.
    living: usize,
    silent: BTreeMap<u64, Arc<Stream>>,
    answered: BTreeMap<u64, Arc<Stream>>,
}

impl Room {
    pub(crate) fn of(seats: usize) -> Room {
        Room { seats, guests: Mutex::default(), left: Condvar::new() }
    }

    /// `None`: there is no room, and the connection is closed.
    pub(crate) fn enter(room: &Arc<Room>, stream: Stream) -> Option<Seat> {
        let is_full = |guests: &mut Guests| guests.living >= room.seats + LEAVING_MAX;
        let waited = room.left.wait_timeout_while(room.guests(), ENDS_WITHIN, is_full);
        let (mut guests, waited) = waited.expect("nothing panics while it holds this lock");
        if waited.timed_out() {
            return None;
        }
        guests.living += 1;
        if guests.silent.len() + guests.answered.len() >= room.seats {
            let silent = guests.silent.pop_first();
            if let Some((_, dismissed)) = silent.or_else(|| guests.answered.pop_first()) {
                // It ends the reading and writing of its thread. A connection that is down already needs it no more.
                let _ = dismissed.shutdown(Shutdown::Both);
            }
        }
        let number = guests.came;
        guests.came += 1;
        let stream = Arc::new(stream);
        guests.silent.insert(number, Arc::clone(&stream));
        drop(guests);
        Some(Seat { room: Arc::clone(room), number, stream })
    }

    fn guests(&self) -> MutexGuard<'_, Guests> {
        self.guests.lock().expect("nothing panics while it holds this lock")
    }
}

/// One of the connections that are counted, until it is dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    room: Arc<Room>,
    number: u64,
    stream: Arc<Stream>,
}

impl Seat {
    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Its request is whole: it is dismissed only where there is nobody who has not asked. One that has been dismissed already stays so.
    pub(crate) fn has_asked(&self) {
        let mut guests = self.room.guests();
        if let Some(stream) = guests.silent.remove(&self.number) {
            guests.answered.insert(self.number, stream);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut guests = self.room.guests();
        guests.living -= 1;
        guests.silent.remove(&self.number);
        guests.answered.remove(&self.number);
        drop(guests);
        self.room.left.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// A client, and our end of its connection.
    fn connection(listener: &TcpListener) -> (TcpStream, TcpStream) {
        let client = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
        (client, listener.accept().expect("it has connected").0)
    }

    fn enter(room: &Arc<Room>, listener: &TcpListener) -> (TcpStream, Seat) {
        let (client, ours) = connection(listener);
        (client, Room::enter(room, Stream::Tcp(ours)).expect("there is room"))
    }

    fn is_dismissed(mut client: &TcpStream) -> bool {
        client.set_nonblocking(true).expect("it is open");
        matches!(client.read(&mut [0]), Ok(0))
    }

    #[test]
    fn who_has_been_silent_for_longest_makes_room() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let room = Arc::new(Room::of(2));
        let (asked, first) = enter(&room, &listener);
        first.has_asked();
        let (silent, second) = enter(&room, &listener);
        let (_third, third) = enter(&room, &listener);
        assert!(is_dismissed(&silent) && !is_dismissed(&asked));
        // It counts no more, though its thread has not ended.
        drop(second);
        third.has_asked();
        let (_fourth, fourth) = enter(&room, &listener);
        assert!(is_dismissed(&asked), "all have asked, and nobody came before it");
        drop((first, fourth));
        let (fifth, _seat) = enter(&room, &listener);
        assert!(!is_dismissed(&fifth));
    }

    #[test]
    fn a_newcomer_is_closed_while_too_many_that_were_dismissed_have_not_ended() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let room = Arc::new(Room::of(2));
        let mut living: Vec<_> = (0..2 + LEAVING_MAX).map(|_| enter(&room, &listener)).collect();
        let (client, ours) = connection(&listener);
        assert!(Room::enter(&room, Stream::Tcp(ours)).is_none());
        assert!(is_dismissed(&client));
        assert_eq!(
            living.iter().filter(|(client, _)| is_dismissed(client)).count(),
            LEAVING_MAX,
            "nobody else made room"
        );
        drop(living.remove(0));
        let (client, _seat) = enter(&room, &listener);
        assert!(!is_dismissed(&client), "one has ended");
    }
}
