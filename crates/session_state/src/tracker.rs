//! One session's state while it is followed: what it has set, what it keeps on its server, what its statements under way
//! will do. Most sessions have none.
//!
//! Promises: an effect is noted when the server has confirmed it, in the server's order, and taken back when the server
//! takes it back. What cannot be told is looked for ([`Check`]), and until then the server stays.
//!
//! //= pg18 protocol-flow#PROTOCOL-FLOW-MULTI-STATEMENT

mod hearing;
mod meaning;
mod naming;
#[cfg(test)]
mod pairs_of_marks;
mod pieces;
mod places;
mod portals;
mod reasons;
mod restarting;
mod split;
mod under_way;

pub use naming::Seen;
pub use places::{Circumstances, Places};
use restarting::Restarting;
pub use split::Split;
use under_way::UnderWay;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sql::{Marks, Pieces};
use units::{Time, limits};
use wire::frontend::bind_parameter;

use crate::catalogue::{Announcement, Hidden, Known};
use crate::parameters::{Parameters, Reported, Tracked};
use crate::prepared::Names;
use crate::state::channels::Ears;
use crate::state::check::Check;
use crate::state::effects::{Effect, Effects, Kept, Prepared, is_identity, is_passing};
use crate::state::journal::Journal;
use crate::state::prepared::{self, OnServer, Remedy};
use crate::state::{Again, Change, PinSnapshot, Pins, Reading, State};
use reasons::Reasons;

/// A prepared statement of the protocol that is more than plain.
#[derive(Debug)]
pub struct Marked {
    pub text: Arc<[u8]>,
    pub reading: Reading,
    pub effects: Effects,
}

impl Marked {
    /// It names a setting by a parameter.
    pub fn is_unbound(&self) -> bool {
        self.effects.iter().any(Effect::is_unbound)
    }

    /// As it is with the parameters of a Bind, of which this stands behind its names.
    pub fn bound(&self, behind_names: &[u8]) -> Marked {
        let effects = self.effects.bound(|number| bind_parameter(behind_names, number));
        Marked { text: Arc::clone(&self.text), reading: self.reading, effects }
    }
}

#[derive(Debug)]
struct Portal {
    marked: Arc<Marked>,
    /// How many ReadyForQuery come before the one that may end it.
    awaited: usize,
}

/// What becomes of a server whose client has all its answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// Another may have it.
    Free,
    /// It must be asked first.
    Ask(Check),
    /// It stays with this session.
    Pinned,
}

#[derive(Debug, Default)]
pub struct Tracker {
    journal: Journal,
    /// By SQL's PREPARE.
    prepared: BTreeMap<Box<[u8]>, Prepared>,
    prepared_len: usize,
    sent: UnderWay,
    /// Of the protocol's statement without a name, and of portals, those that are more than plain.
    unnamed: Option<Arc<Marked>>,
    portals: BTreeMap<Box<[u8]>, Portal>,
    pins: Pins,
    /// A text of which the end has not passed yet.
    pieces: Option<Box<Pieces>>,
    /// The beginning of the last one that came in pieces.
    gathered: Vec<u8>,
    /// What may have come about, or ended, since it was looked for last.
    suspects: Pins,
    look: Look,
    /// What the server has told of what it was asked.
    row: Option<Box<[u8]>>,
    /// Texts were run that nobody has read.
    ran_text: bool,
    /// Settings whose values are to be asked for.
    unread: BTreeSet<Box<[u8]>>,
    restarting: Restarting,
    /// Some have been: the server may have other values than the session.
    restarted: bool,
    /// Where it listens, or wants to.
    ears: Option<Box<Ears>>,
    /// It has said something on a channel: how many ReadyForQuery come before the one that may commit that.
    said: Option<usize>,
    /// What texts mean until the server tells.
    meant: Option<Arc<Parameters>>,
    reasons: Reasons,
    /// A text of the transaction is known to make something temporary, not only suspected.
    makes_temporary: bool,
    /// What it is about to define, while the other workers are told.
    pub announcement: Option<Box<Announcement>>,
    pinned_since: Option<Time>,
    /// Kinds that were counted of this stay.
    counted: Pins,
    /// What its client was told at login of parameters that are not tracked, where that is not what its pool's servers begin with.
    pub told: Option<Arc<Reported>>,
    /// A text is being sent in two messages.
    pub split: Option<Split>,
    /// It is counted among its pool's pinned sessions.
    pub seated: bool,
}

