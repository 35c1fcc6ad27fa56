//! `SHOW PINS`: one row for each client that keeps its server between transactions, and why. PgBouncer has none.
//!
//! Users in `stats_users` do not see the statements' texts.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use machine::snapshot::ClientSnapshot;
use machine::{Peer, Snapshot};
use session_state::state::PinSnapshot;
use units::ConnId;

use super::socket::Side;
use crate::show_input::{ShowInput, pointer};
use crate::table::{Column, Table, Value, count, int, text, words};

const COLUMNS: &[Column] = &[
    text("database"),
    text("user"),
    text("addr"),
    int("port"),
    text("application_name"),
    // Seconds.
    int("pinned"),
    text("reasons"),
    // Its beginning.
    text("statement"),
    int("server_pid"),
    text("ptr"),
    text("link"),
    int("id"),
];

/// The client that has been pinned longest comes first.
pub(super) fn table(input: &ShowInput<'_>) -> Table {
    let mut rows = Vec::new();
    for snapshot in input.snapshots {
        let pids: BTreeMap<ConnId, i32> =
            snapshot.servers.iter().map(|server| (server.conn, server.remote_pid)).collect();
        for client in &snapshot.clients {
            let Some(pin) = &client.ties.pin else { continue };
            let pid = client.link.and_then(|link| pids.get(&link.conn)).copied().unwrap_or(0);
            rows.push((snapshot.now.micros_since(pin.since), row(input, snapshot, client, pin, pid)));
        }
    }
    rows.sort_by_key(|(micros, _)| Reverse(*micros));
    let mut table = Table::new(COLUMNS);
    rows.into_iter().for_each(|(_, row)| table.push(row));
    table
}

fn row(input: &ShowInput<'_>, snapshot: &Snapshot, client: &ClientSnapshot, pin: &PinSnapshot, pid: i32) -> Vec<Value> {
    let Side { address, port } = match client.peer {
        Peer::Tcp { from, .. } => Side::tcp(from),
        Peer::Unix { .. } => Side::unix(input.listen_port),
    };
    vec![
        words(&*client.key.database),
        words(&*client.user),
        words(address.to_string()),
        count(port),
        words(&client.application_name),
        count(snapshot.now.since(pin.since).as_secs()),
        words(pin.kinds.words().collect::<Vec<_>>().join(", ")),
        input.shows_statements.then(|| pin.statement.clone()),
        count(pid),
        words(pointer(client.name)),
        words(client.link.and_then(|link| link.name).map(pointer).unwrap_or_default()),
        count(client.serial.0),
    ]
}
