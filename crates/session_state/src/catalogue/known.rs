//! What one pool knows of its database's names: the catalogue as it was read last, what clients of the pooler have defined
//! since, and when to ask again.
//!
//! ```text
//!   due ──► POLL ──► as it was ────────────────────────────► in a while: schedule.rs
//!              └───► something changed ──► QUERY ──► read ──► in a while
//!   a client defines something ──► noted as fresh                └──► side effects that nobody knew ──► News
//!          its transaction is over ──► due, after a pause by how long the last poll took
//! ```
//!
//! Promises: nobody is served before the catalogue has been read for the first time, unless that takes long or fails. As long
//! as it was not read, or has grown old unasked, every text is suspect of what a check finds.
//! What a client defines is known from before it was sent until it has been read. Does not do: asking, and telling other
//! pools of it.

mod lesson;
mod names;

use std::sync::Arc;

use sql::{Marks, Word};
use units::{ConnId, Time, limits};

pub use names::CatalogueProgress;

use super::currval_callers::CurrvalCallers;
use super::defined::Defined;
use super::definition::Texts;
use super::news::Findings;
use super::schedule::Question;
use super::statement::StatementWords;
use super::timetable::Timetable;
use super::{Block, Catalogue, CatalogueBuilder, SideEffects};
use crate::pins;

/// What stands for the unknown: a check tells what is there.
const UNSURE: SideEffects = SideEffects::DYNAMIC;

/// A question under way.
#[derive(Debug)]
struct CatalogueQuery {
    server: ConnId,
    question: Question,
    /// The server counts changes.
    counts: bool,
    began: Time,
    /// What the poll has answered.
    polled: Option<Box<[u8]>>,
    reading: Option<CatalogueBuilder>,
    is_broken: bool,
    /// The reason is in the log.
    is_logged: bool,
    /// Nobody waits for it any more.
    is_late: bool,
}

/// What an answer leads to.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Next {
    Poll,
    Read,
    Nothing,
    /// For the first time since it went well.
    Complain,
    /// It goes well again.
    Recovered,
}

/// How a question has failed.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Unanswered {
    TooLong,
    /// The catalogue cannot be read, for the first time since it was read.
    First,
    Again,
}

/// Which edition of what some pool knows: a note made by it holds as long as the pool has it.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Edition(u64);

impl Edition {
    /// Of a pool that has learned something since its last edition. No note is made by it.
    const NONE: Edition = Edition(0);
    /// Of a note that was never made. No pool has it.
    pub const NEVER: Edition = Edition(u64::MAX);
}

/// What a pool knows.
#[derive(Debug, Default)]
pub struct Known {
    /// Of all that [`Known::side_effects`] looks at: whatever changes that takes it away.
    edition: Edition,
    is_on: bool,
    catalogue: Option<Arc<Catalogue>>,
    /// What clients have defined that the catalogue may not show.
    defined: Defined,
    /// Applications that call currval or lastval.
    pub currval_callers: CurrvalCallers,
    /// What the poll said before the catalogue was read.
    polled: Option<Box<[u8]>>,
    under_way: Option<CatalogueQuery>,
    times: Timetable,
    /// The server answered otherwise than PostgreSQL does when it was asked last.
    is_unreadable: bool,
    findings: Findings,
}

impl Known {
    /// Of a pool that reads its clients' texts; `is_on`: and asks.
    pub fn new(is_on: bool) -> Known {
        Known { is_on, ..Known::default() }
    }

    /// New settings hold. `other`: and the database may be another. Whether it begins anew.
    pub fn configure(&mut self, is_on: bool, other: bool) -> bool {
        let anew = other || is_on != self.is_on;
        if anew {
            *self = Known::new(is_on);
        }
        anew
    }

    #[inline]
    pub(crate) fn edition(&self) -> Edition {
        self.edition
    }

    /// Gives it an edition if it has none. `last`: the last that was given to any pool whose notes lie beside this one's.
    pub(crate) fn publish(&mut self, last: &mut Edition) -> Edition {
        if self.edition == Edition::NONE {
            last.0 += 1;
            self.edition = *last;
        }
        self.edition
    }

