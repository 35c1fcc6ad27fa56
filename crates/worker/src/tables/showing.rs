//! What the console shows of a worker.

use std::collections::BTreeMap;
use std::sync::Arc;

use connections::flow::Flow;
use link::first_text::first_text;
use link::pool::Pool;
use link::server::{Chore, Server, ServerState};
use link::session::{Admission, Session, SessionState, WaitFor};
use machine::ReplicationKind;
use machine::snapshot::{
    ClientCounts, ClientSnapshot, ClientTimes, Doing, FidelitySnapshot, Kept, LinkSnapshot, Look, ObjectSizes,
    PoolSnapshot, ServerCounts, ServerEnds, ServerSnapshot, ServerTimes, Ties,
};
use session_state::parameters::Tracked;
use session_state::state::Pins;
use settings::PoolMode;
use units::{ConnId, PoolId, Time, limits};
use wire::backend::Status;

use crate::tables::lookups::tried;
use crate::tables::stale::is_stale;
use crate::tables::view::View;

impl View<'_> {
    /// The state of each host, in words, if clients of this pool wait and no host can be used.
    pub(crate) fn held_for(&self, pool: &Pool, now: Time) -> Option<Arc<str>> {
        if pool.queue().is_empty() {
            return None;
        }
        let database = pool.database();
        let is_disputed = database.target_session_attrs.wants_primary() && self.upstreams.are_disputed(&database.hosts);
        let has_no_host = pool.opening().held_for().is_some() || self.silent_since(pool).is_some();
        let is_held = is_disputed || has_no_host && !self.may_free_a_server(pool);
        is_held.then(|| tried(pool, self.upstreams, now).into())
    }

    pub(crate) fn pools_shown(&self, now: Time) -> Vec<PoolSnapshot> {
        let shown = |pool| PoolSnapshot { held_for: self.held_for(pool, now), ..snapshot_of(pool, now) };
        let mut pools: Vec<PoolSnapshot> = self.pools.iter().map(shown).collect();
        let mut place = vec![usize::MAX; self.pools.ids().count()];
        for (index, pool) in pools.iter().enumerate() {
            place[pool.id.0 as usize] = index;
        }
        let mut count = |id: units::id::PoolId, add: &mut dyn FnMut(&mut PoolSnapshot)| {
            if let Some(pool) = place.get(id.0 as usize).and_then(|&index| pools.get_mut(index)) {
                add(pool);
            }
        };
        for (_, session) in self.sessions.iter() {
            count(session.pool(), &mut |pool| match session.state() {
                SessionState::Idle { .. }
                | SessionState::Linked { .. }
                | SessionState::LostBlock { .. }
                | SessionState::Replicating { .. } => pool.clients.active += 1,
                // They wait for a server or for a limit.
                SessionState::Waiting { since, .. }
                | SessionState::Welcoming { since }
                | SessionState::Opening { since, .. } => {
                    let waited = now.micros_since(since);
                    pool.clients.waiting += 1;
                    pool.maxwait_us = pool.maxwait_us.max(waited);
                    pool.waiting_us = pool.waiting_us.saturating_add(waited);
                }
                SessionState::Console { .. } | SessionState::Leaving { .. } => {}
            });
        }
        for (_, server) in self.servers.iter() {
            let stale = is_stale(now, server, self.settings);
            let is_closing = server.end().close_needed().is_some();
            count(server.pool(), &mut |pool| pool.closing_servers += u32::from(is_closing));
            count(server.pool(), &mut |pool| match server_state(server, stale) {
                "active" | "listening" => pool.servers.active += 1,
                "being_canceled" => pool.servers.being_canceled += 1,
                "idle" => pool.servers.idle += 1,
                "used" => pool.servers.used += 1,
                "tested" => pool.servers.tested += 1,
                _ => pool.servers.login += 1,
            });
        }
        pools
    }

    pub(crate) fn clients_shown(&self, look: Look) -> Vec<ClientSnapshot> {
        match look {
            Look::Pools | Look::Statements => Vec::new(),
            Look::Busy => self.busy_clients(),
            Look::Connections => {
                // A session that only waits for its last message to be written is not shown.
                let clients = self.sessions.iter().filter(|(_, session)| !session.is_leaving());
                let mut shown = Vec::with_capacity(self.sessions.len());
                shown.extend(clients.map(|(id, session)| self.client_snapshot(id, session)));
                shown
            }
        }
    }

    /// Those that have a server, and of each pool's waiters those that have waited longest.
    fn busy_clients(&self) -> Vec<ClientSnapshot> {
        let mut shown = Vec::new();
        let mut waiting: BTreeMap<PoolId, Vec<(Time, ConnId)>> = BTreeMap::new();
        for (id, session) in self.sessions.iter() {
            match session.state() {
                SessionState::Idle { .. }
                | SessionState::LostBlock { .. }
                | SessionState::Console { .. }
                | SessionState::Leaving { .. } => {}
                SessionState::Linked { .. } | SessionState::Replicating { .. } => {
                    shown.push(self.client_snapshot(id, session))
                }
                SessionState::Waiting { since, .. }
                | SessionState::Welcoming { since }
                | SessionState::Opening { since, .. } => {
                    waiting.entry(session.pool()).or_default().push((since, id));
                }
            }
        }
        for mut waiters in waiting.into_values() {
            if waiters.len() > limits::WAITING_SHOWN_MAX {
                waiters.select_nth_unstable(limits::WAITING_SHOWN_MAX);
                waiters.truncate(limits::WAITING_SHOWN_MAX);
            }
            waiters.sort_unstable();
            shown.extend(waiters.into_iter().map(|(_, id)| self.client_snapshot(id, &self.sessions[id])));
        }
        shown
    }

    /// Whether a session has a request that a cancel would end. A session that has not logged in cannot ask for anything.
    fn has_request(&self, session: &Session) -> bool {
        match session.state() {
            SessionState::Waiting { wait_for, .. } => !matches!(wait_for, WaitFor::Login | WaitFor::Own),
            // It may have been closed in this step.
            SessionState::Linked { server } => self.servers.get(server).is_some_and(|server| {
                server.ledger().owing() != (0, false)
                    || matches!(session.claim().admission(), Admission::Waits { .. })
                    || server.hold().is_on() && !session.incoming().inbox().is_empty()
            }),
            SessionState::Replicating { server } => {
                self.servers.get(server).is_some_and(|server| server.is_answering_its_own())
            }
            SessionState::Welcoming { .. }
            | SessionState::Idle { .. }
            | SessionState::LostBlock { .. }
            | SessionState::Opening { .. } => false,
            SessionState::Console { .. } | SessionState::Leaving { .. } => false,
        }
    }

    /// What a client is doing.
    fn doing(&self, session: &Session) -> Doing {
        let waits = matches!(session.state(), SessionState::Waiting { .. });
        let text = if waits { first_text(session, session.incoming().inbox()) } else { None };
        let waits_with = text.map(beginning);
        // It may have been closed in this step, and the session with it.
        let Some(server) = session.server().and_then(|server| self.servers.get(server)) else {
            let has_request = waits && self.has_request(session);
            let statement = self.statistics.fingerprint(session.last_statement());
            let idle_since = match session.state() {
                SessionState::LostBlock { since } => Some(since),
                _ => None,
            };
            let has_failed = idle_since.is_some() && !session.has_begun();
            return Doing { statement, has_request, waits_with, idle_since, has_failed, ..Doing::default() };
        };
        let (transaction, is_answered) = (server.transaction(), server.ledger().is_clear());
        let (is_open, runs) = (transaction.status() != Status::Idle, server.ledger().statement());
        Doing {
            has_request: self.has_request(session),
            statement: self.statistics.fingerprint(if runs.is_known() { runs } else { session.last_statement() }),
            began_at: if is_open || !is_answered { server.lease().began_at() } else { None },
            waited_us: server.lease().waited_us(),
            idle_since: (is_open && is_answered).then_some(transaction.query_at()),
            has_failed: transaction.status() == Status::Failed,
            waits_with,
        }
    }

    pub(crate) fn servers_shown(&self, now: Time, look: Look) -> Vec<ServerSnapshot> {
        if matches!(look, Look::Pools | Look::Statements) {
            return Vec::new();
        }
        self.servers.iter().filter_map(|(id, server)| self.server_snapshot(now, id, server)).collect()
    }

    pub(crate) fn object_sizes(&self) -> ObjectSizes {
        let sessions = self.sessions.iter().map(|(_, session)| session.incoming().capacity() + session.flow().weight());
        let servers = self.servers.iter().map(|(_, server)| server.incoming().capacity() + server.flow().weight());
        let size = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
        ObjectSizes {
            session: size(size_of::<Session>()),
            server: size(size_of::<Server>()),
            pool: size(size_of::<Pool>()),
            buffers: sessions.chain(servers).sum::<usize>() as u64,
        }
    }

    /// The process id that the client got.
    fn shown_pid(&self, conn: ConnId, session: &Session) -> i32 {
        let tracker = session.tracker();
        let real = session.identity().replication.is_some()
            || tracker.is_some_and(|tracker| tracker.pinning.pins().any(Pins::BACKEND_PID));
        let server = session.server().filter(|_| real).and_then(|server| self.servers.get(server));
        server.map_or_else(|| session.identity().pid(conn), |server| server.backend().pid)
    }

    fn client_snapshot(&self, conn: ConnId, session: &Session) -> ClientSnapshot {
        let pool = self.pools.get(session.pool());
        let key = pool.map(|pool| pool.key().clone()).unwrap_or_else(|| units::id::PoolKey {
            database: session.identity().database.clone(),
            user: session.identity().user.clone(),
        });
        let (state, waiting_since) = match session.state() {
            SessionState::Idle { .. } => ("idle", None),
            SessionState::LostBlock { .. } if session.has_begun() => ("active", None),
            SessionState::LostBlock { .. } => ("aborted", None),
            SessionState::Linked { .. } | SessionState::Replicating { .. } | SessionState::Console { .. } => {
                ("active", None)
            }
            SessionState::Waiting { since, .. }
            | SessionState::Welcoming { since }
            | SessionState::Opening { since, .. } => ("waiting", Some(since)),
            // Not shown.
            SessionState::Leaving { .. } => ("idle", None),
        };
        let name = session.parameters().get(Tracked::APPLICATION_NAME).unwrap_or_default();
        let replication = session.identity().replication.as_ref().map(|asked| asked.kind);
        ClientSnapshot {
            serial: session.identity().serial,
            name: session.identity().name,
            conn,
            key,
            user: session.identity().user.clone(),
            state,
            peer: session.identity().peer,
            tls: session.identity().encryption.as_ref().map(|facts| facts.shown()),
            times: ClientTimes {
                connected_at: session.identity().connected_at,
                request_at: session.request_at(),
                waiting_since,
            },
            link: session
                .server()
                .map(|conn| LinkSnapshot { conn, name: self.servers.get(conn).map(|server| server.identity().name()) }),
            application_name: String::from_utf8_lossy(name).into_owned(),
            pid: self.shown_pid(conn, session),
            class: session.claim().class(),
            ties: Ties {
                fidelity: pool
                    .filter(|pool| pool.rules().mode() != PoolMode::Session && replication.is_none())
                    .map(|pool| pool.rules().fidelity()),
                pin: session.tracker().and_then(|tracker| tracker.pinning.snapshot()),
                replication,
            },
            doing: self.doing(session),
            kept: kept(
                session.statements().names().map_or(0, |names| names.len()),
                session.incoming().inbox(),
                session.flow(),
            ),
        }
    }

    /// What the session that a server was opened for has asked for.
    fn replication_of(&self, server: &Server) -> Option<ReplicationKind> {
        // It may have ended in this very step, and its server with it.
        let session = self.sessions.get(server.identity().opened_for_session()?)?;
        session.identity().replication.as_ref().map(|asked| asked.kind)
    }

    fn server_snapshot(&self, now: Time, conn: ConnId, server: &Server) -> Option<ServerSnapshot> {
        let pool = self.pools.get(server.pool())?;
        let stale = is_stale(now, server, self.settings);
        let name = server.kept().name_at_postgresql();
        Some(ServerSnapshot {
            serial: server.identity().serial(),
            name: server.identity().name(),
            conn,
            pool: pool.id(),
            key: pool.key().clone(),
            state: server_state(server, stale),
            ends: ServerEnds {
                host: Arc::clone(server.identity().host()),
                address: Arc::clone(server.identity().address()),
                local: server.identity().local(),
            },
            times: ServerTimes {
                connected_at: server.identity().connected_at(),
                request_at: server.transaction().query_at(),
            },
            link: server.session().map(|conn| LinkSnapshot {
                conn,
                name: self.sessions.get(conn).map(|session| session.identity().name),
            }),
            remote_pid: server.backend().pid,
            application_name: String::from_utf8_lossy(name).into_owned(),
            close_needed: server.end().close_needed().is_some(),
            tls: server.identity().encryption().facts().map(|facts| Arc::clone(&facts.shown)),
            replication: self.replication_of(server),
            kept: kept(server.statements().prepared_len(), server.incoming().inbox(), server.flow()),
        })
    }
}

