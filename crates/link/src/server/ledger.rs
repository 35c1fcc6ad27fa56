//! The answers that one server still owes, oldest first, each with an owner and the message that ends it.
//!
//! Every message that makes PostgreSQL answer adds an entry when it is sent; the message that ends the answer removes
//! it. Invariants I2 and I3 are statements about this list. The rules follow PostgreSQL's main loop:
//!
//! * after an error in the extended protocol everything is skipped up to the next Sync;
//! * CopyData, CopyDone and CopyFail outside COPY IN are ignored; [`copying`] says what is ignored inside it.
//!
//! //= pg18 protocol-flow#PROTOCOL-FLOW-EXT-QUERY
//! //= pg18 protocol-flow#PROTOCOL-COPY

mod copying;
mod counts;
mod owed;
mod requests;

pub use self::copying::Copying;
pub use self::owed::Owed;
pub use self::requests::Request;
use std::sync::Arc;

use connections::{Broken, MessageType};
use session_state::access::Access;
use session_state::prepared::StatementId;
use units::StatementRow;
use wire::backend::tag;

use super::Said;

/// The owner of an answer.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Answerer {
    /// The linked session.
    Client,
    /// The SETs at the beginning of a link, which give the server the session's settings.
    Replay,
    /// SETs within a link, after the client has reset settings to the values that it began with.
    Restore,
    /// A statement prepared, or closed, on the client's behalf.
    Prepare,
    /// The BEGIN of a block that the client has begun at a server that was lost.
    Begin,
    /// Statements of the pooler before a statement of the client. If one fails, the client gets the error.
    Prelude,
    /// A PREPARE or DEALLOCATE of the pooler before a text that may look at all statements. Nobody gets its error, whatever it is: mostly the
    /// table of a statement is gone, which the text does not ask for. The text then finds the statement missing.
    Attempt,
    /// The query for the state that the client has left on its server.
    Check,
    /// `server_reset_query`, a check, a rollback, the connect query.
    Chore,
    /// A client that is gone.
    Nobody,
}

/// What ends an answer.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Expect {
    /// ReadyForQuery, also for the next two.
    Query,
    Function,
    Sync,
    /// ParseComplete; the statement is this one, if it is tracked.
    Parse(Option<StatementId>),
    /// ParseComplete or CloseComplete: the client's unnamed statement is replaced or closed.
    Unnamed,
    Bind,
    /// RowDescription or NoData.
    Describe,
    /// Like Bind and Describe: the client's first use of a statement that another client has prepared.
    TrialBind,
    TrialDescribe,
    /// Like Describe, for the pooler itself: the statement's parameter and result types.
    Shape(StatementId),
    /// Like Shape, while a message of the client waits for it.
    Verdict(StatementId),
    /// An error.
    Refusal,
    /// An error, for a statement that is too large to be kept.
    TooLarge,
    /// An error of the server: the body of a message of the extended protocol is bad.
    Malformed,
    /// CommandComplete, EmptyQueryResponse or PortalSuspended.
    Execute,
    /// CloseComplete; the statement is this one, if it is tracked.
    Close(Option<StatementId>),
    /// Nothing: marks where the client ended its COPY IN.
    CopyEnd,
    /// The server sends nothing: the pooler sends ParseComplete after the answers before it.
    FakeParse,
    FakeClose,
}

impl Expect {
    pub fn is_extended(self) -> bool {
        !matches!(self, Expect::Query | Expect::Function | Expect::Sync | Expect::CopyEnd)
    }

    pub(super) fn is_ready(self) -> bool {
        matches!(self, Expect::Query | Expect::Function | Expect::Sync)
    }

    /// Whether its answer is a description that is read here.
    pub(crate) fn is_shape(self) -> bool {
        matches!(self, Expect::Shape(_) | Expect::Verdict(_))
    }

    /// Whether it may do more than prepare and describe statements.
    fn runs(self) -> bool {
        matches!(self, Expect::Bind | Expect::TrialBind | Expect::Execute)
    }

    /// The client gets an error of the pooler, whatever the server sends.
    pub(crate) fn is_refusal(self) -> bool {
        matches!(self, Expect::Refusal | Expect::TooLarge)
    }

    /// The client tries a statement.
    pub(crate) fn is_trial(self) -> bool {
        matches!(self, Expect::TrialBind | Expect::TrialDescribe)
    }

    fn is_fake(self) -> bool {
        matches!(self, Expect::FakeParse | Expect::FakeClose)
    }
}

