//! The handling of bytes from clients and servers: which part reads them, and what follows. This is the path of a
//! query, so functions that use several parts of a worker at once are here or in the crate's root.

use link::Link;
use link::answers::Answers;
use link::end_reason::EndReason;
use link::findings::Findings;
use link::first_reading::FirstReading;
use link::lone_reads::request_was_read;
use link::plain::Sent;
use link::pool::Pool;
use link::requests::Requests;
use link::screening::Screen;
use link::server::{CloseReason, ServerState};
use link::server_login::{LoginEnd, ServerLogin};
use link::server_questions::{end_skipping, question_syncs};
use link::session::{Admission, Session, SessionState, WaitFor};
use link::stream::Stream;
use link::unlinked::begins_with_work;
use link::{client_messages, counting, replaying, server_messages};
use machine::action::Source;
use queueing::classes::ClassId;
use queueing::commented::Commented;
use units::deadline::Owner;
use units::{ConnId, limits};
use wire::backend::Status;

use crate::events::{chore_answers, findings, placement, server_logins};
use crate::limits::admission::Goes;
use crate::limits::{admission, classes, deadlines, full_queues, linked, permits, pin_queue};
use crate::servers::{cancellers, closed_servers, disturbances, drains, free_servers, idle_servers, listener};
use crate::sessions::links::AtOnce;
use crate::sessions::{
    console, definitions, halves, links, lost_blocks, lost_servers, overdue_queries, replicating, untouched_blocks,
    waiters,
};
use crate::tables::step::Step;
use crate::tables::{Tables, backpressure, lookups};

/// Whether the fast case was tried for a linked session's bytes.
#[derive(Copy, Clone, Debug)]
enum FastCase {
    Untried,
    /// The fast case is not to be tried, or has sent nothing. The reading of the Query that the bytes are, if it was read.
    Declined(Option<FirstReading>),
}

impl Tables {
    /// Reads a linked session's messages from `at`. Its last batch was refused by a limit that a reload has removed
    /// since.
    #[cold]
    fn pass_over_refused(&mut self, step: &mut Step<'_>, conn: ConnId, bytes: &[u8], source: Source, at: usize) {
        if let Some(at) = linked::admit_linked(self, step, conn, bytes, at) {
            self.requests(step, conn, bytes, source, at);
        }
    }

    /// Like [`begin`], with limits.
    #[inline(never)]
    fn begin_limited(&mut self, step: &mut Step<'_>, conn: ConnId, bytes: &[u8], source: Source) {
        let mut from = 0;
        loop {
            let Tables { sessions, servers, pools, .. } = self;
            let Some(at) = halves::needs_server(sessions, servers, pools, step, conn, bytes, from) else { return };
            match admission::admit(self, step, conn, &bytes[at..]) {
                Goes::On => {
                    let class = self.class_for(step, conn, &bytes[at..]);
                    return self.acquire_for(step, conn, bytes, source, at, class);
                }
                Goes::Later => {
                    let Tables { sessions, servers, .. } = self;
                    return backpressure::stash(sessions, servers, step, conn, &bytes[at..]);
                }
                Goes::PassedOver if matches!(self.sessions[conn].state(), SessionState::LostBlock { .. }) => {
                    let Tables { sessions, servers, .. } = self;
                    step.agenda.reconsider(conn);
                    return backpressure::stash(sessions, servers, step, conn, &bytes[at..]);
                }
                Goes::PassedOver => from = at,
            }
        }
    }

    /// The class in which a session requests a server for `bytes`, and what was read of their comments for that.
    #[inline(always)]
    fn class_for(&mut self, step: &mut Step<'_>, conn: ConnId, bytes: &[u8]) -> (ClassId, Commented) {
        let Tables { sessions, pools, .. } = self;
        let claim = sessions[conn].claim();
        // A session that the limits of its class have admitted stays in that class.
        if step.plan.settings.classes.is_single() || matches!(claim.admission(), Admission::In { .. }) {
            return (claim.class(), Commented::Unread);
        }
        classes::classify(sessions, pools, step, conn, bytes)
    }

