//! Who is owed what: the answers one server still has to give, oldest first, each with an owner and an end.
//!
//! Every message that makes PostgreSQL answer adds an entry when it is sent; the message that ends the answer removes
//! it. Invariants I2 and I3 are statements about this list. The rules follow PostgreSQL's main loop:
//!
//! * after an error in the extended protocol everything is skipped up to the next Sync;
//! * CopyData, CopyDone and CopyFail outside COPY IN are ignored; what is ignored inside of it is said in [`copying`].
//!
//! //= pg18 protocol-flow#PROTOCOL-FLOW-EXT-QUERY
//! //= pg18 protocol-flow#PROTOCOL-COPY

mod copying;
mod counts;
mod owed;

use session_state::prepared::StatementId;
use wire::backend::tag;

use self::copying::{CopyIn, Unsure};
use self::owed::Owed;

/// Who an answer belongs to.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Answerer {
    /// The session linked now.
    Client,
    /// SETs that make the server's parameters the session's.
    Replay,
    /// SETs in the midst of it, since the client has reset what it began with.
    Mend,
    /// A statement prepared, or closed, on the client's behalf.
    Prepare,
    /// Run on the client's behalf, in front of a statement of its own: an error is its answer.
    Aside,
    /// What state the client has left on its server.
    Check,
    /// `server_reset_query`, a check, a rollback, the connect query.
    Chore,
    /// A client that is gone.
    Nobody,
}

/// What ends an answer.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Expect {
    /// ReadyForQuery, as for the next two.
    Query,
    Function,
    Sync,
    /// ParseComplete; the statement is this one, if it is tracked.
    Parse(Option<StatementId>),
    /// ParseComplete or CloseComplete: the client's unnamed statement is another, or none.
    Unnamed,
    Bind,
    /// RowDescription or NoData.
    Describe,
    /// As these two: the first use that its client makes of a statement that somebody else has prepared.
    TrialBind,
    TrialDescribe,
    /// As Describe, for the pooler: what this statement was made of.
    Shape(StatementId),
    /// As Shape; a message of the client's waits for it.
    Verdict(StatementId),
    /// An error.
    Refusal,
    /// The same, of a statement that is too large to be kept.
    TooLarge,
    /// CommandComplete, EmptyQueryResponse or PortalSuspended.
    Execute,
    /// CloseComplete; evicted if tracked.
    Close(Option<StatementId>),
    /// Nothing: marks where the client ended its COPY IN.
    CopyEnd,
    /// Nothing is sent by the server: we answer ParseComplete when its turn comes.
    FakeParse,
    FakeClose,
}

impl Expect {
    fn is_extended(self) -> bool {
        !matches!(self, Expect::Query | Expect::Function | Expect::Sync | Expect::CopyEnd)
    }

    pub(super) fn is_ready(self) -> bool {
        matches!(self, Expect::Query | Expect::Function | Expect::Sync)
    }

    /// Whether its answer is a description that is read here.
    fn is_shape(self) -> bool {
        matches!(self, Expect::Shape(_) | Expect::Verdict(_))
    }

    /// Whether it does, or may do, more than settle what statements there are.
    fn runs(self) -> bool {
        matches!(self, Expect::Bind | Expect::TrialBind | Expect::Execute)
    }

    /// The client is told an error of ours, whatever the server says.
    pub fn is_refusal(self) -> bool {
        matches!(self, Expect::Refusal | Expect::TooLarge)
    }

    /// The client tries a statement.
    pub fn is_trial(self) -> bool {
        matches!(self, Expect::TrialBind | Expect::TrialDescribe)
    }

    fn is_fake(self) -> bool {
        matches!(self, Expect::FakeParse | Expect::FakeClose)
    }
}

/// One answer owed.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub owner: Answerer,
    pub expect: Expect,
    /// What it does to the session's state is noted, in the same order.
    pub noted: bool,
}

// One is written and read for each message of a client.
const _: () = assert!(size_of::<Entry>() == 20);

/// The server said something that nothing accounts for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Unexpected(pub u8);