/// One answer owed.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub(crate) owner: Answerer,
    pub(crate) expect: Expect,
    /// Its effects on the session's state are noted elsewhere, in the same order.
    pub(crate) noted: bool,
    /// Whether PostgreSQL may commit something when it answers this.
    pub(crate) access: Access,
    /// The statement that it parses, binds or runs, for statistics.
    pub(crate) statement: StatementRow,
}

impl Entry {
    /// Whether it prepares or closes the unnamed statement on the client's behalf.
    fn brings_unnamed(self) -> bool {
        self.owner == Answerer::Prepare && matches!(self.expect, Expect::Parse(None) | Expect::Close(None))
    }
}

// One is written and read for each message of a client, so it is small.
const _: () = assert!(size_of::<Entry>() == 28);

/// The server sent a message that is not part of any answer it owes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Unexpected(pub u8);

impl From<Unexpected> for Broken {
    fn from(Unexpected(message): Unexpected) -> Broken {
        Broken::Unexpected { message: MessageType(message) }
    }
}

/// The list of one server.
#[derive(Debug, Default)]
pub struct Ledger {
    owed: Owed,
    copying: Copying,
    /// An extended batch failed and the client has not sent its Sync yet.
    skipping: bool,
    /// Extended messages were sent since the last Sync or Query.
    open: bool,
    /// Something was bound or executed among them.
    ran: bool,
    /// It cannot be known any more which answers are owed: the session ends, and the server is not used again.
    doubtful: bool,
    /// What ran since the last Sync or Query was sent.
    batch: Option<Access>,
    /// The statement of the client's next message.
    next: Said,
}

impl Ledger {
    /// Nothing is owed and no batch is open.
    pub fn is_clear(&self) -> bool {
        self.owed.is_empty() && !self.open && !self.skipping && self.copying.is_settled()
    }

    pub fn is_doubtful(&self) -> bool {
        self.doubtful
    }

    /// The answers that are owed.
    #[inline]
    pub fn owed(&self) -> &Owed {
        &self.owed
    }

    /// The COPY IN that the server is in, or has been.
    #[inline]
    pub fn copying(&self) -> &Copying {
        &self.copying
    }

    /// How many answers are owed.
    pub fn depth(&self) -> usize {
        self.owed.len()
    }

    /// How many answers have ever been owed. It grows with each message that is noted here.
    pub(crate) fn owed_ever(&self) -> u64 {
        self.owed.owed_ever()
    }

    /// How many of them are no longer owed.
    pub(crate) fn answered_ever(&self) -> u64 {
        self.owed.owed_ever() - self.owed.len() as u64
    }

    /// Whether the server discards messages until the next Sync.
    pub fn is_skipping(&self) -> bool {
        self.skipping
    }

    /// Extended messages were sent without their Sync, which must still be sent.
    pub fn is_open(&self) -> bool {
        self.open || self.skipping
    }

    /// Since the last Sync only messages that prepare and describe were sent, and all of them are answered.
    #[inline]
    pub fn is_at_rest(&self) -> bool {
        self.open && !self.ran && self.owed.is_empty() && self.copying.is_settled()
    }

    /// Whether something was bound or executed since the last Sync.
    pub(crate) fn has_run(&self) -> bool {
        self.ran
    }

    /// What the answer being read ends with.
    pub fn front(&self) -> Option<Expect> {
        self.owed.front().map(|entry| entry.expect)
    }

    /// The next ReadyForQuery is not for the client, since its messages will be sent again. False: none comes next.
    pub(crate) fn take_ready(&mut self) -> bool {
        let Some(entry) = self.owed.front().filter(|entry| entry.expect == Expect::Sync) else {
            return false;
        };
        self.owed.pop_front();
        self.owed.push_front(Entry { owner: Answerer::Prepare, ..entry });
        true
    }

    /// The owner of the answer being read; `None`: nothing is owed.
    #[inline]
    pub fn owner(&self) -> Option<Answerer> {
        self.owed.front().map(|entry| entry.owner)
    }

    /// The message that was sent last has this one of the client's names of a statement.
    pub(crate) fn name_last(&mut self, statement: StatementId, name: Arc<[u8]>) {
        self.owed.name_newest(statement, name);
    }

    /// The client's next messages are about this statement.
    #[inline]
    pub(crate) fn speaks_of(&mut self, said: Said) {
        self.next = said;
    }

