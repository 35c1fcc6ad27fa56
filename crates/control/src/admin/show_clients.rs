//! `SHOW CLIENTS`: one row for each client that has logged in, the console's own among them.
//= pgbouncer usage.md#show-clients

use machine::snapshot::ClientSnapshot;
use machine::{Peer, Snapshot};

use super::socket::{self, Side, Socket};
use crate::show_input::{Pointer, ShowInput};
use crate::table::Table;
use crate::time_of_day::TimesOfDay;

pub(super) fn table(input: &ShowInput<'_>) -> Table {
    let mut table = Table::new(socket::COLUMNS);
    table.reserve(input.connections().0);
    let times = TimesOfDay::seen_from(&input.now);
    for snapshot in input.snapshots {
        for client in &snapshot.clients {
            table.write(|row| socket(input, &times, snapshot, client).write("", row));
        }
    }
    table
}

pub(super) fn socket<'a>(
    input: &ShowInput<'_>,
    times: &'a TimesOfDay<'_>,
    snapshot: &Snapshot,
    client: &'a ClientSnapshot,
) -> Socket<'a> {
    let (peer, local, pid) = match client.peer {
        Peer::Tcp { from, to } => (Side::tcp(from), Side::tcp(to), 0),
        Peer::Unix { pid, .. } => (Side::unix(input.listen_port), Side::unix(input.listen_port), i64::from(pid)),
    };
    Socket {
        kind: "C",
        user: &client.user,
        database: &client.key.database,
        state: client.state,
        peer,
        local,
        times: [client.times.connected_at, client.times.request_at].map(|moment| times.of(snapshot, moment)),
        wait_us: client.times.waiting_since.map_or(0, |since| snapshot.now.micros_since(since)),
        close_needed: false,
        pointers: (Pointer(client.name), client.link.and_then(|link| link.name).map(Pointer)),
        replication: client.ties.replication,
        remote_pid: pid,
        tls: client.tls.as_deref().unwrap_or_default(),
        application_name: &client.application_name,
        id: client.serial,
        kept: client.kept,
    }
}
