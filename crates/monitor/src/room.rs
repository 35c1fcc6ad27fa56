//! Who is talked to: at most so many, and who has not asked yet makes room for who comes.
//!
//! ```text
//!   enter ─► silent ──(has_asked)──► answered ─► gone
//!              └── dismissed: somebody came, all seats were taken, and none had been silent for longer
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};

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
    silent: BTreeMap<u64, Arc<TcpStream>>,
    answered: BTreeSet<u64>,
}

impl Room {
    pub(crate) fn of(seats: usize) -> Room {
        Room { seats, guests: Mutex::default() }
    }

    /// `None`: all seats are taken by some who have asked.
    pub(crate) fn enter(room: &Arc<Room>, stream: TcpStream) -> Option<Seat> {
        let mut guests = room.guests();
        if guests.silent.len() + guests.answered.len() >= room.seats {
            let (_, dismissed) = guests.silent.pop_first()?;
            // It ends the reading of its thread. A connection that is down already needs it no more.
            let _ = dismissed.shutdown(Shutdown::Both);
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
    stream: Arc<TcpStream>,
}

impl Seat {
    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Its request is whole: it is not dismissed any more. One that has been dismissed already stays so.
    pub(crate) fn has_asked(&self) {
        let mut guests = self.room.guests();
        if guests.silent.remove(&self.number).is_some() {
            guests.answered.insert(self.number);
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
    use std::net::TcpListener;

    use super::*;

    /// A client, and our end of its connection.
    fn connection(listener: &TcpListener) -> (TcpStream, TcpStream) {
        let client = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
        (client, listener.accept().expect("it has connected").0)
    }

    fn enter(room: &Arc<Room>, listener: &TcpListener) -> (TcpStream, Option<Seat>) {
        let (client, ours) = connection(listener);
        (client, Room::enter(room, ours))
    }

    #[test]
    fn who_has_been_silent_for_longest_makes_room() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let room = Arc::new(Room::of(2));
        let (_asked, first) = enter(&room, &listener);
        let first = first.expect("room");
        first.has_asked();
        let (mut silent, second) = enter(&room, &listener);
        let (_third, third) = enter(&room, &listener);
        let third = third.expect("the silent one made room");
        assert_eq!(silent.read(&mut [0]).expect("the end"), 0);
        // It counts no more, though its thread has not ended.
        drop(second);
        third.has_asked();
        let (mut turned_away, fourth) = enter(&room, &listener);
        assert!(fourth.is_none(), "both are being answered");
        assert_eq!(turned_away.read(&mut [0]).expect("the end"), 0);
        drop(first);
        let (_fifth, fifth) = enter(&room, &listener);
        assert!(fifth.is_some());
    }
}