    /// A session of this class needs a server for `bytes` from `at`. It gets an idle one, or waits.
    fn acquire_for(
        &mut self,
        step: &mut Step<'_>,
        conn: ConnId,
        bytes: &[u8],
        source: Source,
        at: usize,
        (class, commented): (ClassId, Commented),
    ) {
        let Tables { sessions, servers, pools, .. } = self;
        let session = &mut sessions[conn];
        session.requests(step.now);
        let pool = session.pool();
        if step.plan.stopping.refuses_new_work() {
            step.agenda.refuse(conn, EndReason::ShuttingDown);
            return;
        }
        // Sessions that already wait come first.
        let may_take = |pool: &Pool| pool.queue().admits(class) && !pool.known().is_awaited();
        let entry = &pools[pool];
        let (may_take, bounded) = (may_take(entry), entry.rules().max_pinned() > 0);
        if bounded && pin_queue::must_wait_to_pin(sessions, pools, step, conn, &bytes[at..]) {
            backpressure::stash(sessions, servers, step, conn, &bytes[at..]);
            deadlines::apply_deadline(sessions, servers, pools, step, conn, &bytes[at..], commented);
            return;
        }
        let server =
            if may_take { idle_servers::take_idle(sessions, servers, pools, step, pool, Some(conn)) } else { None };
        let server = server.map(|server| disturbances::rotate(servers, pools, step, pool, conn, server));
        match server {
            Some(server) if step.caches.server_names.are_used() => {
                // The server's name depends on what the session asks for: that is looked for where a session's bytes wait.
                backpressure::stash(sessions, servers, step, conn, &bytes[at..]);
                if links::link(sessions, servers, pools, step, conn, server) {
                    self.requests_from_inbox(step, conn);
                }
            }
            Some(server) => match links::link(sessions, servers, pools, step, conn, server) {
                true => self.requests(step, conn, bytes, source, at),
                false => backpressure::stash(sessions, servers, step, conn, &bytes[at..]),
            },
            None => {
                // A waiting session is not read any more once its backlog is large enough.
                waiters::begin_waiting(sessions, servers, pools, step, conn, WaitFor::Server);
                backpressure::stash(sessions, servers, step, conn, &bytes[at..]);
                deadlines::apply_deadline(sessions, servers, pools, step, conn, &bytes[at..], commented);
                full_queues::bound_queue(sessions, servers, pools, step, conn);
            }
        }
    }

    /// A session without a server has these bytes and no others.
    #[inline(always)]
    fn begin_first(&mut self, step: &mut Step<'_>, conn: ConnId, bytes: &[u8]) {
        let incoming = self.sessions[conn].incoming();
        let is_work = begins_with_work(bytes) && incoming.skip() == 0 && !incoming.discards_batch();
        if !is_work || !self.limiters.is_none() {
            return self.begin(step, conn, bytes, Source::Chunk);
        }
        self.sessions.halves.forget(conn);
        let class = self.class_for(step, conn, bytes);
        let Tables { sessions, servers, pools, .. } = self;
        let session = &mut sessions.table[conn];
        let pool = &mut pools[session.pool()];
        let began = links::begin(session, servers, pool, step, conn, bytes, class.0);
        self.go_on_from(step, conn, bytes, began, class);
    }

    /// A session has asked for a server for `bytes`, in this class.
    #[inline(always)]
    fn go_on_from(
        &mut self,
        step: &mut Step<'_>,
        conn: ConnId,
        bytes: &[u8],
        began: AtOnce,
        class: (ClassId, Commented),
    ) {
        match began {
            AtOnce::Done => self.sent_plainly(step, conn),
            AtOnce::Linked(conn, reading) => {
                self.read_requests(step, conn, bytes, Source::Chunk, 0, FastCase::Declined(reading))
            }
            AtOnce::Declined => self.acquire_for(step, conn, bytes, Source::Chunk, 0, class),
        }
    }

