//! A server on its way to another process, in an online upgrade: clean and idle, alone or with the session that keeps it.

use std::sync::Arc;

use connections::databases::{Address, Database};
use connections::encryption::Encryption;
use connections::server_login::BackendKey;
use machine::moved_server::{MovedDatabase, MovedKept, MovedServer, MovedTraces};
use session_state::parameters::{Parameters, Tracked};
use session_state::shape::Described;
use session_state::state::Base;
use units::deadline::Armed;
use units::{ConnId, PoolId, Time};

use super::parameter_owners::ParameterOwners;
use super::{
    Identity, Kept, Lease, Ledger, RightsSince, Sequences, Server, ServerFacts, ServerIncoming, ServerState,
    Statements, Traces, Transaction, Work,
};
use crate::resendable::{KeptRequest, SentBegin};
use crate::special::Watched;

/// The entry of its database that a server was opened by, as it would be an entry here. `database`: its entry here.
fn opened_for(moved: MovedDatabase, database: Arc<Database>) -> Arc<Database> {
    let opened_for = Database {
        hosts: moved.hosts,
        target_session_attrs: moved.target_session_attrs,
        dbname: moved.dbname,
        forced_user: moved.forced_user,
        password: moved.password,
        connect_query: moved.connect_query,
        startup: moved.startup,
        ..Database::clone(&database)
    };
    // One entry for all of them, where nothing has changed.
    if opened_for == *database { database } else { Arc::new(opened_for) }
}

fn kept(moved: MovedKept, companion: Option<ConnId>, tracked: &Tracked) -> Kept {
    let needs_rights = moved.session_state.as_ref().is_some_and(session_state::state::needs_rights);
    Kept {
        begins: None,
        base: Arc::new(moved.base),
        parameters: Arc::new(Parameters::of_names(&moved.parameters, tracked)),
        at_reset: Arc::new(Parameters::of_names(&moved.at_reset, tracked)),
        owners: ParameterOwners::of_moved(&moved.owners, tracked),
        reported: moved.reported,
        session_state: moved.session_state.map(Arc::new),
        // This process sets the role once more.
        rights: needs_rights.then_some(RightsSince { given_at: Time::ZERO, last: None }),
        on_server: moved.on_server,
        sequences: Sequences::of_moved(moved.drawn, companion),
        shown_name: None,
    }
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
            && self.facts.flow.is_clear()
            && !self.facts.hold.is_on()
            && self.facts.cancel.under_way == 0
            && !self.facts.cancel.is_requested
            && !self.facts.end.gone
            && self.facts.end.close_needed.is_none()
            && !self.facts.traces.is_unsettled
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
            opened_for: MovedDatabase {
                hosts: opened_for.hosts.clone(),
                target_session_attrs: opened_for.target_session_attrs,
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
                needs_reset: self.facts.traces.needs_reset,
                tainted: self.facts.traces.tainted,
                has_local_buffers: self.facts.traces.has_local_buffers,
                listens: self.facts.traces.listens,
                notified_by: self.facts.traces.notified_by,
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
        let opened_for = opened_for(moved.opened_for, database);
        Server {
            state: ServerState::Held,
            pool,
            facts: Watched::new(ServerFacts {
                traces: Traces {
                    needs_reset: moved.traces.needs_reset,
                    tainted: moved.traces.tainted,
                    has_local_buffers: moved.traces.has_local_buffers,
                    listens: moved.traces.listens,
                    notified_by: moved.traces.notified_by,
                    ..Traces::default()
                },
                ..ServerFacts::default()
            }),
            asked: None,
            lease: Lease::default(),
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
                role: None,
                opened_for_session: None,
            },
            incoming: ServerIncoming::default(),
            statements: Statements {
                prepared: moved.prepared,
                described: Described::default(),
                // The version that it has is the other process's.
                unnamed: session_state::unnamed::UNKNOWN,
            },
            kept: kept(moved.kept, companion, tracked),
            backend: BackendKey { pid: moved.backend.0, secret: moved.backend.1 },
            transaction: Transaction::idle(moved.idle_since),
            begin: SentBegin::default(),
            request: KeptRequest::default(),
            work: Work {
                heard_at: Time::ZERO,
                since: moved.idle_since,
                worked_at: moved.worked_at,
                travelled_at: None,
                uses: moved.uses,
                charge: None,
                permits: None,
            },
        }
    }
}