    /// The statement that the answer being read is about.
    #[inline]
    pub fn statement(&self) -> StatementRow {
        self.owed.front().map_or(StatementRow::NONE, |entry| entry.statement)
    }

    /// Notes a message that was sent. False: the server will not answer it, because it skips to Sync or is in COPY IN.
    pub fn sent(&mut self, owner: Answerer, expect: Expect) -> bool {
        let said = if owner == Answerer::Client { self.next } else { Said::OWN };
        self.sent_as(Entry { owner, expect, noted: false, access: said.access, statement: said.row })
    }

    /// Like [`Ledger::sent`], for a message of the client whose effects are noted elsewhere. False: it will have no
    /// effect.
    pub(crate) fn sent_noted(&mut self, expect: Expect) -> bool {
        !self.copying.is_open()
            && self.sent_as(Entry {
                owner: Answerer::Client,
                expect,
                noted: true,
                access: self.next.access,
                statement: self.next.row,
            })
    }

    /// Whether the answer being read is one whose effects are noted.
    pub(crate) fn is_noted(&self) -> bool {
        self.owed.front().is_some_and(|entry| entry.noted)
    }

    /// Notes a Query of the client's. Nothing is owed.
    #[inline(always)]
    pub(crate) fn sent_query(&mut self) {
        debug_assert!(self.is_clear() && self.batch.is_none(), "the query is all that the server has to do");
        let Said { row, access, copies, .. } = self.next;
        self.copying.note_sent(true);
        if copies {
            self.copying.note_copy();
        }
        self.ran = false;
        let (owner, expect) = (Answerer::Client, Expect::Query);
        self.owed.push_only_query(Entry { owner, expect, noted: false, access, statement: row });
    }

    /// Notes a batch of the client's that runs a statement which is no COPY: Bind, perhaps Describe, Execute and Sync. Nothing is owed.
    pub(crate) fn sent_batch(&mut self, is_described: bool) {
        debug_assert!(self.is_clear() && !self.next.copies, "the batch is all that the server has to do");
        let Said { row, access, .. } = self.next;
        let entry = |expect, access| Entry { owner: Answerer::Client, expect, noted: false, access, statement: row };
        self.copying.note_sent(true);
        self.ran = false;
        self.owed.push(entry(Expect::Bind, access));
        if is_described {
            self.owed.push(entry(Expect::Describe, access));
        }
        self.owed.push(entry(Expect::Execute, access));
        let batch = Some(self.batch.take().map_or(access, |batch| batch.then(access)));
        let sync = entry(Expect::Sync, access);
        self.owed.push(Entry { access: commits_with(sync, batch), ..sync });
    }

    fn sent_as(&mut self, entry: Entry) -> bool {
        let expect = entry.expect;
        if self.copying.is_open() {
            return self.sent_in_copy(entry);
        }
        if self.skipping {
            if expect != Expect::Sync {
                return false;
            }
            self.skipping = false;
        }
        self.copying.note_sent(self.owed.is_empty());
        if self.next.copies && entry.owner == Answerer::Client && matches!(expect, Expect::Execute | Expect::Query) {
            self.copying.note_copy();
        }
        if expect == Expect::Sync {
            self.copying.note_sync();
        }
        match expect {
            Expect::CopyEnd if self.owed.is_empty() => return false,
            // Nearly every one: nothing ran before it in its batch.
            Expect::Query if self.batch.is_none() && entry.owner != Answerer::Nobody => {
                (self.open, self.ran) = (false, false);
            }
            Expect::Sync | Expect::Query => {
                (self.open, self.ran) = (false, false);
                let access = commits_with(entry, self.batch.take());
                self.owed.push(Entry { access, ..entry });
                return true;
            }
            Expect::Execute => {
                (self.open, self.ran) = (true, true);
                self.batch = Some(self.batch.map_or(entry.access, |batch| batch.then(entry.access)));
            }
            Expect::CopyEnd => self.copying.note_end(),
            Expect::Function | Expect::FakeParse | Expect::FakeClose => {}
            _ => (self.open, self.ran) = (true, self.ran || expect.runs()),
        }
        self.owed.push(entry);
        true
    }

    /// Whether a message can be part of the answer being read.
    #[inline]
    pub(crate) fn accepts(&self, message: u8) -> bool {
        self.owed.front().is_some_and(|entry| role(message, entry.expect).is_some())
    }