    /// A session's request was sent by the fast case, or waits.
    #[inline(always)]
    fn sent_plainly(&mut self, step: &mut Step<'_>, conn: ConnId) {
        let Tables { sessions, servers, pools, .. } = self;
        if machine::sabotage::is_on(&step.plan.settings)
            && let Some(server) = sessions[conn].server()
        {
            links::release_if_done(sessions, servers, pools, step, server);
        }
    }

    /// Bytes of a server that is logging in.
    fn login_received(&mut self, step: &mut Step<'_>, conn: ConnId, bytes: &[u8]) {
        let Tables { sessions, servers, pools, .. } = self;
        let server = &mut servers.table[conn];
        let pool = &pools[server.pool()];
        let mut inbox = server.incoming_mut().take_inbox();
        inbox.extend_from_slice(bytes);
        let mut at = 0;
        let (settings, random) = (&step.plan.settings, &mut servers.random);
        let mut login = ServerLogin { step: &mut step.machine, conn, server, pool, settings, random };
        match login.read(&inbox, &mut at) {
            Ok(LoginEnd::Open) => {}
            Ok(LoginEnd::Ready) => server_logins::logged_in(sessions, servers, pools, step, conn),
            Ok(LoginEnd::Refused(error)) => lost_servers::login_refused(sessions, servers, pools, step, conn, error),
            Err(how) => {
                return lost_servers::login_failed(sessions, servers, pools, step, conn, how.into());
            }
        }
        self.keep_login_rest(step, conn, &inbox[at..]);
    }

    /// Keeps the bytes after the part of the login that could be read: more of the login, or later messages.
    fn keep_login_rest(&mut self, step: &mut Step<'_>, conn: ConnId, rest: &[u8]) {
        let Tables { sessions, servers, pools, .. } = self;
        // The login was refused, and the server is gone.
        let Some(server) = servers.get_mut(conn) else { return };
        if rest.is_empty() {
            return;
        }
        if matches!(server.state(), ServerState::LoggingIn(_)) {
            server.incoming_mut().keep(rest);
            return;
        }
        // Asynchronous messages directly after the login are read like any other.
        if matches!(server.state(), ServerState::Own(_)) {
            // Kept as the beginning of what comes next.
            server.incoming_mut().keep(rest);
            return replicating::own_server_said(sessions, servers, pools, step, conn, &[]);
        }
        let source = step.actions.next_kept();
        let rest = rest.to_vec();
        self.answers(step, conn, &rest, source);
        step.actions.keep(source, rest);
    }

    /// Bytes of a client.
    pub(crate) fn client_received(&mut self, step: &mut Step<'_>, conn: ConnId, bytes: &[u8]) {
        match step.caches.screen {
            None => self.client_said(step, conn, bytes),
            Some(screen) => self.client_said_within(step, conn, bytes, screen),
        }
    }

    /// The same where some messages may not pass. What comes before such a one is dealt with.
    #[cold]
    fn client_said_within(&mut self, step: &mut Step<'_>, conn: ConnId, bytes: &[u8], screen: Screen) {
        // It may have been closed in this round. The console has bounds of its own.
        let found = self.sessions.get(conn).filter(|session| !matches!(session.state(), SessionState::Console { .. }));
        let incoming = found.map(|session| session.incoming());
        let Some(stopped) = incoming.and_then(|said| screen.stops(said.skip(), said.inbox(), bytes, true)) else {
            return self.client_said(step, conn, bytes);
        };
        if stopped.at > 0 {
            self.client_said(step, conn, &bytes[..stopped.at]);
        }
        step.agenda.refuse(conn, stopped.why);
    }

