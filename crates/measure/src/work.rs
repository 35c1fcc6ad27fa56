//! What all clients of a load do: log in, perhaps say something once, then ask and ask again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use client::put;

use crate::encryption::Encryption;
use crate::login::Account;
use crate::script::{Draw, Script, Tables};

/// What a client sends once when it is logged in.
#[derive(Debug)]
pub enum First {
    Nothing,
    /// These bytes, and how many ReadyForQuery they lead to.
    Bytes(Vec<u8>, usize),
    /// Queries for the client of this number.
    Numbered(fn(u64) -> Vec<String>),
}

/// What a client asks.
#[derive(Debug)]
pub enum Question {
    /// The same bytes, each time.
    Bytes(Vec<u8>, Shape),
    /// A query for the question of this number.
    Numbered(fn(u64) -> String, Shape),
    Transaction(Transaction),
}

/// What a right answer is: rows, and bytes of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub rows: usize,
    pub row_bytes: usize,
}

/// A transaction on pgbench's tables, statement by statement.
#[derive(Clone, Copy, Debug)]
pub struct Transaction {
    pub script: Script,
    pub tables: Tables,
    pub scale: u32,
    pub seed: u64,
}

/// What every client of a load has in common.
pub struct Work {
    pub(crate) account: Arc<Account>,
    pub(crate) login: Vec<u8>,
    first: First,
    pub(crate) question: Question,
    /// Of the next question or client that is to be like no other.
    number: AtomicU64,
    /// An error of a limit is an answer.
    pub(crate) may_be_refused: bool,
    /// Clients come over TLS.
    pub(crate) encryption: Option<Encryption>,
}

/// What a client waits for.
#[derive(Debug)]
pub(crate) enum Awaited {
    /// Rows and bytes of them that have arrived.
    Answer(usize, usize),
    /// In the transaction with these values: the step that was asked, and the rows that it has had.
    Step { step: u8, rows: usize, draw: Draw<i64> },
}

impl Work {
    #[must_use]
    pub fn new(account: Account, first: First, question: Question) -> Self {
        let (login, number) = (account.startup(), AtomicU64::new(0));
        Self { account: Arc::new(account), login, first, question, number, may_be_refused: false, encryption: None }
    }

    /// The same, where limits may refuse a question or a login: it is counted apart from those that are answered.
    #[must_use]
    pub fn may_be_refused(self) -> Self {
        Self { may_be_refused: true, ..self }
    }

    /// The same over TLS.
    #[must_use]
    pub fn encrypted(self, encryption: Encryption) -> Self {
        Self { encryption: Some(encryption), ..self }
    }

    fn number(&self) -> u64 {
        self.number.fetch_add(1, Ordering::Relaxed)
    }

    /// Writes what a client sends once; how many ReadyForQuery that leads to.
    pub(crate) fn write_first(&self, out: &mut Vec<u8>) -> usize {
        match &self.first {
            First::Nothing => 0,
            First::Bytes(bytes, rounds) => {
                out.extend_from_slice(bytes);
                *rounds
            }
            First::Numbered(queries) => {
                let queries = queries(self.number());
                queries.iter().for_each(|sql| query(out, sql));
                queries.len()
            }
        }
    }

    /// Begins a question: writes it, and says what is waited for.
    pub(crate) fn begin(&self, out: &mut Vec<u8>) -> Awaited {
        match &self.question {
            Question::Bytes(bytes, _) => {
                out.extend_from_slice(bytes);
                Awaited::Answer(0, 0)
            }
            Question::Numbered(text, _) => {
                query(out, &text(self.number()));
                Awaited::Answer(0, 0)
            }
            Question::Transaction(transaction) => {
                let draw = Draw::of(transaction.seed, self.number(), transaction.scale);
                query(out, &transaction.script.sql(0, &draw, transaction.tables));
                Awaited::Step { step: 0, rows: 0, draw }
            }
        }
    }

    /// Whether an answer has the rows and bytes that it must have. Errors: it has not.
    pub(crate) fn check(&self, rows: usize, bytes: usize) -> Result<(), String> {
        let (Question::Bytes(_, shape) | Question::Numbered(_, shape)) = &self.question else { return Ok(()) };
        if (rows, bytes) == (shape.rows, shape.rows * shape.row_bytes) {
            return Ok(());
        }
        Err(format!("{rows} rows of {bytes} bytes in all, not {} of {}", shape.rows, shape.row_bytes))
    }

    /// A step of a transaction is answered: the next one, or `None` at its end. Errors: not as many rows as it must have.
    pub(crate) fn next_step(
        &self,
        step: u8,
        rows: usize,
        draw: Draw<i64>,
        out: &mut Vec<u8>,
    ) -> Result<Option<Awaited>, String> {
        let Question::Transaction(Transaction { script, tables, .. }) = &self.question else { return Ok(None) };
        if rows != script.rows(step) {
            return Err(format!("step {step} of {} had {rows} rows", script.name()));
        }
        let next = step + 1;
        if next == script.steps() {
            return Ok(None);
        }
        query(out, &script.sql(next, &draw, *tables));
        Ok(Some(Awaited::Step { step: next, rows: 0, draw }))
    }
}

/// Appends a Query message.
pub fn query(out: &mut Vec<u8>, sql: &str) {
    put(out, b'Q', &[sql.as_bytes(), b"\0"]);
}
