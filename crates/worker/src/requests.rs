//! A client's bytes, by what its session is doing: kept, answered, or dealt with as requests to its server.

use connections::server::Server;
use link::ending::Ending;
use link::lone_query::LoneQuery;
use link::requests::Requests;
use link::session::State;
use link::unlinked::{Begun, Unlinked};
use machine::Turn;
use machine::action::Source;
use units::{ConnId, heap, limits};
use wire::sqlstate;

use crate::Worker;

impl Worker {
    pub(super) fn client_received(&mut self, turn: &mut Turn<'_>, conn: ConnId, bytes: &[u8]) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        session.progress_at = turn.now;
        if let Some(pool) = self.pools.get_mut(session.pool) {
            pool.counts.totals.received += bytes.len() as u64;
        }
        match session.state {
            State::Linked { server } => {
                let gated = self.servers.get(server).is_some_and(Server::is_gated);
                if gated {
                    // It may be but for the rest of a message that it does not go on.
                    let stirs = session.incoming.skipping || !self.gates.is_none();
                    self.stash(turn, conn, bytes);
                    if stirs {
                        self.agenda.reconsider(conn);
                    }
                } else {
                    self.requests(turn, conn, bytes, Source::Chunk, 0);
                }
            }
            State::Idle { .. } if session.incoming.inbox.is_empty() && !session.waits_for_listener() => {
                if !self.begin_query(turn, conn, bytes) {
                    self.begin(turn, conn, bytes, Source::Chunk);
                }
            }
            State::Idle { .. } => {
                self.stash(turn, conn, bytes);
                if !self.view().waits_for_listener(conn) {
                    self.begin_from_inbox(turn, conn);
                }
            }
            State::Console { .. } => {
                self.stash(turn, conn, bytes);
                self.console_received(turn, conn);
                // What needed no answer of the control plane's made room at once.
                self.balance_if_paused(turn, conn);
            }
            State::Waiting { .. } | State::Welcoming { .. } => self.stash(turn, conn, bytes),
            State::Leaving { .. } => {}
        }
    }

