//! `SHOW DNS_HOSTS`: the names of servers that are known, and for how long. `SHOW DNS_ZONES`: the zones that these are in, and their
//! serials; 0 until `dns_zone_check_period` has them asked for.
//= pgbouncer usage.md#show-dns_hosts
//= pgbouncer usage.md#show-dns_zones

use crate::show_input::ShowInput;
use crate::table::{Column, Table, count, int, int8, text, words};

const HOSTS: &[Column] = &[text("hostname"), int8("ttl"), text("addrs")];
const ZONES: &[Column] = &[text("zonename"), int8("serial"), int("count")];

pub(super) fn hosts(input: &ShowInput<'_>) -> Table {
    let mut table = Table::new(HOSTS);
    for name in &input.names.hosts {
        let addresses: Vec<String> = name.addresses.iter().map(ToString::to_string).collect();
        // Rounded up: 0 is over.
        let ttl = name.ttl.as_micros().div_ceil(1_000_000);
        table.push(vec![words(&name.name), words(ttl.to_string()), words(addresses.join(","))]);
    }
    table
}

pub(super) fn zones(input: &ShowInput<'_>) -> Table {
    let mut table = Table::new(ZONES);
    for zone in &input.names.zones {
        table.push(vec![words(&zone.name), words(zone.serial.to_string()), count(zone.hosts)]);
    }
    table
}
