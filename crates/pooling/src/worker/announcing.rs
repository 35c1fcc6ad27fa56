//! Every pool of a database learns what any client of this pooler defines there, before the statement that defines it is sent.
//!
//! ```text
//!   client: CREATE FUNCTION f ──► the pools of that database on this worker note it
//!                             ──► ToWorker::Defines to the other workers ──► noted there ──► ToWorker::Noted ──► the statement is sent
//!   its transaction is over   ──► ToWorker::Settled to the other workers: from now on it can be read
//! ```
//!
//! Promises: nobody can call what was defined, through any pool of that database, and not be suspected; not even while the
//! answer of the definition is on its way. A pool that is opened, or begins anew, while such a transaction is open is in doubt
//! until that is over. Nobody waits for ever: mail to workers is never lost, and each answers in the step in which it comes.
//!
//! Does not do: waiting for the other workers where nobody has read the text. In a `classic` or session-mode pool the command
//! tag tells, and in a text of more than 64 kB its end: then it is told to the others before the bytes are passed on that
//! follow. What is not told at all: what a trigger, a view or a text that is made up defines. The poll finds it.

use std::sync::Arc;

use super::answers::Answers;
use super::requests::Requests;
use super::{Turn, Worker};
use crate::action::Actions;
use crate::mail::ToWorker;
use crate::server::Answerer;
use crate::session::State;
use session_state::catalogue::{Announcement, Definition, Hidden, What, of_tag};
use session_state::state::Reading;
use sql::{Marks, Rules};
use units::{ConnId, PoolId, Time, WorkerId};
use wire::backend::Status;

/// What a text changes that is about to be sent.
#[derive(Copy, Clone, Debug)]
enum Change<'t> {
    Text(&'t [u8], Rules),
    Anything,
}

impl Change<'_> {
    fn is_told_by(self, what: &What) -> bool {
        match self {
            Change::Text(text, rules) => what.is_of(text, rules),
            Change::Anything => *what == What::Anything,
        }
    }

    fn read(self) -> What {
        match self {
            Change::Text(text, rules) => What::read(text, rules),
            Change::Anything => What::Anything,
        }
    }
}

/// Who else there is.
#[derive(Copy, Clone, Debug)]
pub(super) struct OtherWorkers {
    own: WorkerId,
    workers: u16,
}

impl OtherWorkers {
    fn count(self) -> u16 {
        self.workers - 1
    }

    fn post(self, actions: &mut Actions, mail: impl Fn() -> ToWorker) {
        for worker in (0..self.workers).map(WorkerId).filter(|worker| *worker != self.own) {
            actions.post_to_worker(worker, mail());
        }
    }
}

impl Requests<'_> {
    /// A text is about to be sent that may change what names hide. False: not before the other workers know.
    pub(super) fn may_define(&mut self, text: Option<&[u8]>, reading: Reading) -> bool {
        let Some(change) = self.definition(text, reading) else { return true };
        self.server.is_unsettled = true;
        let announcement = self.session.tracker.as_ref().and_then(|tracker| tracker.announcement.as_deref());
        if let Some(made) = announcement
            && made.definition.server == self.server_id
            && change.is_told_by(&made.definition.what)
        {
            return made.missing == 0;
        }
        let what = change.read();
        if !self.pool.known.learn(&what, self.server_id, self.now) {
            return true;
        }
        let definition = self.announce(what, Some(self.conn));
        let missing = self.others.count();
        let announcement = (missing > 0).then(|| Box::new(Announcement { definition, missing }));
        self.session.tracker.get_or_insert_default().announcement = announcement;
        missing == 0
    }

    /// It is sent.
    #[inline]
    pub(super) fn defined(&mut self) {
        if let Some(tracker) = &mut self.session.tracker {
            tracker.announcement = None;
        }
    }

    /// A text passes of which only the end tells that it defines something.
    #[cold]
    pub(super) fn define_unread(&mut self) {
        self.server.is_unsettled = true;
        self.pool.known.learn(&What::Anything, self.server_id, self.now);
        self.announce(What::Anything, None);
    }

    fn announce(&mut self, what: What, session: Option<ConnId>) -> Arc<Definition> {
        let database = self.pool.database.name_at_server().into();
        let definition = Arc::new(Definition { database, server: self.server_id, what });
        self.others.post(self.actions, || ToWorker::Defines { definition: Arc::clone(&definition), session });
        self.definitions.push(Arc::clone(&definition));
        definition
    }

    fn definition<'t>(&mut self, text: Option<&'t [u8]>, reading: Reading) -> Option<Change<'t>> {
        let Some(text) = text.filter(|_| !reading.is_unknown()) else { return Some(Change::Anything) };
        if reading.redefines() {
            return Some(self.rules().map_or(Change::Anything, |rules| Change::Text(text, rules)));
        }
        let known = &self.pool.known;
        let mut hidden = reading.hidden;
        if reading.marks.any(Marks::BLOCK) {
            hidden |= known.hides_in_block(text).hidden;
        }
        if hidden.any(Hidden::DYNAMIC) {
            hidden |= known.hides_in_strings(text).hidden;
        }
        hidden.any(Hidden::DEFINES).then_some(Change::Anything)
    }
}

