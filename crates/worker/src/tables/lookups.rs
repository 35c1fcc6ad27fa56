//! Questions about sessions, servers and pools that change nothing.

use std::sync::Arc;
use std::time::Duration;

use connections::databases::{Address, Database};
use link::listening::pid_in_notifications;
use link::loss::Loss;
use link::notifiers::Notifiers;
use link::pool::Pool;
use link::request_refusal::RequestRefusal;
use link::server::{LimitWait, Server};
use link::session::{Admission, Session, SessionState, WaitFor};
use machine::upstreams::{HostState, Upstreams};
use queueing::classes::ClassId;
use queueing::queue::Stranger;
use session_state::access::Access;
use settings::PoolMode;
use units::table::Table;
use units::{ConnId, PoolId, Time, WorkerId, limits};

use crate::tables::owners::{Pools, Servers, Sessions};
use crate::tables::step::Step;

/// The answer to a session that survives the loss of its server. `None`: it does not.
pub(crate) fn outlives(sessions: &Sessions, pools: &Pools, server: &Server, session: ConnId) -> Option<Loss> {
    let session = sessions.get(session)?;
    let pool = pools.get(session.pool())?;
    let can_speak = !server.incoming().is_within_answer() && !server.end().has_forwarded_fatal_error();
    // No server is opened any more for a database that a reload has removed.
    let free = !pool.is_removed() && session.tracker().is_none_or(|tracker| tracker.outlives_server());
    if !free || !can_speak || pool.rules().mode() == PoolMode::Session {
        return None;
    }
    let loss = Loss::of(server)?;
    // A lone statement of which nothing is known may have begun a block, to which what comes after it belongs.
    let unclear =
        loss.block.is_none() && server.ledger().requests().iter().any(|request| request.access == Access::Commit);
    (!unclear || session.incoming().inbox().is_empty() && !session.is_torn()).then_some(loss)
}

/// The database whose hosts decide whether a server may be used: its pool's, if a reload has only added or removed hosts since the server was opened, and
/// otherwise the one that it was opened for.
pub(crate) fn fence<'d>(pools: &'d Pools, server: &'d Server) -> &'d Database {
    let opened_for = server.identity().opened_for();
    let Some(pool) = pools.get(server.pool()) else { return opened_for };
    let current = pool.database();
    let attrs = [opened_for, current].map(|database| database.target_session_attrs);
    let wants_the_same = attrs[0] == attrs[1] || attrs.iter().all(|attrs| attrs.wants_primary());
    let is_of_same_cluster = opened_for.hosts.iter().any(|host| current.hosts.contains(host));
    if wants_the_same && is_of_same_cluster { current } else { opened_for }
}

/// Whether a server is at one of several hosts that accept writes, and it is not known which is the right one.
pub(crate) fn is_disputed(pools: &Pools, server: &Server) -> bool {
    let database = fence(pools, server);
    pools.upstreams.have_disputes()
        && database.target_session_attrs.wants_primary()
        && pools.upstreams.are_disputed(&database.hosts)
}

/// Whether nobody would know what became of a session's query if the session ended now. Only where texts are read is this known.
pub(crate) fn may_be_committing(sessions: &Sessions, servers: &Servers, pools: &Pools, conn: ConnId) -> bool {
    // It may have ended in this step.
    let Some(session) = sessions.get(conn) else { return false };
    let follows = pools.get(session.pool()).is_some_and(|pool| pool.rules().follows());
    let server = session.server().and_then(|server| servers.get(server));
    follows && server.is_some_and(|server| server.may_commit())
}

/// The state of each host of a pool's database, for the error of a client that none of them serves. With one host: why the last attempt has failed.
pub(crate) fn tried(pool: &Pool, upstreams: &Upstreams, now: Time) -> String {
    let hosts = &pool.database().hosts;
    if upstreams.are_disputed(hosts) {
        return "two hosts accept writes".to_owned();
    }
    let [_, _, ..] = &hosts[..] else { return pool.opening().held_for().unwrap_or_default().to_owned() };
    let found = |host: &Address| {
        let upstream = upstreams.get(host);
        match upstream.state {
            HostState::Silent => format!("{host} does not answer"),
            HostState::Failed { .. } if upstream.has_failed(now) => format!("{host} lets nobody in"),
            HostState::Alive { role: Some(role) } => format!("{host} is a {}", role.as_str()),
            HostState::Failed { .. } | HostState::Alive { .. } => format!("of {host} nothing is known"),
        }
    };
    hosts.iter().map(found).collect::<Vec<_>>().join(", ")
}

/// The wait of a linked session for a limit.
pub(crate) fn limit_wait(servers: &Table<Server>, session: &Session) -> Option<LimitWait> {
    let Admission::Waits { .. } = session.claim().admission() else { return None };
    Some(servers.get(session.server()?)?.hold().limit_wait())
}

/// If a waiter's deadline has passed: since when it has waited, and its deadline.
pub(crate) fn late(sessions: &Sessions, servers: &Servers, now: Time, conn: ConnId) -> Option<(Time, u32)> {
    let session = sessions.get(conn)?;
    let (since, deadline_ms) = match session.state() {
        SessionState::Waiting { since, deadline_ms, .. } => (since, deadline_ms),
        _ => limit_wait(servers, session).map(|wait| (wait.since(), wait.deadline_ms()))?,
    };
    let is_late = deadline_ms > 0 && now >= since + Duration::from_millis(deadline_ms.into());
    is_late.then_some((since, deadline_ms))
}

