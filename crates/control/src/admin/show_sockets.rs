//! `SHOW SOCKETS` and `SHOW ACTIVE_SOCKETS`: clients and servers in one table, with what they have waiting in their buffers.
//!
//! PgBouncer has one buffer for a socket and positions in it. pgweir passes bytes on where they are read and keeps only what it cannot pass
//! on: `pkt_avail` is what was received and waits, `send_avail` what a socket has not taken yet; the other positions are 0.
//= pgbouncer usage.md#show-sockets

use super::socket;
use super::{show_clients, show_servers};
use crate::show_input::ShowInput;
use crate::table::{Column, Table, int, int4};
use crate::time_of_day::TimesOfDay;

const OWN: [&str; 7] = ["recv_pos", "pkt_pos", "pkt_remain", "send_pos", "send_remain", "pkt_avail", "send_avail"];

const COLUMNS: &[Column] = &{
    let mut columns = [int(""); socket::COLUMNS.len() + OWN.len()];
    let (first, own) = columns.split_at_mut(socket::COLUMNS.len());
    first.copy_from_slice(socket::COLUMNS);
    let mut at = 0;
    while at < OWN.len() {
        own[at] = int(OWN[at]);
        at += 1;
    }
    columns
};

pub(super) fn table(input: &ShowInput<'_>) -> Table {
    rows(input, |_| true)
}

/// Those that are at work or wait for it.
pub(super) fn active(input: &ShowInput<'_>) -> Table {
    rows(input, |state| !matches!(state, "idle" | "used"))
}

fn rows(input: &ShowInput<'_>, is_shown: impl Fn(&str) -> bool) -> Table {
    let mut table = Table::new(COLUMNS);
    let times = TimesOfDay::seen_from(&input.now);
    for snapshot in input.snapshots {
        let clients =
            snapshot.clients.iter().map(|client| ("cl_", show_clients::socket(input, &times, snapshot, client)));
        let servers = snapshot.servers.iter().map(|server| ("sv_", show_servers::socket(&times, snapshot, server)));
        for (side, socket) in clients.chain(servers).filter(|(_, socket)| is_shown(socket.state)) {
            table.write(|row| {
                socket.write(side, row);
                let kept = socket.kept;
                [0, 0, 0, 0, kept.unsent, kept.received, kept.unsent]
                    .iter()
                    .for_each(|size| _ = row.shown(int4(*size)));
            });
        }
    }
    table
}