/// So much of a text is shown that it is waited with, as it came: its comment says whose it is.
fn beginning(text: &[u8]) -> String {
    let cut = &text[..text.len().min(limits::WAITING_TEXT_LEN_MAX)];
    let shown = String::from_utf8_lossy(cut);
    // Half a character may be at its end.
    if cut.len() < text.len() { shown.trim_end_matches('\u{fffd}').to_owned() } else { shown.into_owned() }
}

fn kept(statements: usize, received: &[u8], flow: &Flow) -> Kept {
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let (received, unsent) = (count(received.len()), count(flow.backlog().len()));
    Kept { prepared_statements: count(statements), received, unsent }
}

fn server_state(server: &Server, stale: bool) -> &'static str {
    match *server.state() {
        ServerState::Linked(_) | ServerState::Own(_) if server.cancel().under_way() > 0 => "being_canceled",
        ServerState::Linked(_) | ServerState::Own(_) | ServerState::Draining { .. } => "active",
        ServerState::Listening => "listening",
        ServerState::Held => "being_canceled",
        ServerState::Idle if stale => "used",
        ServerState::Idle => "idle",
        ServerState::Busy(Chore::Setup | Chore::Role | Chore::Base)
        | ServerState::Connecting
        | ServerState::LoggingIn(_) => "new",
        ServerState::Busy(_) => "tested",
    }
}

