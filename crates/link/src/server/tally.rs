//! What the answers of a server have come to since the last statement that was counted, for SHOW QUERIES.
//!
//! ```text
//!   Query            CommandComplete … CommandComplete  ReadyForQuery ──► one call, of the whole message
//!   Execute          CommandComplete ─┬─ the next CommandComplete     ──► one call, which took until its own tag
//!                                     └─ ReadyForQuery                ──► one call, which took until here: with its commit
//!   any of a batch   ErrorResponse                                    ──► one call that failed
//! ```
//!
//! Knows no clock and no table: each call is returned to be counted. An Execute that stops at its row limit is a call, of whose rows
//! nothing is known.

use units::{StatementRow, Time};

/// A statement that has run to its end, or failed.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub(crate) statement: StatementRow,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    /// How long the session had waited for its server, if this is the first statement there.
    pub(crate) queued_us: u64,
    pub(crate) run_us: u64,
    pub(crate) failed: bool,
}

/// Of one server.
#[derive(Debug, Default)]
pub struct Tally {
    /// Of the call under way, or of the Execute that has ended last.
    rows: u64,
    /// All that were sent since the last ReadyForQuery, and how many of them belong to calls that were counted.
    bytes: u64,
    counted_bytes: u64,
    queued_us: u64,
    /// When the last Execute that was counted ended.
    since: Time,
    /// An Execute whose CommandComplete has come, and nothing after it; when it came, and the bytes up to there.
    executed: StatementRow,
    executed_at: Time,
    executed_bytes: u64,
    has_executed: bool,
    /// Rows of earlier Executes of the same batch.
    earlier_rows: u64,
    /// The Query being answered has failed, or the commit at the Sync after the Execute that ended last.
    has_failed: bool,
}

impl Tally {
    /// A session has got the server, for which it has waited so long.
    #[inline(always)]
    pub(crate) fn of(queued_us: u64) -> Tally {
        Tally { queued_us, ..Tally::default() }
    }

    /// So many bytes of an answer were sent to the client.
    #[inline(always)]
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// How many bytes were sent since the last ReadyForQuery, and with it.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// So many bytes that are still to be sent belong to a call that was counted.
    pub(crate) fn counted_already(&mut self, bytes: usize) {
        self.counted_bytes += bytes as u64;
    }

    /// A statement of a Query has ended with this tag.
    //= pg18 protocol-message-formats#COMMANDCOMPLETE
    #[inline(always)]
    pub(crate) fn completed(&mut self, tag: &[u8]) {
        self.rows += rows(tag);
    }

    /// An Execute has ended with this tag, after `bytes` that are to be counted still. Returns the call of the one before
    /// it.
    #[inline(always)]
    pub(crate) fn executed(
        &mut self,
        statement: StatementRow,
        tag: &[u8],
        bytes: usize,
        now: Time,
        query_at: Time,
    ) -> Option<Call> {
        let before = if self.has_executed { self.take_executed(query_at) } else { None };
        (self.executed, self.executed_at, self.has_executed) = (statement, now, true);
        self.executed_bytes = self.bytes + bytes as u64;
        self.rows = rows(tag);
        before
    }

    /// The Execute that ended last, as a call that took until its tag.
    #[inline(never)]
    fn take_executed(&mut self, query_at: Time) -> Option<Call> {
        if !std::mem::take(&mut self.has_executed) {
            return None;
        }
        let run_us = self.executed_at.micros_since(self.since.max(query_at));
        self.since = self.executed_at;
        let bytes = self.executed_bytes.saturating_sub(std::mem::replace(&mut self.counted_bytes, self.executed_bytes));
        let (rows, queued_us) = (std::mem::take(&mut self.rows), std::mem::take(&mut self.queued_us));
        self.earlier_rows += rows;
        Some(Call { statement: self.executed, rows, bytes, queued_us, run_us, failed: false })
    }

    /// How many rows the answer has had so far, of all statements of the Query or the batch.
    #[must_use]
    pub(crate) fn rows(&self) -> u64 {
        self.rows + self.earlier_rows
    }

    /// What ReadyForQuery will end has failed: a Query, or the commit of the Execute that ended last.
    pub(crate) fn failed(&mut self) {
        self.has_failed = true;
    }

    /// A message of a batch has failed. Returns the call of the Execute before it, and the one that failed.
    pub(crate) fn batch_failed(&mut self, statement: StatementRow, now: Time, query_at: Time) -> [Option<Call>; 2] {
        let before = self.take_executed(query_at);
        let run_us = now.micros_since(self.since.max(query_at));
        self.since = now;
        let bytes = self.bytes.saturating_sub(std::mem::replace(&mut self.counted_bytes, self.bytes));
        let queued_us = std::mem::take(&mut self.queued_us);
        [before, Some(Call { statement, rows: 0, bytes, queued_us, run_us, failed: true })]
    }

    /// The client's ReadyForQuery. `query`: the statement of the Query that it answers; `since_query_us`: since that was
    /// sent, or the batch was.
    #[inline(always)]
    pub(crate) fn ready(
        &mut self,
        query: Option<StatementRow>,
        since_query_us: u64,
        now: Time,
        query_at: Time,
    ) -> Option<Call> {
        // What was to be counted of an Execute is not always sent: it may be discarded.
        let bytes = std::mem::take(&mut self.bytes).saturating_sub(std::mem::take(&mut self.counted_bytes));
        let failed = std::mem::take(&mut self.has_failed);
        if let Some(statement) = query {
            // Of an Execute that no Sync has followed before this Query.
            (self.has_executed, self.earlier_rows) = (false, 0);
            let (rows, queued_us) = (std::mem::take(&mut self.rows), std::mem::take(&mut self.queued_us));
            return Some(Call { statement, rows, bytes, queued_us, run_us: since_query_us, failed });
        }
        self.earlier_rows = 0;
        // A batch that has run nothing, or failed, has no call left.
        if !std::mem::take(&mut self.has_executed) {
            return None;
        }
        let run_us = if self.since > query_at { now.micros_since(self.since) } else { since_query_us };
        let (rows, queued_us) = (std::mem::take(&mut self.rows), std::mem::take(&mut self.queued_us));
        Some(Call { statement: self.executed, rows, bytes, queued_us, run_us, failed })
    }
}

