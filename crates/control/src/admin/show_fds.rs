//! `SHOW FDS`: in PgBouncer the descriptors of all connections, for a new process that takes over. pgweir hands none over by the console, so it has
//! no rows. For administrators only, as there.
//= pgbouncer usage.md#show-fds

use crate::show_input::ShowInput;
use crate::table::{Column, Table, bytea, int, int8, text};

const COLUMNS: &[Column] = &[
    int("fd"),
    text("task"),
    text("user"),
    text("database"),
    text("addr"),
    int("port"),
    int8("cancel"),
    int("link"),
    text("client_encoding"),
    text("std_strings"),
    text("datestyle"),
    text("timezone"),
    text("password"),
    bytea("scram_client_key"),
    bytea("scram_server_key"),
];

pub(super) fn table(_: &ShowInput<'_>) -> Table {
    Table::new(COLUMNS)
}
