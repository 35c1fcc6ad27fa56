//! Why a session keeps its server: what it is known to have there, and what it is suspected to have.
//!
//! Promises: of each kind the statement that was first is remembered, and since when the server is kept. Does not ask the
//! server ([`super::inspection`]).

use units::Time;

use super::reasons::Reasons;
use crate::state::{PinSnapshot, Pins};

/// What one session has on its server alone.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Pinning {
    pins: Pins,
    /// What may have come about, or ended, since it was looked for last.
    suspects: Pins,
    reasons: Reasons,
    since: Option<Time>,
    /// Kinds that were counted of this stay.
    counted: Pins,
}

impl Pinning {
    pub fn pins(&self) -> Pins {
        self.pins
    }

    pub fn suspects(&self) -> Pins {
        self.suspects
    }

    /// The session will not leave its server as soon as it might.
    pub fn keeps(&self) -> bool {
        !(self.pins | self.suspects).is_empty()
    }

    /// The session has kept its server since an earlier transaction.
    pub fn is_pinned(&self) -> bool {
        self.since.is_some()
    }

    /// The session is to keep its server because of this text.
    pub fn pin(&mut self, pins: Pins, text: &[u8]) {
        self.pins |= pins;
        self.reasons.note(pins, text);
    }

    /// The session keeps the server that it has just got for as long as it lives.
    pub fn pin_for_life(&mut self, now: Time) {
        self.pins |= Pins::BACKEND_PID;
        self.since.get_or_insert(now);
    }

    /// Whether the session keeps its server as far as is known now: then it does so since now, if not for longer.
    pub fn stays(&mut self, now: Time) -> bool {
        let stays = !self.pins.is_empty();
        if stays {
            self.since.get_or_insert(now);
        }
        stays
    }

    /// Of the kinds that the session is pinned for, those that have come since this was asked last; and whether it is newly
    /// pinned.
    pub fn news(&mut self) -> (Pins, bool) {
        let began = self.counted.is_empty() && !self.pins.is_empty();
        let come = self.pins & !self.counted;
        self.counted = self.pins;
        (come, began)
    }

    pub fn snapshot(&self) -> Option<PinSnapshot> {
        let statement = String::from_utf8_lossy(self.reasons.first(self.pins)).into_owned();
        let since = self.since.filter(|_| !self.pins.is_empty());
        since.map(|since| PinSnapshot { since, kinds: self.pins, statement })
    }

    /// These are there.
    pub(super) fn add(&mut self, pins: Pins) {
        self.pins |= pins;
    }

    /// These are gone.
    pub(super) fn end(&mut self, pins: Pins) {
        self.pins = self.pins & !pins;
    }

    /// Of `kinds`, these are there and the others are not.
    pub(super) fn replace(&mut self, kinds: Pins, pins: Pins) {
        self.pins = self.pins & !kinds | pins;
    }

    /// A text is sent that may leave these.
    pub(super) fn note(&mut self, pins: Pins, text: &[u8]) {
        self.reasons.note(pins, text);
    }

    pub(super) fn suspect(&mut self, pins: Pins) {
        self.suspects |= pins;
    }

    /// The server has reported a parameter, and no text of the session explains it: a check lists the settings.
    pub fn doubt_parameters(&mut self) {
        self.suspect(Pins::LISTED);
    }

    /// What lasts as long as the server is taken to be there.
    pub(super) fn believe_lasting(&mut self) {
        let lasting = self.suspects.lasting();
        self.pins |= lasting;
        self.suspects = self.suspects & !lasting;
    }

    /// The server is about to be asked.
    pub(super) fn take_suspects(&mut self) -> Pins {
        std::mem::take(&mut self.suspects)
    }

    /// All that there was to learn is learnt: whether the session stays.
    pub(super) fn settle(&mut self, now: Time) -> bool {
        self.reasons.keep_only(self.pins);
        let stays = self.stays(now);
        if !stays {
            (self.since, self.counted) = (None, Pins::NONE);
        }
        stays
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::ZERO;

    #[test]
    fn a_stay_begins_once_and_ends_with_its_last_kind() {
        let mut pinning = Pinning::default();
        pinning.pin(Pins::TEMPORARY, b"create temp table t ()");
        assert!(pinning.keeps() && !pinning.is_pinned(), "it has not outlasted its transaction");
        assert!(pinning.settle(NOW) && pinning.is_pinned());
        assert_eq!(pinning.news(), (Pins::TEMPORARY, true));
        pinning.pin(Pins::ADVISORY, b"select pg_advisory_lock(1)");
        assert_eq!(pinning.news(), (Pins::ADVISORY, false));
        assert_eq!(pinning.snapshot().expect("it is pinned").statement, "create temp table t ()");
        pinning.end(Pins::TEMPORARY);
        assert!(pinning.settle(NOW));
        assert_eq!(pinning.snapshot().expect("it is pinned").statement, "select pg_advisory_lock(1)");
        pinning.replace(Pins::CHECKABLE, Pins::NONE);
        assert!(!pinning.settle(NOW) && !pinning.is_pinned() && pinning.snapshot().is_none());
        pinning.pin(Pins::TEMPORARY, b"create temp table u ()");
        assert_eq!(pinning.news(), (Pins::TEMPORARY, true), "another stay is counted anew");
    }

    #[test]
    fn what_no_check_finds_is_believed_at_once() {
        let mut pinning = Pinning::default();
        pinning.suspect(Pins::LOAD | Pins::HOLD);
        pinning.believe_lasting();
        assert_eq!((pinning.pins(), pinning.suspects()), (Pins::LOAD, Pins::HOLD));
        assert_eq!(pinning.take_suspects(), Pins::HOLD);
        assert!(pinning.suspects().is_empty() && pinning.keeps());
    }
}