    /// The owner of rows that may come now, and whether their RowDescription may come too.
    #[inline]
    pub(crate) fn rows(&self) -> Option<(Answerer, bool)> {
        let entry = self.owed.front()?;
        matches!(entry.expect, Expect::Query | Expect::Execute).then_some((entry.owner, entry.expect == Expect::Query))
    }

    /// If a ReadyForQuery is the client's and nothing else is owed: whether it ends a simple query, and that query's statement.
    #[inline]
    pub(crate) fn last_ready(&self) -> Option<(bool, StatementRow)> {
        debug_assert!(self.is_plain(), "what an answer means depends on no COPY IN");
        let front = self.owed.front()?;
        let is_query = match front.expect {
            Expect::Query => true,
            Expect::Sync => false,
            _ => return None,
        };
        let is_last = front.owner == Answerer::Client && !front.noted && self.owed.len() == 1;
        is_last.then_some((is_query, front.statement))
    }

    /// Takes a ReadyForQuery that [`Ledger::last_ready`] has found.
    #[inline]
    pub(crate) fn take_last_ready(&mut self) {
        debug_assert!(self.last_ready().is_some(), "it was found before");
        self.owed.pop_only();
    }

    /// No COPY IN affects how the server reads messages, or has read them.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.copying.is_settled()
    }

    /// Takes a message but CommandComplete that was read to its end, if it is for the client alone and nothing follows from it but the next
    /// answer. If it completes an answer, that is no longer owed.
    #[inline(always)]
    pub(crate) fn passes(&mut self, message: u8) -> bool {
        debug_assert!(self.is_plain(), "what an answer means depends on no COPY IN");
        let Some(front) = self.owed.front() else { return false };
        if front.owner != Answerer::Client || front.noted {
            return false;
        }
        let completes = match front.expect {
            Expect::Query => {
                return matches!(message, tag::ROW_DESCRIPTION | tag::DATA_ROW | tag::COPY_DATA | tag::EMPTY_QUERY);
            }
            Expect::Execute if matches!(message, tag::DATA_ROW | tag::COPY_DATA) => return true,
            Expect::Execute => message == tag::EMPTY_QUERY,
            Expect::Describe if message == tag::PARAMETER_DESCRIPTION => return true,
            Expect::Describe => matches!(message, tag::ROW_DESCRIPTION | tag::NO_DATA),
            Expect::Bind => message == tag::BIND_COMPLETE,
            _ => false,
        };
        let follows = |entry: Entry| !entry.expect.is_fake() && entry.expect != Expect::CopyEnd;
        let passes = completes && self.owed.get(1).is_none_or(follows);
        if passes {
            self.owed.pop_uncounted();
        }
        passes
    }

    /// As [`Ledger::passes`], of a CommandComplete. Returns whether it is a Query's, and else the statement of its Execute,
    /// which is no longer owed.
    #[inline(always)]
    pub(crate) fn passes_tag(&mut self) -> Option<(bool, StatementRow)> {
        debug_assert!(self.is_plain(), "what an answer means depends on no COPY IN");
        let front = self.owed.front()?;
        if front.owner != Answerer::Client || front.noted {
            return None;
        }
        match front.expect {
            Expect::Query => Some((true, StatementRow::NONE)),
            Expect::Execute => {
                let is_followed = |entry: Entry| entry.expect.is_fake() || entry.expect == Expect::CopyEnd;
                if self.owed.get(1).is_some_and(is_followed) {
                    return None;
                }
                self.owed.pop_uncounted();
                Some((false, front.statement))
            }
            _ => None,
        }
    }

    /// Notes a message of an answer that was read to its end. Returns the entry that it completed, if any.
    pub(crate) fn answered(&mut self, message: u8) -> Result<Option<Entry>, Unexpected> {
        let Some(front) = self.owed.front() else { return Err(Unexpected(message)) };
        let completes = role(message, front.expect).ok_or(Unexpected(message))?;
        if self.copying.is_in_doubt() {
            self.copying.learn_from(message);
        }
        match message {
            tag::READY_FOR_QUERY => self.copying.leave(),
            tag::COMMAND_COMPLETE => self.copy_done(),
            tag::COPY_IN => self.copy_begins(),
            _ => {}
        }
        if !completes {
            return Ok(None);
        }
        self.owed.pop_front();
        self.pass_copy_ends();
        Ok(Some(front))
    }

    /// The next answer that the pooler gives instead of the server, if it is the oldest one owed.
    pub(crate) fn next_fake(&mut self) -> Option<Entry> {
        let front = self.owed.front().filter(|entry| entry.expect.is_fake())?;
        self.owed.pop_front();
        self.pass_copy_ends();
        Some(front)
    }

    /// Notes an ErrorResponse. The entries that it makes the server skip go to `dropped`.
    pub(crate) fn failed(&mut self, mut dropped: impl FnMut(Entry)) -> Result<(), Unexpected> {
        let Some(front) = self.owed.front() else { return Err(Unexpected(tag::ERROR)) };
        let syncs = self.copying.failed();
        self.copying.learn_from(tag::ERROR);
        if !front.expect.is_extended() {
            self.sync_in_failed_query(syncs);
            return Ok(());
        }
        self.copying.doubt_syncs(syncs, true);
        let mut is_front = true;
        while let Some(entry) = self.owed.front() {
            if entry.expect == Expect::Sync {
                self.owed.commit_nothing();
                return Ok(());
            }
            // Everything before the next Sync is skipped, unless the server has read one of the COPY's Syncs outside
            // the COPY.
            self.doubtful |= syncs > 0 && !is_front && entry.expect != Expect::CopyEnd;
            is_front = false;
            self.owed.pop_front();
            dropped(entry);
        }
        self.skipping = true;
        self.open = false;
        self.batch = None;
        Ok(())
    }

    /// What the client still waits for: how many answers that end with ReadyForQuery, and whether a batch without Sync
    /// comes after them.
    pub fn owing(&self) -> (usize, bool) {
        let (mut answers, mut batch) = (0, false);
        for entry in self.owed.iter().filter(|entry| entry.owner == Answerer::Client) {
            match entry.expect {
                Expect::Query | Expect::Function | Expect::Sync => (answers, batch) = (answers + 1, false),
                Expect::CopyEnd => {}
                _ => batch = true,
            }
        }
        (answers, batch || self.open)
    }

    /// The client is gone: the answers still owed have no owner any more.
    pub fn disown(&mut self) {
        loop {
            let fake = self.owed.iter().position(|entry| entry.expect.is_fake());
            let Some(index) = fake else { break };
            self.owed.remove(index);
        }
        self.owed.disown();
        self.copying.disown();
    }

    fn pass_copy_ends(&mut self) {
        while self.owed.front().is_some_and(|entry| entry.expect == Expect::CopyEnd) {
            self.owed.pop_front();
        }
    }
}

