//! The columns that SHOW CLIENTS and SHOW SERVERS share.
//= pgbouncer usage.md#show-servers

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use machine::ReplicationKind;
use machine::snapshot::Kept;
use units::Serial;

use crate::show_input::Pointer;
use crate::table::{Column, Row, int, int4, text};
use crate::time_of_day::TimeOfDay;

pub(super) const COLUMNS: &[Column] = &[
    text("type"),
    text("user"),
    text("database"),
    text("replication"),
    text("state"),
    text("addr"),
    int("port"),
    text("local_addr"),
    int("local_port"),
    text("connect_time"),
    text("request_time"),
    int("wait"),
    int("wait_us"),
    int("close_needed"),
    text("ptr"),
    text("link"),
    int("remote_pid"),
    text("tls"),
    text("application_name"),
    int("prepared_statements"),
    int("id"),
];

/// One end of a connection, for two columns. Empty: it is not connected yet.
#[derive(Default)]
pub(super) struct Side {
    pub(super) address: Place,
    pub(super) port: u16,
}

#[derive(Default)]
pub(super) enum Place {
    #[default]
    Nowhere,
    Unix,
    Ip(IpAddr),
    Name(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Nowhere => Ok(()),
            Place::Unix => f.write_str("unix"),
            Place::Ip(address) => address.fmt(f),
            Place::Name(name) => f.write_str(name),
        }
    }
}

impl Side {
    pub(super) fn tcp(address: SocketAddr) -> Side {
        Side { address: Place::Ip(address.ip().to_canonical()), port: address.port() }
    }

    /// Both ends of a Unix socket: PgBouncer shows a port for each, the one in the socket's name.
    pub(super) fn unix(port: u16) -> Side {
        Side { address: Place::Unix, port }
    }
}

/// A row, by name.
pub(super) struct Socket<'a> {
    /// `C` or `S`.
    pub(super) kind: &'static str,
    pub(super) user: &'a str,
    pub(super) database: &'a str,
    pub(super) state: &'static str,
    pub(super) peer: Side,
    pub(super) local: Side,
    /// When it connected, and when it last had something to do.
    pub(super) times: [TimeOfDay<'a>; 2],
    pub(super) wait_us: u64,
    pub(super) close_needed: bool,
    /// Its own, and that of what it is linked to.
    pub(super) pointers: (Pointer, Option<Pointer>),
    pub(super) replication: Option<ReplicationKind>,
    pub(super) remote_pid: i64,
    pub(super) tls: &'a str,
    pub(super) application_name: &'a str,
    pub(super) id: Serial,
    pub(super) kept: Kept,
}

impl Socket<'_> {
    /// Writes the columns that all have. `side`: what stands before the state.
    pub(super) fn write(&self, side: &str, row: &mut Row<'_>) {
        row.text(self.kind).text(self.user).text(self.database).text(ReplicationKind::shown(self.replication));
        row.shown(format_args!("{side}{}", self.state));
        for Side { address, port } in [&self.peer, &self.local] {
            match address {
                Place::Nowhere => row.text(""),
                Place::Unix => row.text("unix"),
                Place::Ip(address) => row.shown(address),
                Place::Name(name) => row.text(name),
            };
            row.shown(port);
        }
        self.times.iter().for_each(|time| _ = row.shown(time));
        row.shown(int4(self.wait_us / 1_000_000)).shown(self.wait_us % 1_000_000);
        row.shown(u8::from(self.close_needed)).shown(self.pointers.0);
        match self.pointers.1 {
            Some(link) => row.shown(link),
            None => row.text(""),
        };
        row.shown(int4(self.remote_pid)).text(self.tls).text(self.application_name);
        row.shown(int4(self.kept.prepared_statements)).shown(self.id.0);
    }
}
