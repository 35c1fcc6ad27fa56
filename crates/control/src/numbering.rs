//! The `id` column of SHOW CLIENTS and SHOW SERVERS: a small number for each connection, never used twice.
//!
//! PgBouncer numbers sockets as they are made. A connection's own id has 63 bits and an int4 has 31, so it is numbered
//! when the console first sees it, in the order in which connections came, clients before servers. It keeps its number
//! for as long as it lives. Two shortfalls: connections that nobody looked at leave no gap, and a server that is lent to
//! another worker gets a new id there and with it a new number.

use std::collections::BTreeMap;

use pooling::{ConnId, Kind, Snapshot};

/// Numbers given so far to connections that live.
#[derive(Clone, Debug, Default)]
pub struct Numbering {
    given: BTreeMap<ConnId, i32>,
    last: i32,
}

impl Numbering {
    /// Numbers what is new in detailed snapshots of all workers, and forgets what is gone.
    pub fn see(&mut self, snapshots: &[Snapshot]) {
        let mut seen = Vec::new();
        for snapshot in snapshots {
            let age_us = |at| snapshot.now.micros_since(at);
            seen.extend(snapshot.clients.iter().map(|client| (age_us(client.connected_at), Kind::Client, client.conn)));
            seen.extend(snapshot.servers.iter().map(|server| (age_us(server.connected_at), Kind::Server, server.conn)));
        }
        // Oldest first.
        seen.sort_unstable_by(|a, b| b.0.cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
        let before = std::mem::take(&mut self.given);
        for (_, _, conn) in seen {
            let number = before.get(&conn).copied().unwrap_or_else(|| self.next());
            self.given.insert(conn, number);
        }
    }

    /// A connection's number; 0 if it was never seen.
    #[must_use]
    pub fn of(&self, conn: ConnId) -> i32 {
        self.given.get(&conn).copied().unwrap_or(0)
    }

    /// After two thousand million connections it starts again.
    fn next(&mut self) -> i32 {
        self.last = self.last.checked_add(1).unwrap_or(1);
        self.last
    }
}