    fn client_said(&mut self, step: &mut Step<'_>, conn: ConnId, bytes: &[u8]) {
        let Tables { sessions, servers, pools, limiters, .. } = self;
        // It may have been closed in this round.
        let Some(session) = sessions.table.get_mut(conn) else { return };
        session.progresses(step.now);
        let mut pool = pools.get_mut(session.pool());
        if let Some(pool) = &mut pool {
            pool.counts_mut().count_received(bytes.len());
        }
        match session.state() {
            SessionState::Linked { server } => {
                if servers[server].holds_messages() {
                    // It may wait only for the rest of a message.
                    let stirs = session.incoming().discards_batch() || !limiters.is_none();
                    backpressure::stash(sessions, servers, step, conn, bytes);
                    if stirs {
                        step.agenda.reconsider(conn);
                    }
                } else {
                    self.requests(step, conn, bytes, Source::Chunk, 0);
                }
            }
            // The most frequent case.
            SessionState::Idle { .. }
                if limiters.is_none()
                    && step.plan.settings.classes.is_single()
                    && session.begins_with(bytes)
                    && pool.is_some() =>
            {
                sessions.halves.forget(conn);
                let Some(pool) = pool else { return };
                let class = session.claim().class();
                let began = links::begin(session, servers, pool, step, conn, bytes, class);
                self.go_on_from(step, conn, bytes, began, (class, Commented::Unread));
            }
            SessionState::Idle { .. } if session.incoming().inbox().is_empty() && !session.waits_for_listener() => {
                self.begin_first(step, conn, bytes);
            }
            SessionState::Idle { .. } => {
                backpressure::stash(sessions, servers, step, conn, bytes);
                if !lookups::waits_for_listener(sessions, conn) {
                    self.begin_from_inbox(step, conn);
                }
            }
            SessionState::LostBlock { .. } => {
                backpressure::stash(sessions, servers, step, conn, bytes);
                self.within_lost_block(step, conn);
            }
            SessionState::Console { .. } => {
                backpressure::stash(sessions, servers, step, conn, bytes);
                console::console_received(sessions, step, conn);
                // Commands that the worker answers itself have made room at once.
                backpressure::balance_if_paused(sessions, servers, step, conn);
            }
            SessionState::Waiting { .. } | SessionState::Welcoming { .. } | SessionState::Opening { .. } => {
                backpressure::stash(sessions, servers, step, conn, bytes)
            }
            SessionState::Replicating { .. } => replicating::client_said(sessions, servers, step, conn, bytes),
            SessionState::Leaving { .. } => {}
        }
    }

    /// A server has become free: it serves the next waiting session, if there is one.
    #[inline]
    pub(crate) fn place(&mut self, step: &mut Step<'_>, server: ConnId) {
        let Tables { sessions, servers, pools, limiters, .. } = self;
        // Deliberate faults are only in the general path.
        let avoids = links::avoids_fast_case(servers, step.plan) || machine::sabotage::is_on(&step.plan.settings);
        let began = match servers.get_mut(server) {
            Some(value) if limiters.is_none() && !avoids => {
                let pool = &mut pools[value.pool()];
                links::serve_next(sessions, (server, value), pool, step)
            }
            // It may have been closed since it became free.
            _ => AtOnce::Declined,
        };
        self.go_on_with(step, server, began);
    }

    /// A free server was offered to the session that has waited longest.
    #[inline(always)]
    fn go_on_with(&mut self, step: &mut Step<'_>, server: ConnId, began: AtOnce) {
        match began {
            AtOnce::Done => {}
            AtOnce::Linked(conn, reading) => self.read_inbox(step, conn, FastCase::Declined(reading)),
            AtOnce::Declined => {
                let Tables { sessions, servers, pools, .. } = self;
                if let Some(conn) = placement::place(sessions, servers, pools, step, server) {
                    self.requests_from_inbox(step, conn);
                }
            }
        }
    }

