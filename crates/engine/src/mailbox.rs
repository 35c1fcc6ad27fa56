//! A mailbox for letters between threads, and the bell that wakes its reader.
//!
//! No letter is lost, and none waits for a sleeping reader. The reader sets "asleep" and then looks for letters once
//! more. The writer puts its letter in and then looks whether the reader is asleep. In any order of the four steps, at
//! least one of them sees the other. The bell is rung only for a sleeping reader, so a busy reader costs its writers no
//! system call, and an empty mailbox costs its reader no lock. `tests/lost_wakes.rs` tests both sides together.
//!
//! Only letters that may be refused ([`Mailbox::offer`]) are bounded. Letters that must not be lost
//! ([`Mailbox::insist`]) are accepted beyond the bound: there is at most one for each login, server or console client,
//! so they are bounded elsewhere.
//!
//! It depends neither on the letters' content nor on how the bell works.

use std::collections::VecDeque;

use super::sync::Mutex;
use super::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Wakes the reader.
pub(crate) trait Bell {
    fn ring(&self);
}

/// A mailbox with one reader and any number of writers.
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

    /// Puts a letter in unless the mailbox is full. Returns whether the bell was rung.
    ///
    /// # Errors
    /// The letter itself, if there was no room.
    pub(crate) fn offer(&self, letter: T) -> Result<bool, T> {
        self.put(letter, self.offered_max)
    }

    /// Puts a letter in, even if the mailbox is full. Returns whether the bell was rung.
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

    /// For the reader: moves all letters into `into`, which is empty, by swapping the two queues.
    #[inline]
    pub(crate) fn empty(&self, into: &mut VecDeque<T>) {
        debug_assert!(into.is_empty(), "letters are read before the next are taken");
        if self.count.load(Ordering::Acquire) > 0 {
            self.take_all(into);
        }
    }

    fn take_all(&self, into: &mut VecDeque<T>) {
        let mut letters = self.letters.lock().expect("nothing panics while it holds this lock");
        std::mem::swap(&mut *letters, into);
        self.count.store(0, Ordering::SeqCst);
    }

    /// For the reader, before it waits. False: there is mail, so it must not wait.
    #[must_use]
    pub(crate) fn prepare_to_wait(&self) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        let may_sleep = self.count.load(Ordering::SeqCst) == 0;
        if !may_sleep {
            self.asleep.store(false, Ordering::SeqCst);
        }
        may_sleep
    }

    /// For the reader, after its wait: writers need not ring from now on.
    pub(crate) fn end_wait(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }
}
