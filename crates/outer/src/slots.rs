//! Slots: three tests of a program run at a time, and a test that needs the machine runs alone.
//!
//! ```text
//!   free ──Slot::any──► 1 to 3 tests, none of them alone ──drop──► free
//!   free ──Slot::alone──► 1 test, alone ──drop──► free
//! ```
//!
//! Promises: a test that waits to run alone goes before tests that ask later, or these would keep it waiting to the end; a test
//! that has a slot and asks again shares the one it has, so that no test waits for itself.
//!
//! [`crate::Stage`], [`crate::Pooler`] and [`crate::cluster`] take a slot each, which is the same one within a test; a test that starts
//! none of these needs none. A slot does not keep two test *programs* apart: cargo runs one at a time.
//!
//! A slot belongs to the thread that libtest runs the test on, which is the one that has a name. A thread that the test starts
//! has none, and works in the slot of its test.

use std::cell::RefCell;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;

/// Tests at a time, of those that do not ask for the machine. With two, two cores were busy for half of the time (7 min 54 s of CPU time
/// in 7 min 50 s).
const AT_ONCE: usize = 3;

/// How many tests run and wait now.
#[derive(Debug, Default)]
struct Running {
    /// Tests that share the machine.
    shared: usize,
    /// Whether a test has it alone.
    alone: bool,
    /// Tests that wait to have it alone.
    wishes: usize,
}

struct Slots {
    running: Mutex<Running>,
    changed: Condvar,
}

/// The slots of this test program.
static SLOTS: Slots = Slots::new();

thread_local! {
    /// The slot of the test that runs on this thread.
    static MINE: RefCell<Weak<Held>> = const { RefCell::new(Weak::new()) };
}

impl Slots {
    const fn new() -> Self {
        Self { running: Mutex::new(Running { shared: 0, alone: false, wishes: 0 }), changed: Condvar::new() }
    }

    fn take(&self, alone: bool) {
        let mut running = self.lock();
        running.wishes += usize::from(alone);
        let must_wait = |running: &mut Running| {
            let is_full = if alone { running.shared > 0 } else { running.wishes > 0 || running.shared >= AT_ONCE };
            running.alone || is_full
        };
        running = self.changed.wait_while(running, must_wait).unwrap_or_else(PoisonError::into_inner);
        running.wishes -= usize::from(alone);
        if alone {
            running.alone = true;
        } else {
            running.shared += 1;
        }
    }

    fn give_back(&self, alone: bool) {
        let mut running = self.lock();
        if alone {
            running.alone = false;
        } else {
            running.shared -= 1;
        }
        drop(running);
        self.changed.notify_all();
    }

    /// Ignores a poisoned lock: the test that panicked has failed already.
    fn lock(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A slot that a test has taken.
struct Held {
    alone: bool,
}

impl Drop for Held {
    fn drop(&mut self) {
        SLOTS.give_back(self.alone);
    }
}

/// The right to run; dropping the last one that a test holds gives it back.
#[must_use = "the test runs while it holds this"]
pub struct Slot {
    // None: on a thread that a test has started, whose test holds it.
    _held: Option<Arc<Held>>,
}

impl Slot {
    /// Beside other tests, at most [`AT_ONCE`] with this one.
    pub fn any() -> Self {
        Self::take(false)
    }

    /// With no other test: for those that measure the machine, keep it busy, or hold more than 4,000 descriptors.
    ///
    /// # Panics
    /// If the test holds a slot that it shares: it must be alone from its beginning.
    pub fn alone() -> Self {
        let slot = Self::take(true);
        let is_alone = slot._held.as_ref().is_none_or(|held| held.alone);
        assert!(is_alone, "this test shares the machine already; it has to ask for it first of all");
        slot
    }

    fn take(alone: bool) -> Self {
        if thread::current().name().is_none() {
            return Self { _held: None };
        }
        if let Some(held) = MINE.with_borrow(Weak::upgrade) {
            return Self { _held: Some(held) };
        }
        SLOTS.take(alone);
        let held = Arc::new(Held { alone });
        MINE.set(Arc::downgrade(&held));
        Self { _held: Some(held) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    /// How many are there at this moment.
    #[derive(Default)]
    struct There {
        shared: AtomicUsize,
        alone: AtomicUsize,
    }

    /// Takes a slot, looks who else is there, and gives it back.
    fn stay(slots: &Slots, there: &There, alone: bool) {
        slots.take(alone);
        let (counted, others, limit) =
            if alone { (&there.alone, &there.shared, 1) } else { (&there.shared, &there.alone, AT_ONCE) };
        let now = counted.fetch_add(1, Ordering::SeqCst) + 1;
        assert!(now <= limit && others.load(Ordering::SeqCst) == 0, "{now}, alone: {alone}");
        thread::yield_now();
        counted.fetch_sub(1, Ordering::SeqCst);
        slots.give_back(alone);
    }

    #[test]
    fn a_few_run_at_a_time_at_most_and_one_that_is_alone_has_nobody_beside() {
        let (slots, there) = (Slots::new(), There::default());
        thread::scope(|scope| {
            for number in 0..8 {
                let (slots, there) = (&slots, &there);
                scope.spawn(move || (0..200).for_each(|round| stay(slots, there, (number + round) % 5 == 0)));
            }
        });
        let running = slots.lock();
        assert_eq!((running.shared, running.alone, running.wishes), (0, false, 0));
    }

    /// Event by event: as many as there are slots get in, one that wants to be alone waits for all, and one that comes later waits for that.
    #[test]
    fn whoever_waits_to_be_alone_goes_before_later_ones() {
        let slots = Slots::new();
        (0..AT_ONCE).for_each(|_| slots.take(false));
        let (tell, told) = mpsc::channel();
        thread::scope(|scope| {
            let is_waiting = |wishes: usize| {
                while slots.lock().wishes != wishes {
                    thread::yield_now();
                }
            };
            let (slots, first) = (&slots, tell.clone());
            scope.spawn(move || {
                slots.take(true);
                first.send("alone").expect("somebody listens");
                slots.give_back(true);
            });
            is_waiting(1);
            scope.spawn(move || {
                slots.take(false);
                tell.send("later").expect("somebody listens");
                slots.give_back(false);
            });
            (1..AT_ONCE).for_each(|_| slots.give_back(false));
            assert!(told.try_recv().is_err(), "one is still there");
            slots.give_back(false);
            assert_eq!(told.recv().as_deref(), Ok("alone"));
            assert_eq!(told.recv().as_deref(), Ok("later"));
        });
    }

    #[test]
    fn a_test_shares_its_own_slot_and_its_threads_need_none() {
        let first = Slot::any();
        let second = Slot::any();
        let same = |a: &Slot, b: &Slot| match (&a._held, &b._held) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            _ => false,
        };
        assert!(same(&first, &second));
        drop(first);
        assert!(same(&second, &Slot::any()), "it is still held");
        let in_thread = thread::spawn(|| Slot::alone()._held.is_none());
        assert!(in_thread.join().expect("it does not panic"));
        assert!(std::panic::catch_unwind(Slot::alone).is_err(), "too late to be alone");
    }
}