/// The number at the end of a command tag; 0 if there is none.
#[inline(always)]
fn rows(tag: &[u8]) -> u64 {
    let Some((&0, tag)) = tag.split_last() else { return 0 };
    let (mut rows, mut scale) = (0_u64, 1_u64);
    for &byte in tag.iter().rev() {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            // "SELECT 1"; of "pg_1" the digits are no number.
            return if byte == b' ' { rows } else { 0 };
        }
        rows = rows.wrapping_add(scale.wrapping_mul(digit.into()));
        scale = scale.wrapping_mul(10);
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(place: usize) -> StatementRow {
        StatementRow::new(place, 0)
    }

    #[test]
    fn rows_are_the_last_number_of_a_tag() {
        let cases: [(&[u8], u64); 9] = [
            (b"SELECT 12\0", 12),
            (b"INSERT 0 345\0", 345),
            (b"COPY 1000000\0", 1_000_000),
            (b"BEGIN\0", 0),
            (b"SELECT \0", 0),
            (b"SELECT 12", 0),
            (b"\0", 0),
            (b"", 0),
            (b"7\0", 0),
        ];
        for (tag, expected) in cases {
            assert_eq!(rows(tag), expected, "{}", tag.escape_ascii());
        }
        // A server that writes nonsense gets no panic.
        rows(b"SELECT 99999999999999999999999999\0");
    }

    #[test]
    fn bytes_that_were_to_be_sent_and_were_not_are_not_missed() {
        let mut tally = Tally::default();
        let at = Time(5);
        assert_eq!(tally.executed(row(1), b"SELECT 1\0", 500, at, at), None);
        assert!(tally.executed(row(1), b"SELECT 1\0", 500, at, at).is_some());
        let call = tally.ready(Some(row(2)), 3, at, at).expect("a Query is a call");
        assert_eq!((call.statement, call.bytes), (row(2), 0));
        assert_eq!(tally.ready(None, 0, at, at), None, "what came before the Query is over");
    }

    #[test]
    fn a_batch_of_two_has_two_calls_of_which_the_last_includes_its_commit() {
        let mut tally = Tally::of(7);
        let at = |micros: u64| Time(1_000_000 + micros);

        tally.sent(100);
        assert_eq!(tally.executed(row(1), b"SELECT 3\0", 0, at(50), at(0)), None);
        tally.sent(20);
        let first = tally.executed(row(2), b"UPDATE 4\0", 0, at(80), at(0));
        assert_eq!(tally.rows(), 7);
        let call = Call { statement: row(1), rows: 3, bytes: 100, queued_us: 7, run_us: 50, failed: false };
        assert_eq!(first, Some(call));
        tally.sent(6);
        let last = tally.ready(None, 90, at(90), at(0));
        let call = Call { statement: row(2), rows: 4, bytes: 26, queued_us: 0, run_us: 40, failed: false };
        assert_eq!(last, Some(call));
        assert_eq!(tally.ready(None, 0, at(99), at(90)), None, "a Sync alone is no call");
        assert_eq!(tally.rows(), 0);
    }

    #[test]
    fn a_failure_in_a_batch_does_not_take_what_ran_before_it() {
        let mut tally = Tally::of(7);
        let at = |micros: u64| Time(1_000_000 + micros);
        tally.executed(row(1), b"SELECT 3\0", 0, at(50), at(0));
        let [before, failed] = tally.batch_failed(row(2), at(70), at(0));
        assert_eq!(before.map(|call| (call.statement, call.run_us, call.failed)), Some((row(1), 50, false)));
        assert_eq!(failed.map(|call| (call.statement, call.run_us, call.failed)), Some((row(2), 20, true)));
        assert_eq!(tally.ready(None, 75, at(75), at(0)), None);
    }

    #[test]
    fn a_query_that_fails_is_one_call_with_what_it_had_returned() {
        let mut tally = Tally::default();
        tally.completed(b"SELECT 2\0");
        tally.failed();
        let call = tally.ready(Some(row(3)), 10, Time(20), Time(10)).expect("a Query is a call");
        assert_eq!((call.rows, call.failed, call.run_us), (2, true, 10));
        let next = tally.ready(Some(row(3)), 10, Time(30), Time(20)).expect("a Query is a call");
        assert_eq!((next.rows, next.failed), (0, false));
    }

    #[test]
    fn a_commit_that_fails_is_charged_to_its_execute_and_not_to_the_next_query() {
        let mut tally = Tally::default();
        let at = Time(5);
        assert_eq!(tally.executed(row(1), b"INSERT 0 1\0", 0, at, at), None);
        tally.failed();
        let call = tally.ready(None, 3, at, at).expect("an Execute is a call");
        assert_eq!((call.statement, call.failed), (row(1), true));
        // A Sync without an Execute, and a FunctionCall, have no call.
        tally.failed();
        assert_eq!(tally.ready(None, 3, at, at), None);
        let next = tally.ready(Some(row(2)), 3, at, at).expect("a Query is a call");
        assert_eq!((next.statement, next.failed), (row(2), false));
    }
}
