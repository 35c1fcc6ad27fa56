//! One session's state while it is followed: what it has set, what it keeps on its server, what its statements under way
//! will do. Most sessions have none.
//!
//! Promises: an effect is noted when the server has confirmed it, in the server's order, and taken back when the server
//! takes it back. What stays unknown is looked for ([`Check`]), and until then the server stays.
//!
//! ```text
//!   UnderWay        what was sent will do        Journal         what the session has set, through its transaction
//!   Meaning         how texts are read till then SqlStatements   what SQL's PREPARE has prepared
//!   Restarting      what is being reset          Portals         what an Execute will do
//!   LongText        a text in pieces             Notifications   its place at the listener, and what it was not sent yet
//!   Pinning         why it keeps its server      Inspection      what the server is asked
//! ```
//!
//! Each of these can be read alone, and changes by what the tracker tells it; the tracker says what an effect, a ReadyForQuery, an error and a lost server mean to them.
//!
//! //= pg18 protocol-flow#PROTOCOL-FLOW-MULTI-STATEMENT

mod inspection;
mod listening;
mod long_text;
mod meaning;
mod moving;
mod naming;
mod notifications;
#[cfg(test)]
mod pairs_of_marks;
mod pinning;
mod places;
mod portals;
mod reasons;
mod restarting;
mod split;
mod sql_statements;
mod under_way;
mod unseen;

pub use moving::MovedTracker;
pub use naming::Seen;
pub use places::{Circumstances, Places};
pub use portals::Marked;
pub use split::Split;
pub use sql_statements::SqlStatements;

use std::sync::Arc;

use sql::Marks;
use units::{Time, limits};

use crate::catalogue::{Announcement, Known, SideEffects};
use crate::own_changes::OwnChanges;
use crate::parameters::{Reported, Tracked};
use crate::state::check::{Check, Pair};
use crate::state::effects::{Effect, Effects, is_identity, is_passing};
use crate::state::journal::Journal;
use crate::state::rights;
use crate::state::{Again, Base, Pins, Reading, SettingChange, State};
use inspection::{CheckUnderWay, Inspection};
use long_text::LongText;
use meaning::Meaning;
use notifications::Notifications;
use pinning::Pinning;
use portals::Portals;
use restarting::{Restarting, reset_parameter, reset_parameters, set_parameter};
use under_way::UnderWay;
use unseen::Unseen;

/// What becomes of a server whose client has all its answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// Another may have it.
    Free,
    /// It must be asked first.
    MustCheck(Check),
    /// It stays with this session.
    Pinned,
}

/// One session's.
#[derive(Debug, Default)]
pub struct Tracker {
    pub unseen: Unseen,
    pub journal: Journal,
    /// When the session last asked for a role, an authorization, or a setting for which rights may be needed. What a server has had
    /// longer does not count: PostgreSQL looks at rights when they are asked for.
    pub rights_asked_at: Time,
    pub statements: SqlStatements,
    pub under_way: UnderWay,
    pub inspection: Inspection,
    /// What the statements being answered have reset of the tracked parameters.
    pub restarting: Restarting,
    /// What texts are read by, and mean, as far as that is not what the server has reported.
    pub meaning: Meaning,
    pub pinning: Pinning,
    pub portals: Portals,
    pub long_text: LongText,
    pub notifications: Notifications,
    /// What it is about to define, while that is announced to the other workers.
    pub announcement: Option<Box<Announcement>>,
    /// Values of untracked parameters that were reported to its client at login, where its pool's servers begin with others.
    pub reported_at_login: Option<Arc<Reported>>,
    /// A text is being sent in two messages.
    pub split: Option<Split>,
    /// It has a permit to be pinned, and is counted among its pool's pinned sessions.
    pub has_pin_permit: bool,
}

impl Tracker {
    /// Of a session that begins now, with these settings.
    pub fn starting(now: Time, first: State) -> Tracker {
        Tracker { journal: Journal::starting(Arc::new(first)), rights_asked_at: now, ..Tracker::default() }
    }

