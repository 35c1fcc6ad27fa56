//! Who is owed what: the answers one server still has to give, oldest first, each with an owner and an end.
//!
//! Every message that makes PostgreSQL answer adds an entry when it is sent; the message that ends the answer removes
//! it. Invariants I2 and I3 are statements about this list. The rules follow PostgreSQL's main loop:
//!
//! * after an error in the extended protocol everything is skipped up to the next Sync;
//! * during COPY IN, Sync and Flush are ignored, and anything else ends the copy with an error;
//! * CopyData, CopyDone and CopyFail outside COPY IN are ignored.
//!
//! //= pg18 protocol-flow#PROTOCOL-FLOW-EXT-QUERY
//! //= pg18 protocol-flow#PROTOCOL-COPY

use std::collections::VecDeque;

use wire::backend::tag;

use super::counts::Counts;
use crate::prepared::StatementId;

/// Who an answer belongs to.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answerer {
    /// The session linked now.
    Client,
    /// SETs that make the server's parameters the session's.
    Replay,
    /// A statement prepared, or closed, on the client's behalf.
    Prepare,
    /// `server_reset_query`, a check, a rollback, the connect query.
    Chore,
    /// A client that is gone.
    Nobody,
}

/// What ends an answer.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
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

    pub(super) fn is_change(self) -> bool {
        matches!(self, Expect::Parse(Some(_)) | Expect::Close(Some(_)))
    }

    fn is_fake(self) -> bool {
        matches!(self, Expect::FakeParse | Expect::FakeClose)
    }
}

/// One answer owed.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) owner: Answerer,
    pub(crate) expect: Expect,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
enum CopyIn {
    #[default]
    No,
    /// The server reads copy data and nothing that ends it has been sent.
    Open,
    /// The end has been sent.
    Ended,
}

/// The server said something that nothing accounts for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unexpected(pub(crate) u8);

/// The list of one server.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    entries: VecDeque<Entry>,
    counts: Counts,
    copy: CopyIn,
    /// An extended batch failed and the client has not sent its Sync yet.
    skipping: bool,
    /// Extended messages were sent since the last Sync or Query.
    open: bool,
    /// Whether the server read something inside or outside of COPY IN cannot be known: do not use it again.
    doubtful: bool,
}

impl Ledger {
    /// Nothing is owed and no batch is open.
    pub(crate) fn is_clear(&self) -> bool {
        self.entries.is_empty() && !self.open && !self.skipping && self.copy == CopyIn::No
    }