/// The reason and DETAIL for a session whose wait ends, with `max_pinned` if it waited for that.
pub(crate) fn with_pin_limit(
    sessions: &Sessions,
    pools: &Pools,
    conn: ConnId,
    why: RequestRefusal,
    detail: String,
) -> (RequestRefusal, String) {
    match pin_limit(sessions, pools, conn) {
        Some(limit) => (why.pinned(), format!("{detail} {limit}")),
        None => (why, detail),
    }
}

/// If a session waits because of `max_pinned`: the DETAIL that says so.
pub(crate) fn pin_limit(sessions: &Sessions, pools: &Pools, conn: ConnId) -> Option<String> {
    let session = sessions.get(conn)?;
    let SessionState::Waiting { wait_for: WaitFor::Pin, .. } = session.state() else { return None };
    pools.get(session.pool()).map(|pool| format!("max_pinned={}", pool.rules().max_pinned()))
}

/// The other worker, with its oldest waiter's time, that is to get a server before this worker's oldest waiter, by
/// what the board shows.
pub(crate) fn stranger(step: &Step<'_>, pool: &Pool) -> Option<(WorkerId, Time)> {
    let (now, board) = (step.now, step.board);
    if now < pool.exchange().lends_refused_until() {
        return None;
    }
    if pool.queue().is_counted() {
        return stranger_by_class(step, pool);
    }
    let workers = 0..step.plan.settings.workers;
    let waiting = workers.map(WorkerId).filter(|&worker| worker != step.plan.id).filter_map(|worker| {
        let since = board.cell(pool.id(), worker).waiting_since;
        // The board may be out of date: one server for one waiter.
        let fed = || pool.exchange().has_fed(worker, since);
        (since != Time::NEVER && !fed()).then_some((worker, since))
    });
    let (worker, since) = waiting.min_by_key(|&(_, since)| since)?;
    let head_start = pool.servers().patience();
    let own = pool.waiting_since();
    // A session that has waited for less gets a server of its own worker sooner than a lent one.
    let patient = since + head_start <= now;
    let own_first = machine::sabotage::serves_own_first(&step.plan.settings) && own != Time::NEVER;
    let yields = own == Time::NEVER || pool.yields_to(board.cell(pool.id(), worker), since, own);
    (patient && since + head_start < own && yields && !own_first).then_some((worker, since))
}

/// Like [`stranger`], where there are classes. A waiter of the class that is next here must have waited
/// longer by the pool's patience, since it gets a server of its own worker sooner. A waiter of another class need
/// not: its worker may have no servers left, and servers go where its class has waited longest.
pub(crate) fn stranger_by_class(step: &Step<'_>, pool: &Pool) -> Option<(WorkerId, Time)> {
    let (now, board) = (step.now, step.board);
    let own = pool.queue().next_class(now);
    let head_start = |class| match own {
        Some(own) if own != class => limits::STRANGER,
        Some(_) | None => pool.servers().patience(),
    };
    let workers = (0..step.plan.settings.workers).map(WorkerId).filter(|worker| *worker != step.plan.id);
    let strangers = workers.flat_map(|worker| {
        let cells = board.classes(pool.id(), worker).iter().enumerate();
        cells.map(move |(index, cell)| Stranger { worker, class: ClassId(index as u8), since: cell.waiting_since })
    });
    let waiting = strangers.filter(|stranger| {
        // The board may be out of date: one server for one waiter.
        let fed = || pool.exchange().has_fed(stranger.worker, stranger.since);
        stranger.since != Time::NEVER && stranger.since + head_start(stranger.class) <= now && !fed()
    });
    let stranger = pool.queue().first_of(waiting, now)?;
    let yields = pool.queue().yields_to(&stranger, head_start(stranger.class), now);
    yields.then_some((stranger.worker, stranger.since))
}

/// Of the servers used last, the first that has the session's state, so that nothing has to be replayed. If there
/// is none, the one used last.
pub(crate) fn fitting(sessions: &Sessions, servers: &Servers, pool: &Pool, session: Option<ConnId>) -> Option<ConnId> {
    let last = *pool.servers().idle().back()?;
    let session = session.and_then(|session| sessions.get(session));
    let wanted = session.and_then(|session| session.tracker()).map(|tracker| tracker.state());
    let wanted = wanted.filter(|state| !state.is_initial());
    let fits = |server: &ConnId| {
        let found = servers.get(*server).and_then(|server| server.kept().session_state());
        match (wanted, found) {
            (Some(wanted), Some(found)) => Arc::ptr_eq(wanted, found) || wanted == found,
            (wanted, found) => wanted.is_none() && found.is_none(),
        }
    };
    if fits(&last) {
        return Some(last);
    }
    let mut others = pool.servers().idle().iter().rev().skip(1).take(limits::FITTING_MAX - 1);
    Some(others.find(|server| fits(server)).copied().unwrap_or(last))
}

pub(crate) fn waits_for_listener(sessions: &Sessions, conn: ConnId) -> bool {
    sessions.get(conn).is_some_and(Session::waits_for_listener)
}

/// The process ids in notifications by sessions of a pool on this worker, and those that their clients know.
pub(crate) fn notifiers(sessions: &Sessions, servers: &Servers, id: PoolId) -> Notifiers {
    let servers = servers.iter().map(|(_, server)| server).filter(|server| server.pool() == id);
    servers.filter_map(|server| Some((server.backend().pid, notifier(sessions, server)?))).collect()
}

/// The process id of the session that ran NOTIFY last on a server, as its client knows it; of the linked session if none did.
fn notifier(sessions: &Sessions, server: &Server) -> Option<i32> {
    let linked = || server.session().map(|conn| pid_in_notifications(&sessions[conn], conn, server));
    server.traces().notified_by().or_else(linked)
}