    /// A session whose server was lost in a transaction block has bytes in its inbox.
    #[cold]
    fn within_lost_block(&mut self, step: &mut Step<'_>, conn: ConnId) {
        let Tables { sessions, servers, pools, .. } = self;
        if !sessions[conn].has_begun() {
            return lost_blocks::answer(sessions, servers, pools, step, conn);
        }
        if untouched_blocks::needs_server(sessions, servers, pools, step, conn) {
            self.begin_from_inbox(step, conn);
        }
    }

    /// A session that is not linked has bytes: requests a server if they need one.
    fn begin(&mut self, step: &mut Step<'_>, conn: ConnId, bytes: &[u8], source: Source) {
        let Tables { sessions, servers, pools, limiters, .. } = self;
        if !limiters.is_none() {
            return self.begin_limited(step, conn, bytes, source);
        }
        if let Some(at) = halves::needs_server(sessions, servers, pools, step, conn, bytes, 0) {
            let class = self.class_for(step, conn, &bytes[at..]);
            self.acquire_for(step, conn, bytes, source, at, class);
        }
    }

    /// Like [`begin`], with the session's kept bytes.
    fn begin_from_inbox(&mut self, step: &mut Step<'_>, conn: ConnId) {
        let session = &mut self.sessions[conn];
        let inbox = session.incoming_mut().take_inbox();
        let source = step.actions.next_kept();
        // Reading continues if it had paused because the backlog was full.
        let reading = session.flow().is_reading();
        self.begin(step, conn, &inbox, source);
        step.actions.keep(source, inbox);
        if !reading {
            let Tables { sessions, servers, .. } = self;
            backpressure::balance_session(sessions, servers, step, conn);
        }
    }

    /// Reads a linked session's kept bytes.
    pub(crate) fn requests_from_inbox(&mut self, step: &mut Step<'_>, conn: ConnId) {
        self.read_inbox(step, conn, FastCase::Untried);
    }

    fn read_inbox(&mut self, step: &mut Step<'_>, conn: ConnId, fast_case: FastCase) {
        let Tables { sessions, servers, .. } = self;
        // It may have ended or lost its server since it was put on the agenda.
        let linked = sessions.get_mut(conn).filter(|session| session.server().is_some());
        let Some(session) = linked else { return };
        if let SessionState::Replicating { .. } = session.state() {
            return replicating::client_said(sessions, servers, step, conn, &[]);
        }
        let inbox = session.incoming_mut().take_inbox();
        let source = step.actions.next_kept();
        let reading = session.flow().is_reading();
        match fast_case {
            FastCase::Untried => self.requests(step, conn, &inbox, source, 0),
            FastCase::Declined(_) => self.read_requests(step, conn, &inbox, source, 0, fast_case),
        }
        step.actions.keep(source, inbox);
        if !reading {
            let Tables { sessions, servers, .. } = self;
            backpressure::balance_session(sessions, servers, step, conn);
        }
    }

    /// Reads a linked session's bytes from `at`.
    #[inline]
    fn requests(&mut self, step: &mut Step<'_>, conn: ConnId, bytes: &[u8], source: Source, at: usize) {
        if self.limiters.is_none() && !self.pools.upstreams.have_disputes() {
            self.read_requests(step, conn, bytes, source, at, FastCase::Untried);
        } else if let Some(at) = linked::admit_linked(self, step, conn, bytes, at) {
            self.read_requests(step, conn, bytes, source, at, FastCase::Declined(None));
        }
    }

