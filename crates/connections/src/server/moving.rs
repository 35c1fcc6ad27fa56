//! A server on its way to another process, in an online upgrade: clean and idle, alone or with the session that keeps it.

use std::net::SocketAddr;
use std::sync::Arc;

use auth::{Mark, Secret};
use serde::{Deserialize, Serialize};
use session_state::parameters::{Parameters, Reported, Tracked};
use session_state::prepared::PreparedOnServer;
use session_state::shape::Described;
use session_state::state::{Base, OnServer, State as SessionState};
use units::deadline::Armed;
use units::{ConnId, PoolId, Serial, Time};

use super::parameter_owners::{MovedOwners, ParameterOwners};
use super::sequences::Drawn;
use super::{
    Cancelling, End, Hold, Identity, Incoming, Kept, Ledger, RightsSince, Sequences, Server, Spoken, State, Statements,
    Traces, Transaction, Work,
};
use crate::Verdict;
use crate::databases::{Address, Database};
use crate::encryption::Encryption;
use crate::flow::Flow;
use crate::server_login::BackendKey;

/// A server as another process gets it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MovedServer {
    pub serial: Serial,
    local: Option<SocketAddr>,
    host: Address,
    address: Address,
    mark: Option<Mark>,
    opened_for: OpenedFor,
    /// How often RECONNECT had been ordered when it was opened.
    reconnects: u32,
    connected_at: Time,
    /// Since when it has had no work.
    pub idle_since: Time,
    worked_at: Time,
    uses: u32,
    backend: (i32, Box<[u8]>),
    kept: MovedKept,
    prepared: PreparedOnServer,
    traces: MovedTraces,
}

/// The entry of its database that it was opened by.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct OpenedFor {
    hosts: Vec<Address>,
    dbname: Option<String>,
    forced_user: Option<String>,
    password: Option<Secret>,
    connect_query: Option<String>,
    startup: Vec<(String, String)>,
}