    /// Whether its server must be reset before the next session has it: its state may differ from the tracked one.
    pub fn needs_reset(&self) -> bool {
        self.journal.is_reverted() || self.unseen.ran_text
    }

    /// It leaves its server. Whether that may have local buffers by it.
    pub fn leave(&mut self) -> bool {
        self.restarting.take_done();
        self.journal.forget_reverted();
        self.unseen.leave()
    }

    /// It has reset what it began with, of which its server knows nothing: what the server has of its state.
    pub fn take_reverted(&mut self, base: &Base, in_transaction: bool) -> Option<State> {
        let is_reverted = self.restarting.take_done() | self.journal.is_reverted();
        is_reverted.then(|| self.journal.take_reverted(base, in_transaction))
    }

    /// As [`Tracker::take_reverted`], of what is under way.
    pub fn is_reverting(&self, base: &Base) -> bool {
        let reverts = |effect: &Effect| match effect {
            Effect::Restart(_) | Effect::DiscardAll => true,
            Effect::Change(changes) => {
                changes.iter().any(|change| *change == SettingChange::ResetAll || self.journal.reverts(change, base))
            }
            _ => false,
        };
        self.under_way.any(reverts)
    }

    /// Whether a parameter that is reported now may be so because of what the session has run, as far as its texts show.
    pub fn may_have_set(&self) -> bool {
        self.restarting.may_report || !self.under_way.is_empty() || !self.pinning.suspects().is_empty()
    }

    pub fn is_reverted(&self) -> bool {
        self.restarting.is_done() || self.journal.is_reverted()
    }

    pub fn state(&self) -> &Arc<State> {
        self.journal.now()
    }

    /// There is nothing to follow any more.
    pub fn is_idle(&self) -> bool {
        let has_unnamed = self.portals.unnamed_statement().is_some();
        let none_named = self.statements.is_empty() && !has_unnamed && self.portals.is_empty();
        let none_set = self.state().is_initial() && !self.journal.has_first() && !self.journal.is_open();
        none_named && none_set && self.is_settled() && self.notifications.is_silent() && self.split.is_none()
    }

    /// It has something temporary, or is making it.
    pub fn has_temporary(&self) -> bool {
        self.unseen.makes_temporary || self.pinning.pins().any(Pins::TEMPORARY)
    }

    /// Nothing is pinned, suspected, or under way: its state is all there is.
    pub fn is_settled(&self) -> bool {
        !self.pinning.keeps()
            && !self.long_text.is_passing()
            && !self.inspection.is_under_way()
            && self.under_way.is_empty()
    }

    /// Whether its server may be lost without it: whatever it has can be on another.
    pub fn outlives_server(&self) -> bool {
        !self.pinning.keeps() && !self.inspection.is_under_way() && !self.state().is_bound()
    }

    /// Whether something that is taken back may be noted.
    pub fn is_open(&self) -> bool {
        self.journal.is_open() || !self.under_way.is_empty()
    }

    /// A text is about to be sent that may leave something on its server, or end something there.
    pub fn suspect(&mut self, reading: Reading, text: &[u8], known: &Known) {
        if reading.marks.any(Marks::BLOCK | Marks::CALL | Marks::UNKNOWN) {
            self.journal.runs_procedure();
        }
        let (mut side_effects, mut names) = (reading.side_effects, Vec::new());
        if reading.marks.any(Marks::BLOCK) {
            let block = known.side_effects_of_block(text);
            side_effects |= block.side_effects;
            names = block.settings;
        }
        if side_effects.any(SideEffects::DYNAMIC) {
            // What it runs may be made of what stands in this text; what comes from elsewhere nobody can list.
            let given = known.side_effects_of_strings(text);
            side_effects |= given.side_effects | SideEffects::SETTINGS;
            names.extend(given.settings);
            self.unseen.ran_text = true;
        }
        let mut left = reading.pins() | Pins::of_side_effects(side_effects);
        if reading.redefines() && self.state().makes_temporary() {
            left |= Pins::TEMPORARY;
        }
        // Its channel may have a name that servers cut at different places, or one with UESCAPE.
        if reading.is_unknown() && unseen::has_word(text, b"listen") {
            left |= Pins::LISTEN;
        }
        let pins = left | self.pinning.pins() & Pins::ended_by(reading.marks);
        if pins.is_empty() {
            return;
        }
        self.pinning.suspect(pins);
        self.unseen.note(text);
        if side_effects.any(SideEffects::RESETS) {
            self.unseen.note_resets();
        }
        self.unseen.used_temporary |= reading.marks.any(Marks::TEMPORARY) || side_effects.any(SideEffects::TEMPORARY);
        self.unseen.makes_temporary |=
            reading.marks.any(Marks::TEMPORARY) || reading.side_effects.any(SideEffects::TEMPORARY);
        // What no check finds, and no tag tells.
        self.pinning.add(left & Pins::PREPARED);
        self.suspect_listening(left);
        if side_effects.any(SideEffects::SETTINGS) {
            names.extend(known.settings().map(Box::from));
            self.query_settings(&names, false);
        }
        self.pinning.note(left, text);
    }

