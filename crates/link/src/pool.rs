//! The servers of one database and user on one worker, and the sessions that wait for them.

use std::sync::Arc;
use std::time::Duration;

mod accessors;
mod lending;
mod rules;
mod servers;
mod states;

use crate::charge::{Charge, Origin};
use crate::pool_parts::CatalogueNames;
pub use crate::pool_parts::{Exchange, Measured, Opening, OtherHost, PoolCounts, PoolPins, Welcome};
use crate::server::{Group, Server, ServerState};
use connections::databases::Database;
use machine::{DatabaseOrders, Settings, Step};
use queueing::board::Cell;
use queueing::classes::ClassId;
use queueing::queue::{Queue, Waiter};
pub use servers::{LocalBuffers, OwnServers, Servers};
use session_state::catalogue::Known;
use settings::{Fidelity, LossCode, PoolMode, PoolSize, Words};
use units::deadline::Armed;
use units::{ConnId, PoolId, PoolKey, Span, Time, limits};

use crate::listener::Listener;
use crate::pool::states::Life;
use crate::session;
use crate::session::Session;
use crate::special::Special;

/// The settings for one pool: those of the user before those of the database before global ones.
#[derive(Clone, Debug)]
pub struct Rules {
    pub(crate) mode: PoolMode,
    pub(crate) query_wait_timeout: Option<Duration>,
    pub(crate) failover_wait: Duration,
    pub(crate) query_timeout: Option<Duration>,
    pub(crate) idle_transaction_timeout: Option<Duration>,
    pub(crate) transaction_timeout: Option<Duration>,
    pub(crate) client_idle_timeout: Option<Duration>,
    /// Statements that take longer are logged: `log_min_duration`.
    pub(crate) slow_after: Option<Duration>,
    /// The shortest timeout of a session without a server, or the time of its notice.
    pub(crate) waiting_min: Option<Span>,
    pub(crate) servers: ServerLimits,
    pub(crate) reserve_pool_size: u32,
    pub(crate) min_pool_size: u32,
    /// 0: names are not mapped.
    pub(crate) max_prepared_statements: usize,
    pub(crate) fidelity: Fidelity,
    /// Clients get their servers' process ids, if they do not choose otherwise.
    pub(crate) stable_backend_pid: bool,
    /// Over all homes; 0: no limit.
    pub(crate) max_pinned: u32,
    /// Whether one connection may listen for all sessions: at least one other must remain.
    pub(crate) shares_listener: bool,
    /// What was ordered at the console for its database.
    pub(crate) orders: DatabaseOrders,
    /// The SQLSTATE for a transaction that is lost with its server.
    pub(crate) loss_code: LossCode,
    /// A statement that only reads is sent again if its server is lost: `retry_reads`.
    pub(crate) retries_reads: bool,
    /// The wording of the error for a query that query_timeout cancels.
    pub(crate) words: Words,
    /// Bits that its settings add to each of its links.
    pub(crate) special: Special,
    /// A link ends with its transaction, and nothing is sent to the server at its end.
    pub(crate) ends_links_plainly: bool,
}

