//! How long an end may take: a shutdown, and the time in which another process takes our place.
//!
//! ```text
//!   SIGTERM, SHUTDOWN WAIT_FOR_… ─► Ending ─ shutdown_timeout ─► sessions end at the end of their transactions, with 57P01
//!   another process has started ──► HandingOver ─ upgrade_timeout ─► the same, for those that could not move
//!                                    └ nobody is left ─► the process ends
//!                                    └ it is gone ─► Running
//! ```

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use machine::{Level, Orders, Stop};

use super::{ControlEvent, Ending, Steward, orders};
use crate::plane::{Loaded, Plane, Wanted};
use crate::shutdown::Phase;

/// How often it is looked whether anybody is left.
const LOOK: Duration = Duration::from_millis(100);

/// So many looks in a row have to find nobody: somebody may be on the way from the door to a worker.
const LOOKS: u32 = 3;

/// The end that has begun.
#[derive(Debug, Default)]
pub(super) struct Countdown {
    /// When it takes too long.
    late_at: Option<Instant>,
    look_at: Option<Instant>,
    looks: u32,
}

impl Countdown {
    fn begin(now: Instant, timeout: Option<Duration>, looks: bool) -> Countdown {
        Countdown {
            late_at: timeout.and_then(|timeout| now.checked_add(timeout)),
            look_at: looks.then(|| now + LOOK),
            looks: 0,
        }
    }

    /// How long until there is something to do.
    pub(super) fn left(&self, now: Instant) -> Duration {
        let next = self.late_at.into_iter().chain(self.look_at).min();
        next.map_or(Duration::MAX, |next| next.saturating_duration_since(now))
    }
}

impl<P: Plane, L: FnMut(Wanted<'_>) -> Result<Loaded, Vec<String>>> Steward<P, L> {
    /// A shutdown that waits has begun.
    pub(super) fn time_shutdown(&mut self, stop: Stop) {
        let timeout = self.loaded.settings.global.waiting.shutdown_timeout;
        let waits = matches!(stop, Stop::WaitForClients | Stop::WaitForServers);
        self.end = Countdown::begin(Instant::now(), timeout.filter(|_| waits), false);
    }

    /// Whether another process may take our place now, and what was ordered here.
    pub(super) fn may_hand_over(&mut self, pid: u32) -> Result<Orders, String> {
        let answer = match self.phase {
            Phase::Running if self.orders.is_suspended() => Err("it is suspended".to_owned()),
            Phase::Running => Ok(self.orders.clone()),
            Phase::HandingOver => Err("it is handing over to another process already".to_owned()),
            Phase::Ending(_) => Err("it is shutting down".to_owned()),
        };
        let words = match &answer {
            Ok(_) => format!("process {pid} is about to take over"),
            Err(why) => format!("process {pid} was refused to take over: {why}"),
        };
        self.plane.tell(Level::Log, words);
        answer
    }

    /// Another process has started to take our place.
    pub(super) fn hand_over(&mut self, pid: u32) {
        self.plane.tell(Level::Log, format!("handing over to process {pid}"));
        if self.orders.is_suspended() {
            // SUSPEND has come since that process asked.
            let _ = self.resume(None);
        }
        self.ready.store(false, Ordering::Relaxed);
        self.has_successor = true;
        // A shutdown may have been ordered since that process asked: it goes on.
        if self.phase == Phase::Running {
            self.phase = Phase::HandingOver;
            self.end = Countdown::begin(Instant::now(), self.loaded.settings.global.waiting.upgrade_timeout, true);
        }
        // Their servers are not all here any more.
        self.refuse_waiting(orders::TAKEN_OVER, |_| true);
        self.plane.hand_over();
    }

    /// One of the processes before and after this one is gone.
    pub(super) fn neighbour_gone(&mut self, event: &ControlEvent) {
        match event {
            ControlEvent::SuccessorGone => self.take_back(),
            ControlEvent::SuccessorReplaced => self.leave(),
            _ => {
                self.plane.tell(Level::Log, "the process before this one has ended".to_owned());
                self.plane.predecessor_gone();
            }
        }
    }

    /// It is gone.
    fn take_back(&mut self) {
        if !std::mem::take(&mut self.has_successor) {
            return;
        }
        self.plane.tell(Level::Warning, "the process that was taking over is gone, going on without it".to_owned());
        // A shutdown that was ordered meanwhile goes on, but who is still here is served by us alone.
        let is_running = self.phase == Phase::HandingOver;
        if is_running {
            self.phase = Phase::Running;
            self.end = Countdown::default();
            self.ready.store(true, Ordering::Relaxed);
        }
        self.plane.take_back(is_running);
    }

    /// It is gone too, and a third process has its place: nobody serves those who are left here for longer than their transactions, since the limits
    /// that hold there know nothing of them.
    fn leave(&mut self) {
        let words =
            "the process that was taking over is gone, and another has its place: waiting for transactions only";
        self.plane.tell(Level::Warning, words.to_owned());
        self.has_successor = false;
        self.phase = Phase::Ending(Stop::WaitForTransactions);
        self.end = Countdown::default();
        self.plane.leave();
    }

    /// Does what is due about the end that has begun. Returns how the process ends, if it now does.
    pub(super) fn attend_end(&mut self, now: Instant) -> Option<Ending> {
        if self.end.late_at.is_some_and(|late| late <= now) {
            self.end.late_at = None;
            let name = if self.phase == Phase::HandingOver { "upgrade_timeout" } else { "shutdown_timeout" };
            self.plane.tell(Level::Log, format!("{name} is over, waiting for transactions only"));
            if self.phase == Phase::HandingOver {
                self.plane.end_what_stays();
            } else {
                self.phase = Phase::Ending(Stop::WaitForTransactions);
                self.plane.stop(Stop::WaitForTransactions);
            }
        }
        if self.end.look_at.is_some_and(|look| look <= now) {
            self.end.look_at = Some(now + LOOK);
            self.end.looks = if self.plane.is_left() { 0 } else { self.end.looks + 1 };
            if self.end.looks >= LOOKS {
                let words = self.phase.last_words().unwrap_or_default();
                self.plane.tell(Level::Log, words.to_owned());
                return Some(Ending::HandedOver);
            }
        }
        None
    }
}