/// How far the looking is for what no tag tells.
#[derive(Clone, Debug, Default)]
enum Look {
    /// Not since the client was answered last.
    #[default]
    Due,
    /// What for, and how much of that was suspected.
    Asked(Check, Pins, Pins),
    /// Answered, or in vain: the same question would have the same answer, until the client has asked for something more.
    Over,
}

impl Tracker {
    /// Of a session that begins with these settings.
    pub fn starting(first: State) -> Tracker {
        Tracker { journal: Journal::starting(Arc::new(first)), ..Tracker::default() }
    }

    /// Whether its server is to be cleared before anybody else has it: what is there is not what the session believes.
    pub fn soils(&self) -> bool {
        self.journal.is_reverted() || self.ran_text
    }

    /// It leaves its server.
    pub fn leave(&mut self) {
        (self.restarted, self.ran_text, self.makes_temporary) = (false, false, false);
        self.journal.take_reverted();
    }

    /// It has reset what it began with, of which its server knows nothing: what the server has of its state.
    pub fn take_reverted(&mut self) -> Option<State> {
        let is_reverted = std::mem::take(&mut self.restarted) | self.journal.is_reverted();
        is_reverted.then(|| self.journal.take_reverted())
    }

    /// As [`Tracker::take_reverted`], of what is under way.
    pub fn is_reverting(&self) -> bool {
        let reverts = |effect: &Effect| match effect {
            Effect::Restart(_) | Effect::DiscardAll => true,
            Effect::Change(changes) => {
                changes.iter().any(|change| *change == Change::ResetAll || self.journal.reverts(change))
            }
            _ => false,
        };
        self.sent.any(reverts)
    }

    pub fn is_reverted(&self) -> bool {
        self.restarted || self.journal.is_reverted()
    }

    pub fn state(&self) -> &Arc<State> {
        self.journal.now()
    }

    /// There is nothing to follow any more.
    pub fn is_idle(&self) -> bool {
        let none_named = self.prepared.is_empty() && self.unnamed.is_none() && self.portals.is_empty();
        let none_set = self.state().is_base() && !self.journal.reverts(&Change::DiscardAll) && !self.journal.is_open();
        none_named && none_set && self.is_settled() && self.is_silent() && self.split.is_none()
    }

    pub fn pins(&self) -> Pins {
        self.pins
    }

    /// It will not leave its server as soon as it might.
    pub fn keeps(&self) -> bool {
        !(self.pins | self.suspects).is_empty()
    }

    /// It has kept its server since an earlier transaction.
    pub fn is_pinned(&self) -> bool {
        self.pinned_since.is_some()
    }

    /// It keeps the server that it has just got for as long as it lives.
    pub fn pin_for_life(&mut self, now: Time) {
        self.pins |= Pins::BACKEND_PID;
        self.pinned_since.get_or_insert(now);
    }

    /// Of the kinds that it is pinned for, those that have come since this was asked last; and whether it is newly pinned.
    pub fn news(&mut self) -> (Pins, bool) {
        let began = self.counted.is_empty() && !self.pins.is_empty();
        let come = self.pins & !self.counted;
        self.counted = self.pins;
        (come, began)
    }

    /// It has something temporary, or is making it.
    pub fn has_temporary(&self) -> bool {
        self.makes_temporary || self.pins.any(Pins::TEMPORARY)
    }

    pub fn suspected(&self) -> Pins {
        self.suspects
    }

    /// Nothing is pinned, suspected, or under way: its state is all there is.
    pub fn is_settled(&self) -> bool {
        (self.pins | self.suspects).is_empty()
            && self.pieces.is_none()
            && self.asked().is_none()
            && self.sent.is_empty()
    }

    pub fn snapshot(&self) -> Option<PinSnapshot> {
        let statement = String::from_utf8_lossy(self.reasons.first(self.pins)).into_owned();
        let since = self.pinned_since.filter(|_| !self.pins.is_empty());
        since.map(|since| PinSnapshot { since, kinds: self.pins, statement })
    }

