//! A deadline of a session, a server, a cancel or a pool has come.

use link::server::{Chore, ServerState};
use link::session::{SessionState, WaitFor};
use units::deadline::Owner;
use units::{ConnId, PoolId, Time};
use wire::sqlstate;

use crate::events::forgotten_pools;
use crate::limits::{deadlines, refusals};
use crate::servers::{capacity, closed_servers, drains, listener, loans, name_polls};
use crate::sessions::{cancel_requests, ends, hosts, lost_servers, overdue_queries, welcome};
use crate::tables::due::{Due, Overdue};
use crate::tables::limiters::Limiters;
use crate::tables::notices::{PINNED, write_notice};
use crate::tables::owners::{Pools, Servers, Sessions};
use crate::tables::step::Step;
use crate::tables::{Tables, lookups};

pub(crate) fn session_due(tables: &mut Tables, step: &mut Step<'_>, conn: ConnId, at: Time) {
    // Deadlines are not taken back when a connection is closed.
    let Some(session) = tables.sessions.get_mut(conn) else { return };
    if !session.is_due(at) {
        return;
    }
    let session = &tables.sessions[conn];
    let due = tables.view(step.plan, step.caches).session_deadline(session).filter(|(when, _)| *when <= step.now);
    match due {
        None => step.agenda.arm(Owner::Conn(conn)),
        Some((_, Due::Refuse(overdue))) => {
            refuse_overdue(&tables.sessions, &tables.servers, &mut tables.pools, step, conn, overdue);
        }
        Some((_, Due::NoHost)) => {
            hosts::held_too_long(&mut tables.sessions, &mut tables.servers, &mut tables.pools, step, conn)
        }
        Some((_, Due::CloseLeaving)) => ends::close_session(&mut tables.sessions, step, conn, true),
        Some((_, Due::Welcome)) => {
            welcome::welcome_overdue(&mut tables.sessions, &mut tables.servers, &mut tables.pools, step, conn)
        }
        Some((_, Due::ListenAlone)) => {
            listener::listen_alone(&mut tables.sessions, &mut tables.servers, &mut tables.pools, step, conn)
        }
        Some((_, Due::DeadlinePassed)) => {
            deadlines::deadline_passed(&mut tables.sessions, &mut tables.servers, &mut tables.pools, step, conn)
        }
        Some((_, Due::QueryTimeout)) => {
            deadlines::waited_too_long(&mut tables.sessions, &mut tables.servers, &mut tables.pools, step, conn)
        }
        Some((_, Due::CancelQuery)) => {
            overdue_queries::cancel_overdue(&mut tables.sessions, &mut tables.servers, &mut tables.pools, step, conn)
        }
        Some((_, Due::GiveUpQuery)) => {
            overdue_queries::give_up_overdue(&mut tables.sessions, &mut tables.servers, &mut tables.pools, step, conn)
        }
        Some((_, Due::NotifyWaiting)) => {
            let pool = tables.pools.get(tables.sessions[conn].pool());
            let held_for = pool.and_then(|pool| tables.view(step.plan, step.caches).held_for(pool, step.now));
            notify_waiting(&mut tables.sessions, &tables.pools, &tables.limiters, step, conn, held_for.as_deref())
        }
    }
}

/// A deadline of a session has passed: the session is refused. In `classic` the code is PgBouncer's, whatever becomes of its query.
fn refuse_overdue(
    sessions: &Sessions,
    servers: &Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    overdue: Overdue,
) {
    let detail = lookups::pin_limit(sessions, pools, conn);
    let session = &sessions[conn];
    let wait_for = match session.state() {
        SessionState::Waiting { wait_for, .. } => wait_for,
        _ if lookups::limit_wait(servers, session).is_some() => WaitFor::Limit,
        _ => WaitFor::Server,
    };
    let why = overdue.why(wait_for);
    refusals::count_ended(sessions, pools, step, conn, why.counted_as().expect("each of these timeouts is counted"));
    let code = match lookups::may_be_committing(sessions, servers, pools, conn) {
        true => sqlstate::TRANSACTION_RESOLUTION_UNKNOWN,
        false => why.code(),
    };
    step.agenda.refuse_in_detail(conn, code, why, detail);
}