/// The list of one server.
#[derive(Debug, Default)]
pub struct Ledger {
    entries: Owed,
    copy: CopyIn,
    /// Syncs that were sent between the beginning of a COPY IN and its end: ignored, unless it has failed before.
    copy_syncs: u32,
    /// As many of them as the server may have answered, once the COPY has failed.
    unsure: Option<Unsure>,
    /// An extended batch failed and the client has not sent its Sync yet.
    skipping: bool,
    /// Extended messages were sent since the last Sync or Query.
    open: bool,
    /// Something was bound or executed among them.
    ran: bool,
    /// What the client is owed cannot be known any more: its session ends, and the server is not used again.
    doubtful: bool,
}

impl Ledger {
    /// Nothing is owed and no batch is open.
    pub fn is_clear(&self) -> bool {
        self.entries.is_empty() && !self.open && !self.skipping && self.copy == CopyIn::No && self.unsure.is_none()
    }

    pub fn is_doubtful(&self) -> bool {
        self.doubtful
    }

    /// How many answers are owed.
    pub fn depth(&self) -> usize {
        self.entries.len()
    }

    /// Nothing is owed but the answer to our own question of what the client has left, or to a Sync that was sent in its stead.
    #[inline]
    pub fn owes_no_client(&self) -> bool {
        let ours = |entry: Entry| match entry.owner {
            Answerer::Check => true,
            Answerer::Prepare => entry.expect == Expect::Sync,
            _ => false,
        };
        self.entries.iter().all(ours)
    }

    /// Whether messages are thrown away by the server until the next Sync.
    pub fn is_skipping(&self) -> bool {
        self.skipping
    }

    /// Extended messages without their Sync: somebody has to send it.
    pub fn is_open(&self) -> bool {
        self.open || self.skipping
    }

    /// Nothing but what prepares and describes was sent since the last Sync, and all of it is answered.
    #[inline]
    pub fn is_at_rest(&self) -> bool {
        self.open && !self.ran && self.entries.is_empty() && !self.is_guarded() && self.copy == CopyIn::No
    }

    /// Whether something was bound or executed since the last Sync.
    pub fn has_run(&self) -> bool {
        self.ran
    }

    /// What the answer being read is to be.
    pub fn front(&self) -> Option<Expect> {
        self.entries.front().map(|entry| entry.expect)
    }

    /// Whether the answer being read is a description for the pooler.
    pub fn is_shape(&self) -> bool {
        self.entries.front().is_some_and(|entry| entry.expect.is_shape())
    }

    /// Whether a message of the client's waits for such an answer.
    pub fn awaits_verdict(&self) -> bool {
        self.entries.counts().verdicts > 0
    }

    /// The ReadyForQuery that comes next is not for the client: its messages will be sent again. False: none is under way.
    pub fn take_ready(&mut self) -> bool {
        let Some(entry) = self.entries.front().filter(|entry| entry.expect == Expect::Sync) else {
            return false;
        };
        self.entries.pop_front();
        self.entries.push_front(Entry { owner: Answerer::Prepare, ..entry });
        true
    }

    /// Whether the answer being read comes from an extended Execute.
    pub fn is_extended(&self) -> bool {
        self.entries.front().is_some_and(|entry| entry.expect.is_extended())
    }

    /// Whose answer is being read; `None`: nothing is owed.
    #[inline]
    pub fn owner(&self) -> Option<Answerer> {
        self.entries.front().map(|entry| entry.owner)
    }

    /// A message was sent. False: the server will not answer it, because it skips to Sync or is in COPY IN.
    pub fn sent(&mut self, owner: Answerer, expect: Expect) -> bool {
        self.sent_as(Entry { owner, expect, noted: false })
    }

    /// As [`Ledger::sent`], for a message of the client's whose effects are noted. False: it will have none.
    pub fn sent_noted(&mut self, expect: Expect) -> bool {
        self.copy != CopyIn::Open && self.sent_as(Entry { owner: Answerer::Client, expect, noted: true })
    }