fn snapshot_of(pool: &Pool, now: Time) -> PoolSnapshot {
    let oldest = [pool.queue().oldest_of_all(), pool.pins().queue().front(), pool.servers().own().queue().front()]
        .into_iter()
        .flatten()
        .map(|waiter| waiter.since)
        .min();
    PoolSnapshot {
        id: pool.id(),
        key: pool.key().clone(),
        mode: pool.rules().mode(),
        clients: ClientCounts { active_cancel_req: pool.counts().cancels(), ..ClientCounts::default() },
        servers: ServerCounts { active_cancel: pool.counts().cancels(), ..ServerCounts::default() },
        open_servers: pool.servers().all(),
        closing_servers: 0,
        maxwait_us: oldest.map_or(0, |since| now.micros_since(since)),
        waiting_us: 0,
        totals: *pool.counts().totals(),
        spans: pool.counts().spans(),
        fidelity: FidelitySnapshot {
            fidelity: (pool.rules().mode() != PoolMode::Session).then_some(pool.rules().fidelity()),
            names: pool.known().names(),
            pinned: pool.pins().count(),
            waiting: pool.pins().queue().len(),
            counts: pool.counts().fidelity(),
        },
        classes: pool.queue().counts(now).collect(),
        sizing: pool.measured().account().cloned(),
        long: pool.measured().experience().counts().collect(),
        deadlocks: pool.counts().deadlocks().clone(),
        held_for: None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::tables::scene::Scene;

    #[test]
    fn of_many_waiters_the_oldest_are_shown_and_of_the_idle_ones_none() {
        let mut scene = Scene::new(|_| {});
        for _ in 0..10_000 {
            scene.session();
        }
        let oldest = scene.now;
        // The order in which they came is not the order of their ids.
        let count = 3 * limits::WAITING_SHOWN_MAX as u64;
        for number in 0..count {
            scene.waiter(oldest + Duration::from_millis(number * 7 % count));
        }
        let view = scene.view();
        let shown = view.clients_shown(Look::Busy);
        let since: Vec<_> = shown.iter().filter_map(|client| client.times.waiting_since).collect();
        let expected = (0..limits::WAITING_SHOWN_MAX as u64).map(|number| oldest + Duration::from_millis(number));
        assert_eq!(since, expected.collect::<Vec<_>>());
        assert_eq!(shown.len(), limits::WAITING_SHOWN_MAX);
        assert_eq!(view.clients_shown(Look::Connections).len() as u64, 10_000 + count);
        assert!(view.clients_shown(Look::Pools).is_empty());
    }
}
