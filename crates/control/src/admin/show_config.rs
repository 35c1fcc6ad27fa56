//! `SHOW CONFIG`: every setting, what it is and what it would be.
//= pgbouncer usage.md#show-config

use crate::table::{Column, Table, text, words, yes_no};
use crate::view::View;

const COLUMNS: &[Column] = &[text("key"), text("value"), text("default"), text("changeable")];

pub(super) fn table(view: &View<'_>) -> Table {
    let mut table = Table::new(COLUMNS);
    for row in view.rows {
        table.push(vec![words(row.key), row.value.clone(), row.default.clone(), yes_no(row.changeable)]);
    }
    table
}
