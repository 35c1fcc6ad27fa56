//! `SHOW VERSION`: one value.
//= pgbouncer usage.md#show-version

use crate::table::{Column, Table, text, words};
use crate::version;
use crate::view::View;

const COLUMNS: &[Column] = &[text("version")];

pub(super) fn table(_: &View<'_>) -> Table {
    let mut table = Table::new(COLUMNS);
    table.push(vec![words(version::text())]);
    table
}
