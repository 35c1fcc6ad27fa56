//! When a client of this pooler defines something with side effects, every pool of that database learns of it before
//! the statement is sent.
//!
//! ```text
//!   client: CREATE FUNCTION f ──► the pools of that database on this worker note it
//!                             ──► ToWorker::Defines to the other workers ──► noted there ──► ToWorker::Noted ──► the statement is sent
//! its transaction is over ──► ToWorker::Settled to the other workers: from now on the catalogue shows it
//! ```
//!
//! So no session of any pool of that database can call what was defined without being suspected, not even while the
//! answer to the definition is on its way. A pool that is opened, or begins anew, while such a transaction is open is
//! in doubt until that is over. No session waits for ever: mail to workers is never lost, each answers in the step
//! in which the mail arrives, and a worker made anew after a panic is notified again of what it may not have answered.
//!
//! Where texts are not read, the statement does not wait for the other workers. In a `classic` or session-mode pool the
//! command tag shows the definition, and in a text of more than 64 kB its end: the others are notified before the
//! following bytes are passed on. What a trigger, a view or a made-up text defines is not announced. The poll of the
//! catalogue finds it.

use std::collections::BTreeSet;
use std::sync::Arc;

use machine::mail::ToWorker;
use session_state::catalogue::{Announcement, Definition, SideEffects, What, of_tag};
use session_state::state::Reading;
use sql::{Marks, Rules};
use units::{ConnId, WorkerId};
use wire::backend::Status;

use crate::answers::Answers;
use crate::requests::Requests;
use crate::server::Answerer;
use crate::session::Session;
use crate::{texts, vacating};

/// What a text that is about to be sent changes.
#[derive(Copy, Clone, Debug)]
enum Change<'t> {
    Text(&'t [u8], Rules),
    Anything,
}

impl Change<'_> {
    fn affects(self, what: &What) -> bool {
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

/// A text that may change side effects of functions, triggers or views is about to be sent. False: the other workers
/// must know of it first.
pub(crate) fn may_define(requests: &mut Requests<'_>, text: Option<&[u8]>, reading: Reading) -> bool {
    // It defines nothing.
    let Some(change) = definition(requests, text, reading) else { return true };
    requests.link.server.facts.traces.is_unsettled = true;
    let announcement = requests.link.session.facts.tracker.as_ref().and_then(|tracker| tracker.announcement.as_deref());
    if let Some(made) = announcement
        && made.definition.server == requests.link.server_id
        && change.affects(&made.definition.what)
    {
        return made.missing.is_empty();
    }
    let what = change.read();
    if !requests.link.pool.names.known.learn(&what, requests.link.server_id, requests.now) {
        return true;
    }
    let definition = announce(requests, what, Some(requests.link.conn));
    let missing: BTreeSet<WorkerId> = requests.others.iter().collect();
    let is_known = missing.is_empty();
    let announcement = (!is_known).then(|| Box::new(Announcement { definition, missing }));
    requests.link.session.facts.tracker.get_or_insert_default().announcement = announcement;
    is_known
}

/// The announced text is sent.
#[inline]
pub(crate) fn defined(session: &mut Session) {
    if let Some(tracker) = &mut session.facts.tracker {
        tracker.announcement = None;
    }
}

/// Only the end of a long text shows that it defines something.
#[cold]
pub(crate) fn define_unread(requests: &mut Requests<'_>) {
    requests.link.server.facts.traces.is_unsettled = true;
    requests.link.pool.names.known.learn(&What::Anything, requests.link.server_id, requests.now);
    announce(requests, What::Anything, None);
}

fn announce(requests: &mut Requests<'_>, what: What, session: Option<ConnId>) -> Arc<Definition> {
    let database = requests.link.pool.database.name_at_server().into();
    let definition = Arc::new(Definition { database, server: requests.link.server_id, what });
    requests.others.post(requests.actions, || ToWorker::Defines { definition: Arc::clone(&definition), session });
    requests.definitions.push(Arc::clone(&definition));
    definition
}

fn definition<'t>(requests: &mut Requests<'_>, text: Option<&'t [u8]>, reading: Reading) -> Option<Change<'t>> {
    // A text that cannot be read may define anything.
    let Some(text) = text.filter(|_| !reading.is_unknown()) else { return Some(Change::Anything) };
    if reading.redefines() {
        return Some(
            texts::rules(requests.link.server, requests.link.session, requests.caches)
                .map_or(Change::Anything, |rules| Change::Text(text, rules)),
        );
    }
    let known = &requests.link.pool.names.known;
    let mut side_effects = reading.side_effects;
    if reading.marks.any(Marks::BLOCK) {
        side_effects |= known.side_effects_of_block(text).side_effects;
    }
    if side_effects.any(SideEffects::DYNAMIC) {
        side_effects |= known.side_effects_of_strings(text).side_effects;
    }
    side_effects.any(SideEffects::DEFINES).then_some(Change::Anything)
}

/// Notes a command tag. It shows a definition if the text was not read, or did not show it.
#[inline]
pub(crate) fn note_tag(answers: &mut Answers<'_>, body: &[u8]) {
    if answers.server.facts.effects.emptying.is_some() {
        vacating::note_emptied(answers, body);
    }
    if matches!(body, [b'C' | b'A', ..] | [b'D', b'O', ..]) && !answers.server.facts.traces.is_unsettled {
        tag_may_define(answers, body);
    }
}

#[cold]
fn tag_may_define(answers: &mut Answers<'_>, body: &[u8]) {
    // Where texts are read, the text of a DO block shows what it defines.
    let is_block = body == b"DO\0" && !answers.pool.rules.follows();
    let what = if is_block { Some(What::Anything) } else { of_tag(body) };
    // It defines nothing, or the statement was the pooler's own.
    let Some(what) = what.filter(|_| answers.server.ledger.owner() == Some(Answerer::Client)) else { return };
    // A table does not exclude another definition later in the same transaction.
    answers.server.facts.traces.is_unsettled = what == What::Anything;
    let database = answers.pool.database.name_at_server().into();
    let definition = Arc::new(Definition { database, server: answers.server_id, what });
    // This is posted before the tag is passed on.
    answers.others.post(answers.actions, || ToWorker::Defines { definition: Arc::clone(&definition), session: None });
    answers.findings.words().definitions.push(definition);
}

/// ReadyForQuery: notes when a transaction that has defined something on this server is over.
#[inline]
pub(crate) fn settle_definitions(answers: &mut Answers<'_>, status: Status) {
    if answers.server.facts.effects.emptying.is_some() {
        answers.server.facts.effects.emptying = None;
    }
    // What is still under way may define more.
    if answers.server.facts.traces.is_unsettled && status == Status::Idle && answers.server.ledger.depth() <= 1 {
        answers.server.facts.traces.is_unsettled = false;
        answers.findings.settled = true;
        if let Some(tracker) = answers.tracker() {
            // A definition that is not sent yet is announced again.
            tracker.announcement = None;
        }
    }
}
