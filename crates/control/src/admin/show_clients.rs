//! `SHOW CLIENTS`: one row for each client that has logged in, the console's own among them.
//= pgbouncer usage.md#show-clients

use connections::databases::CONSOLE_DATABASE;
use machine::snapshot::ClientSnapshot;
use machine::{Peer, Snapshot};

use super::socket::{self, Side, Socket};
use crate::show_input::{Pointer, ShowInput};
use crate::table::{Column, Table, text};
use crate::time_of_day::TimesOfDay;

const COLUMNS: &[Column] = &{
    let mut columns = [text("pool_fidelity"); socket::COLUMNS.len() + 2];
    let (first, _) = columns.split_at_mut(socket::COLUMNS.len());
    first.copy_from_slice(socket::COLUMNS);
    // The class of its latest transaction.
    columns[socket::COLUMNS.len() + 1] = text("class");
    columns
};

pub(super) fn table(input: &ShowInput<'_>) -> Table {
    let mut table = Table::new(COLUMNS);
    table.reserve(input.connections().0);
    let times = TimesOfDay::seen_from(&input.now);
    for snapshot in input.snapshots {
        for client in &snapshot.clients {
            table.write(|row| {
                socket(input, &times, snapshot, client).write("", row);
                match client.ties.fidelity {
                    Some(fidelity) => row.text(fidelity.as_str()),
                    None => row.null(),
                };
                match *client.key.database == *CONSOLE_DATABASE {
                    false => row.text(&input.settings.classes.class(client.class).name),
                    true => row.null(),
                };
            });
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
