//! `SHOW WHY`: why clients wait now, one row for each pool in trouble, with who is the root and how it is ended. PgBouncer has none.
//!
//! The first rows are the databases that are held because none of their hosts may be written to. These are of this moment, and in no history.
//!
//! With LAST, FROM or TO it has the times of trouble of the history, that for which clients have waited longest first.
//! Where nothing is wrong now, or nothing is known, one row says so. Users in `stats_users` do not see statements and tags.

use activity::Verdict;
use activity::history::{Episode, Episodes};
use activity::verdict::{Detail, NOTHING_KNOWN, Queue, Trouble, Why};

use super::held::{self, Held};
use super::show_activity::seconds;
use super::show_waits::{in_memory, span, time_of_day};
use super::shown::During;
use crate::past::Past;
use crate::show_input::ShowInput;
use crate::table::{Column, Table, Value, count, int, numeric, text, words};

const COLUMNS: &[Column] = &[
    // The pool; NULL: nothing is wrong. Without a user: the databases that are held.
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
    // no primary, two primaries, locks, locks only (no client waits for a server), standby, statements, cancels, idle in transaction, kept, held, no server, no host, unseen.
    text("reason"),
    // Of a time that is over: the first and the last second of it. `waiting` is the most, and the sentence that of the worst second.
    text("from"),
    text("to"),
];

pub(super) fn table(input: &ShowInput<'_>) -> Table {
    let mut table = Table::new(COLUMNS);
    let detail = if input.shows_statements { Detail::Full } else { Detail::WithoutStatements };
    let held = held::all(input);
    held.iter().for_each(|held| table.push(values_held(held)));
    // The rows of `held` have these pools.
    let is_said = |trouble: &Trouble| {
        let database = input.settings.database(&trouble.pool.database);
        let is_for_hosts = matches!(trouble.why, Why::NoServer | Why::NoHost(_));
        is_for_hosts && database.is_some_and(|database| held.iter().any(|held| held.holds(&database)))
    };
    let verdicts = input.history.verdicts();
    for (verdict, trouble) in verdicts.iter().filter_map(|verdict| Some((verdict, verdict.trouble()?))) {
        if !is_said(trouble) {
            table.push(values(verdict, trouble, detail));
        }
    }
    match verdicts {
        _ if !table.is_empty() => {}
        [] => table.push(only(NOTHING_KNOWN)),
        verdicts => verdicts.iter().for_each(|verdict| table.push(only(&verdict.sentence(detail)))),
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

fn values_held(held: &Held) -> Vec<Value> {
    vec![
        words(held.names()),
        None,
        count(held.waiting),
        seconds((held.waiting > 0).then_some(held.longest)),
        words(Queue::Consequence.word()),
        words(&*held.sentence),
        None,
        None,
        None,
        words(held.lack.reason()),
        None,
        None,
    ]
}

fn values(verdict: &Verdict, trouble: &Trouble, detail: Detail) -> Vec<Value> {
    let (to_end, end_at) = trouble.ending().map(|ending| (ending.statement, ending.place)).unzip();
    vec![
        words(&*trouble.pool.database),
        words(&*trouble.pool.user),
        count(trouble.waiting),
        seconds(Some(trouble.longest)),
        trouble.queue().and_then(|queue| words(queue.word())),
        words(verdict.sentence(detail)),
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
