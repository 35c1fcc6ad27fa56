//! `SHOW SIZING`: one row for each pool whose size is found: how large it is now, and why. PgBouncer has none.

use queueing::sizing::Change;

use crate::table::{Column, Table, count, int, text, words};
use crate::view::View;

const COLUMNS: &[Column] = &[
    text("database"),
    text("user"),
    // Now; the one that was found differs from it while another is tried.
    int("size"),
    int("settled"),
    int("floor"),
    int("ceiling"),
    text("why"),
    // What its busy servers wait for in PostgreSQL; empty if it does not tell.
    text("waits"),
    // The last ten, newest first.
    text("changes"),
];

pub(super) fn table(view: &View<'_>) -> Table {
    let mut table = Table::new(COLUMNS);
    for (key, pool) in view.pools() {
        let Some(sizing) = &pool.sizing else { continue };
        let changes: Vec<String> = sizing.changes.iter().rev().map(|change| described(view, change)).collect();
        table.push(vec![
            words(&*key.database),
            words(&*key.user),
            count(sizing.size),
            sizing.settled.map(|size| size.to_string()),
            count(sizing.floor),
            count(sizing.ceiling),
            words(&sizing.why),
            sizing.wait_words.clone(),
            words(changes.join("; ")),
        ]);
    }
    table
}

fn described(view: &View<'_>, change: &Change) -> String {
    let Change { at, from, to, why } = change;
    let at = view.snapshots.first().map_or_else(String::new, |snapshot| view.time_of_day(snapshot, *at));
    // The day and the zone are known to whoever asks.
    let clock = at.split(' ').nth(1).unwrap_or_default();
    format!("{clock} {from} -> {to}: {why}")
}
