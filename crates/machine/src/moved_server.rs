//! A server as another process gets it in an online upgrade: clean and idle, alone or with the session that keeps it.
//!
//! Values only. What they mean for a server is in `link::server`, which makes them and reads them.

use std::net::SocketAddr;

use auth::{Mark, Secret};
use connections::databases::{Address, TargetSessionAttrs};
use serde::{Deserialize, Serialize};
use session_state::parameters::Reported;
use session_state::prepared::PreparedOnServer;
use session_state::state::{Base, OnServer, State as SessionState};
use units::{Serial, Time};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MovedServer {
    pub serial: Serial,
    pub local: Option<SocketAddr>,
    pub host: Address,
    pub address: Address,
    pub mark: Option<Mark>,
    pub opened_for: MovedDatabase,
    /// How often RECONNECT had been ordered when it was opened.
    pub reconnects: u32,
    pub connected_at: Time,
    /// Since when it has had no work.
    pub idle_since: Time,
    pub worked_at: Time,
    pub uses: u32,
    /// Its process id and its cancel key.
    pub backend: (i32, Box<[u8]>),
    pub kept: MovedKept,
    pub prepared: PreparedOnServer,
    pub traces: MovedTraces,
}

/// The entry of its database that it was opened by.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MovedDatabase {
    pub hosts: Vec<Address>,
    /// A process that does not send it takes any host.
    #[serde(default)]
    pub target_session_attrs: TargetSessionAttrs,
    pub dbname: Option<String>,
    pub forced_user: Option<String>,
    pub password: Option<Secret>,
    pub connect_query: Option<String>,
    pub startup: Vec<(String, String)>,
}

/// The session state that is on the server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MovedKept {
    pub base: Base,
    pub parameters: Vec<(String, Box<[u8]>)>,
    pub at_reset: Vec<(String, Box<[u8]>)>,
    pub owners: MovedOwners,
    pub reported: Reported,
    pub session_state: Option<SessionState>,
    pub on_server: OnServer,
    pub drawn: MovedSequences,
}

/// The owners of tracked parameters by the parameters' names: the other process may track other parameters.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MovedOwners {
    pub by_session: Vec<String>,
    pub by_pooler: Vec<String>,
    pub base: Vec<String>,
}

/// Which sessions have used `nextval` on the server.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MovedSequences {
    pub by: Option<Drawer>,
    pub is_mixed: bool,
}

/// The session that has used `nextval` last.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Drawer {
    /// The session that moves with the server.
    Companion,
    Another,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MovedTraces {
    pub needs_reset: bool,
    pub tainted: bool,
    pub has_local_buffers: bool,
    pub listens: bool,
    pub notified_by: i32,
}