impl Rules {
    pub(crate) fn new(key: &PoolKey, database: &Database, settings: &Settings) -> Rules {
        let global = &settings.global;
        let own = settings.effective(database, &key.user);
        let mapped = own.pool_mode != PoolMode::Session;
        let waiting =
            [own.query_wait_timeout, own.query_timeout, own.client_idle_timeout, global.waiting.query_wait_notify];
        let least = match own.pool_size {
            PoolSize::Fixed(size) => size,
            PoolSize::Auto => global.pools.auto_pool_size_min.min(global.pools.auto_pool_size_max),
        };
        Rules {
            special: Special::STATEMENT_MODE.if_so(own.pool_mode == PoolMode::Statement)
                | Special::READS_KEPT.if_so(own.retry_reads && mapped),
            retries_reads: own.retry_reads && mapped,
            ends_links_plainly: own.pool_mode != PoolMode::Session
                && own.pool_fidelity != Fidelity::Strict
                && !global.servers.server_reset_query_always,
            mode: own.pool_mode,
            max_pinned: if mapped { own.max_pinned } else { 0 },
            fidelity: if mapped { own.pool_fidelity } else { Fidelity::Classic },
            stable_backend_pid: own.stable_backend_pid,
            shares_listener: least > 1 && own.max_db_connections != 1 && own.max_user_connections != 1,
            orders: settings.orders.of(&key.database),
            loss_code: own.failover_sqlstate,
            words: global.login.words,
            query_wait_timeout: own.query_wait_timeout,
            failover_wait: own.failover_wait,
            query_timeout: own.query_timeout,
            waiting_min: waiting.into_iter().flatten().min().map(Span::from),
            idle_transaction_timeout: own.idle_transaction_timeout,
            transaction_timeout: own.transaction_timeout,
            client_idle_timeout: own.client_idle_timeout,
            // -1 is never.
            slow_after: u64::try_from(own.log_min_duration).ok().map(Duration::from_millis),
            servers: ServerLimits {
                lifetime: own.server_lifetime.into(),
                idle_timeout: own.server_idle_timeout.map(Span::from),
                max_uses: own.server_max_uses,
            },
            reserve_pool_size: own.reserve_pool_size,
            min_pool_size: own.min_pool_size,
            max_prepared_statements: if mapped { global.startup.max_prepared_statements as usize } else { 0 },
        }
    }

    /// Whether session state is followed: texts are read for their effects on the session.
    pub fn follows(&self) -> bool {
        self.fidelity != Fidelity::Classic
    }

    /// Whether the timer of a session that begins to wait now is early enough already. Usually it is.
    #[inline]
    pub fn is_armed(&self, session: &Session, now: Time) -> bool {
        self.waiting_min.is_none_or(|shortest| session.armed.is_by(now + shortest))
    }

    /// The same of a session that has released its server and does not wait.
    #[inline]
    pub fn is_armed_idle(&self, session: &Session, now: Time) -> bool {
        self.client_idle_timeout.is_none_or(|timeout| session.armed.is_by(now + timeout))
    }

    /// Whether any timeout runs while a session is linked.
    pub fn times_links(&self) -> bool {
        let session = self.mode == PoolMode::Session && self.client_idle_timeout.is_some();
        let running = [self.query_timeout, self.idle_transaction_timeout, self.transaction_timeout];
        session || running.iter().any(Option::is_some)
    }
}

/// The settings that close a free server of a pool.
#[derive(Copy, Clone, Debug)]
pub struct ServerLimits {
    pub(crate) lifetime: Span,
    pub(crate) idle_timeout: Option<Span>,
    /// The most times that a server is given to a session; 0: no limit.
    pub(crate) max_uses: u32,
}

/// One pool's part on one worker.
///
/// A pool has two sides: it is where sessions have logged in, `session.pool()`, and it lends its servers, `server.pool()`. Code that has a
/// session and its server asks the session's pool for the first group of fields, and the server's pool for the second.
///
/// A session gets a server of its own pool, so a function with both has one `&mut Pool` for the two. [`Link::new`](crate::link::Link::new) asserts it.
#[derive(Debug)]
pub struct Pool {
    pub(crate) id: PoolId,
    pub(crate) key: PoolKey,
    /// Those in `servers`, `reserve_pool_size` and `min_pool_size` are of the servers' side, all others of the sessions'.
    pub(crate) rules: Rules,
    pub(crate) database: Arc<Database>,
    pub(crate) armed: Armed,
    life: Life,

    // Of its sessions: what they begin with and wait for, and what is counted of them.
    pub(crate) pins: PoolPins,
    pub(crate) welcome: Welcome,
    pub(crate) counts: PoolCounts,
    /// Listens for the pool's sessions, once one of them has needed it.
    pub(crate) listener: Option<Box<Listener>>,

