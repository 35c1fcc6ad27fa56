//! Splits texts in which a transaction ends before a statement that needs another one run first.
//!
//! The pooler's own statement would run before the text's COMMIT, and if it failed, the server would skip the COMMIT
//! too. So such a text is sent in two messages: up to its COMMIT, and the rest once that is answered. The client gets
//! one ReadyForQuery, that of the last message that has run.
//!
//! ```text
//!   Query "commit; execute p"  ──►  Query "commit; "  ──►  (no ReadyForQuery)  ──►  PREPARE p | Query "        execute p"
//!                                                     └──►  error, ReadyForQuery  ──►  the rest is not sent
//! ```
//!
//! Blanks replace what was sent before, so that an error's position is that in the client's text.
//!
//! Texts of listening sessions are not split, since their ReadyForQuery after a COMMIT may have to wait. There are two
//! differences from PostgreSQL: a syntax error after the COMMIT is found only after the COMMIT has run; and a procedure
//! or DO that is alone in the second message may end its transaction, which PostgreSQL refuses in a text of several
//! statements.
//!
//! //= pg18 protocol-flow#PROTOCOL-FLOW-MULTI-STATEMENT

use session_state::own_settings;
use session_state::state::Reading;
use session_state::tracker::Split;
use sql::{Kind, Marks, Statement, Text, Which};
use wire::frontend;

use crate::answers::Answers;
use crate::caches::Caches;
use crate::requests::Requests;
use crate::server::{Expect, Server};
use crate::session::Session;
use crate::texts;

/// Whether the Query at hand is the rest of one that has failed. If so, it is dealt with.
pub(crate) fn is_rest_of_failed(requests: &mut Requests<'_>, len: usize, in_stream: bool) -> bool {
    let split = requests.link.session.facts.tracker.as_mut().and_then(|tracker| tracker.split.take());
    if split != Some(Split::Failed) {
        return false;
    }
    // A prelude has failed, in the extended protocol, and the client sends no Sync after its Query.
    let skips = requests.link.server.ledger.is_skipping();
    if skips {
        requests.ended(Expect::Sync);
    }
    requests.replace(len, in_stream, |out| {
        if skips {
            frontend::encode_sync(out)
        }
    });
    true
}

/// A Query waits. If part of its preludes has been sent, an error of these ends it.
pub(crate) fn is_prepared_for(requests: &mut Requests<'_>) {
    if std::mem::take(&mut requests.sent_some) {
        requests.link.session.facts.tracker.get_or_insert_default().split = Some(Split::Preparing);
    }
}

/// Where a text has to be split, if it has to be.
pub(crate) fn first_part(
    server: &mut Server,
    session: &mut Session,
    caches: &mut Caches,
    text: &[u8],
    reading: Reading,
) -> Option<usize> {
    let listens = session.facts.tracker.as_ref().is_some_and(|tracker| tracker.notifications.subscriptions().is_some());
    if listens || reading.listens() || !reading.ends_transaction() {
        return None;
    }
    let names_own = own_settings::is_named_in(text);
    if !names_own && !reading.names_statements() {
        return None;
    }
    let text = Text::new(text, texts::rules(server, session, caches)?);
    let may_use_statements = reading.lists_statements() || reading.may_name_statements();
    let needs = |statement: &Statement<'_>, is_last| match statement.kind {
        Kind::Execute(_) | Kind::Deallocate(Which::One(_)) | Kind::Prepare { .. } => true,
        _ => {
            may_use_statements && may_name(statement, is_last)
                || names_own && own_settings::is_refused(&text, statement)
        }
    };
    let (mut has_ended, mut after_end) = (false, None);
    let mut statements = text.statements().peekable();
    while let Some(statement) = statements.next() {
        if has_ended {
            after_end = Some(statement.start);
        }
        has_ended = matches!(statement.kind, Kind::Commit { .. } | Kind::Rollback { .. } | Kind::PrepareTransaction);
        if !has_ended && after_end.is_some() && needs(&statement, statements.peek().is_none()) {
            return after_end;
        }
    }
    None
}

/// Whether a statement that is not the first of its text may use prepared statements through the code that it runs.
/// Some cannot: PostgreSQL refuses VACUUM and the like in a text of several statements, LOCK and SET run no user code,
/// and a cursor that ends with the text is never read. Alone in a text each of them would mean something else.
fn may_name(statement: &Statement<'_>, is_last: bool) -> bool {
    match statement.kind {
        Kind::Begin(_) | Kind::Commit { .. } | Kind::Rollback { .. } => false,
        Kind::Savepoint(_) | Kind::Release(_) | Kind::RollbackTo(_) => false,
        Kind::PrepareTransaction | Kind::CommitPrepared | Kind::RollbackPrepared => false,
        Kind::Set(_) | Kind::SetCharacteristics { .. } | Kind::SetTransaction | Kind::Reset(_) => false,
        Kind::Discard(_) | Kind::Close(_) | Kind::Listen(_) | Kind::Unlisten(_) | Kind::Notify(_) => false,
        Kind::Declare { hold: false, .. } => !is_last,
        _ => !statement.marks.any(Marks::ALONE) && !statement.begins_with("lock"),
    }
}

/// Whether a ReadyForQuery answers a first part, after which the rest is sent.
pub(crate) fn is_of_first_part(answers: &mut Answers<'_>) -> bool {
    // Without a tracker no text is split.
    let Some(tracker) = answers.tracker() else { return false };
    tracker.split.take_if(|split| *split == Split::UnderWay).is_some()
}

/// The client's Query has failed: the rest of a split text is not sent.
pub(crate) fn first_part_failed(answers: &mut Answers<'_>) {
    if let Some(split) = answers.tracker().and_then(|tracker| tracker.split.as_mut()) {
        *split = Split::Failed;
    }
}
