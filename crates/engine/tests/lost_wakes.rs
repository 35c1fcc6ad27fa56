//! The mailbox and the board under many orders of their steps, chosen by a scheduler: no wake and no letter is lost,
//! and of two workers that publish and then look, at least one sees the other.
//!
//! The files under test are compiled here once more, with the scheduler's locks and atomics.

mod sync {
    pub(crate) use shuttle::sync::Mutex;

    pub(crate) mod atomic {
        pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
    }
}

#[path = "../src/mailbox.rs"]
mod mailbox;
#[path = "../src/shared_board.rs"]
mod shared_board;

use std::collections::VecDeque;
use std::sync::Arc;

use queueing::board::{Board, Cell, ClassCell};
use shuttle::sync::{Condvar, Mutex};
use shuttle::thread;
use units::{PoolId, Time, WorkerId};

use mailbox::{Bell, Mailbox};
use shared_board::SharedBoard;

const RUNS: usize = 20_000;

/// Models an eventfd: several writes before a read count as one.
#[derive(Default)]
struct Gong {
    rung: Mutex<bool>,
    heard: Condvar,
}

impl Bell for Gong {
    fn ring(&self) {
        *self.rung.lock().expect("not poisoned") = true;
        self.heard.notify_one();
    }
}

impl Gong {
    /// Models epoll_wait without a timeout: if no wake comes, the scheduler reports a deadlock.
    fn wait(&self) {
        let mut rung = self.rung.lock().expect("not poisoned");
        while !*rung {
            rung = self.heard.wait(rung).expect("not poisoned");
        }
        *rung = false;
    }
}

/// The reader's side of the loop: waits only if it may, and returns when it has read so many letters.
fn read(mailbox: &Mailbox<u32, Gong>, count: usize) -> Vec<u32> {
    let (mut seen, mut letters) = (Vec::new(), VecDeque::new());
    while seen.len() < count {
        if mailbox.prepare_to_wait() {
            mailbox.bell().wait();
        }
        mailbox.end_wait();
        mailbox.empty(&mut letters);
        seen.extend(letters.drain(..));
    }
    seen
}

#[test]
fn no_wake_and_no_letter_is_lost() {
    shuttle::check_random(
        || {
            let mailbox = Arc::new(Mailbox::new(8, Gong::default()));
            let writers: Vec<_> = (0..2)
                .map(|writer| {
                    let mailbox = Arc::clone(&mailbox);
                    thread::spawn(move || {
                        assert!(mailbox.offer(writer * 10).is_ok());
                        mailbox.insist(writer * 10 + 1);
                    })
                })
                .collect();
            let seen = read(&mailbox, 4);
            for writer in writers {
                writer.join().expect("it does not panic");
            }
            for first in [0, 10] {
                let mine: Vec<u32> = seen.iter().copied().filter(|letter| letter / 10 * 10 == first).collect();
                assert_eq!(mine, [first, first + 1], "a writer's letters keep their order");
            }
        },
        RUNS,
    );
}

#[test]
fn a_full_box_refuses_and_takes_again() {
    shuttle::check_random(
        || {
            let mailbox = Arc::new(Mailbox::new(1, Gong::default()));
            let writer = {
                let mailbox = Arc::clone(&mailbox);
                thread::spawn(move || {
                    let refused = (0..3).filter(|letter| mailbox.offer(*letter).is_err()).count();
                    mailbox.insist(99);
                    refused
                })
            };
            let mut seen = Vec::new();
            while seen.last() != Some(&99) {
                seen.extend(read(&mailbox, 1));
            }
            let refused = writer.join().expect("it does not panic");
            assert_eq!(seen.len() + refused, 4, "a letter is delivered or given back, never both or neither");
        },
        RUNS,
    );
}

#[test]
fn of_two_that_publish_and_look_one_sees_the_other() {
    shuttle::check_random(
        || {
            let board = Arc::new(SharedBoard::new(2));
            let waiting = Cell { waiting_since: Time(7), ..Cell::CALM };
            let idle = Cell { idle: 1, ..Cell::CALM };
            let publish_and_look = |me: u16, mine: Cell, theirs: Cell| {
                let board = Arc::clone(&board);
                thread::spawn(move || {
                    let mut copy = Board::new(2);
                    // Like the real loop, it reads first, so that the row's version is known and the row may be
                    // skipped.
                    let seen = board.refresh(PoolId(3), 0, &mut copy);
                    board.publish(PoolId(3), WorkerId(me), mine);
                    board.refresh(PoolId(3), seen, &mut copy);
                    copy.cell(PoolId(3), WorkerId(1 - me)) == theirs
                })
            };
            let (a, b) = (publish_and_look(0, waiting, idle), publish_and_look(1, idle, waiting));
            let saw = (a.join().expect("it does not panic"), b.join().expect("it does not panic"));
            assert!(saw.0 || saw.1, "both looked before the other wrote");
        },
        RUNS,
    );
}

#[test]
fn class_counts_are_seen_with_the_cell_written_after_them() {
    shuttle::check_random(
        || {
            let board = Arc::new(SharedBoard::new(2));
            let waiting = Cell { waiting_since: Time(7), ..Cell::CALM };
            let cells = [ClassCell::CALM, ClassCell { waiting_since: Time(7), served_us: 9 }];
            let writer = {
                let board = Arc::clone(&board);
                thread::spawn(move || {
                    board.publish_classes(PoolId(3), WorkerId(0), &cells);
                    board.publish(PoolId(3), WorkerId(0), waiting);
                })
            };
            let mut copy = Board::new(2);
            let seen = board.refresh(PoolId(3), 0, &mut copy);
            if copy.cell(PoolId(3), WorkerId(0)) == waiting {
                assert_eq!(copy.classes(PoolId(3), WorkerId(0)), cells);
            }
            writer.join().expect("it does not panic");
            let seen = board.refresh(PoolId(3), seen, &mut copy);
            assert_eq!(copy.classes(PoolId(3), WorkerId(0)), cells);
            // The worker is replaced.
            board.forget(WorkerId(0));
            board.refresh(PoolId(3), seen, &mut copy);
            assert_eq!(copy.cell(PoolId(3), WorkerId(0)), Cell::CALM);
            assert_eq!(copy.classes(PoolId(3), WorkerId(0)), []);
        },
        RUNS,
    );
}