/// `held_for`: the state of each host, in words, if none can be used.
fn notify_waiting(
    sessions: &mut Sessions,
    pools: &Pools,
    limiters: &Limiters,
    step: &mut Step<'_>,
    conn: ConnId,
    held_for: Option<&str>,
) {
    const WORDS: &str = "No server connection available in postgres backend, client being queued";
    let session = &mut sessions[conn];
    let SessionState::Waiting { ticket, wait_for, .. } = session.state() else {
        unreachable!("only a session that waits is due to be told so");
    };
    session.note_notified();
    if wait_for == WaitFor::Limit {
        if let Some((words, detail)) = limiters.standing(step.now, ticket) {
            step.actions.send_new(conn, |out| write_notice(&words, Some(&detail), out));
        }
        return step.agenda.arm(Owner::Conn(conn));
    }
    let words = if wait_for == WaitFor::Pin { format!("{PINNED}, client being queued") } else { WORDS.to_owned() };
    let pool = pools.get(session.pool());
    let detail = match held_for.filter(|_| wait_for == WaitFor::Server) {
        // The length of this wait cannot be estimated.
        Some(hosts) => Some(format!("no host can be used: {hosts}")),
        None => pool.and_then(|pool| pool.standing(step.now, wait_for, session.claim().class(), ticket)),
    };
    step.actions.send_new(conn, |out| write_notice(&words, detail.as_deref(), out));
    step.agenda.arm(Owner::Conn(conn));
}

pub(crate) fn server_due(tables: &mut Tables, step: &mut Step<'_>, conn: ConnId, at: Time) {
    // Deadlines are not taken back when a connection is closed.
    let Some(server) = tables.servers.get_mut(conn) else { return };
    if !server.is_due(at) {
        return;
    }
    // It was armed for what it did before.
    let Some((when, why)) = tables.view(step.plan, step.caches).server_deadline(conn) else { return };
    if when > step.now {
        step.agenda.arm(Owner::Conn(conn));
        return;
    }
    let server = &tables.servers[conn];
    match *server.state() {
        ServerState::Draining { cancelled: false, .. } => {
            drains::stop(&mut tables.servers, &mut tables.pools, step, conn)
        }
        ServerState::Connecting
        | ServerState::LoggingIn(_)
        | ServerState::Busy(Chore::Setup | Chore::Role | Chore::Base) => {
            lost_servers::login_failed(&mut tables.sessions, &mut tables.servers, &mut tables.pools, step, conn, why);
        }
        ServerState::Busy(Chore::First) => name_polls::names_late(&mut tables.servers, &mut tables.pools, step, conn),
        _ => closed_servers::close_server(&mut tables.servers, &mut tables.pools, step, conn, why),
    }
}

pub(crate) fn canceller_due(
    sessions: &Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    at: Time,
) {
    // Deadlines are not taken back when a connection is closed.
    let Some(canceller) = servers.cancels.get_mut(conn) else { return };
    if canceller.armed.spend(at) {
        cancel_requests::canceller_late(sessions, servers, pools, step, conn);
    }
}

pub(crate) fn pool_due(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    id: PoolId,
    at: Time,
) {
    // Nor are deadlines taken back when a pool is forgotten.
    let Some(pool) = pools.get_mut(id) else { return };
    if pool.is_due(at) {
        let shared = pool.exchange().is_shared();
        if shared {
            pool.exchange_mut().beg_anew();
            loans::look_around(sessions, servers, pools, step, id);
        }
        closed_servers::ended(pools, step, id);
        capacity::request_reserve(pools, step, id);
        step.agenda.feed(id);
        if pools.get(id).is_some_and(|pool| pool.is_retired()) {
            forgotten_pools::try_to_forget(sessions, pools, step, id);
        }
    }
}