    /// What a text may do beside what it says.
    #[inline]
    pub(crate) fn side_effects(&self, words: &[Word], marks: Marks) -> SideEffects {
        if self.is_on { self.look_up(words, marks) } else { SideEffects::NONE }
    }

    fn look_up(&self, words: &[Word], marks: Marks) -> SideEffects {
        if self.is_unreadable && self.catalogue.is_none() {
            return self.defined.side_effects(words.iter()) | SideEffects::WRITES;
        }
        let Some(catalogue) = self.catalogue.as_deref().filter(|catalogue| !catalogue.is_unknown()) else {
            return UNSURE;
        };
        let mut side_effects = catalogue.side_effects(words);
        if marks.any(Marks::RELATIONS) {
            side_effects |= catalogue.definitions();
        }
        if !self.defined.is_empty() {
            side_effects |= self.defined.side_effects(words.iter());
        }
        if self.is_unreadable {
            return side_effects;
        }
        side_effects | self.defined.doubt() | if self.times.is_old() { UNSURE } else { SideEffects::NONE }
    }

    /// What a text does that runs a body of its own.
    pub fn side_effects_of_block(&self, text: &[u8]) -> Block {
        let mut block = self.read(|catalogue| catalogue.side_effects_of_block(text));
        let known = self.catalogue.as_ref().map_or(self.is_unreadable, |catalogue| !catalogue.is_unknown());
        if self.is_on && !known {
            block.side_effects = block.side_effects.without(SideEffects::UNKNOWN) | UNSURE;
        }
        // Which of its words are names of functions is not looked at: what is fresh is read soon.
        block.side_effects |= self.defined.all_side_effects();
        block
    }

    /// What the strings in a text may do, if they are run.
    pub fn side_effects_of_strings(&self, text: &[u8]) -> Block {
        let mut block = self.read(|catalogue| catalogue.side_effects_of_strings(text));
        block.side_effects |= self.defined.side_effects(block.words.iter());
        block
    }

    /// By what is known; before it is, by what PostgreSQL itself brings along.
    fn read<T>(&self, look: impl Fn(&Catalogue) -> T) -> T {
        self.catalogue.as_deref().map_or_else(|| look(&Catalogue::new([])), &look)
    }

    /// Settings with a dot in their names that bodies change.
    pub fn settings(&self) -> impl Iterator<Item = &[u8]> {
        let read = self.catalogue.iter().flat_map(|catalogue| catalogue.settings());
        read.chain(self.defined.settings()).map(|name| &**name)
    }

    /// It is time to ask, since something was defined. Where asking has failed, it is not.
    pub(super) fn query_soon(&mut self, now: Time) {
        self.times.query_soon(now);
    }

    /// A text is sent that defines something. Whether other pools are to know of it.
    pub(super) fn learn_texts(&mut self, texts: &Texts, server: ConnId, now: Time) -> bool {
        if !self.is_on {
            return false;
        }
        if self.may_have_side_effects(texts) {
            return texts.statements.iter().fold(false, |any, text| self.define(text, server, now) | any);
        }
        if texts.others_see && !self.defined.mention_text(&texts.mentioned, server, now) {
            self.doubt(server, now);
        }
        texts.others_see
    }

    /// Whether anything in these texts may have side effects. Most make tables, and say nothing else.
    fn may_have_side_effects(&self, texts: &Texts) -> bool {
        let known = |catalogue: &Catalogue| catalogue.touches(&texts.mentioned) | catalogue.definitions();
        !texts.side_effects.is_empty()
            || texts.is_extension
            || !self.read(known).is_empty()
            || !self.defined.side_effects(texts.mentioned.iter()).is_empty()
    }

