//! `SHOW SIZING`: one row for each pool with `pool_size = auto`: its present size, and why. PgBouncer has none.

use queueing::sizing::Change;

use crate::show_input::ShowInput;
use crate::table::{Column, Table, count, int, text, words};
use crate::time_of_day::TimesOfDay;

const COLUMNS: &[Column] = &[
    text("database"),
    text("user"),
    // The present size; while another size is tried, the settled one differs from it.
    int("size"),
    int("settled"),
    int("floor"),
    int("ceiling"),
    text("why"),
    // The wait events of its busy servers; empty if PostgreSQL does not show them.
    text("waits"),
    // The last ten changes, newest first.
    text("changes"),
];

pub(super) fn table(input: &ShowInput<'_>) -> Table {
    let mut table = Table::new(COLUMNS);
    for (key, pool) in input.pools() {
        let Some(sizing) = &pool.sizing else { continue };
        let changes: Vec<String> = sizing.changes.iter().rev().map(|change| described(input, change)).collect();
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

fn described(input: &ShowInput<'_>, change: &Change) -> String {
    let Change { at, from, to, why } = change;
    let at = input
        .snapshots
        .first()
        .map_or_else(String::new, |snapshot| TimesOfDay::seen_from(&input.now).of(snapshot, *at).to_string());
    // Day and time zone are left out.
    let clock = at.split(' ').nth(1).unwrap_or_default();
    format!("{clock} {from} -> {to}: {why}")
}