    /// Like [`requests`], after all limits.
    fn read_requests(
        &mut self,
        step: &mut Step<'_>,
        conn: ConnId,
        bytes: &[u8],
        source: Source,
        at: usize,
        fast_case: FastCase,
    ) {
        let Tables { sessions, servers, pools, limiters, .. } = self;
        let others = definitions::other_workers(step.plan);
        let session = &mut sessions[conn];
        // It may have ended since it was put on the agenda.
        let Some(server_id) = session.server() else { return };
        // The server may have been closed in this step, which ends the session too.
        let Some(server) = servers.get_mut(server_id) else { return };
        let pool = &mut pools[session.pool()];
        let pool_times_links = pool.rules().times_links();
        let mut link = Link::new((conn, session), (server_id, server), pool);
        let first_reading = match fast_case {
            FastCase::Declined(reading) => reading,
            FastCase::Untried => match link.plain() {
                None => None,
                Some(mut plain) => match plain.send(step.now, (bytes, source, at), step.caches, step.machine.actions) {
                    Sent::No(reading) => reading,
                    Sent::Yes => {
                        if pool_times_links {
                            step.agenda.arm(Owner::Conn(conn));
                        }
                        return self.sent_plainly(step, conn);
                    }
                },
            },
        };
        if link.session().incoming().discards_batch() {
            return self.pass_over_refused(step, conn, bytes, source, at);
        }
        link.keep_request(&bytes[at..]);
        let now = step.now;
        let requests = Requests::of(link, now, (bytes, source, at), step.caches, others, step.machine.actions);
        let mut requests = requests.with_reading(first_reading);
        let ledger = requests.link.server().ledger();
        let (was_calm, was_done) = (ledger.is_clear(), ledger.owed().owes_no_client());
        let end = client_messages::read(&mut requests);
        requests.stream.flush(server_id, requests.actions);
        let Requests { link, definitions, attends, queries, .. } = requests;
        let (session, server, pool) = link.into_parts();
        let attends = attends.then_some(pool.id());
        request_was_read(session, server);
        counting::sent(server, now, was_done, was_calm);
        let crowded = server.hold().is_on() && session.incoming().inbox().len() >= limits::CHUNK_LEN_MAX;
        let deep = server.ledger().depth() >= limits::OWED_MAX || crowded;
        let is_faulty = machine::sabotage::is_on(&step.plan.settings);
        let may_be_done = server.is_clean() || server.end().close_needed().is_some() || is_faulty;
        let is_timed = pool.rules().times_links() || session.is_torn() || !session.flow().is_clear();
        definitions.iter().for_each(|definition| pools.note_definition(step.now, definition));
        if let Err(ending) = end {
            return step.agenda.end_by_request(conn, ending);
        }
        if !limiters.is_none() {
            permits::count_for_limits(sessions, limiters, step, conn, 0, queries);
        }
        if let Some(pool) = attends {
            listener::attend(sessions, servers, pools, step, pool);
            step.agenda.arm(Owner::Conn(conn));
        }
        if deep {
            backpressure::balance_session(sessions, servers, step, conn);
        }
        let is_released = may_be_done && links::release_if_done(sessions, servers, pools, step, server_id);
        if is_timed && !is_released {
            step.agenda.arm(Owner::Conn(conn));
        }
    }

    /// Bytes of a server.
    pub(crate) fn server_received(&mut self, step: &mut Step<'_>, conn: ConnId, bytes: &[u8]) {
        match step.caches.screen {
            None => self.server_said(step, conn, bytes, Source::Chunk),
            Some(screen) => self.server_said_within(step, conn, bytes, screen),
        }
    }

    /// The same where some messages may not pass. What the pooler asks for itself always may.
    #[cold]
    fn server_said_within(&mut self, step: &mut Step<'_>, conn: ConnId, bytes: &[u8], screen: Screen) {
        let found = self.servers.get(conn).filter(|server| server.session().is_some());
        let incoming = found.map(|server| server.incoming());
        let Some(stopped) = incoming.and_then(|said| screen.stops(said.skip(), said.inbox(), bytes, false)) else {
            return self.server_said(step, conn, bytes, Source::Chunk);
        };
        let (passed, rest) = bytes.split_at(stopped.at);
        if !passed.is_empty() {
            self.server_said(step, conn, passed, Source::Chunk);
        }
        let Tables { sessions, servers, pools, .. } = self;
        match servers.get(conn) {
            Some(server) if server.session().is_some() => {
                let (code, why) = (stopped.why.code(), CloseReason::Barred { what: stopped.why });
                lost_servers::server_lost(sessions, servers, pools, step, conn, code, why);
            }
            // What came before has ended its session's transaction: the message reaches no client.
            Some(_) => {
                let (rest, source) = (rest.to_vec(), step.actions.next_kept());
                self.server_said(step, conn, &rest, source);
                step.actions.keep(source, rest);
            }
            // Or it has ended the server.
            None => {}
        }
    }

