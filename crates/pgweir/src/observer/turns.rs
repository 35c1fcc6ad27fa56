//! Turns at reading the disk: a bounded number of threads reads, and others wait in a queue.
//!
//! Promises: Turns are given in the order in which they were asked for. Nobody waits longer than its patience. A turn ends when it is dropped, also by
//! a panic.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// Threads that read at a time.
const READERS_MAX: usize = 2;

/// Threads that wait. Further ones are refused at once.
const WAITING_MAX: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Turns {
    queue: Mutex<Queue>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    reading: usize,
    waiting: VecDeque<u64>,
    last: u64,
}

impl Turns {
    /// Waits for a turn. Returns `None` if the queue is full, or the turn does not come in time.
    pub(super) fn take(self: &Arc<Turns>, patience: Duration) -> Option<Turn> {
        let mut queue = self.queue();
        if queue.waiting.len() >= WAITING_MAX {
            return None;
        }
        queue.last += 1;
        let ours = queue.last;
        queue.waiting.push_back(ours);
        let has_to_wait = |queue: &mut Queue| {
            queue.reading >= READERS_MAX || queue.waiting.front().is_some_and(|first| *first != ours)
        };
        let waited = self.moved.wait_timeout_while(queue, patience, has_to_wait);
        let (mut queue, _) = waited.expect("nothing panics while it holds this lock");
        let has_turn = !has_to_wait(&mut queue);
        queue.waiting.retain(|other| *other != ours);
        queue.reading += usize::from(has_turn);
        drop(queue);
        // The next one is the first of the queue now.
        self.moved.notify_all();
        has_turn.then(|| Turn(Arc::clone(self)))
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().expect("nothing panics while it holds this lock")
    }
}

/// The right to read.
#[derive(Debug)]
pub(super) struct Turn(Arc<Turns>);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.queue().reading -= 1;
        self.0.moved.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn two_read_and_others_get_their_turn_in_order() {
        let turns = Arc::new(Turns::default());
        let (first, second) = (turns.take(LONG).expect("it is free"), turns.take(LONG).expect("it is free"));
        assert!(turns.take(Duration::ZERO).is_none());
        let (sender, taken) = channel();
        for number in 0..3 {
            let (own, sender) = (Arc::clone(&turns), sender.clone());
            thread::spawn(move || sender.send((number, own.take(LONG))));
            while turns.queue().waiting.len() <= number {
                thread::yield_now();
            }
        }
        drop(first);
        let (number, turn) = taken.recv().expect("a thread waits");
        assert_eq!((number, turn.is_some()), (0, true));
        assert_eq!(turns.queue().waiting.len(), 2);
        drop(turn);
        assert_eq!(taken.recv().map(|(number, turn)| (number, turn.is_some())), Ok((1, true)));
        assert_eq!(taken.recv().map(|(number, turn)| (number, turn.is_some())), Ok((2, true)));
        drop(second);
        assert_eq!(turns.queue().reading, 0);
    }

    #[test]
    fn a_full_queue_refuses_at_once_and_a_panic_ends_a_turn() {
        let turns = Arc::new(Turns::default());
        let reading = [turns.take(LONG), turns.take(LONG)];
        let waiting = (0..WAITING_MAX).map(|_| {
            let own = Arc::clone(&turns);
            thread::spawn(move || {
                let _turn = own.take(LONG).expect("its turn comes");
                panic!("on purpose: the turn ends nevertheless");
            })
        });
        let waiting: Vec<_> = waiting.collect();
        while turns.queue().waiting.len() < WAITING_MAX {
            thread::yield_now();
        }
        assert!(turns.take(LONG).is_none());
        drop(reading);
        assert!(waiting.into_iter().all(|thread| thread.join().is_err()));
        assert_eq!(turns.queue().reading, 0);
        assert!(turns.take(Duration::ZERO).is_some());
    }
}
