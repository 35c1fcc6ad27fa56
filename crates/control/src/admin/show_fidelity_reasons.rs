//! `SHOW FIDELITY_REASONS`: one row for each pool and each reason for which a session was pinned since the start.
//! PgBouncer has none.
//!
//! A transaction that ran pinned for several reasons counts for each.

use session_state::state::Pins;

use crate::show_input::ShowInput;
use crate::table::{Column, Table, big, numeric, text, words};

const COLUMNS: &[Column] =
    &[text("database"), text("user"), text("reason"), numeric("pin_count"), numeric("pinned_xact_count")];

pub(super) fn table(input: &ShowInput<'_>) -> Table {
    let mut table = Table::new(COLUMNS);
    for (key, pool) in input.pools() {
        for (index, counts) in pool.fidelity.counts.by_kind.iter().enumerate().filter(|(_, counts)| counts.pins > 0) {
            let reason = words(Pins::words_at(index));
            let row =
                vec![words(&*key.database), words(&*key.user), reason, big(counts.pins), big(counts.transactions)];
            table.push(row);
        }
    }
    table
}