/// What a Query or Sync commits, with what ran before it in its batch.
#[inline]
fn commits_with(entry: Entry, batch: Option<Access>) -> Access {
    match (entry.expect, entry.owner) {
        (Expect::Sync, _) => batch.unwrap_or(Access::ReadOnly),
        // It is a ROLLBACK.
        (_, Answerer::Nobody) => Access::ReadOnly,
        _ => batch.map_or(entry.access, |batch| batch.then(entry.access)),
    }
}

/// Whether a message completes an answer of this kind (`true`), is part of it (`false`), or has no place in it (`None`).
#[inline]
fn role(message: u8, expect: Expect) -> Option<bool> {
    match (message, expect) {
        (tag::READY_FOR_QUERY, Expect::Query | Expect::Function | Expect::Sync)
        | (tag::PARSE_COMPLETE, Expect::Parse(_) | Expect::Unnamed)
        | (tag::BIND_COMPLETE, Expect::Bind | Expect::TrialBind)
        | (tag::CLOSE_COMPLETE, Expect::Close(_) | Expect::Unnamed)
        | (
            tag::ROW_DESCRIPTION | tag::NO_DATA,
            Expect::Describe | Expect::TrialDescribe | Expect::Shape(_) | Expect::Verdict(_),
        )
        | (tag::COMMAND_COMPLETE | tag::EMPTY_QUERY | tag::PORTAL_SUSPENDED, Expect::Execute) => Some(true),
        (
            tag::PARAMETER_DESCRIPTION,
            Expect::Describe | Expect::TrialDescribe | Expect::Shape(_) | Expect::Verdict(_),
        )
        | (tag::COMMAND_COMPLETE | tag::EMPTY_QUERY | tag::ROW_DESCRIPTION, Expect::Query)
        | (
            tag::DATA_ROW | tag::COPY_DATA | tag::COPY_DONE | tag::COPY_OUT | tag::COPY_IN,
            Expect::Query | Expect::Execute,
        )
        | (tag::FUNCTION_CALL_RESPONSE, Expect::Function) => Some(false),
        _ => None,
    }
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
