//! `SHOW DNS_HOSTS`: the names of servers that are known, and for how long. `SHOW DNS_ZONES`: no zone is watched, so it has no rows.
//= pgbouncer usage.md#show-dns_hosts

use crate::show_input::ShowInput;
use crate::table::{Column, Table, int, int8, text, words};

const HOSTS: &[Column] = &[text("hostname"), int8("ttl"), text("addrs")];
const ZONES: &[Column] = &[text("zonename"), int8("serial"), int("count")];

pub(super) fn hosts(input: &ShowInput<'_>) -> Table {
    let mut table = Table::new(HOSTS);
    for name in input.names {
        let addresses: Vec<String> = name.addresses.iter().map(ToString::to_string).collect();
        table.push(vec![words(&name.name), words(name.ttl.as_secs().to_string()), words(addresses.join(","))]);
    }
    table
}

pub(super) fn zones(_: &ShowInput<'_>) -> Table {
    Table::new(ZONES)
}