impl Answers<'_> {
    /// A command tag of a client's. It tells of a definition where the text was not read, or not as one.
    #[inline]
    pub(super) fn note_tag(&mut self, body: &[u8]) {
        if self.server.emptying.is_some() {
            self.note_emptied(body);
        }
        if matches!(body, [b'C' | b'A', ..] | [b'D', b'O', ..]) && !self.server.is_unsettled {
            self.tag_may_define(body);
        }
    }

    #[cold]
    fn tag_may_define(&mut self, body: &[u8]) {
        // Where texts are read, what a block defines is known by its text.
        let is_block = body == b"DO\0" && !self.pool.rules.follows();
        let what = if is_block { Some(What::Anything) } else { of_tag(body) };
        let Some(what) = what.filter(|_| self.server.ledger.owner() == Some(Answerer::Client)) else { return };
        // A table says nothing of what comes behind it in the same transaction.
        self.server.is_unsettled = what == What::Anything;
        let database = self.pool.database.name_at_server().into();
        let definition = Arc::new(Definition { database, server: self.server_id, what });
        // Before the tag is passed on.
        self.others.post(self.actions, || ToWorker::Defines { definition: Arc::clone(&definition), session: None });
        self.findings.words().definitions.push(definition);
    }

    /// ReadyForQuery: whether what was defined on this server is committed, or is not.
    #[inline]
    pub(super) fn settle_definitions(&mut self, status: Status) {
        if self.server.emptying.is_some() {
            self.server.emptying = None;
        }
        // What is under way still may define something more.
        if self.server.is_unsettled && status == Status::Idle && self.server.ledger.len() <= 1 {
            self.server.is_unsettled = false;
            self.findings.settled = true;
            if let Some(tracker) = self.tracker() {
                // One that is not sent yet is to be announced again.
                tracker.announcement = None;
            }
        }
    }
}

impl Worker {
    pub(super) fn other_workers(&self) -> OtherWorkers {
        OtherWorkers { own: self.id, workers: self.settings.workers.max(1) }
    }

    /// The pools of a database here learn what is defined there.
    pub(super) fn note_definition(&mut self, now: Time, definition: &Definition) {
        for pool in self.pools.iter_mut().flatten() {
            if pool.database.name_at_server() == &*definition.database {
                pool.known.learn(&definition.what, definition.server, now);
            }
        }
        if definition.what != What::Relation {
            self.definers.insert(definition.server, definition.database.clone());
        }
    }

    /// Another worker's client defines something.
    pub(super) fn hear_of_definition(
        &mut self,
        turn: &mut Turn<'_>,
        definition: Arc<Definition>,
        session: Option<ConnId>,
    ) {
        self.note_definition(turn.now, &definition);
        if let Some(session) = session {
            let to = WorkerId(session.owner());
            turn.actions.post_to_worker(to, ToWorker::Noted { definition, session });
        }
    }

    /// Another worker's pools know what a session here is about to define.
    pub(super) fn definition_noted(&mut self, turn: &mut Turn<'_>, conn: ConnId, definition: &Arc<Definition>) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        let Some(announcement) = session.tracker.as_mut().and_then(|tracker| tracker.announcement.as_mut()) else {
            return;
        };
        if !Arc::ptr_eq(&announcement.definition, definition) {
            return;
        }
        announcement.missing -= 1;
        let State::Linked { server } = session.state else { return };
        if announcement.missing > 0 || session.waits_for_listener() {
            return;
        }
        if let Some(server) = self.servers.get_mut(server).filter(|server| server.gated) {
            server.gated = false;
            self.requests_from_inbox(turn, conn);
            self.balance_if_paused(turn, conn);
        }
    }

    /// A transaction is over that has defined something on this server, or the server is gone.
    #[cold]
    pub(super) fn tell_settled(&mut self, turn: &mut Turn<'_>, id: PoolId, server: ConnId, lost: bool) {
        if self.definers.contains_key(&server) {
            self.hear_of_settlement(turn.now, server, lost);
            self.other_workers().post(turn.actions, || ToWorker::Settled { server, lost });
        } else if let Some(pool) = self.pool_mut(id) {
            // What no other pool is to know.
            pool.known.settle(server, turn.now, lost);
        }
    }

    pub(super) fn hear_of_settlement(&mut self, now: Time, server: ConnId, lost: bool) {
        let Some(database) = self.definers.remove(&server) else { return };
        for pool in self.pools.iter_mut().flatten().filter(|pool| pool.database.name_at_server() == &*database) {
            pool.known.settle(server, now, lost);
        }
    }

    /// A pool begins to know what names hide: what transactions define that are open now it may not be able to read.
    pub(super) fn doubt_open_definitions(&mut self, now: Time, index: usize) {
        let Some(pool) = self.pools[index].as_deref_mut() else { return };
        for (server, database) in &self.definers {
            if pool.database.name_at_server() == &**database {
                pool.known.doubt(*server, now);
            }
        }
    }
}