    /// Whether its server may be lost without it: whatever it has can be on another.
    pub fn outlives_server(&self) -> bool {
        (self.pins | self.suspects).is_empty() && self.asked().is_none() && !self.state().is_bound()
    }

    /// Whether something that is taken back may be noted.
    pub fn is_open(&self) -> bool {
        self.journal.is_open() || !self.sent.is_empty()
    }

    /// A text is about to be sent that may leave something on its server, or end something there.
    pub fn suspect(&mut self, reading: Reading, text: &[u8], known: &Known) {
        let (mut hidden, mut names) = (reading.hidden, Vec::new());
        if reading.marks.any(Marks::BLOCK) {
            let block = known.hides_in_block(text);
            hidden |= block.hidden;
            names = block.settings;
        }
        if hidden.any(Hidden::DYNAMIC) {
            // What it runs may be made of what stands in this text; what comes from elsewhere nobody can list.
            let given = known.hides_in_strings(text);
            hidden |= given.hidden | Hidden::SETTINGS;
            names.extend(given.settings);
            self.ran_text = true;
        }
        let mut left = reading.pins() | Pins::of_hidden(hidden);
        if reading.redefines() && self.state().makes_temporary() {
            left |= Pins::TEMPORARY;
        }
        let pins = left | self.pins & Pins::ended_by(reading.marks);
        if pins.is_empty() {
            return;
        }
        self.suspects |= pins;
        self.makes_temporary |= reading.marks.any(Marks::TEMPORARY) || reading.hidden.any(Hidden::TEMPORARY);
        // What no check finds, and no tag tells.
        self.pins |= left & Pins::PREPARED;
        self.suspect_listening(left);
        if hidden.any(Hidden::SETTINGS) {
            names.extend(known.settings().map(Box::from));
            self.ask_for(&names, false);
        }
        self.reasons.note(left, text);
    }

    /// A message is sent whose effects are noted: its entry in the ledger is marked.
    pub fn sent(&mut self, effects: Effects, text: &[u8]) {
        let pins = match self.sent.has_room_for(&effects) {
            true => effects.iter().fold(Pins::NONE, |pins, effect| pins | effect.pins()),
            false => Effect::Unknown.pins(),
        };
        self.reasons.note(pins, text);
        self.sent.push(effects);
    }

    /// A command tag has come for the oldest message that is noted: all effects of its next statement are there.
    pub fn confirmed(&mut self, tag: &[u8], mut places: Places<'_>) {
        let Some((mut effect, mut is_last)) = self.sent.next_effect() else {
            // More tags than statements: it is not what it was taken for.
            self.apply(Effect::Unknown, tag, &mut places);
            return match tag {
                b"DISCARD ALL\0" => self.apply(Effect::DiscardAll, tag, &mut places),
                b"DEALLOCATE ALL\0" => self.apply(Effect::DeallocateAll, tag, &mut places),
                _ => {}
            };
        };
        loop {
            self.apply(effect, tag, &mut places);
            if is_last {
                return;
            }
            (effect, is_last) = self.sent.next_effect().expect("a statement's effects end with its last");
        }
    }

    /// The oldest message that is noted has been answered, or will not be.
    pub fn finished(&mut self) {
        self.sent.finished();
    }

    /// An error came. Whatever follows of the same message does not happen.
    pub fn failed(&mut self) {
        self.journal.failed();
        // What was reset in the same breath is as it was before.
        self.restarting = Restarting::default();
    }

    pub fn void_front(&mut self) {
        self.sent.void_front();
    }

    /// The client's ReadyForQuery. `idle`: outside of a transaction.
    pub fn ready(&mut self, idle: bool) {
        self.journal.ready(idle);
        self.pin_listener();
        if matches!(self.look, Look::Over) {
            self.look = Look::Due;
        }
        self.restarted |= std::mem::take(&mut self.restarting).is_any();
        self.meant = None;
        if idle {
            self.portals.retain(|_, portal| portal.awaited > 0);
        }
        for portal in self.portals.values_mut() {
            portal.awaited = portal.awaited.saturating_sub(1);
        }
        self.hear_ready(idle);
    }

