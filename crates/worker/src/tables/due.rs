//! The next deadline of a session or a server, and what it is for.

use std::time::Duration;

use connections::databases::TargetSessionAttrs;
use link::end_reason::EndReason;
use link::pool::Pool;
use link::server::{Chore, CloseReason, Group, Server, ServerState};
use link::session::{Session, SessionState, WaitFor};
use machine::sabotage::{Fault, does};
use session_state::state::ListenerWait;
use units::{ConnId, Time, limits};
use wire::backend::Status;

use crate::tables::lookups::limit_wait;
use crate::tables::view::View;

/// What to do at a session's deadline.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Refuse(Overdue),
    /// No host can be used, and it has waited for `failover_wait`.
    NoHost,
    NotifyWaiting,
    ListenAlone,
    /// It is let in with what is known.
    Welcome,
    DeadlinePassed,
    QueryTimeout,
    CancelQuery,
    GiveUpQuery,
    CloseLeaving,
}

/// A deadline at which a session ends with an error.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Overdue {
    QueryWait,
    /// `query_timeout`, while the client waits.
    Queued,
    /// `query_timeout`, while its query runs.
    Query,
    ClientIdle,
    IdleTransaction,
    Transaction,
    Stalled,
}

impl Overdue {
    /// `wait_for`: what the session waits for.
    pub(crate) fn why(self, wait_for: WaitFor) -> EndReason {
        match (self, wait_for) {
            (Overdue::QueryWait, WaitFor::Pin) => EndReason::QueryWaitTimeoutPinned,
            (Overdue::QueryWait, WaitFor::Limit) => EndReason::LimitWaitTimeout,
            (Overdue::QueryWait, _) => EndReason::QueryWaitTimeout,
            (Overdue::Queued, WaitFor::Pin) => EndReason::QueuedTooLongPinned,
            (Overdue::Queued, _) => EndReason::QueuedTooLong,
            (Overdue::Query, _) => EndReason::RanTooLong,
            (Overdue::ClientIdle, _) => EndReason::ClientIdleTimeout,
            (Overdue::IdleTransaction, _) => EndReason::IdleTransactionTimeout,
            (Overdue::Transaction, _) => EndReason::TransactionTimeout,
            (Overdue::Stalled, _) => EndReason::Stalled,
        }
    }
}

/// The earliest of several deadlines, each of which may be unset.
#[derive(Default)]
pub(crate) struct Earliest(pub(crate) Option<(Time, Due)>);

impl Earliest {
    pub(crate) fn add(&mut self, from: Time, after: Option<Duration>, due: Due) {
        // Not set: no deadline.
        self.add_at(after.map(|after| from + after), due);
    }

    pub(crate) fn add_at(&mut self, at: Option<Time>, due: Due) {
        let Some(at) = at else { return };
        if self.0.is_none_or(|(earliest, _)| at < earliest) {
            self.0 = Some((at, due));
        }
    }
}

