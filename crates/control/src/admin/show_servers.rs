//! `SHOW SERVERS`: one row for each connection to PostgreSQL.
//= pgbouncer usage.md#show-servers

use connections::databases::Host;
use machine::Snapshot;
use machine::snapshot::ServerSnapshot;

use super::socket::{COLUMNS, Place, Side, Socket};
use crate::show_input::{Pointer, ShowInput};
use crate::table::Table;
use crate::time_of_day::TimesOfDay;

pub(super) fn table(input: &ShowInput<'_>) -> Table {
    let mut table = Table::new(COLUMNS);
    table.reserve(input.connections().1);
    let times = TimesOfDay::seen_from(&input.now);
    for snapshot in input.snapshots {
        for server in &snapshot.servers {
            table.write(|row| socket(&times, snapshot, server).write("", row));
        }
    }
    table
}

pub(super) fn socket<'a>(times: &'a TimesOfDay<'_>, snapshot: &Snapshot, server: &'a ServerSnapshot) -> Socket<'a> {
    let local = match (&server.ends.address.host, server.ends.local) {
        (Host::Unix(_), _) => Side::unix(server.ends.address.port),
        (_, address) => address.map(Side::tcp).unwrap_or_default(),
    };
    Socket {
        kind: "S",
        user: &server.key.user,
        database: &server.key.database,
        state: server.state,
        peer: Side { address: address(server), port: server.ends.address.port },
        local,
        times: [server.times.connected_at, server.times.request_at].map(|moment| times.of(snapshot, moment)),
        wait_us: 0,
        close_needed: server.close_needed,
        pointers: (Pointer(server.name), server.link.and_then(|link| link.name).map(Pointer)),
        replication: server.replication,
        remote_pid: i64::from(server.remote_pid),
        tls: server.tls.as_deref().unwrap_or_default(),
        application_name: &server.application_name,
        id: server.serial,
        kept: server.kept,
    }
}

fn address(server: &ServerSnapshot) -> Place {
    match &server.ends.address.host {
        Host::Unix(_) => Place::Unix,
        Host::Ip(address) => Place::Ip(*address),
        Host::Name(name) => Place::Name(name.clone()),
    }
}
