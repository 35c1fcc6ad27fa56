//! `SHOW SERVERS`: one row for each connection to PostgreSQL.
//= pgbouncer usage.md#show-servers

use connections::databases::Host;
use machine::Snapshot;
use machine::snapshot::ServerSnapshot;

use super::socket::{COLUMNS, End, Socket};
use crate::show_input::{ShowInput, pointer, server_address};
use crate::table::Table;

pub(super) fn table(input: &ShowInput<'_>) -> Table {
    let mut table = Table::new(COLUMNS);
    for snapshot in input.snapshots {
        for server in &snapshot.servers {
            table.push(socket(input, snapshot, server).into_row());
        }
    }
    table
}

pub(super) fn socket<'a>(input: &ShowInput<'_>, snapshot: &Snapshot, server: &'a ServerSnapshot) -> Socket<'a> {
    let local = match (&server.address.host, server.local) {
        (Host::Unix(_), _) => End::unix(server.address.port),
        (_, address) => address.map(End::tcp).unwrap_or_default(),
    };
    Socket {
        kind: "S",
        user: &server.key.user,
        database: &server.key.database,
        state: server.state,
        peer: End { address: server_address(server), port: server.address.port },
        local,
        times: [
            input.time_of_day(snapshot, server.times.connected_at),
            input.time_of_day(snapshot, server.times.request_at),
        ],
        wait_us: 0,
        close_needed: server.close_needed,
        pointers: [pointer(server.name), server.link.and_then(|link| link.name).map(pointer).unwrap_or_default()],
        replication: server.replication,
        remote_pid: i64::from(server.remote_pid),
        tls: server.tls.as_deref().unwrap_or_default(),
        application_name: &server.application_name,
        id: server.serial,
        kept: server.kept,
    }
}