    // Of its servers: how they are opened, lent and charged for, and what is known from them.
    pub(crate) queue: Queue,
    pub(crate) servers: Servers,
    pub(crate) opening: Opening,
    pub(crate) exchange: Exchange,
    pub(crate) names: CatalogueNames,
    pub(crate) measured: Measured,
}

impl Pool {
    /// Whether servers that were opened by this order and entry, the count of RECONNECTs and the database, are to be replaced.
    pub fn is_older(&self, (reconnects, database): (u32, &Database)) -> bool {
        let ordered = self.rules.orders.reconnects;
        reconnects < ordered || reconnects == ordered && self.database.needs_other_servers(database)
    }

    /// No server of the pool is open on this worker, or is being opened.
    pub fn has_no_server(&self) -> bool {
        self.servers.open() + self.servers.opening() == 0
    }

    /// A server of the present order and entry has reported, here or on another worker.
    pub fn is_reported(&self) -> bool {
        self.welcome.reported_by.as_ref().is_some_and(|(reconnects, database)| !self.is_older((*reconnects, database)))
    }

    pub fn new(id: PoolId, key: PoolKey, homes: u16, database: Arc<Database>, settings: &Settings) -> Pool {
        let rules = Rules::new(&key, &database, settings);
        let known = Known::new(rules.follows() && settings.reads_catalogue);
        Pool {
            measured: Measured::new(settings, rules.slow_after.is_some()),
            id,
            key,
            rules,
            database,
            queue: Queue::new(&settings.classes, homes),
            listener: None,
            armed: Armed::default(),
            servers: Servers::default(),
            opening: Opening::default(),
            pins: PoolPins::default(),
            welcome: Welcome::default(),
            exchange: Exchange::of(homes),
            life: Life::Used,
            counts: PoolCounts::default(),
            names: CatalogueNames { known, generation: 0 },
        }
    }

    /// Takes up new settings, by its database as it is now.
    pub fn configure(&mut self, settings: &Settings) {
        let was_paused = self.rules.orders.paused;
        self.rules = Rules::new(&self.key, &self.database, settings);
        // PostgreSQL may have been restarted with another configuration while the pool was paused.
        self.welcome.is_stale |= was_paused && !self.rules.orders.paused && self.has_no_server();
        self.measured.configure(settings, self.rules.slow_after.is_some());
    }

    /// A reload has changed its entry, or its user's password: new clients wait for the first new server, unless one has reported.
    pub fn entry_changed(&mut self, other_password: bool) {
        if other_password || self.is_removed() || !self.is_reported() {
            self.welcome.become_stale();
        }
    }

    /// A session of the pool has ended, or has left for another process. `had_permit`: it was pinned.
    pub fn session_left(&mut self, had_permit: bool) {
        self.counts.session_left();
        if had_permit {
            self.pins.permit_returned();
        }
    }

    /// One of its servers is closed, or leaves for another process: nothing that it was asked is answered.
    pub fn server_lost(&mut self, server: ConnId, now: Time) {
        self.names.known.lost(server, now);
        if let Some(waits) = &mut self.measured.wait_sampling {
            waits.lost(server, now);
        }
    }

    /// Publishes its classes on the board, if it has several homes.
    pub fn publish_classes(&mut self, step: &mut Step<'_>) {
        if self.exchange.homes > 1 {
            self.exchange.published_classes.publish(step, self.id, &self.queue);
        }
    }

    /// A row of an answer to the pooler's own query.
    pub(crate) fn answer_row(&mut self, server: ConnId, body: &[u8]) {
        match self.measured.wait_sampling.as_deref_mut().filter(|waits| waits.samples(server)) {
            Some(waits) => waits.row(body),
            None => self.names.known.row(body),
        }
    }

