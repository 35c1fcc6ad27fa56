//! The columns that SHOW CLIENTS and SHOW SERVERS share.
//= pgbouncer usage.md#show-servers

use std::net::SocketAddr;

use machine::ReplicationKind;
use machine::snapshot::Kept;
use units::Serial;

use crate::table::{Column, Value, count, int, text, words};

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
pub(super) struct End {
    pub(super) address: String,
    pub(super) port: u16,
}

impl End {
    pub(super) fn tcp(address: SocketAddr) -> End {
        End { address: address.ip().to_canonical().to_string(), port: address.port() }
    }

    /// Both ends of a Unix socket: PgBouncer shows a port for each, the one in the socket's name.
    pub(super) fn unix(port: u16) -> End {
        End { address: "unix".to_owned(), port }
    }
}

/// A row, by name.
pub(super) struct Socket<'a> {
    /// `C` or `S`.
    pub(super) kind: &'static str,
    pub(super) user: &'a str,
    pub(super) database: &'a str,
    pub(super) state: &'static str,
    pub(super) peer: End,
    pub(super) local: End,
    /// When it connected, and when it last had something to do.
    pub(super) times: [String; 2],
    pub(super) wait_us: u64,
    pub(super) close_needed: bool,
    /// Its own, and that of what it is linked to.
    pub(super) pointers: [String; 2],
    pub(super) replication: Option<ReplicationKind>,
    pub(super) remote_pid: i64,
    pub(super) tls: &'a str,
    pub(super) application_name: &'a str,
    pub(super) id: Serial,
    pub(super) kept: Kept,
}

impl Socket<'_> {
    pub(super) fn into_row(self) -> Vec<Value> {
        let [connect_time, request_time] = self.times;
        let [ptr, link] = self.pointers;
        vec![
            words(self.kind),
            words(self.user),
            words(self.database),
            words(ReplicationKind::shown(self.replication)),
            words(self.state),
            words(self.peer.address),
            count(self.peer.port),
            words(self.local.address),
            count(self.local.port),
            words(connect_time),
            words(request_time),
            count(self.wait_us / 1_000_000),
            count(self.wait_us % 1_000_000),
            count(i32::from(self.close_needed)),
            words(ptr),
            words(link),
            count(self.remote_pid),
            words(self.tls),
            words(self.application_name),
            count(self.kept.prepared_statements),
            count(self.id.0),
        ]
    }
}