impl View<'_> {
    /// Until when a client that has waited since then is held for want of a host.
    fn held_until(&self, pool: &Pool, since: Time) -> Option<Time> {
        if does(self.settings, Fault::HoldForEver) {
            return None;
        }
        let wait = pool.rules().failover_wait();
        let full = || Some((self.silent_since(pool)? + wait).max(since + limits::GRANT));
        let until = pool.opening().held_until(since, wait).or_else(full)?;
        (!self.may_free_a_server(pool)).then_some(until)
    }

    /// Since when a pool has servers at silent hosts and opens none, as it may have no more: no login fails, which would hold its clients.
    pub(crate) fn silent_since(&self, pool: &Pool) -> Option<Time> {
        let opens_none = pool.servers().count(Group::Opening) == 0 && pool.servers().count(Group::Linked) > 0;
        if !self.upstreams.have_silent() || !opens_none {
            return None;
        }
        let own = self.servers.iter().map(|(_, server)| server).filter(|server| server.pool() == pool.id());
        let hosts = own.map(|server| self.upstreams.get(server.identity().host()));
        hosts.filter(|upstream| upstream.is_silent()).map(|upstream| upstream.since).min()
    }

    /// Whether one of a pool's servers may become free for another client. Servers at silent hosts do not count.
    pub(crate) fn may_free_a_server(&self, pool: &Pool) -> bool {
        if pool.servers().count(Group::Linked) == 0 {
            return !pool.servers().idle().is_empty();
        }
        let is_silent = |server: &Server| self.upstreams.get(server.identity().host()).is_silent();
        let own = self.servers.iter().map(|(_, server)| server).filter(|server| server.pool() == pool.id());
        let mut usable = own.filter(|server| !is_silent(server));
        usable.any(|server| matches!(server.state().group(), Group::Linked | Group::Idle))
    }

    pub(crate) fn session_deadline(&self, session: &Session) -> Option<(Time, Due)> {
        let pool = self.pools.get(session.pool());
        let rules = pool.map(|pool| pool.rules());
        let mut earliest = Earliest::default();
        if let Some(ListenerWait::ToSend { since }) =
            session.tracker().map(|tracker| tracker.notifications.listener_wait())
            && pool.is_some_and(Pool::needs_listener)
        {
            // A session without a server would have to wait for one to listen on, and then keep it; that server is
            // better used as the listener. While pgweir stops no server comes, and the session is refused.
            if session.server().is_some() || self.stopping.has_begun() {
                earliest.add(since, Some(limits::LISTENER_WAIT), Due::ListenAlone);
            } else {
                earliest.add(since, rules?.query_wait_timeout(), Due::Refuse(Overdue::QueryWait));
            }
        }
        if let SessionState::Welcoming { since } = session.state()
            && pool.is_some_and(|pool| pool.welcome().is_known(true))
        {
            earliest.add(since, Some(limits::NEW_REPORT_WAIT), Due::Welcome);
        }
        match session.state() {
            SessionState::Welcoming { since }
            | SessionState::Opening { since, .. }
            | SessionState::Waiting { since, wait_for: WaitFor::Login | WaitFor::Own, .. } => {
                earliest.add(since, rules?.query_wait_timeout(), Due::Refuse(Overdue::QueryWait));
                earliest.add(since, rules?.query_timeout(), Due::Refuse(Overdue::Queued));
                if !matches!(session.state(), SessionState::Opening { .. }) {
                    earliest.add_at(self.held_until(pool?, since), Due::NoHost);
                }
            }
            SessionState::Waiting { since, notified, deadline_ms, wait_for, .. } => {
                if wait_for == WaitFor::Server {
                    earliest.add_at(self.held_until(pool?, since), Due::NoHost);
                }
                let over = if rules?.follows() { Due::QueryTimeout } else { Due::Refuse(Overdue::Queued) };
                earliest.add(since, rules?.query_wait_timeout(), Due::Refuse(Overdue::QueryWait));
                earliest.add(since, rules?.query_timeout(), over);
                let deadline = Duration::from_millis(deadline_ms.into());
                earliest.add(since, (deadline_ms > 0).then_some(deadline), Due::DeadlinePassed);
                let notify = self.settings.global.waiting.query_wait_notify.filter(|_| !notified);
                earliest.add(since, notify, Due::NotifyWaiting);
            }
            SessionState::Idle { since } => {
                earliest.add(since, rules?.client_idle_timeout(), Due::Refuse(Overdue::ClientIdle));
            }
            SessionState::LostBlock { since } => {
                earliest.add(since, rules?.idle_transaction_timeout(), Due::Refuse(Overdue::IdleTransaction));
            }
            SessionState::Linked { server } => match limit_wait(self.servers, session) {
                Some(wait) => {
                    earliest.add(wait.since(), rules?.query_wait_timeout(), Due::Refuse(Overdue::QueryWait));
                    let deadline = Duration::from_millis(wait.deadline_ms().into());
                    earliest.add(wait.since(), (wait.deadline_ms() > 0).then_some(deadline), Due::DeadlinePassed);
                }
                None => self.link_deadline(session, pool?, server, &mut earliest),
            },
            SessionState::Leaving { until } => earliest.add(until, Some(Duration::ZERO), Due::CloseLeaving),
            // A stream may be silent for as long as PostgreSQL lets it.
            SessionState::Replicating { .. } | SessionState::Console { .. } => {}
        }
        earliest.0.map(|(at, due)| (at.max(self.spared_until), due))
    }

    pub(crate) fn link_deadline(&self, session: &Session, pool: &Pool, server: ConnId, earliest: &mut Earliest) {
        // The server was closed in this step, which ends its session too.
        let Some(server) = self.servers.get(server) else { return };
        let rules = pool.rules();
        let torn = session.is_torn() && server.flow().is_clear();
        if torn || !session.flow().is_clear() {
            earliest.add(session.progress_at(), Some(limits::STALL), Due::Refuse(Overdue::Stalled));
        }
        if server.ledger().depth() > 0 {
            match server.overdue_since() {
                Some(at) => earliest.add(at, self.settings.global.waiting.query_cancel_timeout, Due::GiveUpQuery),
                None if rules.follows() => {
                    earliest.add(server.transaction().query_at(), rules.query_timeout(), Due::CancelQuery)
                }
                None => {
                    earliest.add(server.transaction().query_at(), rules.query_timeout(), Due::Refuse(Overdue::Query))
                }
            }
        } else if server.transaction().status() == Status::Idle && !server.ledger().is_open() {
            earliest.add(
                server.transaction().query_at(),
                rules.client_idle_timeout(),
                Due::Refuse(Overdue::ClientIdle),
            );
        } else if !does(self.settings, Fault::ForgiveIdleTransactions) {
            earliest.add(
                server.transaction().query_at(),
                rules.idle_transaction_timeout(),
                Due::Refuse(Overdue::IdleTransaction),
            );
        }
        if let Some(began) = server
            .lease()
            .began_at()
            .filter(|_| server.ledger().depth() > 0 || server.transaction().status() != Status::Idle)
        {
            earliest.add(began, rules.transaction_timeout(), Due::Refuse(Overdue::Transaction));
        }
    }

    /// Whether a server's host has not answered yet, while there is another to choose. A primary that is silent has others that may be promoted.
    fn has_silent_host(&self, server: &Server) -> bool {
        let database = server.identity().opened_for();
        if database.target_session_attrs != TargetSessionAttrs::Any && database.hosts.len() > 1 {
            return match server.state() {
                ServerState::Connecting => true,
                ServerState::LoggingIn(login) => !login.is_answered(),
                _ => false,
            };
        }
        let is_silent = matches!(server.state(), ServerState::Connecting) && server.identity().local().is_none();
        let other = |pool: &Pool| {
            let (host, connected_at) = (server.identity().host(), server.identity().connected_at());
            pool.other_host(host, self.upstreams, connected_at).is_some()
        };
        is_silent && self.pools.get(server.pool()).is_some_and(other)
    }

    pub(crate) fn server_deadline(&self, conn: ConnId) -> Option<(Time, CloseReason)> {
        self.server_due(conn).map(|(at, why)| (at.max(self.spared_until), why))
    }

    fn server_due(&self, conn: ConnId) -> Option<(Time, CloseReason)> {
        let server = self.servers.get(conn)?;
        let limits = self.pools.get(server.pool())?.rules().servers();
        match *server.state() {
            ServerState::Connecting
            | ServerState::LoggingIn(_)
            | ServerState::Busy(Chore::Setup | Chore::Role | Chore::Base) => {
                let timeout = self.settings.global.servers.server_connect_timeout;
                let silent = self.has_silent_host(server).then_some(limits::CONNECT_NEXT);
                let patience = timeout.into_iter().chain(silent).min()?;
                Some((server.identity().connected_at() + patience, CloseReason::ConnectTimeout))
            }
            ServerState::Busy(Chore::First) => {
                Some((server.work().since() + limits::FIRST_NAMES, CloseReason::ChoreTimeout { chore: Chore::First }))
            }
            ServerState::Busy(chore) => {
                Some((server.work().since() + limits::HOUSEKEEPING, CloseReason::ChoreTimeout { chore }))
            }
            ServerState::Draining { cancelled: false, .. } => {
                Some((server.work().since() + limits::DRAIN, CloseReason::ClientGone))
            }
            ServerState::Draining { .. } if !server.ledger().is_clear() => {
                Some((server.work().since() + limits::DRAIN + limits::DRAIN_CANCELLED, CloseReason::ClientGone))
            }
            // A cancel is under way.
            ServerState::Draining { .. } => {
                Some((server.work().since() + limits::HOUSEKEEPING, CloseReason::ClientGone))
            }
            ServerState::Idle => {
                let surplus = self.pools.get(server.pool()).is_some_and(Pool::has_surplus);
                if limits.is_used_up(server.work().uses()) {
                    return Some((server.work().since(), CloseReason::MaxUses));
                }
                let idle = limits.idle_timeout().filter(|_| surplus);
                let idle = idle.map(|after| (server.work().since() + after, CloseReason::IdleTimeout));
                let too_old_at = limits.too_old_at(server.identity().connected_at(), server.work().uses());
                idle.into_iter().chain(too_old_at.map(|at| (at, CloseReason::LifetimeOver))).min_by_key(|(at, _)| *at)
            }
            ServerState::Listening if !server.ledger().is_clear() => {
                Some((server.transaction().query_at() + limits::HOUSEKEEPING, CloseReason::ListenTimeout))
            }
            ServerState::Listening => {
                let unused = self.pools.get(server.pool())?.listens_for_none();
                unused.then_some((server.work().since() + limits::LISTENER_IDLE, CloseReason::NobodyListens))
            }
            // With cancels under way, the end of the last one ends this state.
            ServerState::Held if server.cancel().under_way() == 0 => {
                Some((server.work().since() + limits::HOUSEKEEPING, CloseReason::HalfMessage))
            }
            ServerState::Linked(_) | ServerState::Own(_) | ServerState::Held => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use machine::Settings;

    use super::*;
    use crate::tables::scene::Scene;

    const SECOND: Duration = Duration::from_secs(1);
    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn a_waiting_sessions_first_deadline_counts() {
        type Case = (&'static str, fn(&mut Scene, ConnId), Option<(Duration, Due)>);
        let wait_timeout = |settings: &mut Settings| settings.global.waiting.query_wait_timeout = Some(3 * SECOND);
        let cases: [Case; 5] = [
            ("nothing is set", |_, _| (), None),
            (
                "query_wait_timeout",
                |scene, _| scene.configure(|settings| settings.global.waiting.query_wait_timeout = Some(3 * SECOND)),
                Some((3 * SECOND, Due::Refuse(Overdue::QueryWait))),
            ),
            (
                "query_timeout",
                |scene, _| scene.configure(|settings| settings.global.waiting.query_timeout = Some(2 * SECOND)),
                Some((2 * SECOND, Due::QueryTimeout)),
            ),
            (
                "query_timeout, in classic",
                |scene, _| {
                    scene.configure(|settings| {
                        settings.global.waiting.query_timeout = Some(2 * SECOND);
                        settings.global.pools.pool_fidelity = settings::Fidelity::Classic;
                    });
                },
                Some((2 * SECOND, Due::Refuse(Overdue::Queued))),
            ),
            (
                "a deadline of its own",
                |scene, conn| scene.tables.sessions[conn].take_deadline(1500),
                Some((Duration::from_millis(1500), Due::DeadlinePassed)),
            ),
        ];
        for (case, prepare, expected) in cases {
            let mut scene = Scene::new(|settings| {
                let waiting = &mut settings.global.waiting;
                (waiting.query_wait_timeout, waiting.query_timeout, waiting.query_wait_notify) = (None, None, None);
                (settings.global.pools.pool_mode, settings.global.pools.pool_fidelity) =
                    (settings::PoolMode::Transaction, settings::Fidelity::Transparent);
            });
            let (now, conn) = (scene.now, scene.waiter(scene.now));
            prepare(&mut scene, conn);
            let due = |scene: &Scene| scene.view().session_deadline(&scene.tables.sessions[conn]);
            assert_eq!(due(&scene), expected.map(|(after, due)| (now + after, due)), "{case}");
            // Whichever is set besides: the earliest is due.
            scene.configure(wait_timeout);
            let first = expected.map_or(3 * SECOND, |(after, _)| after.min(3 * SECOND));
            assert_eq!(due(&scene).map(|(at, _)| at), Some(now + first), "{case}");
        }
    }

    #[test]
    fn a_waiting_session_is_notified_once() {
        let mut scene = Scene::new(|settings| settings.global.waiting.query_wait_notify = Some(SECOND));
        let (now, conn) = (scene.now, scene.waiter(scene.now));
        let due = |scene: &Scene| scene.view().session_deadline(&scene.tables.sessions[conn]);
        assert_eq!(due(&scene), Some((now + SECOND, Due::NotifyWaiting)));
        scene.tables.sessions[conn].note_notified();
        assert_ne!(due(&scene).map(|(_, due)| due), Some(Due::NotifyWaiting));
    }

    #[test]
    fn an_idle_server_is_closed_for_its_age_or_for_being_too_many() {
        type Case = (&'static str, Duration, u32, u32, bool, Option<(Duration, CloseReason)>);
        let minute = 60 * SECOND;
        let cases: [Case; 6] = [
            ("used as often as it may be", HOUR, 2, 1, true, Some((Duration::ZERO, CloseReason::MaxUses))),
            ("not used as often yet", HOUR, 2, 2, true, Some((HOUR, CloseReason::LifetimeOver))),
            ("idle beyond min_pool_size", HOUR, 0, 0, false, Some((minute, CloseReason::IdleTimeout))),
            ("idle within min_pool_size", HOUR, 2, 0, false, Some((HOUR, CloseReason::LifetimeOver))),
            ("unused, where each is used once", Duration::ZERO, 2, 0, false, None),
            (
                "used, where each is used once",
                Duration::ZERO,
                2,
                0,
                true,
                Some((Duration::ZERO, CloseReason::LifetimeOver)),
            ),
        ];
        for (case, lifetime, min_pool_size, max_uses, used, expected) in cases {
            let mut scene = Scene::new(|settings| {
                let servers = &mut settings.global.servers;
                servers.server_idle_timeout = Some(60 * SECOND);
                (servers.server_lifetime, servers.server_max_uses) = (lifetime, max_uses);
                settings.global.pools.min_pool_size = min_pool_size;
            });
            let (now, conn) = (scene.now, scene.idle_server(scene.now));
            if used {
                scene.tables.servers[conn].work_mut().count_use();
            }
            let due = scene.view().server_deadline(conn);
            assert_eq!(due, expected.map(|(after, why)| (now + after, why)), "{case}");
        }
    }
}
