//! `SHOW WHY`: why clients wait now, one row for each pool in trouble, with who is the root and how it is ended. PgBouncer has none.
//!
//! With LAST, FROM or TO it has the times of trouble of the history, that for which clients have waited longest first.
//! Where nothing is wrong now, or nothing is known, one row says so. Users in `stats_users` do not see statements and tags.

use activity::Verdict;
use activity::history::{Episode, Episodes};
use activity::verdict::{Detail, NOTHING_KNOWN};

use super::show_activity::seconds;
use super::show_waits::{in_memory, span, time_of_day};
use super::shown::During;
use crate::past::Past;
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
    // Of a time that is over: the first and the last second of it. `waiting` is the most, and the sentence that of the worst second.
    text("from"),
    text("to"),
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

/// The times of trouble in a part of the history.
pub(super) fn of(input: &ShowInput<'_>, during: &During, past: Option<Past>) -> Table {
    let left = in_memory(past.as_ref(), span(&input.now, during));
    let mut episodes = match past {
        Some(Past::Whys(_, episodes)) => episodes,
        Some(Past::Seconds(..) | Past::Waits(..) | Past::Refused(_)) | None => Episodes::default(),
    };
    episodes.add(input.history, left);
    let mut table = Table::new(COLUMNS);
    for Episode { from, to, worst, .. } in episodes.sorted() {
        let shown = |text: &str| (!text.is_empty() && input.shows_statements).then(|| text.to_owned());
        table.push(vec![
            words(&*worst.pool.database),
            words(&*worst.pool.user),
            count(worst.waiting),
            None,
            (!worst.queue.is_empty()).then(|| worst.queue.to_string()),
            shown(&worst.sentence),
            shown(&worst.root),
            None,
            None,
            None,
            words(time_of_day(&input.now, from)),
            words(time_of_day(&input.now, to)),
        ]);
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
        None,
        None,
    ]
}

fn only(sentence: &str) -> Vec<Value> {
    vec![None, None, count(0), None, None, words(sentence), None, None, None, None, None, None]
}
