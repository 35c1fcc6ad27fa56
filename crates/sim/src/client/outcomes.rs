//! Compares the answers that a client gets for its transactions with the commits of the servers (I27):
//!
//! | answer | commits |
//! |---|---|
//! | no error | everything that a direct connection would have committed is committed |
//! | an error that is not 08007 | nothing is committed |
//! | 08007, unknown | anything; but something may have been committed by a request that was under way with it |
//!
//! A commit at a primary whose standby is promoted without it counts as a commit: the pooler cannot know that it is lost.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use wire::backend::{Fields, Status, tag};
use wire::frontend::tag as request;

use crate::book::Book;
use crate::course::Finding;

/// A request that is answered with a ReadyForQuery of its own.
#[derive(Copy, Clone, Debug)]
struct Sent {
    /// The number of its last statement.
    last: u32,
    /// The request may commit something.
    may_commit: bool,
}

#[derive(Debug)]
pub(super) struct Outcomes {
    book: Rc<RefCell<Book>>,
    client: u32,
    /// The pooler knows which texts commit.
    reads_texts: bool,
    /// Those that are not answered yet.
    owed: VecDeque<Sent>,
    /// The last statement of the transaction before the one that is being answered.
    before: u32,
    /// The first error in that transaction, and whether 08007 was among its errors.
    error: Option<String>,
    is_unknown: bool,
    /// A request that may have been committed was lost. Everything that was sent behind it, before its error was read, is unknown, too.
    lost_commit: bool,
}

impl Outcomes {
    pub(super) fn new(book: &Rc<RefCell<Book>>, client: u32, reads_texts: bool) -> Outcomes {
        let book = Rc::clone(book);
        Outcomes {
            book,
            client,
            reads_texts,
            owed: VecDeque::new(),
            before: 0,
            error: None,
            is_unknown: false,
            lost_commit: false,
        }
    }

    /// A message was sent, in a transaction of this status. `last`: the number of the last statement so far.
    pub(super) fn sent(&mut self, message: u8, body: &[u8], status: Status, last: u32) {
        if matches!(message, request::QUERY | request::SYNC | request::FUNCTION_CALL) {
            let commits = || body.windows(b"commit".len()).any(|word| word == b"commit");
            // A batch may run a statement whose text the pooler does not know.
            let is_unread = !self.reads_texts || message != request::QUERY;
            let may_commit = is_unread || status == Status::Idle || commits();
            self.owed.push_back(Sent { last, may_commit });
        }
    }

    /// A message has come.
    ///
    /// # Errors
    /// The answer does not match what the servers have committed.
    pub(super) fn received(&mut self, message: u8, body: &[u8]) -> Result<(), Finding> {
        match message {
            tag::ERROR => self.failed(body),
            tag::READY_FOR_QUERY => {
                let Some(sent) = self.owed.pop_front() else { return Ok(()) };
                self.lost_commit &= !self.owed.is_empty();
                if body == b"I" { self.ended(sent.last) } else { Ok(()) }
            }
            _ => Ok(()),
        }
    }

    fn failed(&mut self, body: &[u8]) -> Result<(), Finding> {
        let fields = Fields::decode(body);
        let code = String::from_utf8_lossy(fields.code().unwrap_or(b"?????")).into_owned();
        let is_unknown = code == "08007";
        // The commit may be behind the request that fails.
        if is_unknown && !self.lost_commit && !self.owed.iter().any(|sent| sent.may_commit) {
            return self.found("was told 08007, and no commit was under way");
        }
        self.lost_commit |= is_unknown;
        // The answer was too long for the pooler.
        self.is_unknown |= is_unknown || code == "54000";
        let words = String::from_utf8_lossy(fields.message().unwrap_or(b""));
        self.error.get_or_insert_with(|| format!("{code} {words}"));
        Ok(())
    }

    /// A transaction is over, whose last statement is this.
    fn ended(&mut self, last: u32) -> Result<(), Finding> {
        let statements = self.before + 1..=last.max(self.before + 1);
        let is_empty = last <= self.before;
        self.before = last;
        let (error, is_unknown) = (self.error.take(), std::mem::take(&mut self.is_unknown));
        if is_unknown || is_empty {
            return Ok(());
        }
        let book = Rc::clone(&self.book);
        let book = book.borrow();
        match error {
            Some(error) => match book.committed_among(self.client, statements) {
                Some(number) => self.found(&format!("was told {error}, and its statement {number} is committed")),
                None => Ok(()),
            },
            None => match book.missing_among(self.client, statements) {
                Some(number) => self.found(&format!("was told no error, and its statement {number} is not committed")),
                None => Ok(()),
            },
        }
    }

    fn found(&self, what: &str) -> Result<(), Finding> {
        Err((27, format!("client {} {what}", self.client)))
    }
}
