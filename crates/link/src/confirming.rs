//! What answers confirm of what was noted when messages were sent, and what errors take back.

use std::sync::Arc;

use connections::Verdict;
use connections::server::{Answerer, Entry, Expect};
use machine::action::Actions;
use session_state::shape::Described;
use session_state::state::{Defines, Effects, Pins, Reading};
use session_state::tracker::{Marked, Places, Tracker};
use session_state::unnamed;
use session_state::unnamed::Unnamed;
use units::ConnId;
use wire::backend;
use wire::backend::{ParameterStatus, Status};

use crate::answers::Answers;
use crate::session::Session;

impl Answers<'_> {
    /// Commands that make statements unknown to the server.
    pub fn command(&mut self, body: &[u8]) {
        if self.server.ledger.owner() == Some(Answerer::Aside) {
            return self.server.kept.on_server.done();
        }
        if self.server.transaction.status == Status::Failed && body == b"ROLLBACK\0" {
            // To a savepoint, or to its end, after which ReadyForQuery tells more.
            self.server.transaction.status = Status::InTransaction;
        }
        self.note_tag(body);
        if self.server.ledger.is_noted() {
            self.confirmed(body, true);
        }
        let forgets = matches!(body, b"DISCARD ALL\0" | b"DEALLOCATE ALL\0");
        if !forgets {
            return;
        }
        self.server.kept.on_server.clear();
        if body == b"DISCARD ALL\0" {
            self.server.kept.sequences.discarded();
            // Its client's, if it has one, says the same.
            (self.server.kept.session_state, self.server.traces.soiled) = (None, false);
            self.server.traces.listens = false;
        }
        // What was sent behind the command, in one pipeline with it, stays.
        let ledger = &self.server.ledger;
        self.server.statements.prepared.keep_only(|id| ledger.is_preparing(id));
        if let Some((_, session)) = &mut self.session
            && ledger.owner() == Some(Answerer::Client)
            && let Some(names) = &mut session.statements.names
        {
            names.discard();
        }
    }

    /// CloseComplete for a statement that SQL has prepared.
    pub fn closed_prepared(&mut self) {
        self.confirmed(b"", false);
    }

    /// A statement has run whose effects were noted; `named`: it may be of the names that the protocol knows.
    fn confirmed(&mut self, tag: &[u8], named: bool) {
        let Some((_, session)) = &mut self.session else { return };
        let Some(tracker) = &mut session.tracker else { return };
        let places = Places {
            on_server: &mut self.server.kept.on_server,
            listens: &mut self.server.traces.listens,
            names: session.statements.names.as_deref_mut().filter(|_| named),
            tracked: &self.caches.tracked,
            told: &self.server.kept.parameters,
            first: self.pool.welcome.base.as_ref().map(|base| &base.parameters),
            local_rights: self.server.transaction.local_rights,
        };
        tracker.confirmed(tag, places);
    }

    /// A parameter of the server's, and its session's. Returns whether the client is told.
    pub fn parameter(&mut self, status: &ParameterStatus<'_>, clients: bool) -> bool {
        let Some(index) = self.caches.tracked.index(status.name) else {
            if let Some(base) = &self.pool.welcome.base {
                self.server.reports(status.name, status.value, &base.reported);
            }
            return clients;
        };
        let Some(changed) = self.server.kept.parameters.with(index, status.value) else { return clients };
        let before = Arc::clone(&self.server.kept.parameters);
        self.server.kept.parameters = self.caches.interned.intern(changed);
        let Some((_, session)) = self.session.as_mut().filter(|_| clients) else { return clients };
        let is_restarting = session.tracker.as_ref().is_some_and(|tracker| tracker.restarting().is_reset(index));
        if is_restarting && session.reset_to.is_some() {
            // The server knows nothing of what this client began with: `restart` tells.
            return false;
        }
        if Arc::ptr_eq(&session.parameters, &before) {
            session.parameters = Arc::clone(&self.server.kept.parameters);
        } else if let Some(changed) = session.parameters.with(index, status.value) {
            session.parameters = self.caches.interned.intern(changed);
        }
        true
    }

    pub fn tracker(&mut self) -> Option<&mut Tracker> {
        self.session.as_mut().and_then(|(_, session)| session.tracker.as_deref_mut())
    }

    /// Whether the server is its client's until one of them ends.
    pub fn is_for_life(&mut self) -> bool {
        self.tracker().is_some_and(|tracker| tracker.pins().any(Pins::BACKEND_PID))
    }

    /// What the failure means for the session's state: nothing of the answer being read happens any more.
    /// `tries_again`: what failed is sent anew, and its client is told nothing.
    pub fn failed_followed(&mut self, tries_again: bool) {
        let (owner, noted) = (self.server.ledger.owner(), self.server.ledger.is_noted());
        if !matches!(owner, Some(Answerer::Client | Answerer::Prepare | Answerer::Aside)) {
            return;
        }
        let Some(tracker) = self.tracker() else { return };
        if !tries_again {
            tracker.failed();
        }
        if noted {
            tracker.void_front();
        }
    }

    /// The server skips these messages: what was noted when they were sent is taken back, newest first.
    pub fn undo(&mut self, skipped: &[Entry]) {
        let (mut of_names, mut of_unnamed) = (0, 0);
        self.server.statements.described = Described::default();
        self.server.statements.verdict = Verdict::None;
        for entry in skipped.iter().rev() {
            match entry.expect {
                Expect::Close(Some(id)) => self.server.statements.prepared.add(id),
                Expect::Parse(Some(id)) => self.server.statements.prepared.remove(id),
                Expect::Shape(_) => self.learn(0, None),
                Expect::Execute if entry.owner == Answerer::Aside => self.server.kept.on_server.take_back(),
                _ => {}
            }
            let renames = matches!(
                (entry.owner, entry.expect),
                (Answerer::Client, Expect::Parse(Some(_)) | Expect::FakeParse | Expect::FakeClose)
            );
            of_names += usize::from(renames);
            if entry.noted
                && let Some(tracker) = self.tracker()
            {
                tracker.finished();
            }
            of_unnamed += usize::from((entry.owner, entry.expect) == (Answerer::Client, Expect::Unnamed));
            if entry.owner == Answerer::Prepare && matches!(entry.expect, Expect::Parse(None) | Expect::Close(None)) {
                // Of its unnamed statement, on the client's behalf.
                self.server.statements.unnamed = unnamed::UNKNOWN;
            }
        }
        let doubtful = self.server.ledger.is_doubtful();
        if let Some(unnamed) = self.unnamed() {
            match doubtful {
                true => unnamed.skipped_all(),
                false => (0..of_unnamed).for_each(|_| unnamed.skipped()),
            }
        }
        if of_unnamed > 0
            && self.pool.rules.follows()
            && let Some((_, session)) = &mut self.session
            && !session.statements.unnamed.as_ref().is_some_and(|unnamed| unnamed.is_changing())
        {
            // An earlier one holds, and what that does is not kept.
            let unread = Marked { text: Arc::default(), reading: Reading::UNKNOWN, effects: Effects::default() };
            session.tracker.get_or_insert_default().portals.parse_unnamed(Some(Arc::new(unread)));
        }
        let Some(names) = self.session.as_mut().and_then(|(_, session)| session.statements.names.as_mut()) else {
            return;
        };
        if self.server.ledger.is_doubtful() {
            names.undo_all();
        } else {
            names.undo(of_names);
        }
    }

    /// Parameters that the client has reset are again what it began with. Its server may have another value: the next one
    /// is told. What it has set behind that is as the server tells.
    pub fn restart(&mut self) {
        let Some((conn, session)) = &mut self.session else { return };
        let (Some(first), Some(tracker)) = (&session.reset_to, &session.tracker) else { return };
        let restarting = *tracker.restarting();
        if !restarting.is_any() {
            return;
        }
        let (conn, first) = (*conn, Arc::clone(first));
        let mut told = Vec::new();
        for (index, name) in self.caches.tracked.names().enumerate() {
            let value = match () {
                () if restarting.is_reset(index) => first.get(index),
                () if restarting.is_set(index) => self.server.kept.parameters.get(index),
                () => None,
            };
            let Some(value) = value.filter(|value| session.parameters.get(index) != Some(value)) else { continue };
            let Some(changed) = session.parameters.with(index, value) else { continue };
            session.parameters = self.caches.interned.intern(changed);
            ParameterStatus { name: name.as_bytes(), value }.encode(&mut told);
        }
        if !told.is_empty() {
            self.flush();
            self.actions.send_new(conn, |out| out.extend_from_slice(&told));
        }
    }

    /// A transaction is over. Where it has changed what others see, what they prepare from now on is another statement. Who
    /// has temporary tables drops them all the time, and nobody else sees them.
    pub fn renew_statements(&mut self) {
        let renews = match std::mem::take(&mut self.server.transaction.defines) {
            Defines::Nothing => false,
            Defines::Unclear => !self.is_temporary(),
            Defines::ForAll => true,
        };
        self.pool.names.generation += u64::from(renews);
    }

    /// That its session may have something temporary, because nobody knows what its texts do, is no reason to believe so.
    fn is_temporary(&mut self) -> bool {
        self.tracker().is_some_and(|tracker| tracker.has_temporary())
    }

    /// An Execute has had as many rows as it asked for: its statement has run, though not to its end.
    pub fn suspended(&mut self) {
        if self.server.ledger.is_noted() {
            self.confirmed(b"", true);
        }
    }

    /// Whether an error is what a client gets for a message of its own.
    pub fn is_error_answer(&self) -> bool {
        let owner = self.server.ledger.owner();
        self.session.is_some() && matches!(owner, Some(Answerer::Client | Answerer::Prepare | Answerer::Aside))
    }

    pub fn unnamed(&mut self) -> Option<&mut Unnamed> {
        self.session.as_mut().and_then(|(_, session)| session.statements.unnamed.as_deref_mut())
    }

    pub fn answer_fakes(&mut self) {
        while let Some(fake) = self.server.ledger.next_fake() {
            self.flush();
            if let Some((conn, session)) = &mut self.session {
                answer_fake(*conn, session, fake.expect, self.actions);
            }
        }
    }
}

/// Writes the answer that we give in a server's stead.
pub fn answer_fake(conn: ConnId, session: &mut Session, fake: Expect, actions: &mut Actions) {
    if let Some(names) = &mut session.statements.names {
        names.answered();
    }
    match fake {
        Expect::FakeParse => actions.send_new(conn, backend::encode_parse_complete),
        Expect::FakeClose => actions.send_new(conn, backend::encode_close_complete),
        _ => debug_assert!(false, "only fakes are ours to answer"),
    }
}