    /// Whether the answer being read is one whose effects are noted.
    pub fn is_noted(&self) -> bool {
        self.entries.front().is_some_and(|entry| entry.noted)
    }

    fn sent_as(&mut self, entry: Entry) -> bool {
        let expect = entry.expect;
        if self.copy == CopyIn::Open {
            return self.sent_in_copy(entry);
        }
        if self.skipping {
            if expect != Expect::Sync {
                return false;
            }
            self.skipping = false;
        }
        match expect {
            Expect::CopyEnd if self.entries.is_empty() => return false,
            Expect::Sync | Expect::Query => (self.open, self.ran) = (false, false),
            Expect::Function | Expect::CopyEnd | Expect::FakeParse | Expect::FakeClose => {}
            _ => (self.open, self.ran) = (true, self.ran || expect.runs()),
        }
        self.entries.push(entry);
        true
    }

    /// Whether a message can be part of the answer being read.
    #[inline]
    pub fn accepts(&self, message: u8) -> bool {
        self.entries.front().is_some_and(|entry| role(message, entry.expect).is_some())
    }

    /// Whose rows may come now, if the answer being read has any, and whether what describes them may come too.
    #[inline]
    pub fn rows(&self) -> Option<(Answerer, bool)> {
        let entry = self.entries.front()?;
        matches!(entry.expect, Expect::Query | Expect::Execute).then_some((entry.owner, entry.expect == Expect::Query))
    }

    /// A ReadyForQuery has come that is the client's, and nothing else is owed. Whether it ends a simple query. `None`: it is
    /// not so, and nothing has changed.
    #[inline]
    pub fn take_last_ready(&mut self) -> Option<bool> {
        debug_assert!(self.is_plain(), "what an answer means depends on no COPY IN");
        let front = self.entries.front()?;
        let is_query = match front.expect {
            Expect::Query => true,
            Expect::Sync => false,
            _ => return None,
        };
        if front.owner != Answerer::Client || front.noted || self.entries.len() > 1 {
            return None;
        }
        self.entries.pop_front();
        Some(is_query)
    }