    /// Moves one of its servers to another state, and updates the counts. `way`: a transition in [`states`].
    ///
    /// [`states`]: crate::server::states
    #[inline]
    pub fn turn(
        &mut self,
        now: Time,
        conn: ConnId,
        server: &mut Server,
        way: impl FnOnce(&mut Server),
        unpublished: &mut Vec<PoolId>,
    ) {
        let from = server.state().group();
        way(server);
        let to = server.state().group();
        if from != to {
            self.servers.leave(from);
            self.servers.enter(to);
            if from == Group::Idle {
                self.servers.leave_idle(conn);
            }
            if from == Group::Linked {
                server.work.worked_at = now;
            }
            if to == Group::Idle {
                self.servers.idle.push_back(conn);
                self.end_charge(now, server);
            }
            if self.exchange.homes > 1 && (from == Group::Idle || to == Group::Idle) {
                unpublished.push(server.pool);
            }
        }
        server.work.since = now;
    }

    /// Like [`Pool::turn`], for a session that gets an idle server.
    #[inline]
    pub fn hand_to(
        &mut self,
        now: Time,
        conn: ConnId,
        server: &mut Server,
        session: ConnId,
        unpublished: &mut Vec<PoolId>,
    ) {
        assert!(matches!(server.state(), ServerState::Idle), "I1: only an idle server is handed out");
        self.servers.leave(Group::Idle);
        self.servers.enter(Group::Linked);
        self.servers.leave_idle(conn);
        if self.exchange.homes > 1 {
            unpublished.push(server.pool);
        }
        server.link(session);
        server.work.since = now;
    }

    /// Like [`Pool::turn`], for a session that releases its server.
    #[inline]
    pub fn take_back(&mut self, now: Time, conn: ConnId, server: &mut Server, unpublished: &mut Vec<PoolId>) {
        debug_assert!(matches!(server.state(), ServerState::Linked(_)), "it has served a session");
        self.servers.leave(Group::Linked);
        self.servers.enter(Group::Idle);
        self.servers.idle.push_back(conn);
        self.end_charge(now, server);
        if self.exchange.homes > 1 {
            unpublished.push(server.pool);
        }
        server.free();
        (server.work.since, server.work.worked_at) = (now, now);
    }

    /// Begins to charge a class for a server.
    #[inline]
    pub(crate) fn charge(&mut self, now: Time, class: ClassId, origin: Option<Origin>, server: &mut Server) {
        debug_assert!(server.work.charge.is_none(), "a server that is linked was free");
        if self.queue.is_counted() {
            self.queue.begin(class, now);
            server.work.charge = Some(Charge { class, since: now, origin });
        }
    }

    /// Ends the charge for a server that is free again, or closed.
    #[inline]
    pub fn end_charge(&mut self, now: Time, server: &mut Server) {
        if server.work.charge.is_some() {
            self.end_charge_of(now, server);
        }
    }

    /// Its classes have changed: a server with a session is charged to `class` from now on, for the time since its link too.
    pub fn charge_anew(&mut self, class: ClassId, server: &mut Server) {
        // The queue may not have counted server time before, and now does.
        let linked = matches!(server.state(), ServerState::Linked(_));
        let linked_since = linked.then_some(server.work.since);
        let since = server.work.charge.take().map(|charge| charge.since).or(linked_since);
        if let Some(since) = since.filter(|_| self.queue.is_counted()) {
            self.queue.begin(class, since);
            // The first statement of its transaction is not known any more.
            server.work.charge = Some(Charge { class, since, origin: None });
        }
    }

    #[inline(never)]
    fn end_charge_of(&mut self, now: Time, server: &mut Server) {
        if let Some(Charge { class, since, origin }) = server.work.charge.take() {
            self.queue.end(class, since, now);
            if let Some(origin) = origin {
                self.measured.experience.learn(origin, now.micros_since(since), self.queue.long_after_us(class));
            }
        }
    }