    /// A message is sent whose effects are noted: its entry in the ledger is marked.
    pub fn sent(&mut self, effects: Effects, text: &[u8]) {
        let pins = match self.under_way.has_room_for(&effects) {
            true => effects.iter().fold(Pins::NONE, |pins, effect| pins | effect.pins()),
            false => Effect::Unknown.pins(),
        };
        self.pinning.note(pins, text);
        self.under_way.push(effects);
    }

    /// A command tag has come for the oldest message that is noted: all effects of its next statement are there.
    pub fn confirmed(&mut self, tag: &[u8], mut places: Places<'_>) {
        let Some((mut effect, mut is_last)) = self.under_way.next_effect() else {
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
            (effect, is_last) = self.under_way.next_effect().expect("a statement's effects end with its last");
        }
    }

    /// An error came. Whatever follows of the same message does not happen.
    pub fn failed(&mut self) {
        // The server rolls the transaction's settings back, and reports the values from before it.
        self.restarting.may_report = true;
        self.journal.failed();
        self.restarting.failed();
    }

    /// The client's ReadyForQuery. `idle`: outside of a transaction.
    pub fn ready(&mut self, idle: bool) {
        let unsure = if idle { self.journal.unsure() } else { Vec::new() };
        self.journal.ready(idle);
        if !unsure.is_empty() {
            self.query_settings(&unsure, false);
        }
        self.pin_listener();
        self.inspection.ready();
        self.restarting.ready();
        self.meaning.end();
        self.portals.ready(idle);
        let is_deaf = idle && self.journal.is_deaf();
        self.notifications.ready(idle, self.journal.channels(), is_deaf);
    }

    fn apply(&mut self, effect: Effect, tag: &[u8], places: &mut Places<'_>) {
        self.restarting.may_report = true;
        match effect {
            Effect::Nothing | Effect::Execute(_) => {}
            Effect::Unknown => self.pinning.suspect(Pins::ANYTHING | Pins::DYNAMIC),
            Effect::Parameter { index, value, is_local } => {
                set_parameter(self, index, is_local);
                self.meaning.set(index, value.as_deref(), places.reported);
            }
            Effect::End => end(self, tag == b"ROLLBACK\0", places),
            Effect::PrepareTransaction => {
                end(self, tag == b"ROLLBACK\0" && self.journal.is_in_failed_block(), places);
            }
            Effect::Committed => {
                self.journal.committed();
                self.restarting.committed();
            }
            Effect::Save(name) => self.journal.save(&name),
            Effect::Release(name) => {
                self.journal.release(&name);
                self.keep_if_lost();
            }
            Effect::RollBackTo(name) => {
                self.journal.roll_back_to(&name);
                self.keep_if_lost();
                self.meaning.forget(places.reported);
            }
            Effect::Change(changes) => self.change(&changes, places),
            Effect::SetLocally(name) => self.journal.set_locally(&name),
            Effect::Prepare(kept) => {
                if let Some(text) = &kept.statement.text {
                    places.on_server.insert(&kept.name, Arc::clone(text));
                }
                if !self.statements.keep(kept) {
                    self.pinning.add(Pins::PREPARED);
                }
            }
            Effect::Deallocate(name) => {
                places.on_server.remove(&name);
                if !self.statements.forget(&name)
                    && let Some(names) = &mut places.names
                {
                    names.deallocated(&name);
                }
            }
            Effect::DeallocateAll => self.forget_all_prepared(places),
            Effect::DiscardAll => {
                self.forget_all_prepared(places);
                self.meaning.reset(places.first);
                self.unseen.note_lost_base(self.journal.change(&SettingChange::DiscardAll, places.base));
                reset_parameters(self);
                self.pinning.end(Pins::SEQUENCE);
            }
            Effect::QueryAgain { names, parameters, others } => {
                self.query_settings(&names, others || !parameters.is_empty())
            }
            Effect::Restart(name) => {
                let Some(index) = places.tracked.index(&name) else { return };
                self.meaning.set(index, places.first.and_then(|first| first.get(index)), places.reported);
                reset_parameter(self, index);
            }
            Effect::Pin(pins) => self.pinning.add(pins),
            Effect::Listen(_) | Effect::ListenAlone | Effect::Unlisten(_) => self.listen(effect, places.listens),
            Effect::Unpin(pins) => self.pinning.end(pins),
        }
        self.pin_listener();
    }