    /// Keeps bytes until their time comes; a session that has too many is not read meanwhile.
    pub(super) fn stash(&mut self, turn: &mut Turn<'_>, conn: ConnId, bytes: &[u8]) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        if bytes.is_empty() {
            return;
        }
        if session.incoming.inbox.capacity() == 0 {
            session.incoming.inbox = self.caches.buffers.take();
        }
        session.incoming.inbox.extend_from_slice(bytes);
        if session.incoming.inbox.len() >= limits::CHUNK_LEN_MAX {
            self.balance_session(turn, conn);
        }
    }

    /// A session that is not linked has bytes at hand: does it need a server?
    pub(super) fn begin(&mut self, turn: &mut Turn<'_>, conn: ConnId, bytes: &[u8], source: Source) {
        if !self.gates.is_none() {
            return self.begin_at_gates(turn, conn, bytes, source);
        }
        if let Some(at) = self.needs_server(turn, conn, bytes, 0) {
            self.acquire_for(turn, conn, bytes, source, at);
        }
    }

    /// From where on a server is needed for what is at hand. `None`: for nothing, it is answered or kept.
    #[inline(always)]
    pub(super) fn needs_server(
        &mut self,
        turn: &mut Turn<'_>,
        conn: ConnId,
        bytes: &[u8],
        from: usize,
    ) -> Option<usize> {
        let session = self.sessions.get_mut(conn)?;
        let mapped = self.pools.get(session.pool).is_some_and(|pool| pool.rules.max_prepared_statements > 0);
        let mut first = Unlinked { conn, session, mapped, actions: turn.actions };
        match first.read(&bytes[from..]) {
            Ok(Begun::Needs(at)) => {
                self.halves.forget(conn);
                return Some(from + at);
            }
            Ok(Begun::Incomplete(at)) => self.keep_half(turn, conn, &bytes[from + at..]),
            Err(ending) => self.end_by_request(turn, conn, ending),
        }
        None
    }

    /// Keeps the part of a message that is there.
    fn keep_half(&mut self, turn: &mut Turn<'_>, conn: ConnId, bytes: &[u8]) {
        if bytes.len() <= limits::HALF_ORDINARY {
            return self.stash(turn, conn, bytes);
        }
        let Some(session) = self.sessions.get_mut(conn) else { return };
        if session.incoming.inbox.try_reserve_exact(bytes.len()).is_err() {
            return self.refuse_session(turn, conn, sqlstate::OUT_OF_MEMORY, "out of memory");
        }
        self.halves.keep(conn, turn.now, heap::taken(session.incoming.inbox.capacity()));
        self.stash(turn, conn, bytes);
        let max = limits::HALF_BYTES_MAX / usize::from(self.settings.workers.max(1));
        let kept = |conn: ConnId| {
            let idle = self.sessions.get(conn).filter(|session| matches!(session.state, State::Idle { .. }));
            idle.map_or(0, |session| heap::taken(session.incoming.inbox.capacity()))
        };
        for conn in self.halves.shed(max, kept) {
            let text = "too much is kept of messages that are not whole, of all clients together";
            self.refuse_session(turn, conn, sqlstate::OUT_OF_MEMORY, text);
        }
    }

    /// As [`Worker::begin`], with what was kept.
    pub(super) fn begin_from_inbox(&mut self, turn: &mut Turn<'_>, conn: ConnId) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        let inbox = std::mem::take(&mut session.incoming.inbox);
        let source = turn.actions.next_kept();
        // Reading goes on again if it had paused for want of room.
        let reading = session.flow.is_reading();
        self.begin(turn, conn, &inbox, source);
        turn.actions.keep(inbox);
        if !reading {
            self.balance_session(turn, conn);
        }
    }

    /// Feeds a linked session's kept bytes to its server.
    pub(super) fn requests_from_inbox(&mut self, turn: &mut Turn<'_>, conn: ConnId) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        let inbox = std::mem::take(&mut session.incoming.inbox);
        let source = turn.actions.next_kept();
        let reading = session.flow.is_reading();
        self.requests(turn, conn, &inbox, source, 0);
        turn.actions.keep(inbox);
        if !reading {
            self.balance_session(turn, conn);
        }
    }

    /// A linked session's bytes, from `at`.
    #[inline]
    pub(super) fn requests(&mut self, turn: &mut Turn<'_>, conn: ConnId, bytes: &[u8], source: Source, at: usize) {
        if self.gates.is_none() {
            self.read_requests(turn, conn, bytes, source, at, true);
        } else if let Some(at) = self.gate_linked(turn, conn, bytes, at) {
            self.read_requests(turn, conn, bytes, source, at, false);
        }
    }

    /// As [`Worker::requests`], where no gate holds them up. `may_be_lone`: whether they are one Query from which nothing follows
    /// has not been asked yet.
    pub(super) fn read_requests(
        &mut self,
        turn: &mut Turn<'_>,
        conn: ConnId,
        bytes: &[u8],
        source: Source,
        at: usize,
        may_be_lone: bool,
    ) {
        let others = self.other_workers();
        let Some(session) = self.sessions.get_mut(conn) else { return };
        let Some(server_id) = session.server() else { return };
        let Some(server) = self.servers.get_mut(server_id) else { return };
        let Some(pool) = self.pools.get_mut(session.pool) else { return };
        let mut query = LoneQuery { session, server_id, server, pool, bytes, source, at };
        if may_be_lone
            && let Some(text) = query.text()
            && query.is_harmless(text, &mut self.caches)
        {
            query.send(turn.now, turn.actions);
            if cfg!(feature = "sabotage") {
                self.release_if_done(turn, server_id);
            }
            return;
        }
        if query.session.incoming.skipping {
            return self.pass_over_refused(turn, conn, bytes, source, at);
        }
        let mut requests = query.into_requests(turn.now, conn, &mut self.caches, others, turn.actions);
        let ledger = &requests.server.ledger;
        let (was_calm, was_done) = (ledger.is_clear(), ledger.owes_no_client());
        let end = requests.read();
        requests.stream.flush(server_id, requests.actions);
        let Requests { definitions, attends, queries, .. } = requests;
        let attends = attends.then_some(pool.id);
        if was_done {
            server.transaction.query_at = turn.now;
        }
        if was_calm {
            server.transaction.began_at.get_or_insert(turn.now);
        }
        let crowded = server.gate.is_shut && session.incoming.inbox.len() >= limits::CHUNK_LEN_MAX;
        let deep = server.ledger.depth() >= limits::OWED_MAX || crowded;
        let may_be_done = server.is_clean() || server.end.close_needed.is_some() || cfg!(feature = "sabotage");
        let is_timed = pool.rules.times_links() || session.is_torn() || !session.flow.is_clear();
        definitions.iter().for_each(|definition| self.definitions.note(self.pools.iter_mut(), turn.now, definition));
        if let Err(ending) = end {
            return self.end_by_request(turn, conn, ending);
        }
        if !self.gates.is_none() {
            self.count_in_gates(turn, conn, 0, queries);
        }
        if let Some(pool) = attends {
            self.attend(turn, pool);
            self.arm_session(conn);
        }
        if deep {
            self.balance_session(turn, conn);
        }
        let is_released = may_be_done && self.release_if_done(turn, server_id);
        if is_timed && !is_released {
            self.arm_session(conn);
        }
    }

    pub(super) fn end_by_request(&mut self, turn: &mut Turn<'_>, conn: ConnId, ending: Ending) {
        match ending {
            Ending::Terminate => self.client_left(turn, conn, "client close request"),
            Ending::Refuse(code, text) => self.refuse_session(turn, conn, code, &text),
        }
    }
}
