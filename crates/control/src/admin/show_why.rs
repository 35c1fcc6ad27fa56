//! `SHOW WHY`: why clients wait now, one row for each pool in trouble, with who is the root and how it is ended. PgBouncer has none.
//!
//! Where nothing is wrong, or nothing is known, one row says so. Users in `stats_users` do not see statements and tags.

use activity::Verdict;
use activity::verdict::{Detail, NOTHING_KNOWN};

use super::show_activity::seconds;
use crate::show_input::ShowInput;
use crate::table::{Column, Table, Value, count, int, numeric, text, words};

const COLUMNS: &[Column] = &[
    // The pool; NULL: nothing is wrong.
    text("database"),
    text("user"),
    // Clients of the pool that wait for a server.
    int("waiting"),
    // Seconds: the longest wait, for a server or for a lock.
    numeric("waited"),
    // cause: more servers would help. consequence: they would only wait, too. NULL: no client waits for a server, or nobody knows.
    text("queue"),
    text("sentence"),
    // The end of the chain.
    text("root"),
    // The statement that ends the root, and where it is to be run.
    text("to_end"),
    text("end_at"),
    // locks, locks only (no client waits for a server), standby, statements, cancels, idle in transaction, kept, held, no server, unseen.
    text("reason"),
];

pub(super) fn table(input: &ShowInput<'_>) -> Table {
    let mut table = Table::new(COLUMNS);
    let detail = if input.shows_statements { Detail::Full } else { Detail::WithoutStatements };
    match input.history.verdicts() {
        [] => table.push(only(NOTHING_KNOWN)),
        verdicts => verdicts.iter().for_each(|verdict| table.push(values(verdict, detail))),
    }
    table
}

fn values(verdict: &Verdict, detail: Detail) -> Vec<Value> {
    let sentence = verdict.sentence(detail);
    let Some(trouble) = verdict.trouble() else { return only(&sentence) };
    let (to_end, end_at) = trouble.ending().map(|ending| (ending.statement, ending.place)).unzip();
    vec![
        words(&*trouble.pool.database),
        words(&*trouble.pool.user),
        count(trouble.waiting),
        seconds(Some(trouble.longest)),
        trouble.queue().and_then(|queue| words(queue.word())),
        words(sentence),
        trouble.root(detail),
        to_end,
        end_at,
        words(trouble.why.reason()),
    ]
}

fn only(sentence: &str) -> Vec<Value> {
    vec![None, None, count(0), None, None, words(sentence), None, None, None, None]
}
