//! After a panic in a machine: checks the machine, closes the connection that was being served, or replaces the
//! machine.
//!
//! Only one connection ends, unless the machine's invariants do not hold or the step in which it panicked leaves
//! something half done: then all its connections end. Their clients get an error, unless they may have part of a
//! message. The machine that replaces it notifies the other machines that count its resources (`Event::Renewed`). The
//! coordinator is never replaced, because only it knows what it counts: what it asked for before it panicked is carried
//! out, and if it cannot go on, the process ends.

use std::any::Any;
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};

use machine::{Action, Event, Hangup, Level, Lost, Mail, Place};
use pooling::Worker;
use rustix::net::{SendFlags, Shutdown, send, shutdown};
use units::limits::CHUNK_LEN_MAX;
use units::{ConnId, DoorId};

use crate::connections::{Parcel, Phase};
use crate::host::{AtStake, Host};
use crate::residents::kinds_of;

/// A machine that panics in so many rounds in a row is replaced, even if its invariants hold.
const PANICS_MAX: u32 = 4;

/// Runs a thread's loop, and goes on after a panic.
pub(crate) struct Supervisor {
    host: Host,
    /// Panics without a good round between them.
    panics_in_a_row: u32,
}

/// What remains of a step in which a machine panicked.
struct Wreck {
    /// Its actions, none of which is done; `None`: some are done.
    asked: Option<Vec<Action>>,
    served: Option<ConnId>,
    /// Facts for the machine that replaces it.
    lost: Option<Box<Lost>>,
    /// Other machines wait for its actions, or it waits for their result.
    is_half_done: bool,
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
        self.host.buffer = vec![0; CHUNK_LEN_MAX];
        let wreck = self.wreck();
        let Some((resident, conn)) = self.host.under_way.serving.take() else {
            self.say(Level::Error, format!("panic in the event loop: {words}"));
            if self.panics_in_a_row >= PANICS_MAX {
                self.host.shared.leave();
            }
            return;
        };
        let place = self.host.residents[resident].place;
        match (self.fault(resident), conn) {
            (None, _) if self.panics_in_a_row >= PANICS_MAX => {
                self.renew(resident, wreck, &format!("{words}; so it did {} times in a row", self.panics_in_a_row));
            }
            (None, Some(conn)) if !wreck.is_half_done => {
                self.say(Level::Error, format!("panic in {place:?} while serving {conn:?}, which is closed: {words}"));
                self.end_served(resident, conn);
            }
            (None, _) if kinds_of(place).is_empty() => self.carry_on(resident, wreck, words),
            (None, _) => self.renew(resident, wreck, &format!("{words}; what it was about is half done")),
            (Some(fault), _) => self.renew(resident, wreck, &format!("{words}; {fault}")),
        }
    }

    /// Drops what was half done. Readiness is level-triggered, so it is reported again, and so are deadlines.
    fn wreck(&mut self) -> Wreck {
        let host = &mut self.host;
        let at_stake = std::mem::replace(&mut host.under_way.at_stake, AtStake::Nothing);
        let asked =
            host.under_way.serving.map(|(resident, _)| host.residents.take_actions(resident)).unwrap_or_default();
        let asked = if matches!(at_stake, AtStake::Actions) { None } else { Some(asked) };
        let aftermath = std::mem::take(&mut host.aftermath);
        let is_half_done = !aftermath.is_empty() || asked.as_ref().is_none_or(|asked| !asked.is_empty());
        host.residents.drop_actions();
        host.log_switches = None;
        let is_plain = |parcel: &Parcel| parcel.layer.is_none();
        let client = host.under_way.in_hand.take().filter(|_| matches!(at_stake, AtStake::Client)).filter(is_plain);
        if let Some(client) = client {
            say_last_words(client.fd.as_fd());
        }
        let lost = if let AtStake::Mail(lost) = at_stake { Some(lost) } else { None };
        let served = host.under_way.serving.and_then(|(_, conn)| conn);
        Wreck { asked, served, lost, is_half_done }
    }

    /// What is wrong with a machine. A panic in its check counts as a fault.
    fn fault(&self, resident: usize) -> Option<String> {
        let machine = self.host.residents[resident].machine();
        catch_unwind(AssertUnwindSafe(|| machine.fault()))
            .unwrap_or_else(|_| Some("looking it over panicked too".to_owned()))
    }

    /// Ends the one connection whose event led to the panic.
    fn end_served(&mut self, resident: usize, conn: ConnId) {
        drop(self.host.connections.remove(conn));
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            self.host.deliver_event(resident, Event::Hangup { conn, why: Hangup::Broken });
        }));
        if outcome.is_err() {
            self.host.counters.panics += 1;
            let wreck = self.wreck();
            self.renew(resident, wreck, "it panicked again when the connection ended");
        }
    }

    /// Carries out what the coordinator asked for before it panicked, because it counts that as done: a token that it
    /// granted would be lost otherwise.
    fn carry_on(&mut self, resident: usize, wreck: Wreck, words: &str) {
        let Some(asked) = wreck.asked else {
            return self.renew(resident, wreck, &format!("{words}; what it asked for is half done"));
        };
        let place = self.host.residents[resident].place;
        self.say(Level::Error, format!("panic in {place:?}, which goes on: {words}"));
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            self.host.residents.stepping(resident).1.put_back(asked);
            self.host.see_through(resident, &[]);
            // In this step it finds its next deadline, which it does at the end of each.
            self.host.deliver_event(resident, Event::RoundEnded);
            self.host.under_way.serving = None;
        }));
        if outcome.is_err() {
            self.say(Level::Error, format!("panic in {place:?} while resuming, so the process ends"));
            self.host.shared.leave();
        }
    }

    /// Closes everything of an unsound machine and starts an empty one.
    fn renew(&mut self, resident: usize, wreck: Wreck, why: &str) {
        let place = self.host.residents[resident].place;
        let kinds = kinds_of(place);
        if kinds.is_empty() {
            self.say(
                Level::Error,
                format!("panic in {place:?}, which cannot be restarted, so the process ends: {why}"),
            );
            self.host.shared.leave();
            return;
        }
        self.say(Level::Error, format!("panic in {place:?}, which is unsound: all its connections are closed: {why}"));
        self.say_farewell(resident, &wreck);
        for &kind in kinds {
            self.host.connections.close_all(kind);
        }
        if let Place::Worker(worker) = place {
            self.host.dialer.give_up_all();
            self.host.shared.board.forget(worker);
        }
        let begun = catch_unwind(AssertUnwindSafe(|| self.begin_anew(resident, place, wreck.lost)));
        if begun.is_err() {
            self.say(Level::Error, format!("panic in {place:?} while restarting, so the process ends"));
            self.host.shared.leave();
        }
    }

    fn begin_anew(&mut self, resident: usize, place: Place, lost: Option<Box<Lost>>) {
        let host = &mut self.host;
        let life = host.residents.renew(resident, &host.shared.settings());
        host.deliver_event(resident, Event::Renewed { life, lost });
        // The door passes the stop on when it has finished.
        let is_passed_on = host.shared.end.is_finished(Place::Door(DoorId(0)));
        if let Some(stop) = host.shared.stop().filter(|stop| stop.is_sent_to(place) || is_passed_on) {
            host.deliver_event(resident, Event::Mail(Mail::stop(place, stop)));
        }
        host.under_way.serving = None;
    }

    /// Sends an error to clients of an unsound machine, where it is known that they have no part of a message.
    fn say_farewell(&self, resident: usize, wreck: &Wreck) {
        let machine = self.host.residents[resident].machine();
        let Some(asked) = &wreck.asked else { return };
        let to_tell = catch_unwind(AssertUnwindSafe(|| machine.clients_to_notify(asked, wreck.served)));
        for conn in to_tell.unwrap_or_default() {
            if let Some(outlet) = self.host.connections.outlet(conn)
                && outlet.phase == Phase::Open
                && !outlet.has_backlog
                && !outlet.is_encrypted
            {
                say_last_words(outlet.fd);
            }
        }
    }

    fn say(&self, level: Level, text: String) {
        self.host.shared.log.say(level, text);
    }
}

/// Says why a client is closed, as far as its socket takes it at once.
fn say_last_words(fd: BorrowedFd<'_>) {
    // Fails if the client is gone already.
    let _ = send(fd, &Worker::last_words(), SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
    let _ = shutdown(fd, Shutdown::Write);
}

/// The message of a panic.
fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without words")
}
