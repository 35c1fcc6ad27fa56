//! Who is talked to: at most so many. Who has not asked yet makes room for who comes; where all have, the one who has taken its answer for longest.
//!
//! ```text
//!   enter ─► silent ──(has_asked)──► answered ─► gone
//!              │                        └── dismissed: somebody came, all seats were taken, nobody was silent, and none had been there for longer
//!              └── dismissed: somebody came, all seats were taken, and none had been silent for longer
//! ```

use std::collections::BTreeMap;
use std::net::Shutdown;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::socket::Stream;

/// The seats, and who has them.
#[derive(Debug)]
pub(crate) struct Room {
    seats: usize,
    guests: Mutex<Guests>,
}

/// By the order in which they came.
#[derive(Debug, Default)]
struct Guests {
    came: u64,
    silent: BTreeMap<u64, Arc<Stream>>,
    answered: BTreeMap<u64, Arc<Stream>>,
}

impl Room {
    pub(crate) fn of(seats: usize) -> Room {
        Room { seats, guests: Mutex::default() }
    }

    pub(crate) fn enter(room: &Arc<Room>, stream: Stream) -> Seat {
        let mut guests = room.guests();
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
        Seat { room: Arc::clone(room), number, stream }
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
        guests.silent.remove(&self.number);
        guests.answered.remove(&self.number);
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
        (client, Room::enter(room, Stream::Tcp(ours)))
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
}