    fn server_said(&mut self, step: &mut Step<'_>, conn: ConnId, bytes: &[u8], source: Source) {
        let Tables { sessions, servers, pools, .. } = self;
        match servers.get(conn).map(|server| server.state()) {
            None => {}
            Some(ServerState::Connecting) => {
                server_logins::server_answered(sessions, servers, pools, step, conn, bytes)
            }
            Some(ServerState::LoggingIn(_)) => self.login_received(step, conn, bytes),
            Some(ServerState::Own(_)) => replicating::own_server_said(sessions, servers, pools, step, conn, bytes),
            Some(_) => self.answers(step, conn, bytes, source),
        }
    }

    /// Bytes of a server that has logged in.
    #[inline(always)]
    fn answers(&mut self, step: &mut Step<'_>, conn: ConnId, bytes: &[u8], source: Source) {
        let Tables { sessions, servers, pools, limiters, .. } = self;
        let avoids = links::avoids_fast_case(servers, step.plan);
        let server = &mut servers.table[conn];
        server.heard(step.now, bytes.len());
        let client = server.session();
        let pool = &mut pools[server.pool()];
        let mut session = client.map(|id| (id, &mut sessions[id]));
        let mut stream = Stream::new(bytes, source, 0);
        if let Some((id, session)) = &mut session
            && limiters.is_none()
        {
            let mut link = Link::new((*id, session), (conn, server), pool);
            if let Some(mut plain) = link.plain()
                && plain.is_between_messages()
            {
                let (passed, status) = plain.answered(step.now, bytes, &mut step.caches.statistics);
                stream.pass(passed);
                if status.is_some() {
                    plain.pass_on(bytes.len());
                    let id = *id;
                    step.actions.send(id, source, 0, bytes.len());
                    // Behind these bytes more of its own may be read in this step, if some were stopped.
                    let is_all = step.caches.screen.is_none();
                    let may_end = status == Some(Status::Idle) && !avoids && is_all;
                    if may_end && links::end_plainly(plain, step) {
                        let began = links::serve_next(sessions, (conn, server), pool, step);
                        return self.go_on_with(step, conn, began);
                    }
                    if !links::release_if_done(sessions, servers, pools, step, conn) {
                        findings::stays_linked(sessions, servers, pools, step, conn, id, false);
                    }
                    return;
                }
            }
        }
        let others = definitions::other_workers(step.plan);
        let notifiers = listener::notifiers(sessions, servers, conn);
        let server = &mut servers[conn];
        let pool = &mut pools[server.pool()];
        let session = client.map(|id| (id, &mut sessions[id]));
        let (id, before) = (pool.id(), pool.counts().totals().transactions);
        let mut answers = Answers {
            notifiers,
            now: step.now,
            server_id: conn,
            server,
            session,
            pool,
            others,
            caches: step.caches,
            actions: step.machine.actions,
            stream,
            findings: Findings::default(),
        };
        let end = server_messages::read(&mut answers);
        answers.flush();
        answers.findings.reverted = answers.tracker().is_some_and(|tracker| tracker.is_reverted());
        let mut findings = answers.findings;
        definitions::act_on_definitions(servers, pools, step, conn, &mut findings);
        if !limiters.is_none() {
            permits::count_ended(sessions, pools, limiters, step, client, id, before);
        }
        match end {
            Ok(()) => self.act_on(step, conn, findings),
            Err(how) => lost_servers::break_server(sessions, servers, pools, step, conn, how.into()),
        }
    }