    /// Whether the pool has no sessions, servers, waiters or cancels here, and no lent servers.
    pub fn is_deserted(&self) -> bool {
        self.counts.sessions + self.servers_needed() + self.servers.all() + self.servers.lent + self.counts.cancels == 0
    }

    pub fn leave_queue(&mut self, wait_for: session::WaitFor, class: ClassId, ticket: u64) {
        match wait_for {
            session::WaitFor::Server | session::WaitFor::Login => self.queue.leave(class, ticket),
            session::WaitFor::Pin => self.pins.queue.leave(ticket),
            session::WaitFor::Own => {
                self.servers.own.queue.leave(ticket);
                self.servers.own.one_fewer_waits();
            }
            // The worker has these queues, not the pool.
            session::WaitFor::Limit => {}
        }
    }

    /// How many sessions may be pinned here; `None`: no limit.
    pub(crate) fn pinned_max(&self) -> Option<u32> {
        let max = self.rules.max_pinned;
        (max > 0).then(|| (max / u32::from(self.exchange.homes.max(1))).max(1))
    }

    /// Whether a session waits for a server, or for leave to open its own.
    pub fn needs_servers(&self) -> bool {
        self.servers_needed() > 0 || !self.servers.own.queue.is_empty()
    }

    /// The session that has waited longest, of those that may be served.
    pub fn oldest(&self) -> Option<Waiter> {
        [self.queue.oldest(), self.servers.own.queue.front()].into_iter().flatten().min_by_key(|waiter| waiter.since)
    }

    /// The session that a server opened now would be for, if it waits to open its own. Who has waited for longer than it comes
    /// first, unless other servers are coming for them.
    pub fn next_own(&self) -> Option<Waiter> {
        let own = self.servers.own.queue.front()?;
        let needed = self.servers_needed();
        let before =
            if needed == 0 { 0 } else { self.queue.waiters().filter(|other| other.since <= own.since).count() };
        (needed.min(before as u32) <= self.servers.coming()).then_some(own)
    }

    /// How many servers sessions wait for. Those that wait to open their own are not among them.
    pub fn servers_needed(&self) -> u32 {
        let to_welcome = u32::from(!self.welcome.waiting.is_empty());
        self.queue.servable().max(to_welcome) + u32::from(self.needs_listener())
    }

    pub fn needs_listener(&self) -> bool {
        self.listener.as_ref().is_some_and(|listener| listener.needs_connection())
    }

    /// Whether there are more servers here than this worker's share of min_pool_size.
    pub fn has_surplus(&self) -> bool {
        let share = self.rules.min_pool_size.div_ceil(u32::from(self.exchange.homes.max(1)));
        self.servers.all() > share
    }

    /// A session is about to wait in its class's queue.
    #[inline]
    pub fn queue_grows(&mut self, now: Time, class: ClassId) {
        if self.queue.waiting(class) == 0 {
            self.queue_begins(now, class);
        }
    }

    #[inline(never)]
    fn queue_begins(&mut self, now: Time, class: ClassId) {
        let listens = self.listener.as_ref().is_some_and(|listener| listener.server().is_some());
        // These serve no other session.
        let kept = self.pins.count + self.servers.own.open() + u32::from(listens);
        self.queue.queue_begins(
            class,
            now,
            self.servers.service_us(),
            self.servers.count(Group::Linked).saturating_sub(kept),
        );
    }

    /// The detail of a waiter's notice: its place, and how long it is expected to wait from now on.
    pub fn standing(&self, now: Time, wait_for: session::WaitFor, class: ClassId, ticket: u64) -> Option<String> {
        if wait_for == session::WaitFor::Pin {
            let (len, max) = (self.pins.queue.len(), self.rules.max_pinned);
            return self.pins.queue.place(ticket).map(|place| format!("place={place} of {len} max_pinned={max}"));
        }
        let (place, len) = self.queue.place(class, ticket)?;
        let standing = format!("place={place} of {len}");
        Some(match self.queue.expected_wait(class, now, place) {
            Some(expected) => format!("{standing} expected_wait_ms={}", expected.as_millis()),
            None => standing,
        })
    }

