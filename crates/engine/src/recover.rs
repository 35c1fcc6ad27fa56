//! After a panic in a machine: checks the machine, closes the connection that was being served, or replaces the
//! machine.
//!
//! Only one connection ends, unless the machine's invariants do not hold: then all its connections end. The coordinator
//! is never replaced, because only it knows what it counts: if it cannot go on, the process ends.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use machine::{Event, Hangup, Level, Place};
use units::ConnId;
use units::limits::CHUNK_LEN_MAX;

use crate::host::Host;
use crate::residents::kinds_of;

/// A machine that panics in so many rounds in a row is replaced, even if its invariants hold.
const PANICS_MAX: u32 = 4;

/// Runs a thread's loop, and goes on after a panic.
pub(crate) struct Supervisor {
    host: Host,
    /// Panics without a good round between them.
    panics_in_a_row: u32,
}

impl Supervisor {
    pub(crate) fn new(host: Host) -> Supervisor {
        Supervisor { host, panics_in_a_row: 0 }
    }

    /// Runs the thread until it has to end.
    pub(crate) fn run(mut self) {
        while !self.host.leaving {
            match catch_unwind(AssertUnwindSafe(|| self.host.round())) {
                Ok(()) => self.panics_in_a_row = 0,
                Err(panic) => self.recover(panic.as_ref()),
            }
        }
    }

    fn recover(&mut self, panic: &(dyn Any + Send)) {
        self.host.counters.panics += 1;
        self.panics_in_a_row += 1;
        let words = words(panic);
        // What was half done is dropped. Readiness is level-triggered, so it is reported again, and so are deadlines.
        self.host.buffer = vec![0; CHUNK_LEN_MAX];
        self.host.aftermath.clear();
        self.host.in_hand = None;
        self.host.residents.drop_actions();
        let Some((resident, conn)) = self.host.serving.take() else {
            self.say(Level::Error, format!("panic in the event loop: {words}"));
            if self.panics_in_a_row >= PANICS_MAX {
                self.host.shared.leave();
            }
            return;
        };
        let place = self.host.residents[resident].place;
        match self.fault(resident) {
            None if self.panics_in_a_row >= PANICS_MAX => {
                self.renew(resident, &format!("{words}; so it did {} times in a row", self.panics_in_a_row));
            }
            None => {
                self.say(Level::Error, format!("panic in {place:?} while serving {conn:?}, which is closed: {words}"));
                self.end_served(resident, conn);
            }
            Some(fault) => self.renew(resident, &format!("{words}; {fault}")),
        }
    }

    /// What is wrong with a machine. A panic in its check counts as a fault.
    fn fault(&self, resident: usize) -> Option<String> {
        let machine = self.host.residents[resident].machine();
        catch_unwind(AssertUnwindSafe(|| machine.fault()))
            .unwrap_or_else(|_| Some("looking it over panicked too".to_owned()))
    }

    /// Ends the one connection whose event led to the panic.
    fn end_served(&mut self, resident: usize, conn: Option<ConnId>) {
        let Some(conn) = conn else { return };
        drop(self.host.connections.remove(conn));
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            self.host.deliver_event(resident, Event::Hangup { conn, why: Hangup::Broken });
        }));
        if outcome.is_err() {
            self.host.counters.panics += 1;
            self.host.residents.drop_actions();
            self.host.aftermath.clear();
            self.renew(resident, "it panicked again when the connection ended");
        }
    }

    /// Closes everything of an unsound machine and starts an empty one.
    fn renew(&mut self, resident: usize, why: &str) {
        let place = self.host.residents[resident].place;
        let kinds = kinds_of(place);
        if kinds.is_empty() {
            self.say(
                Level::Error,
                format!("panic in {place:?}, which cannot be made anew, so the process ends: {why}"),
            );
            self.host.shared.leave();
            return;
        }
        self.say(Level::Error, format!("panic in {place:?}, which is unsound: all its connections are closed: {why}"));
        for &kind in kinds {
            self.host.connections.close_all(kind);
        }
        if let Place::Worker(worker) = place {
            self.host.dialer.give_up_all();
            self.host.shared.board.forget(worker);
        }
        self.host.residents.renew(resident, &self.host.shared.settings());
    }

    fn say(&self, level: Level, text: String) {
        self.host.shared.log.say(level, text);
    }
}

/// The message of a panic.
fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without words")
}