    fn change(&mut self, changes: &[SettingChange], places: &mut Places<'_>) {
        if changes.contains(&SettingChange::ResetAll) {
            self.meaning.reset(places.first);
            reset_parameters(self);
        }
        for change in changes {
            if change.needs_rights() {
                self.rights_asked_at = places.now;
            }
            self.unseen.note_lost_base(self.journal.change(change, places.base));
            if places.local_rights {
                self.journal.bind(change);
            }
        }
    }

    fn query_settings(&mut self, names: &[Box<[u8]>], others: bool) {
        let mut is_known = !others;
        for name in names {
            is_known &= self.inspection.query_setting(name);
        }
        if !is_known {
            self.pinning.add(Pins::DYNAMIC);
        }
        self.pinning.suspect(Pins::SETTINGS);
    }

    /// A portal is bound; `None`: to a plain statement.
    /// `awaited`: how many ReadyForQuery the client is still owed.
    pub fn bind(&mut self, portal: &[u8], marked: Option<Arc<Marked>>, awaited: usize) {
        if !self.portals.bind(portal, marked, awaited) {
            self.pinning.suspect(Pins::ANYTHING | Pins::DYNAMIC);
        }
    }

    /// A long text has passed of which nothing is known, or more than can be noted: which role's rights it has set, and which
    /// settings of the application's own, nobody can list.
    pub fn suspect_unread(&mut self) {
        self.pinning.suspect(Pins::ANYTHING | Pins::DYNAMIC);
        self.pinning.note(Pins::ANYTHING | Pins::DYNAMIC, self.long_text.beginning());
    }

    /// As [`Tracker::suspect`], of the long text that has passed.
    pub fn suspect_again(&mut self, reading: Reading, known: &Known) {
        let beginning = self.long_text.take_beginning();
        // A block's body is not there any more.
        let side_effects = if reading.marks.any(Marks::BLOCK) {
            reading.side_effects | SideEffects::DYNAMIC
        } else {
            reading.side_effects
        };
        self.suspect(
            Reading { marks: reading.marks.without(Marks::BLOCK), side_effects, ..reading },
            &beginning,
            known,
        );
    }

    /// Whether it depends on answers under way how a text is to be read. `named`: or what is meant by names and constants in
    /// it, which is part of what a shared statement is.
    pub fn is_deciding(&self, tracked: &Tracked, named: bool) -> bool {
        let is_meant = self.meaning.parameters().is_some();
        let decides = |effect: &Effect| match effect {
            Effect::DiscardAll => true,
            Effect::Parameter { index, .. } => named || Tracked::decides_meaning(*index),
            Effect::Restart(name) => named || tracked.index(name).is_some_and(Tracked::decides_meaning),
            Effect::Change(changes) => named || changes.contains(&SettingChange::ResetAll),
            Effect::End | Effect::PrepareTransaction | Effect::RollBackTo(_) => {
                is_meant || named && self.journal.is_open()
            }
            _ => false,
        };
        self.under_way.any(decides)
    }