    /// No COPY IN decides what the server reads, or has read.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.copy == CopyIn::No && self.unsure.is_none()
    }

    /// Whether a message that has been read to its end belongs to the client alone, and nothing follows from it but that the
    /// next answer's turn comes: what it completes is then owed no more.
    #[inline(always)]
    pub fn passes(&mut self, message: u8) -> bool {
        debug_assert!(self.is_plain(), "what an answer means depends on no COPY IN");
        let Some(front) = self.entries.front() else { return false };
        if front.owner != Answerer::Client || front.noted {
            return false;
        }
        let completes = match front.expect {
            Expect::Query => {
                let parts =
                    [tag::ROW_DESCRIPTION, tag::DATA_ROW, tag::COMMAND_COMPLETE, tag::COPY_DATA, tag::EMPTY_QUERY];
                return parts.contains(&message);
            }
            Expect::Execute if matches!(message, tag::DATA_ROW | tag::COPY_DATA) => return true,
            Expect::Execute => matches!(message, tag::COMMAND_COMPLETE | tag::EMPTY_QUERY),
            Expect::Describe if message == tag::PARAMETER_DESCRIPTION => return true,
            Expect::Describe => matches!(message, tag::ROW_DESCRIPTION | tag::NO_DATA),
            Expect::Bind => message == tag::BIND_COMPLETE,
            _ => false,
        };
        let follows = |entry: Entry| !entry.expect.is_fake() && entry.expect != Expect::CopyEnd;
        let passes = completes && self.entries.get(1).is_none_or(follows);
        if passes {
            self.entries.pop_front();
        }
        passes
    }

    /// A message of an answer has been read to its end. Returns the entry it completed, if it did.
    pub fn answered(&mut self, message: u8) -> Result<Option<Entry>, Unexpected> {
        let Some(front) = self.entries.front() else { return Err(Unexpected(message)) };
        let completes = role(message, front.expect).ok_or(Unexpected(message))?;
        if self.unsure.is_some() {
            self.sure_by(message);
        }
        match message {
            tag::READY_FOR_QUERY => self.copy = CopyIn::No,
            tag::COMMAND_COMPLETE => self.copy_done(),
            tag::COPY_IN => self.copy_begins(),
            _ => {}
        }
        if !completes {
            return Ok(None);
        }
        self.entries.pop_front();
        self.pass_copy_ends();
        Ok(Some(front))
    }

    /// The next answer that we give in the server's stead, if its turn has come.
    pub fn next_fake(&mut self) -> Option<Entry> {
        let front = self.entries.front().filter(|entry| entry.expect.is_fake())?;
        self.entries.pop_front();
        self.pass_copy_ends();
        Some(front)
    }

    /// An ErrorResponse has been read. What it makes void goes to `dropped`.
    pub fn failed(&mut self, mut dropped: impl FnMut(Entry)) -> Result<(), Unexpected> {
        let Some(front) = self.entries.front() else { return Err(Unexpected(tag::ERROR)) };
        let syncs = self.copy_failed();
        self.sure_by(tag::ERROR);
        if !front.expect.is_extended() {
            self.sync_in_failed_query(syncs);
            return Ok(());
        }
        self.doubt_syncs(syncs, true);
        let mut is_front = true;
        while let Some(entry) = self.entries.front() {
            if entry.expect == Expect::Sync {
                return Ok(());
            }
            // What stands before the next Sync is skipped, unless one of those was read outside of the copy.
            self.doubtful |= syncs > 0 && !is_front && entry.expect != Expect::CopyEnd;
            is_front = false;
            self.entries.pop_front();
            dropped(entry);
        }
        self.skipping = true;
        self.open = false;
        Ok(())
    }

    /// Whether an answer that ends with ReadyForQuery is under way: until then the transaction's state is not known.
    pub fn awaits_ready(&self) -> bool {
        self.entries.counts().readies > 0
    }

    /// Whether one that the client is owed is under way.
    pub fn awaits_own_ready(&self) -> bool {
        self.entries.counts().own_readies > 0
    }

    /// Whether a simple query of the client's is under way: it may be DISCARD ALL.
    pub fn awaits_query(&self) -> bool {
        self.entries.counts().own_queries > 0
    }

    /// Whether what the server has prepared is changing.
    pub fn is_changing(&self) -> bool {
        self.entries.counts().changes > 0
    }

    /// Whether a statement is being prepared or closed.
    pub fn is_changing_of(&self, id: StatementId) -> bool {
        let of_it =
            |entry: Entry| matches!(entry.expect, Expect::Parse(Some(of)) | Expect::Close(Some(of)) if of == id);
        self.entries.counts().changes > 0 && self.entries.iter().any(of_it)
    }

    /// Whether a statement is being prepared.
    pub fn is_preparing(&self, id: StatementId) -> bool {
        self.entries.iter().any(|entry| entry.expect == Expect::Parse(Some(id)))
    }

    /// What the client still waits for: how many answers that end with ReadyForQuery, and whether a batch without its
    /// Sync comes after them.
    pub fn owing(&self) -> (usize, bool) {
        let (mut answers, mut batch) = (0, false);
        for entry in self.entries.iter().filter(|entry| entry.owner == Answerer::Client) {
            match entry.expect {
                Expect::Query | Expect::Function | Expect::Sync => (answers, batch) = (answers + 1, false),
                Expect::CopyEnd => {}
                _ => batch = true,
            }
        }
        (answers, batch || self.open)
    }

    /// The client is gone: nobody wants what is still owed.
    pub fn disown(&mut self) {
        loop {
            let fake = self.entries.iter().position(|entry| entry.expect.is_fake());
            let Some(index) = fake else { break };
            self.entries.remove(index);
        }
        self.entries.disown();
        if let Some(unsure) = &mut self.unsure {
            unsure.owner = Answerer::Nobody;
        }
    }

    fn pass_copy_ends(&mut self) {
        while self.entries.front().is_some_and(|entry| entry.expect == Expect::CopyEnd) {
            self.entries.pop_front();
        }
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