    fn apply(&mut self, effect: Effect, tag: &[u8], places: &mut Places<'_>) {
        match effect {
            Effect::Nothing | Effect::Execute(_) => {}
            Effect::Unknown => self.suspects |= Pins::ANYTHING | Pins::DYNAMIC,
            Effect::Parameter { index, value } => {
                self.restarting.set(index);
                self.mean(index, value.as_deref(), places);
            }
            Effect::End if tag == b"ROLLBACK\0" => {
                self.journal.rolled_back();
                self.forget_meant(places);
            }
            Effect::End => {
                self.journal.committed();
                self.forget_meant(places);
            }
            Effect::Save(name) => self.journal.save(&name),
            Effect::Release(name) => {
                self.journal.release(&name);
                self.keep_if_lost();
            }
            Effect::RollBackTo(name) => {
                self.journal.roll_back_to(&name);
                self.keep_if_lost();
                self.forget_meant(places);
            }
            Effect::Change(changes) => self.change(&changes, places),
            Effect::Prepare(kept) => {
                if let Some(text) = &kept.statement.text {
                    places.on_server.insert(&kept.name, Arc::clone(text));
                }
                self.keep_prepared(kept);
            }
            Effect::Deallocate(name) => {
                places.on_server.remove(&name);
                if !self.forget_prepared(&name)
                    && let Some(names) = &mut places.names
                {
                    names.deallocated(&name);
                }
            }
            Effect::DeallocateAll => self.forget_all_prepared(places),
            Effect::DiscardAll => {
                self.forget_all_prepared(places);
                self.mean_first(places);
                self.journal.change(&Change::DiscardAll);
                self.restarting.reset_all();
                self.pins = self.pins & !Pins::SEQUENCE;
            }
            Effect::Asked { names, parameters, others } => self.ask_for(&names, others || !parameters.is_empty()),
            Effect::Restart(name) => {
                let Some(index) = places.tracked.index(&name) else { return };
                self.mean(index, places.first.and_then(|first| first.get(index)), places);
                self.restarting.reset(index);
            }
            Effect::Pin(pins) => self.pins |= pins,
            Effect::Listen(_) | Effect::ListenAlone | Effect::Unlisten(_) => self.listen(effect, places.listens),
            Effect::Unpin(pins) => self.pins = self.pins & !pins,
        }
        self.pin_listener();
    }

    fn change(&mut self, changes: &[Change], places: &mut Places<'_>) {
        if changes.contains(&Change::ResetAll) {
            self.mean_first(places);
            self.restarting.reset_all();
        }
        for change in changes {
            self.journal.change(change);
            if places.local_rights {
                self.journal.bind(change);
            }
        }
    }

    fn ask_for(&mut self, names: &[Box<[u8]>], others: bool) {
        for name in names {
            let fits = name.is_ascii() && name.len() <= limits::PARAMETER_LEN_MAX;
            if self.unread.contains(name) {
                continue;
            }
            if fits && self.unread.len() < limits::UNREAD_MAX {
                self.unread.insert(name.clone());
            } else {
                self.pins |= Pins::DYNAMIC;
            }
        }
        if others {
            self.pins |= Pins::DYNAMIC;
        }
        self.suspects |= Pins::SETTINGS;
    }

    /// What the statements being answered have reset of the tracked parameters.
    pub fn restarting(&self) -> &Restarting {
        &self.restarting
    }

    /// It is to keep its server because of this text.
    pub fn pin(&mut self, pins: Pins, text: &[u8]) {
        self.pins |= pins;
        self.reasons.note(pins, text);
    }

    pub fn parse_unnamed(&mut self, marked: Option<Arc<Marked>>) {
        self.unnamed = marked;
    }

    pub fn unnamed(&self) -> Option<&Arc<Marked>> {
        self.unnamed.as_ref()
    }

    fn keep_if_lost(&mut self) {
        if self.journal.take_lost() {
            self.pins |= Pins::DYNAMIC;
        }
    }