    fn keep_if_lost(&mut self) {
        if self.journal.take_lost() {
            self.pinning.add(Pins::DYNAMIC);
        }
    }

    /// The client has all its answers, outside of a transaction.
    /// `base`: what its server began with.
    pub fn settle(&mut self, now: Time, is_strict: bool, base: &Base) -> Settled {
        self.pinning.believe_lasting();
        let suspects = self.pinning.suspects();
        if self.unseen.says_reset() && suspects.any(Pins::SETTINGS) {
            // The server does not list them.
            let state = Arc::clone(self.state());
            let dotted = state.names().chain(self.journal.first().names()).filter(|name| name.contains(&b'.'));
            for name in dotted {
                self.inspection.query_setting(name);
            }
        }
        // A value alone does not tell whether it was set or reset; of those with a dot nothing does.
        let may_be_reset = self.inspection.queries_any(|name| !name.contains(&b'.'));
        let wanted = if is_strict || may_be_reset { suspects | Pins::ANYTHING } else { suspects };
        if self.inspection.is_due() && wanted.any(Pins::CHECKABLE) {
            let suspected = self.pinning.take_suspects() | self.pinning.pins();
            self.unseen.ask();
            return Settled::MustCheck(self.inspection.begin(wanted, suspected, self.journal.now().is_hasty(), base));
        }
        self.restarting.take_reported();
        let bound = if self.state().is_bound() { Pins::SETTING } else { Pins::NONE };
        self.pinning.replace(Pins::SETTING, bound);
        if self.pinning.settle(now) { Settled::Pinned } else { Settled::Free }
    }

    /// The server has answered. If its row, or none, is not what was expected, what is suspected stays so, and the server
    /// with it; or is cleared, if it is one that answers nothing as expected. Says whether something was found that nothing had shown; a value that was changed out of sight shows only
    /// where the setting's name was not known.
    pub fn answered(&mut self, tracked: &Tracked, circumstances: Circumstances<'_>) -> bool {
        let Some((CheckUnderWay { check, checked: wanted, suspected }, row)) = self.inspection.answered() else {
            return false;
        };
        let Some(checked) = row.and_then(|row| check.read(&row)) else {
            self.unseen.ask_again();
            // If it is the session's own, no other session must get it; if it is not, only this session keeps it.
            self.unseen.checked_parameters = OwnChanges::of_set(self.restarting.take_reported());
            if !circumstances.is_readable {
                // Kept is what a text says that it makes, and nothing for not being understood.
                let is_said = !suspected.any(Pins::UNKNOWN);
                self.pinning.add(if is_said { suspected & Pins::CHECKABLE & !Pins::SETTINGS } else { Pins::NONE });
                self.unseen.ran_text = true;
                return false;
            }
            self.pinning.suspect(wanted);
            self.inspection.query_again(check.names);
            self.pinning.add(Pins::UNKNOWN);
            return false;
        };
        self.unseen.makes_temporary = false;
        self.unseen.used_temporary |= checked.pins.any(Pins::TEMPORARY);
        let reported = self.restarting.take_reported();
        self.unseen.checked_parameters = checked.settings.as_ref().map_or(OwnChanges::default(), |listed| {
            let listed = tracked.set_of(listed.iter().map(|(name, _)| name.as_slice()));
            OwnChanges { reset: reported.without(listed), set: reported & listed }
        });
        let unsuspected = !(checked.pins & !suspected).is_empty();
        self.pinning.replace(Pins::CHECKABLE, checked.pins);
        let mut state = State::clone(self.state());
        if checked.settings.is_some() {
            // What is set is what the server lists, but for names with a dot: those it does not list.
            state.forget_listed();
        }
        let mut reset = checked.reset(self.journal.first(), self.state(), self.unseen.asked_reset());
        if self.unseen.has_reset_role(self.journal.first(), self.state(), circumstances.base, &checked.named) {
            reset.push(b"role"[..].into());
        }
        // The check has found the role of the login, unless the session has taken one since the reset: the server gets its base again, so the session
        // has that.
        let is_given_back = |(name, value): &Pair| {
            let has_its_own = self.state().has_identity(name);
            let is_reset = is_identity(name) && self.journal.has_reverted(name);
            let is_codes = suspected.any(Pins::LISTED | Pins::SETTINGS);
            is_reset && !has_its_own && (!is_codes || *name == *b"role" && circumstances.base.is_role_by_reset(value))
        };
        let is_reset = |pair: &&Pair| {
            let (name, _) = pair;
            let is_begun_again = reset.iter().any(|reset| reset.eq_ignore_ascii_case(name));
            is_begun_again || checked.is_unlisted(name) || is_given_back(pair)
        };
        for setting in checked.settings.iter().flatten().chain(&checked.named).filter(|pair| !is_reset(pair)) {
            self.learn(&mut state, setting, &check, tracked, circumstances);
        }
        reset.iter().for_each(|name| state.begin_again(name, self.journal.first()));
        let unchecked = |name: &&[u8]| !check.names.iter().any(|known| **known == **name);
        let others = !state.names().filter(unchecked).eq(self.state().names().filter(unchecked));
        let lost = checked.lost(&check, circumstances.base, self.state());
        self.unseen.ran_text |= lost.iter().any(|lost| !circumstances.base.names().any(|name| name == &**lost));
        if state != **self.state() || !lost.is_empty() || !reset.is_empty() {
            if rights::differ(&state, self.state()) {
                // Code has set it just now.
                self.rights_asked_at = circumstances.now;
            }
            self.journal.replace(Arc::new(state), lost.into_iter().chain(reset));
        }
        unsuspected || others && !suspected.any(Pins::LISTED)
    }

