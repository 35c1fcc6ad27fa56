//! A session on its way from the door, where it logged in, to the worker where it will live.

use std::sync::Arc;

use units::{ConnId, Life, PoolId, PoolKey, Serial, Time, WorkerId};

use crate::cancel_secret::CancelSecret;
use crate::encryption::Secured;
use crate::observe::Peer;
use crate::pids::{PidKey, virtual_pid};
use crate::proved::Proved;
use crate::replication::Replication;
use crate::startup_parameters::StartupParameters;

/// A client's identity. Set at login and never changed.
#[derive(Debug)]
pub struct Identity {
    pub serial: Serial,
    /// What the log and the console call it.
    pub name: ConnId,
    /// As the client named it.
    pub database: Arc<str>,
    /// The user that logged in; the pool's user may be a forced one.
    pub user: Arc<str>,
    pub peer: Peer,
    /// If its connection is encrypted.
    pub encryption: Option<Arc<Secured>>,
    pub connected_at: Time,
    /// The secret half of its cancel key.
    pub cancel_secret: CancelSecret,
    /// The key of the process in which the client has logged in.
    pub pid_key: PidKey,
    /// Present if it wants to replicate.
    pub replication: Option<Box<Replication>>,
}

impl Identity {
    /// The process id that a client is told, unless it is its server's: the other half of its cancel key. `conn` is its session.
    #[must_use]
    pub fn pid(&self, conn: ConnId) -> i32 {
        self.cancel_secret.pid().unwrap_or_else(|| virtual_pid(conn, self.pid_key))
    }

    /// Names that are the pool's are one copy for all its clients.
    pub fn share_names(&mut self, pool: &PoolKey) {
        if self.database == pool.database {
            self.database = Arc::clone(&pool.database);
        }
        if self.user == pool.user {
            self.user = Arc::clone(&pool.user);
        }
    }
}

/// What a client may do on the console.
#[derive(Copy, Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum ConsoleRights {
    Admin,
    Stats,
}

/// Everything a worker needs to know to let a session in.
#[derive(Debug)]
pub struct Arrival {
    pub identity: Arc<Identity>,
    pub pool: PoolId,
    /// Its home.
    pub worker: WorkerId,
    /// Of that worker, when it was chosen.
    pub life: Life,
    pub key: PoolKey,
    /// On how many workers the pool lives.
    pub homes: u16,
    /// `Some`: this session talks to the console, not to a pool.
    pub console: Option<ConsoleRights>,
    /// As the client wrote them.
    pub parameters: StartupParameters,
    /// Whether it has requested its server's own process id; `None`: its pool's setting decides.
    pub stable_backend_pid: Option<bool>,
    /// How long it can wait for a server, in milliseconds, where that is not a setting that is followed; 0: it does not say.
    pub deadline_ms: u32,
    /// Whether it has requested reports of how much its limits leave.
    pub reports_limits: bool,
    pub proved: Arc<Proved>,
    /// What the client sent beyond its login already.
    pub leftover: Vec<u8>,
}