    fn define(&mut self, statement: &StatementWords, server: ConnId, now: Time) -> bool {
        let body = statement.side_effects
            | self.read(|catalogue| catalogue.side_effects(&statement.words)).without(SideEffects::DEFINES);
        let touched =
            self.catalogue.as_deref().map_or(SideEffects::NONE, |catalogue| catalogue.touches(&statement.own));
        let mut side_effects = body | touched | self.defined.side_effects(statement.mentioned.iter());
        if self.catalogue.as_ref().is_none_or(|catalogue| catalogue.is_unknown()) {
            side_effects = side_effects.without(SideEffects::UNKNOWN);
        }
        side_effects |= statement.certain;
        if statement.is_extension {
            self.doubt(server, now);
        }
        if !statement.others_see && side_effects.without(SideEffects::TEMPORARY | SideEffects::SEQUENCE).is_empty() {
            // A session with temporary tables keeps its server, and their sequences go with them.
            return false;
        }
        let named = || statement.named.iter().copied();
        let is_met = statement.has_no_name || named().any(|word| self.is_met(word, side_effects));
        if !self.defined.mention(statement.mentioned.iter().copied(), server, now) {
            self.doubt(server, now);
        }
        if side_effects.is_empty() {
            // What it mentions may get side effects.
            return true;
        }
        for name in &statement.settings {
            if !self.defined.add_setting(name) {
                side_effects |= SideEffects::DYNAMIC_SETTINGS;
            }
        }
        if is_met {
            self.suspect_all(side_effects, server, now);
        }
        self.edition = Edition::NONE;
        for word in named() {
            if !self.defined.add(word, side_effects, server, now) {
                self.doubt(server, now);
                break;
            }
        }
        true
    }

    /// Whether something that was defined before may meet this name, and does not have these side effects yet.
    fn is_met(&self, name: Word, side_effects: SideEffects) -> bool {
        let catalogue = self.catalogue.as_deref();
        let before = catalogue.map_or(SideEffects::NONE, |catalogue| catalogue.touches(&[name]));
        let is_new = !(before | self.defined.side_effects([name.name()].iter())).contains(side_effects);
        let is_mentioned =
            || self.defined.mentions(name) || catalogue.is_some_and(|catalogue| catalogue.mentions(name));
        is_new && is_mentioned()
    }

    /// Any text may have these side effects until it has been read: what meets it is not known by its name. Nobody is to keep a server for
    /// good because of that: what no check finds is cleared with the server.
    fn suspect_all(&mut self, side_effects: SideEffects, server: ConnId, now: Time) {
        match side_effects.without(SideEffects::UNKEPT) {
            side_effects if side_effects.is_empty() => {}
            side_effects if pins::are_checked(side_effects) => self.doubt_of(side_effects, server, now),
            _ => self.doubt(server, now),
        }
    }

    /// Something is sent that may define anything.
    pub fn doubt(&mut self, server: ConnId, now: Time) {
        self.doubt_of(UNSURE, server, now);
    }

    fn doubt_of(&mut self, side_effects: SideEffects, server: ConnId, now: Time) {
        if self.is_on {
            self.edition = Edition::NONE;
            self.defined.doubt_of(side_effects, server, now);
        }
    }

    /// A transaction is over in which something was defined: from now on it can be read. `lost`: its server is gone, and whether
    /// it will commit is not known for a while.
    pub fn settle(&mut self, server: ConnId, now: Time, lost: bool) {
        let at = if lost { now + limits::HOUSEKEEPING } else { now };
        if self.defined.settle(server, at) {
            self.query_soon(now);
        }
    }

    /// A server is about to be used.
    #[inline]
    pub fn aged(&mut self, now: Time) {
        if self.is_on && self.times.ages(now) {
            self.edition = Edition::NONE;
        }
    }

    /// Whether an idle server should be asked. `others`: it is not the only one.
    pub fn is_due(&self, now: Time, others: bool) -> bool {
        self.is_on && self.under_way.is_none() && self.times.is_due(now, others || self.catalogue.is_none())
    }

    /// Sessions that need a server wait, since nothing is known yet: not for long, and not again once the query has failed.
    #[inline]
    pub fn is_awaited(&self) -> bool {
        let is_late = || self.under_way.as_ref().is_some_and(|asking| asking.is_late);
        self.catalogue.is_none() && self.is_on && !self.times.has_failed() && !is_late()
    }

    /// It takes too long to be waited for.
    pub fn is_late(&mut self) {
        if let Some(asking) = &mut self.under_way {
            asking.is_late = true;
        }
    }

    /// Texts are to be looked up, and there is nothing to look them up in.
    pub fn is_blank(&self) -> bool {
        self.is_on && !self.is_unreadable && self.catalogue.as_ref().is_none_or(|catalogue| catalogue.is_unknown())
    }

