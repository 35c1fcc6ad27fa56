//! The connections that are served: at most so many. When all seats are taken, a newcomer gets the seat of the connection that has sent no request for
//! longest; if all have sent one, of the one whose last request is oldest.
//!
//! ```text
//!   enter ─► silent ──(has_asked)──► asked ─(has_asked)─► asked ─► gone
//!               └──────────┬───────────┴──────────────────┘          ▲
//!                     dismissed: its future is dropped, and with it its descriptor
//! ```

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// The seats, and who has them.
#[derive(Debug)]
pub(crate) struct Room {
    seats: usize,
    guests: Mutex<Guests>,
    /// Nobody is left.
    empty: Notify,
}

#[derive(Debug, Default)]
struct Guests {
    /// Counts who comes and who asks.
    turn: u64,
    by_number: BTreeMap<u64, Guest>,
}

#[derive(Debug)]
struct Guest {
    has_asked: bool,
    /// When it came, or asked last.
    turn: u64,
    task: Option<AbortHandle>,
}

impl Room {
    pub(crate) fn of(seats: usize) -> Room {
        Room { seats, guests: Mutex::default(), empty: Notify::new() }
    }

    /// A seat, and whether somebody was dismissed for it.
    pub(crate) fn enter(room: &Arc<Room>) -> (Seat, bool) {
        let mut guests = room.guests();
        let is_full = guests.by_number.len() >= room.seats;
        if is_full {
            let first = guests.by_number.iter().min_by_key(|(_, guest)| (guest.has_asked, guest.turn));
            let number = *first.expect("a room has seats").0;
            let dismissed = guests.by_number.remove(&number).and_then(|guest| guest.task);
            if let Some(task) = dismissed {
                task.abort();
            }
        }
        let number = guests.next();
        guests.by_number.insert(number, Guest { has_asked: false, turn: number, task: None });
        drop(guests);
        (Seat { room: Arc::clone(room), number }, is_full)
    }

    /// What serves a guest, so that it can be ended. A guest that has gone already is none.
    pub(crate) fn seated(&self, number: u64, task: AbortHandle) {
        if let Some(guest) = self.guests().by_number.get_mut(&number) {
            guest.task = Some(task);
        }
    }

    /// Until nobody is left.
    pub(crate) async fn emptied(&self) {
        let mut gone = pin!(self.empty.notified());
        poll_fn(|cx| {
            // First it waits, then it looks: nobody leaves unseen.
            let woken = gone.as_mut().poll(cx);
            if self.guests().by_number.is_empty() { std::task::Poll::Ready(()) } else { woken }
        })
        .await;
    }

    fn guests(&self) -> MutexGuard<'_, Guests> {
        self.guests.lock().expect("nothing panics while it holds this lock")
    }
}

impl Guests {
    fn next(&mut self) -> u64 {
        self.turn += 1;
        self.turn
    }
}

/// One of the connections that are counted, until it is dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    room: Arc<Room>,
    number: u64,
}

impl Seat {
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// A request's head is whole: it is dismissed only where there is nobody who has not asked. One that has been dismissed already stays so.
    pub(crate) fn has_asked(&self) {
        let mut guests = self.room.guests();
        let turn = guests.next();
        if let Some(guest) = guests.by_number.get_mut(&self.number) {
            (guest.has_asked, guest.turn) = (true, turn);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut guests = self.room.guests();
        guests.by_number.remove(&self.number);
        if guests.by_number.is_empty() {
            self.room.empty.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(room: &Room) -> Vec<u64> {
        room.guests().by_number.keys().copied().collect()
    }

    #[test]
    fn who_has_been_silent_for_longest_makes_room() {
        let room = Arc::new(Room::of(2));
        let (first, _) = Room::enter(&room);
        first.has_asked();
        let (second, _) = Room::enter(&room);
        let (third, made_room) = Room::enter(&room);
        assert!(made_room);
        assert_eq!(numbers(&room), [first.number(), third.number()], "the second one had said nothing");
        // Its seat is another's already.
        drop(second);
        third.has_asked();
        first.has_asked();
        let (fourth, _) = Room::enter(&room);
        assert_eq!(numbers(&room), [first.number(), fourth.number()], "the first one has asked last");
        drop((first, fourth));
        assert_eq!(numbers(&room), []);
        let (_fifth, made_room) = Room::enter(&room);
        assert!(!made_room);
    }
}