    /// Whether waiters can only get servers that other sessions release: servers were requested, and none is granted.
    pub fn has_all_it_gets(&self, now: Time, class: ClassId) -> bool {
        let coming = self.servers.coming();
        let refused = self.opening.requested > 0 && now.since(self.opening.requested_since) >= limits::GRANT;
        coming < self.queue.len() && (refused || self.queue.is_at_its_maximum(class))
    }

    /// Servers here that serve its waiters: not lent ones, those of sessions that are pinned or replicate, or the listener.
    pub fn serving(&self) -> u32 {
        let listens = self.listener.as_ref().is_some_and(|listener| listener.server().is_some());
        self.servers.shared().saturating_sub(self.servers.lent + self.pins.count + u32::from(listens))
    }

    /// Idle servers that can be lent without loss, since there are more servers than clients.
    pub fn excess(&self) -> u32 {
        let served = self.counts.sessions.saturating_sub(self.servers.own.open());
        self.serving().saturating_sub(served).min(self.servers.count(Group::Idle))
    }

    /// Whether a server should go to another worker whose waiter has waited since `since`, while this worker's has
    /// waited since `own`. The waiting times alone are not enough: they react late, and dozens of servers would swing
    /// between workers. So after the loan, the other worker must still have at least as many waiters per server as this
    /// one; or its waiter must have waited longer by several times the patience.
    pub fn yields_to(&self, cell: Cell, since: Time, own: Time) -> bool {
        let theirs = u64::from(cell.servers) + u64::from(self.servers.lent);
        let (left, waiting) = (u64::from(self.serving()).saturating_sub(1), u64::from(self.queue.len()));
        let is_worse_off = theirs == 0 || u64::from(cell.waiting) * left >= waiting * (theirs + 1);
        is_worse_off || since + limits::LONG_PATIENCE * self.servers.patience() < own
    }

    /// Since when a session has waited for a server, or for the first one to log in.
    pub fn waiting_since(&self) -> Time {
        let queued = self.oldest().map_or(Time::NEVER, |waiter| waiter.since);
        self.welcome.waiting.first().map_or(queued, |(_, since)| queued.min(*since))
    }

    /// Nothing can be done for waiters: no server is idle, no more may be requested now, and there are neither other
    /// workers nor a reserve. This is the usual case where more clients are active than there are servers.
    #[inline]
    pub fn asks_no_more(&self, now: Time) -> bool {
        let is_alone = self.exchange.homes == 1 && self.rules.reserve_pool_size == 0;
        is_alone
            && self.servers.idle.is_empty()
            && !self.opening.is_paused(now)
            && self.missing(limits::OPENING_MAX, 0) == 0
    }

    /// How many more servers should be requested now, if `lent` come from other workers.
    pub fn missing(&self, opening_max: u32, lent: u32) -> u32 {
        let expected = self.servers.count(Group::Opening) + self.opening.requested;
        let room = opening_max.saturating_sub(expected);
        if room == 0 {
            // The usual case: enough were requested before.
            return 0;
        }
        let needed = self.servers_needed().saturating_sub(lent + self.servers.coming()) + self.servers.own.queue.len();
        needed.saturating_sub(self.opening.requested).min(room)
    }

    /// Whether a reserve server is needed and not requested yet: more sessions wait than servers are idle or about to
    /// be, and they do not wait for the first catalogue read.
    pub fn lacks_reserve(&self) -> bool {
        let coming = self.servers.count(Group::Idle) + self.servers.count(Group::Returning);
        let may_have = self.rules.reserve_pool_size > 0 && !self.opening.requested_reserve;
        let lacks = !self.names.known.is_awaited() && self.servers_needed() > coming;
        may_have && (lacks || !self.servers.own.queue.is_empty())
    }
}