    /// The client has all its answers, outside of a transaction.
    pub fn settle(&mut self, now: Time, is_strict: bool) -> Settled {
        let lasting = self.suspects.lasting();
        self.pins |= lasting;
        self.suspects = self.suspects & !lasting;
        let wanted = if is_strict { self.suspects | Pins::ANYTHING } else { self.suspects };
        if matches!(self.look, Look::Due) && wanted.any(Pins::CHECKABLE) {
            let names = std::mem::take(&mut self.unread).into_iter().collect();
            let is_hasty = self.state().is_hasty();
            let check = Check { with_settings: wanted.any(Pins::LISTED), is_hasty, names };
            self.look = Look::Asked(check.clone(), wanted, self.suspects | self.pins);
            self.suspects = Pins::NONE;
            return Settled::Ask(check);
        }
        let bound = if self.state().is_bound() { Pins::SETTING } else { Pins::NONE };
        self.pins = self.pins & !Pins::SETTING | bound;
        self.reasons.keep_only(self.pins);
        if !self.stays_pinned(now) {
            (self.pinned_since, self.counted) = (None, Pins::NONE);
            return Settled::Free;
        }
        Settled::Pinned
    }

    /// Whether it keeps its server as far as is known now: then it does so since now, if not for longer.
    pub fn stays_pinned(&mut self, now: Time) -> bool {
        let stays = !self.pins.is_empty();
        if stays {
            self.pinned_since.get_or_insert(now);
        }
        stays
    }

    pub fn asked(&self) -> Option<&Check> {
        match &self.look {
            Look::Asked(check, ..) => Some(check),
            Look::Due | Look::Over => None,
        }
    }

    /// A DataRow of the answer has come; its end may lie in what is read later.
    pub fn told(&mut self, row: &[u8]) {
        self.row = Some(row.into());
    }

    /// The server has answered. If its row, or none, is not what was expected, what is suspected stays so, and the server
    /// with it; or is cleared, if it is one that answers nothing as expected. Says whether something was found that nothing had told; a value that was changed out of sight shows only
    /// where the setting's name was not known.
    pub fn answered(&mut self, tracked: &Tracked, circumstances: Circumstances) -> bool {
        let Circumstances { is_utf8, is_readable, local_rights } = circumstances;
        let row = self.row.take();
        if !matches!(self.look, Look::Asked(..)) {
            return false;
        }
        let Look::Asked(check, wanted, suspected) = std::mem::replace(&mut self.look, Look::Over) else { return false };
        let Some(checked) = row.and_then(|row| check.read(&row)) else {
            if !is_readable {
                // Kept is what a text says that it makes, and nothing for not being understood.
                let is_said = !suspected.any(Pins::UNKNOWN);
                self.pins |= if is_said { suspected & Pins::CHECKABLE & !Pins::SETTINGS } else { Pins::NONE };
                self.ran_text = true;
                return false;
            }
            self.suspects |= wanted;
            self.unread.extend(check.names);
            self.pins |= Pins::UNKNOWN;
            return false;
        };
        self.makes_temporary = false;
        let hidden = !(checked.pins & !suspected).is_empty();
        self.pins = self.pins & !Pins::CHECKABLE | checked.pins;
        let mut state = State::clone(self.state());
        if checked.settings.is_some() {
            // What is set is what the server lists, but for names with a dot: those it does not list.
            state.forget_listed();
        }
        for (name, value) in checked.settings.iter().flatten().chain(&checked.named) {
            let name = name.to_ascii_lowercase();
            if tracked.index(&name).is_some() || is_passing(&name) {
                continue;
            }
            let is_unset = value.is_empty() && (name.contains(&b'.') || is_identity(&name));
            let is_known = value.is_ascii() || is_utf8 && value.len() <= limits::PARAMETER_LEN_MAX;
            let again = is_known.then(|| Again::Value(value.as_slice().into()));
            if is_unset {
                state.apply(&Change::Reset(name.into()));
                continue;
            }
            state.learn(&name, again, self.state());
            if local_rights {
                state.bind_if_new(&name, self.state());
            }
        }
        let untold = |name: &&[u8]| !check.names.iter().any(|known| **known == **name);
        let others = !state.names().filter(untold).eq(self.state().names().filter(untold));
        if state != **self.state() {
            self.journal.replace(Arc::new(state));
        }
        hidden || others && !suspected.any(Pins::LISTED)
    }

    /// Its server is gone, and what was not committed with it.
    pub fn lost(&mut self) {
        self.sent.clear();
        self.meant = None;
        self.portals.clear();
        self.look = Look::Due;
        self.journal.rolled_back();
        self.hear_no_end();
    }
}