impl OpenedFor {
    /// As it would be an entry here. `database`: what its entry is here.
    fn by(self, database: Arc<Database>) -> Arc<Database> {
        let opened_for = Database {
            hosts: self.hosts,
            dbname: self.dbname,
            forced_user: self.forced_user,
            password: self.password,
            connect_query: self.connect_query,
            startup: self.startup,
            ..Database::clone(&database)
        };
        // One entry for all of them, where nothing has changed.
        if opened_for == *database { database } else { Arc::new(opened_for) }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct MovedKept {
    base: Base,
    parameters: Vec<(String, Box<[u8]>)>,
    at_reset: Vec<(String, Box<[u8]>)>,
    owners: MovedOwners,
    reported: Reported,
    session_state: Option<SessionState>,
    on_server: OnServer,
    drawn: Drawn,
}

impl MovedKept {
    fn into_kept(self, companion: Option<ConnId>, tracked: &Tracked) -> Kept {
        let needs_rights = self.session_state.as_ref().is_some_and(session_state::state::needs_rights);
        Kept {
            begins: None,
            base: Arc::new(self.base),
            parameters: Arc::new(Parameters::of_names(&self.parameters, tracked)),
            at_reset: Arc::new(Parameters::of_names(&self.at_reset, tracked)),
            owners: ParameterOwners::of_moved(&self.owners, tracked),
            reported: self.reported,
            session_state: self.session_state.map(Arc::new),
            // This process sets the role once more.
            rights: needs_rights.then_some(RightsSince { given_at: Time::ZERO, last: None }),
            on_server: self.on_server,
            sequences: Sequences::of_moved(self.drawn, companion),
            shown_name: None,
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct MovedTraces {
    needs_reset: bool,
    tainted: bool,
    has_local_buffers: bool,
    listens: bool,
    notified_by: i32,
}

/// What a server that comes from another process gets here.
#[derive(Debug)]
pub struct Arrived {
    pub pool: PoolId,
    pub name: ConnId,
    /// The session that came with it.
    pub companion: Option<ConnId>,
    /// Its database's entry here.
    pub database: Arc<Database>,
}

impl Server {
    /// Whether it can move: nothing of it is under way, and its bytes are not encrypted, since only this process has the keys.
    pub fn can_move(&self) -> bool {
        self.is_clean()
            && self.flow.is_clear()
            && !self.hold.is_on()
            && self.cancel.under_way == 0
            && !self.cancel.is_requested
            && !self.end.gone
            && self.end.close_needed.is_none()
            && !self.traces.is_unsettled
            && !self.ledger.is_doubtful()
            && !self.kept.on_server.is_changing()
            && !self.identity.encryption.is_on()
            && self.identity.opened_for_session.is_none()
    }

    /// As another process gets it. `companion`: the session that moves with it.
    pub fn moved(&self, companion: Option<ConnId>, tracked: &Tracked) -> MovedServer {
        debug_assert!(self.can_move(), "I3: only a clean server moves");
        let identity = &self.identity;
        let opened_for = &identity.opened_for;
        MovedServer {
            serial: identity.serial,
            local: identity.local,
            host: Address::clone(&identity.host),
            address: Address::clone(&identity.address),
            mark: identity.mark,
            opened_for: OpenedFor {
                hosts: opened_for.hosts.clone(),
                dbname: opened_for.dbname.clone(),
                forced_user: opened_for.forced_user.clone(),
                password: opened_for.password.clone(),
                connect_query: opened_for.connect_query.clone(),
                startup: opened_for.startup.clone(),
            },
            reconnects: identity.reconnects,
            connected_at: identity.connected_at,
            idle_since: self.work.since,
            worked_at: self.work.worked_at,
            uses: self.work.uses,
            backend: (self.backend.pid, self.backend.secret.clone()),
            kept: MovedKept {
                base: Base::clone(&self.kept.base),
                parameters: self.parameters_at_postgresql().by_name(tracked),
                at_reset: self.kept.at_reset.by_name(tracked),
                owners: self.kept.owners.moved(tracked),
                reported: self.kept.reported.clone(),
                session_state: self.kept.session_state.as_deref().cloned(),
                on_server: self.kept.on_server.clone(),
                drawn: self.kept.sequences.moved(companion),
            },
            prepared: self.statements.prepared.clone(),
            traces: MovedTraces {
                needs_reset: self.traces.needs_reset,
                tainted: self.traces.tainted,
                has_local_buffers: self.traces.has_local_buffers,
                listens: self.traces.listens,
                notified_by: self.traces.notified_by,
            },
        }
    }

    /// As PostgreSQL has them: the other process may tell it other names.
    fn parameters_at_postgresql(&self) -> Parameters {
        let name = self.kept.shown_name.as_ref().map(|_| self.kept.name_at_postgresql());
        let changed = name.and_then(|name| self.kept.parameters.with(Tracked::APPLICATION_NAME, name));
        changed.unwrap_or_else(|| Parameters::clone(&self.kept.parameters))
    }

    /// Come from another process: withheld, until its worker makes it free.
    #[must_use]
    pub fn of_moved(moved: MovedServer, arrived: Arrived, tracked: &Tracked) -> Server {
        let Arrived { pool, name, companion, database } = arrived;
        let opened_for = moved.opened_for.by(database);
        Server {
            state: State::Held,
            pool,
            flow: Flow::default(),
            ledger: Ledger::default(),
            armed: Armed::default(),
            identity: Identity {
                serial: moved.serial,
                name,
                local: moved.local,
                encryption: Encryption::in_the_clear(&moved.address),
                host: Arc::new(moved.host),
                address: Arc::new(moved.address),
                mark: moved.mark,
                opened_for,
                reconnects: moved.reconnects,
                connected_at: moved.connected_at,
                opened_for_session: None,
            },
            incoming: Incoming::default(),
            statements: Statements {
                prepared: moved.prepared,
                described: Described::default(),
                verdict: Verdict::None,
                // The version that it has is the other process's.
                unnamed: session_state::unnamed::UNKNOWN,
                spoken: Spoken::default(),
            },
            kept: moved.kept.into_kept(companion, tracked),
            traces: Traces {
                needs_reset: moved.traces.needs_reset,
                tainted: moved.traces.tainted,
                has_local_buffers: moved.traces.has_local_buffers,
                listens: moved.traces.listens,
                notified_by: moved.traces.notified_by,
                ..Traces::default()
            },
            backend: BackendKey { pid: moved.backend.0, secret: moved.backend.1 },
            transaction: Transaction::idle(moved.idle_since),
            hold: Hold::default(),
            cancel: Cancelling::default(),
            end: End::default(),
            work: Work {
                linked_at: Time::ZERO,
                since: moved.idle_since,
                waited_us: 0,
                worked_at: moved.worked_at,
                travelled_at: None,
                uses: moved.uses,
                charge: None,
                permits: None,
            },
        }
    }
}