    pub(crate) fn is_doubtful(&self) -> bool {
        self.doubtful
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether messages are thrown away by the server until the next Sync.
    pub(crate) fn is_skipping(&self) -> bool {
        self.skipping
    }

    pub(crate) fn is_copy_open(&self) -> bool {
        self.copy == CopyIn::Open
    }

    /// Extended messages without their Sync: somebody has to send it.
    pub(crate) fn is_open(&self) -> bool {
        self.open || self.skipping
    }

    /// Whether the answer being read comes from an extended Execute.
    pub(crate) fn is_extended(&self) -> bool {
        self.entries.front().is_some_and(|entry| entry.expect.is_extended())
    }

    /// Whose answer is being read; `None`: nothing is owed.
    #[inline]
    pub(crate) fn owner(&self) -> Option<Answerer> {
        self.entries.front().map(|entry| entry.owner)
    }

    /// A message was sent. False: the server will not answer it, because it skips to Sync or is in COPY IN.
    pub(crate) fn sent(&mut self, owner: Answerer, expect: Expect) -> bool {
        if self.copy == CopyIn::Open {
            return self.sent_in_copy(expect);
        }
        if self.skipping {
            if expect != Expect::Sync {
                return false;
            }
            self.skipping = false;
        }
        match expect {
            Expect::CopyEnd if self.entries.is_empty() => return false,
            Expect::Sync | Expect::Query => self.open = false,
            Expect::Function | Expect::CopyEnd | Expect::FakeParse | Expect::FakeClose => {}
            _ => self.open = true,
        }
        self.push(Entry { owner, expect });
        true
    }

    fn push(&mut self, entry: Entry) {
        self.counts.add(entry);
        self.entries.push_back(entry);
    }

    fn remove(&mut self, index: usize) {
        if let Some(entry) = self.entries.remove(index) {
            self.counts.subtract(entry);
        }
    }

    /// As `remove(0)`, without moving anything: on every answer's way.
    fn remove_front(&mut self) {
        if let Some(entry) = self.entries.pop_front() {
            self.counts.subtract(entry);
        }
    }

    fn sent_in_copy(&mut self, expect: Expect) -> bool {
        match expect {
            Expect::Sync => {
                // Ignored if the server is still in COPY IN, answered if it has failed meanwhile.
                self.doubtful = true;
                return false;
            }
            Expect::FakeParse | Expect::FakeClose => return false,
            Expect::CopyEnd => {}
            _ => self.doubtful = true,
        }
        self.copy = CopyIn::Ended;
        self.push(Entry { owner: Answerer::Client, expect: Expect::CopyEnd });
        true
    }

    /// Whether a message can be part of the answer being read.
    #[inline]
    pub(crate) fn accepts(&self, message: u8) -> bool {
        self.entries.front().is_some_and(|entry| role(message, entry.expect).is_some())
    }

    /// Whose answer is being read, if a message is part of it without completing it.
    #[inline]
    pub(crate) fn owner_of_part(&self, message: u8) -> Option<Answerer> {
        let entry = self.entries.front()?;
        (role(message, entry.expect) == Some(false)).then_some(entry.owner)
    }

    /// A message of an answer has been read to its end. Returns the entry it completed, if it did.
    pub(crate) fn answered(&mut self, message: u8) -> Result<Option<Entry>, Unexpected> {
        let Some(front) = self.entries.front().copied() else { return Err(Unexpected(message)) };
        let completes = role(message, front.expect).ok_or(Unexpected(message))?;
        match message {
            tag::READY_FOR_QUERY => self.copy = CopyIn::No,
            tag::COMMAND_COMPLETE => self.copy_done(),
            tag::COPY_IN => self.copy_begins(),
            _ => {}
        }
        if !completes {
            return Ok(None);
        }
        self.remove_front();
        self.pass_copy_ends();
        Ok(Some(front))
    }

    /// The next answer that we give in the server's stead, if its turn has come.
    pub(crate) fn next_fake(&mut self) -> Option<Entry> {
        let front = self.entries.front().copied().filter(|entry| entry.expect.is_fake())?;
        self.remove_front();
        self.pass_copy_ends();
        Some(front)
    }

    /// An ErrorResponse has been read. What it makes void goes to `dropped`.
    pub(crate) fn failed(&mut self, mut dropped: impl FnMut(Entry)) -> Result<(), Unexpected> {
        let Some(front) = self.entries.front().copied() else { return Err(Unexpected(tag::ERROR)) };
        if self.copy == CopyIn::Open && !front.expect.is_extended() {
            // What the client sends until it learns of this is ignored, as copy data outside of COPY.
            self.copy = CopyIn::No;
        }
        if !front.expect.is_extended() {
            return Ok(());
        }
        self.copy = CopyIn::No;
        while let Some(entry) = self.entries.front().copied() {
            if entry.expect == Expect::Sync {
                return Ok(());
            }
            self.remove_front();
            dropped(entry);
        }
        self.skipping = true;
        self.open = false;
        Ok(())
    }

    /// Whether an answer that ends with ReadyForQuery is under way: until then the transaction's state is not known.
    pub(crate) fn awaits_ready(&self) -> bool {
        self.counts.readies > 0
    }

    /// Whether one that the client is owed is under way.
    pub(crate) fn awaits_own_ready(&self) -> bool {
        self.counts.own_readies > 0
    }

    /// Whether a simple query of the client's is under way: it may be DISCARD ALL.
    pub(crate) fn awaits_query(&self) -> bool {
        self.counts.own_queries > 0
    }

    /// Whether what the server has prepared is changing.
    pub(crate) fn is_changing(&self) -> bool {
        self.counts.changes > 0
    }

    /// Whether a statement is being prepared or closed.
    pub(crate) fn is_changing_of(&self, id: StatementId) -> bool {
        let of_it =
            |entry: &Entry| matches!(entry.expect, Expect::Parse(Some(of)) | Expect::Close(Some(of)) if of == id);
        self.counts.changes > 0 && self.entries.iter().any(of_it)
    }

    /// Whether a statement is being prepared.
    pub(crate) fn is_preparing(&self, id: StatementId) -> bool {
        self.entries.iter().any(|entry| entry.expect == Expect::Parse(Some(id)))
    }

    /// What the client still waits for: how many answers that end with ReadyForQuery, and whether a batch without its
    /// Sync comes after them.
    pub(crate) fn owing(&self) -> (usize, bool) {
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
    pub(crate) fn disown(&mut self) {
        while let Some(index) = self.entries.iter().position(|entry| entry.expect.is_fake()) {
            self.remove(index);
        }
        self.entries.iter_mut().for_each(|entry| entry.owner = Answerer::Nobody);
        self.counts.disown();
    }

    fn copy_begins(&mut self) {
        self.copy = CopyIn::Open;
        let mut index = 1;
        while let Some(entry) = self.entries.get(index).copied() {
            match entry.expect {
                Expect::CopyEnd => {
                    self.copy = CopyIn::Ended;
                    return;
                }
                // Sent before the server was known to be in COPY IN, which ignores it.
                Expect::Sync => {
                    self.remove(index);
                    let closed_later = self.entries.iter().skip(index).any(|entry| entry.expect.is_ready());
                    self.open |= !closed_later;
                }
                Expect::FakeParse | Expect::FakeClose => index += 1,
                _ => {
                    // Read by the server as the end of the copy, and as an error.
                    self.remove(index);
                    self.entries.insert(index, Entry { owner: entry.owner, expect: Expect::CopyEnd });
                    self.copy = CopyIn::Ended;
                    self.doubtful = true;
                    return;
                }
            }
        }
    }

    fn copy_done(&mut self) {
        if self.copy == CopyIn::No {
            return;
        }
        self.copy = CopyIn::No;
        let end = self.entries.iter().position(|entry| entry.expect == Expect::CopyEnd);
        if let Some(end) = end {
            self.remove(end);
        }
    }

    fn pass_copy_ends(&mut self) {
        while self.entries.front().is_some_and(|entry| entry.expect == Expect::CopyEnd) {
            self.remove_front();
        }
    }
}

/// Whether a message completes an answer of this kind (`true`), is part of it (`false`), or has no place in it (`None`).
#[inline]
fn role(message: u8, expect: Expect) -> Option<bool> {
    match (message, expect) {
        (tag::READY_FOR_QUERY, Expect::Query | Expect::Function | Expect::Sync)
        | (tag::PARSE_COMPLETE, Expect::Parse(_) | Expect::Unnamed)
        | (tag::BIND_COMPLETE, Expect::Bind)
        | (tag::CLOSE_COMPLETE, Expect::Close(_) | Expect::Unnamed)
        | (tag::ROW_DESCRIPTION | tag::NO_DATA, Expect::Describe)
        | (tag::COMMAND_COMPLETE | tag::EMPTY_QUERY | tag::PORTAL_SUSPENDED, Expect::Execute) => Some(true),
        (tag::PARAMETER_DESCRIPTION, Expect::Describe)
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
mod tests {
    use super::*;

    const CLIENT: Answerer = Answerer::Client;

    fn ledger(sent: &[Expect]) -> Ledger {
        let mut ledger = Ledger::default();
        for &expect in sent {
            assert!(ledger.sent(CLIENT, expect));
        }
        ledger
    }

    fn answer(ledger: &mut Ledger, tags: &[u8]) {
        for &tag in tags {
            ledger.answered(tag).expect("the answer is expected");
        }
    }

    #[test]
    fn a_simple_query_ends_with_ready_for_query_however_many_results() {
        let mut ledger = ledger(&[Expect::Query, Expect::Query]);
        answer(&mut ledger, b"TDCTDCIZ");
        assert_eq!(ledger.len(), 1);
        answer(&mut ledger, b"CZ");
        assert!(ledger.is_clear());
        assert_eq!(ledger.answered(b'Z'), Err(Unexpected(b'Z')));
    }

    #[test]
    fn a_batch_without_sync_is_not_clear() {
        let mut ledger = ledger(&[Expect::Parse(None), Expect::Describe]);
        answer(&mut ledger, b"1tT");
        assert_eq!(ledger.len(), 0);
        assert!(!ledger.is_clear());
        ledger.sent(CLIENT, Expect::Sync);
        answer(&mut ledger, b"Z");
        assert!(ledger.is_clear());
    }

    #[test]
    fn an_error_skips_to_the_next_sync() {
        let batch = [Expect::Parse(Some(7)), Expect::Bind, Expect::Execute, Expect::Sync, Expect::Bind, Expect::Sync];
        let mut ledger = ledger(&batch);
        let mut dropped = Vec::new();
        ledger.failed(|entry| dropped.push(entry.expect)).expect("an answer is owed");
        assert_eq!(dropped, [Expect::Parse(Some(7)), Expect::Bind, Expect::Execute]);
        answer(&mut ledger, b"Z2Z");
        assert!(ledger.is_clear());
    }

    #[test]
    fn after_an_error_only_a_sync_is_answered() {
        let mut ledger = ledger(&[Expect::Bind]);
        ledger.failed(|_| ()).expect("an answer is owed");
        assert!(!ledger.sent(CLIENT, Expect::Execute));
        assert!(!ledger.sent(CLIENT, Expect::Query), "a simple query is skipped too");
        assert!(!ledger.is_clear());
        assert!(ledger.sent(CLIENT, Expect::Sync));
        answer(&mut ledger, b"Z");
        assert!(ledger.is_clear());
    }

    #[test]
    fn an_error_at_sync_is_followed_by_ready() {
        let mut ledger = ledger(&[Expect::Sync]);
        ledger.failed(|_| ()).expect("an answer is owed");
        answer(&mut ledger, b"Z");
        assert!(ledger.is_clear());
    }

    #[test]
    fn a_sync_sent_along_with_copy_is_swallowed_by_it() {
        // libpq sends Parse, Bind, Describe, Execute, Sync at once and learns of the COPY afterwards.
        let mut ledger = ledger(&[Expect::Bind, Expect::Execute, Expect::Sync]);
        answer(&mut ledger, b"2G");
        assert!(ledger.is_copy_open());
        assert!(ledger.sent(CLIENT, Expect::CopyEnd));
        assert!(ledger.sent(CLIENT, Expect::Sync));
        answer(&mut ledger, b"CZ");
        assert!(ledger.is_clear() && !ledger.is_doubtful());
    }

    #[test]
    fn a_copy_sent_ahead_with_both_its_syncs_ends_clear() {
        let sent = [Expect::Bind, Expect::Execute, Expect::Sync, Expect::CopyEnd, Expect::Sync];
        let mut ledger = ledger(&sent);
        answer(&mut ledger, b"2GCZ");
        assert!(ledger.is_clear());
    }

    #[test]
    fn copy_data_sent_ahead_needs_no_answer_of_its_own() {
        let mut ledger = ledger(&[Expect::Query, Expect::CopyEnd]);
        answer(&mut ledger, b"GCZ");
        assert!(ledger.is_clear());
        assert!(!ledger.sent(CLIENT, Expect::CopyEnd), "a late CopyDone is ignored by the server");
        assert!(ledger.is_clear());
    }

    #[test]
    fn two_copies_in_one_query_end_separately() {
        let mut ledger = ledger(&[Expect::Query]);
        answer(&mut ledger, b"G");
        ledger.sent(CLIENT, Expect::CopyEnd);
        answer(&mut ledger, b"CG");
        assert!(ledger.is_copy_open());
        ledger.sent(CLIENT, Expect::CopyEnd);
        answer(&mut ledger, b"CZ");
        assert!(ledger.is_clear());
    }

    #[test]
    fn a_failed_copy_ends_like_a_failed_query() {
        let mut ledger = ledger(&[Expect::Query]);
        answer(&mut ledger, b"G");
        ledger.failed(|_| ()).expect("an answer is owed");
        ledger.sent(CLIENT, Expect::CopyEnd);
        answer(&mut ledger, b"Z");
        assert!(ledger.is_clear());
    }

    #[test]
    fn a_sync_inside_copy_data_makes_the_server_doubtful() {
        let mut ledger = ledger(&[Expect::Query]);
        answer(&mut ledger, b"G");
        assert!(!ledger.sent(CLIENT, Expect::Sync));
        assert!(ledger.is_doubtful());
    }

    #[test]
    fn a_query_inside_copy_data_ends_the_copy() {
        let mut ledger = ledger(&[Expect::Query]);
        answer(&mut ledger, b"G");
        ledger.sent(CLIENT, Expect::Query);
        ledger.failed(|_| ()).expect("an answer is owed");
        answer(&mut ledger, b"Z");
        assert!(ledger.is_clear() && ledger.is_doubtful());
    }

    #[test]
    fn our_own_answers_wait_their_turn() {
        let mut ledger = ledger(&[Expect::Bind, Expect::Execute, Expect::FakeParse, Expect::Bind]);
        answer(&mut ledger, b"2");
        assert_eq!(ledger.next_fake(), None);
        answer(&mut ledger, b"C");
        assert_eq!(ledger.next_fake().map(|fake| fake.expect), Some(Expect::FakeParse));
        assert_eq!(ledger.next_fake(), None);
        answer(&mut ledger, b"2");
    }

    #[test]
    fn an_answer_to_nothing_is_unexpected() {
        let mut ledger = ledger(&[Expect::Query]);
        assert_eq!(ledger.answered(b'1'), Err(Unexpected(b'1')));
        let mut empty = Ledger::default();
        assert_eq!(empty.failed(|_| ()), Err(Unexpected(b'E')));
    }

    #[test]
    fn changes_of_a_statement_are_known_while_they_are_under_way() {
        let mut ledger = ledger(&[Expect::Parse(Some(7)), Expect::Sync]);
        assert!(ledger.awaits_ready() && ledger.is_changing_of(7) && !ledger.is_changing_of(8));
        answer(&mut ledger, b"1");
        assert!(ledger.awaits_ready() && !ledger.is_changing());
        answer(&mut ledger, b"Z");
        assert!(!ledger.awaits_ready());
        ledger.sent(CLIENT, Expect::Query);
        assert!(ledger.awaits_query());
    }

    #[test]
    fn what_is_owed_is_counted_by_ready_for_query() {
        assert_eq!(ledger(&[Expect::Query, Expect::Bind, Expect::Execute, Expect::Sync]).owing(), (2, false));
        assert_eq!(ledger(&[Expect::Query, Expect::Bind]).owing(), (1, true));
        assert_eq!(Ledger::default().owing(), (0, false));
    }

    #[test]
    fn a_vanished_client_is_owed_nothing() {
        let mut ledger = ledger(&[Expect::Query, Expect::FakeClose]);
        ledger.disown();
        assert_eq!(ledger.owner(), Some(Answerer::Nobody));
        answer(&mut ledger, b"CZ");
        assert!(ledger.is_clear());
    }

    #[test]
    fn the_counts_are_those_of_the_entries() {
        let mut random = crate::random::Random::new([7; 32]);
        let mut below = move |bound: u32| random.secret().unsigned_abs() % bound;
        let (owners, mut ledger) = ([CLIENT, Answerer::Prepare, Answerer::Chore], Ledger::default());
        let expects =
            [Expect::Query, Expect::Sync, Expect::Parse(Some(1)), Expect::Bind, Expect::Execute, Expect::FakeParse];
        for _ in 0..20_000 {
            match below(40) {
                0..=19 => drop(ledger.sent(owners[below(3) as usize], expects[below(6) as usize])),
                20..=36 => drop(ledger.answered(b"ZC12GDt"[below(7) as usize])),
                37 => drop(ledger.failed(drop)),
                38 => drop(ledger.next_fake()),
                _ => ledger.disown(),
            }
            let mut counts = Counts::default();
            ledger.entries.iter().for_each(|&entry| counts.add(entry));
            assert_eq!(ledger.counts, counts);
            ledger = if ledger.len() > 200 { Ledger::default() } else { ledger };
        }
    }
}
