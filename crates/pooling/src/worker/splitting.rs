//! Texts in which a transaction ends before a statement that needs something run in front of it.
//!
//! What is run in front of a text comes before its COMMIT, and if it fails, the server passes over the COMMIT too. So such a text
//! goes to the server in two messages: up to its COMMIT, and the rest once that is answered. The client gets one ReadyForQuery,
//! that of the last message that has run.
//!
//! ```text
//!   Query "commit; execute p"  ──►  Query "commit; "  ──►  (no ReadyForQuery)  ──►  PREPARE p | Query "        execute p"
//!                                                     └──►  error, ReadyForQuery  ──►  the rest is not sent
//! ```
//!
//! Blanks stand for what was sent before, so that an error's position is that in the client's text.
//!
//! Does not do: a statement that would mean something else as the only one of its text, such as VACUUM: its text is sent whole, and
//! what it needs in front. Texts of sessions that listen, whose ReadyForQuery behind a COMMIT may have to wait. And a syntax error behind the
//! COMMIT is found after it, not before.
//!
//! //= pg18 protocol-flow#PROTOCOL-FLOW-MULTI-STATEMENT

use session_state::own_settings;
use session_state::state::{Reading, Split};
use sql::{Assignment, Kind, Marks, Scope, Statement, Text, Which};
use wire::HEADER_LEN;
use wire::frontend::{self, Query};

use super::answers::Answers;
use super::renaming::Renamed;
use super::requests::Requests;
use crate::server::Expect;

impl Requests<'_> {
    /// Sends the first part of a Query that has to be sent in two. `No`: it is not such a one.
    #[cold]
    pub(super) fn split(&mut self, text: &[u8], reading: Reading, in_stream: bool) -> Renamed {
        let Some(at) = self.first_part(text, reading) else { return Renamed::No };
        if self.server.ledger.len() > 0 {
            self.call_for_answers();
            return Renamed::Later;
        }
        let (first, rest) = text.split_at(at);
        let reading = self.read_text(Some(first));
        if !self.query_followed(Some(first), reading, false) {
            return Renamed::Later;
        }
        // A text ends with a zero byte.
        let total = HEADER_LEN + text.len() + 1;
        self.replace(total, in_stream, |out| Query { text: first }.encode(out));
        self.session.tracker.get_or_insert_default().split = Some(Split::UnderWay);
        let blanks = first.iter().filter(|&&byte| byte & 0xc0 != 0x80).map(|_| b' ');
        let rest: Vec<u8> = blanks.chain(rest.iter().copied()).collect();
        Query { text: &rest }.encode(&mut self.session.inbox);
        self.holds = true;
        Renamed::Yes
    }

    /// Whether the Query at hand is the rest of one that has failed: then it is dealt with.
    pub(super) fn is_rest_of_failed(&mut self, len: usize, in_stream: bool) -> bool {
        let split = self.session.tracker.as_mut().and_then(|tracker| tracker.split.take());
        if split != Some(Split::Failed) {
            return false;
        }
        // What has failed was of the extended protocol, and the client sends no Sync behind its Query.
        let skips = self.server.ledger.is_skipping();
        if skips {
            self.ended(Expect::Sync);
        }
        self.replace(len, in_stream, |out| {
            if skips {
                frontend::encode_sync(out)
            }
        });
        true
    }

    /// A Query waits. If some of what it needs has been sent, an error of that ends it.
    pub(super) fn is_prepared_for(&mut self) {
        if std::mem::take(&mut self.sent_some) {
            self.session.tracker.get_or_insert_default().split = Some(Split::Preparing);
        }
    }

    /// Where a text has to be divided, if so.
    fn first_part(&mut self, text: &[u8], reading: Reading) -> Option<usize> {
        let listens = self.session.tracker.as_ref().is_some_and(|tracker| tracker.ears().is_some());
        if listens || reading.listens() || !reading.ends_transaction() {
            return None;
        }
        let names_own = own_settings::is_named_in(text);
        if !names_own && !reading.names_statements() {
            return None;
        }
        let text = Text::new(text, self.rules()?);
        let hidden = reading.lists_statements() || reading.may_name_statements();
        let needs = |statement: &Statement<'_>| match statement.kind {
            Kind::Execute(_) | Kind::Deallocate(Which::One(_)) | Kind::Prepare { .. } => true,
            _ => hidden || names_own && own_settings::is_refused(&text, statement),
        };
        let (mut has_ended, mut behind_end) = (false, None);
        let mut statements = text.statements().peekable();
        while let Some(statement) = statements.next() {
            let follows_end = has_ended;
            if follows_end {
                behind_end = Some(statement.start);
            }
            has_ended =
                matches!(statement.kind, Kind::Commit { .. } | Kind::Rollback { .. } | Kind::PrepareTransaction);
            if !has_ended && behind_end.is_some() && needs(&statement) {
                let is_alone = follows_end && statements.peek().is_none();
                return behind_end.filter(|_| !is_alone || is_same_alone(&statement));
            }
        }
        None
    }
}

/// Whether a statement does the same as the only one of its text. PostgreSQL runs a text of several in a transaction block: VACUUM is
/// refused there, LOCK and DECLARE are not, and a procedure may not end the transaction.
fn is_same_alone(statement: &Statement<'_>) -> bool {
    let is_plain =
        || statement.kind == Kind::Plain && !statement.marks.any(Marks::ALONE) && !statement.begins_with("lock");
    let session = |assignment: &Assignment<'_>| assignment.scope == Scope::Session;
    match &statement.kind {
        Kind::Execute(_) | Kind::Deallocate(_) | Kind::Prepare { .. } | Kind::Reset(_) | Kind::Copy | Kind::Fetch => {
            true
        }
        Kind::Set(assignment) => session(assignment),
        _ => is_plain(),
    }
}

impl Answers<'_> {
    /// Whether a ReadyForQuery is that of a first part, behind which the rest goes to the server.
    pub(super) fn is_of_first_part(&mut self) -> bool {
        let Some(tracker) = self.tracker() else { return false };
        tracker.split.take_if(|split| *split == Split::UnderWay).is_some()
    }

    /// An error has come that is the client's.
    pub(super) fn first_part_failed(&mut self) {
        if let Some(split) = self.tracker().and_then(|tracker| tracker.split.as_mut()) {
            *split = Split::Failed;
        }
    }
}