    /// Asking has failed: neither are its checks to be understood.
    pub fn is_unreadable(&self) -> bool {
        self.is_unreadable
    }

    pub fn names(&self) -> CatalogueProgress {
        match () {
            () if !self.is_on => CatalogueProgress::Off,
            () if self.is_unreadable => CatalogueProgress::Unreadable,
            () if self.catalogue.is_none() => CatalogueProgress::Reading,
            () => CatalogueProgress::Read,
        }
    }

    pub fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// Sessions that wait for a server wait a little longer: the query is overdue.
    pub fn is_overdue(&self, now: Time) -> bool {
        self.is_on && self.under_way.is_none() && self.catalogue.is_some() && self.times.is_overdue(now)
    }

    /// A server is asked. `counts`: it counts changes.
    pub fn begin(&mut self, server: ConnId, counts: bool, now: Time) -> Question {
        let question = match self.catalogue {
            None => Question::Poll,
            Some(_) => self.times.question(now, counts, self.defined.has_settled()),
        };
        let (is_broken, is_logged, is_late) = (false, false, false);
        self.under_way = Some(CatalogueQuery {
            server,
            question,
            counts,
            began: now,
            polled: None,
            reading: None,
            is_broken,
            is_logged,
            is_late,
        });
        question
    }

    /// A row has come: the body of a DataRow.
    pub fn row(&mut self, body: &[u8]) {
        let Some(asking) = &mut self.under_way else { return };
        match &mut asking.reading {
            Some(reading) => asking.is_broken |= reading.data_row(body).is_err(),
            None => asking.polled = Some(body.into()),
        }
    }

    /// An error has come instead. If PostgreSQL has taken all its time, nothing is known and it is asked again; any other error says that
    /// the catalogue cannot be read.
    pub fn refused(&mut self, now: Time) -> Unanswered {
        let Some(asking) = &mut self.under_way else { return Unanswered::Again };
        if now >= asking.began + super::TIMEOUT {
            self.under_way = None;
            self.times.failed(now);
            return Unanswered::TooLong;
        }
        (asking.is_broken, asking.is_logged) = (true, true);
        if self.is_unreadable { Unanswered::Again } else { Unanswered::First }
    }

    /// The answer has come to its end.
    pub fn answered(&mut self, now: Time) -> Next {
        let Some(mut asking) = self.under_way.take() else { return Next::Nothing };
        if asking.question == Question::Glance {
            // Whatever it says that is not what it said before is a reason to poll.
            if !self.times.glanced(asking.polled.take(), now) {
                return Next::Nothing;
            }
            (asking.question, asking.began, asking.is_broken, asking.is_logged) = (Question::Poll, now, false, false);
            self.under_way = Some(asking);
            return Next::Poll;
        }
        if asking.is_broken || asking.polled.is_none() {
            self.edition = Edition::NONE;
            self.times.failed(now);
            let begins = !std::mem::replace(&mut self.is_unreadable, true);
            return if begins && !asking.is_logged { Next::Complain } else { Next::Nothing };
        }
        match asking.reading.take() {
            None if self.catalogue.is_none() || asking.polled != self.polled => {
                self.times.polled(asking.began, now, true);
                asking.reading = Some(CatalogueBuilder::new());
                self.under_way = Some(asking);
                return Next::Read;
            }
            None => self.times.polled(asking.began, now, false),
            Some(reading) => {
                self.replace(Arc::new(reading.finish()), now);
                self.polled = asking.polled;
            }
        }
        self.is_right(asking.began, asking.counts, now);
        if std::mem::take(&mut self.is_unreadable) { Next::Recovered } else { Next::Nothing }
    }

    /// The catalogue is as it was when a poll began.
    fn is_right(&mut self, began: Time, counts: bool, now: Time) {
        self.edition = Edition::NONE;
        self.defined.read(began);
        self.times.is_right(began, now, counts, self.defined.has_settled());
    }

    /// A server is no more.
    pub fn lost(&mut self, server: ConnId, now: Time) {
        if self.under_way.as_ref().is_some_and(|asking| asking.server == server) {
            self.under_way = None;
            self.times.failed(now);
        }
    }
}

#[cfg(test)]
#[path = "known_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "fresh_tests.rs"]
mod fresh_tests;