    fn act_on(&mut self, step: &mut Step<'_>, conn: ConnId, findings: Findings) {
        let Tables { sessions, servers, pools, .. } = self;
        let (mut chore_error, mut rows) = (None, Vec::new());
        if let Some(mut words) = findings.words {
            listener::notify_all(sessions, servers, pools, step, conn, std::mem::take(&mut words.notifications));
            chore_error = words.chore_error.take();
            rows = std::mem::take(&mut words.rows);
            if findings::act_on_words(sessions, servers, pools, step, conn, *words) {
                return;
            }
        }
        if findings.transaction_block {
            closed_servers::refuse_transaction_block(servers, pools, step, conn);
            return;
        }
        let server = &mut servers[conn];
        match *server.state() {
            ServerState::Linked(session) => {
                let (held, struck) = (server.hold().is_on(), server.cancel().may_strike_next());
                let pool = &mut pools[server.pool()];
                let session_value = &mut sessions[session];
                let tracked = &step.caches.tracked;
                if findings.replayed {
                    replaying::accepted(&mut step.machine, session, session_value, server, pool, tracked);
                }
                if findings.prelude_skipped_query {
                    end_skipping(&mut step.machine, conn, server);
                }
                if findings.reverted {
                    replaying::restore(&mut step.machine, session_value, conn, server, tracked);
                }
                if findings.subscriptions
                    && listener::note_transaction_over(sessions, servers, pools, step, conn, session, findings.withheld)
                {
                    return;
                }
                question_syncs(step, conn, &mut servers[conn]);
                let opens = held && links::ends_hold(sessions, servers, conn, session);
                let leaves = opens && links::leaves_lost_base(sessions, servers, pools, step, conn, session);
                if opens && !leaves {
                    self.requests_from_inbox(step, session);
                }
                let Tables { sessions, servers, pools, limiters, .. } = self;
                // Or it was closed by `server_fast_close`: its session is on the agenda.
                if leaves || opens && servers.get(conn).is_none() {
                    return;
                }
                cancellers::cancel_if_requested(servers, pools, step, conn);
                if servers[conn].ledger().depth() < limits::OWED_MAX / 2 {
                    backpressure::balance_if_paused(sessions, servers, step, session);
                }
                if !links::release_if_done(sessions, servers, pools, step, conn) {
                    if struck {
                        overdue_queries::wait_for_cancel(servers, conn);
                    }
                    let is_limited = !limiters.is_none();
                    findings::stays_linked(sessions, servers, pools, step, conn, session, is_limited);
                }
            }
            ServerState::Busy(chore) => {
                if let Some(chaos) = servers.chaos.as_mut().filter(|_| !rows.is_empty()) {
                    chaos.rows(conn, rows);
                }
                chore_answers::chore_progress(sessions, servers, pools, step, conn, chore, chore_error);
            }
            ServerState::Draining { .. } => drains::drain_progress(servers, pools, step, conn),
            ServerState::Listening => {
                chore_answers::listener_progress(sessions, servers, pools, step, conn, chore_error)
            }
            ServerState::Idle | ServerState::Held => free_servers::free(servers, pools, step, conn),
            ServerState::Connecting | ServerState::LoggingIn(_) | ServerState::Own(_) => {}
        }
    }

    /// A released session has more bytes.
    #[inline(never)]
    pub(crate) fn reconsider(&mut self, step: &mut Step<'_>, conn: ConnId) {
        let Tables { sessions, servers, .. } = self;
        if sessions.get(conn).is_some_and(|session| matches!(session.state(), SessionState::LostBlock { .. })) {
            return self.within_lost_block(step, conn);
        }
        if let Some(server) = sessions.get(conn).and_then(Session::server) {
            return linked::go_on_linked(sessions, servers, step, conn, server);
        }
        let idle = sessions.get(conn).is_some_and(|session| {
            matches!(session.state(), SessionState::Idle { .. }) && !session.incoming().inbox().is_empty()
        });
        if idle && !lookups::waits_for_listener(sessions, conn) {
            self.begin_from_inbox(step, conn);
        }
    }
}
