//! Letters from thread to thread, and the bell that wakes the reader.
//!
//! Promises: nothing is lost and no letter waits for a reader that sleeps. The reader says "asleep" and then looks once
//! more; the writer puts its letter down and then looks whether the reader sleeps: in any order of the four steps at
//! least one of them sees the other. The bell is rung only for a sleeper, so a busy reader costs its writers no system
//! call, and an empty box costs its reader no lock. Both sides are tried against each other in `tests/lost_wakes.rs`.
//!
//! The box bounds only what may be refused ([`Mailbox::offer`]). What must not be lost ([`Mailbox::insist`]) goes in
//! above the bound: there is at most one such letter a login, a server or a console client, so it is bounded elsewhere.
//!
//! Does not know what a letter says, nor how the bell is made.

use std::collections::VecDeque;

use super::sync::Mutex;
use super::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// What ends the reader's sleep.
pub(crate) trait Bell {
    fn ring(&self);
}

/// One reader's box; any number of writers.
pub(crate) struct Mailbox<T, B> {
    letters: Mutex<VecDeque<T>>,
    /// Length of `letters`, written under its lock, read without.
    count: AtomicUsize,
    asleep: AtomicBool,
    offered_max: usize,
    bell: B,
}

impl<T, B: Bell> Mailbox<T, B> {
    pub(crate) fn new(offered_max: usize, bell: B) -> Mailbox<T, B> {
        Mailbox {
            letters: Mutex::new(VecDeque::new()),
            count: AtomicUsize::new(0),
            asleep: AtomicBool::new(false),
            offered_max,
            bell,
        }
    }

    pub(crate) fn bell(&self) -> &B {
        &self.bell
    }

    /// Puts a letter in unless the box is full. Returns whether the bell was rung.
    ///
    /// # Errors
    /// The letter itself, if there was no room.
    pub(crate) fn offer(&self, letter: T) -> Result<bool, T> {
        self.put(letter, self.offered_max)
    }

    /// Puts a letter in, even into a full box. Returns whether the bell was rung.
    pub(crate) fn insist(&self, letter: T) -> bool {
        self.put(letter, usize::MAX).unwrap_or(false)
    }

    fn put(&self, letter: T, count_max: usize) -> Result<bool, T> {
        let mut letters = self.letters.lock().expect("nothing panics while it holds this lock");
        if letters.len() >= count_max {
            return Err(letter);
        }
        letters.push_back(letter);
        self.count.store(letters.len(), Ordering::SeqCst);
        drop(letters);
        Ok(self.wake())
    }

    fn wake(&self) -> bool {
        let sleeps = self.asleep.load(Ordering::SeqCst) && self.asleep.swap(false, Ordering::SeqCst);
        if sleeps {
            self.bell.ring();
        }
        sleeps
    }

    /// Reader: moves all letters into `into`, which is empty, by exchanging the two queues.
    pub(crate) fn empty(&self, into: &mut VecDeque<T>) {
        debug_assert!(into.is_empty(), "letters are read before the next are taken");
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut letters = self.letters.lock().expect("nothing panics while it holds this lock");
        std::mem::swap(&mut *letters, into);
        self.count.store(0, Ordering::SeqCst);
    }

    /// Reader, before it waits for the bell: false if there is mail already, so that it must not wait.
    #[must_use]
    pub(crate) fn lie_down(&self) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        let may_sleep = self.count.load(Ordering::SeqCst) == 0;
        if !may_sleep {
            self.asleep.store(false, Ordering::SeqCst);
        }
        may_sleep
    }

    /// Reader, after its wait: from here on nobody needs to ring.
    pub(crate) fn get_up(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }
}