    /// The server has reported one setting.
    fn learn(
        &self,
        state: &mut State,
        (name, value): &Pair,
        check: &Check,
        tracked: &Tracked,
        circumstances: Circumstances<'_>,
    ) {
        let name = name.to_ascii_lowercase();
        if tracked.index(&name).is_some() || is_passing(&name) {
            return;
        }
        // The base's role is nobody's but its own.
        let is_of_another = *name == *b"role" && state.has_authorization();
        if !is_of_another && circumstances.base.is(&name, value) {
            return state.forget(&name);
        }
        let is_unset = value.is_empty() && (name.contains(&b'.') || is_identity(&name));
        let is_known = value.is_ascii() || circumstances.is_utf8 && value.len() <= limits::PARAMETER_LEN_MAX;
        let again = is_known.then(|| Again::Value(value.as_slice().into()));
        if is_unset && is_identity(&name) {
            // The base's value comes back if the session has reset the name and has not sent SET ROLE NONE since.
            let comes_back = self.journal.has_reverted(&name) && !self.state().is_set_to_nothing(&name);
            return if comes_back { state.forget(&name) } else { state.lose(&name, circumstances.base) };
        }
        if is_unset && circumstances.base.has(&name) {
            // Set to nothing by the session; or reset somewhere, and brought back.
            return if self.state().has(&name) { state.learn(&name, again, self.state()) } else { state.forget(&name) };
        }
        if is_unset {
            state.apply(&SettingChange::Reset(name.into()));
            return;
        }
        state.learn(&name, again, self.state());
        // No text has named it: code has set it, perhaps with the rights of its owner. //= pg18 sql-createfunction
        let is_codes = !self.state().has(&name) && !check.names.iter().any(|asked| **asked == *name);
        if is_codes || circumstances.local_rights {
            state.bind_if_new(&name, self.state());
        }
    }

    /// Its server is gone, and what was not committed with it.
    pub fn lost(&mut self) {
        self.under_way.clear();
        self.meaning.end();
        self.portals.lost();
        self.inspection.lost();
        self.journal.rolled_back();
        self.notifications.lost();
    }
}

/// A transaction has ended.
fn end(tracker: &mut Tracker, is_rolled_back: bool, places: &Places<'_>) {
    if is_rolled_back {
        tracker.journal.rolled_back();
    } else {
        tracker.journal.committed();
    }
    tracker.meaning.forget(places.reported);
}
