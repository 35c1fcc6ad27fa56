//! A deadline of a session, a server, a cancel or a pool has come.

use link::server::{Chore, ServerState};
use link::session::{SessionState, WaitFor};
use machine::Step;
use units::deadline::Owner;
use units::{ConnId, PoolId, Time};
use wire::sqlstate;

use crate::events::forgotten_pools;
use crate::limits::limiters::Limiters;
use crate::limits::{deadlines, refusals};
use crate::servers::{capacity, closed_servers, drains, listener, loans, name_polls};
use crate::sessions::{cancel_requests, ends, lost_servers, overdue_queries, welcome};
use crate::tables::Tables;
use crate::tables::due::{Due, Overdue};
use crate::tables::notices::{PINNED, write_notice};

pub(crate) fn session_due(tables: &mut Tables, limiters: &mut Limiters, step: &mut Step<'_>, conn: ConnId, at: Time) {
    // Deadlines are not taken back when a connection is closed.
    let Some(session) = tables.sessions.get_mut(conn) else { return };
    if !session.is_due(at) {
        return;
    }
    let session = &tables.sessions[conn];
    let due = tables.view().session_deadline(session).filter(|(when, _)| *when <= step.now);
    match due {
        None => tables.agenda.arm(Owner::Conn(conn)),
        Some((_, Due::Refuse(overdue))) => {
            refuse_overdue(tables, step, conn, overdue);
        }
        Some((_, Due::CloseLeaving)) => ends::close_session(tables, step, conn, true),
        Some((_, Due::Welcome)) => welcome::welcome_overdue(tables, step, conn),
        Some((_, Due::ListenAlone)) => listener::listen_alone(tables, step, conn),
        Some((_, Due::DeadlinePassed)) => deadlines::deadline_passed(tables, limiters, step, conn),
        Some((_, Due::QueryTimeout)) => deadlines::waited_too_long(tables, limiters, step, conn),
        Some((_, Due::CancelQuery)) => overdue_queries::cancel_overdue(tables, limiters, step, conn),
        Some((_, Due::GiveUpQuery)) => overdue_queries::give_up_overdue(tables, limiters, step, conn),
        Some((_, Due::NotifyWaiting)) => notify_waiting(tables, limiters, step, conn),
    }
}

/// A deadline of a session has passed: the session is refused. In `classic` the code is PgBouncer's, whatever becomes of its query.
fn refuse_overdue(tables: &mut Tables, step: &Step<'_>, conn: ConnId, overdue: Overdue) {
    let detail = tables.view().pin_limit(conn);
    let session = &tables.sessions[conn];
    let wait_for = match session.state() {
        SessionState::Waiting { wait_for, .. } => wait_for,
        _ if tables.view().limit_wait(session).is_some() => WaitFor::Limit,
        _ => WaitFor::Server,
    };
    let why = overdue.why(wait_for);
    refusals::count_ended(tables, step, conn, why.counted_as().expect("each of these timeouts is counted"));
    let code = match tables.view().may_be_committing(conn) {
        true => sqlstate::TRANSACTION_RESOLUTION_UNKNOWN,
        false => why.code(),
    };
    tables.agenda.refuse_in_detail(conn, code, why, detail);
}

fn notify_waiting(tables: &mut Tables, limiters: &mut Limiters, step: &mut Step<'_>, conn: ConnId) {
    const WORDS: &str = "No server connection available in postgres backend, client being queued";
    let session = &mut tables.sessions[conn];
    let SessionState::Waiting { ticket, wait_for, .. } = session.state() else {
        unreachable!("only a session that waits is due to be told so");
    };
    session.note_notified();
    if wait_for == WaitFor::Limit {
        if let Some((words, detail)) = limiters.standing(step.now, ticket) {
            step.actions.send_new(conn, |out| write_notice(&words, Some(&detail), out));
        }
        return tables.agenda.arm(Owner::Conn(conn));
    }
    let words = if wait_for == WaitFor::Pin { format!("{PINNED}, client being queued") } else { WORDS.to_owned() };
    let pool = tables.pools.get(session.pool());
    let detail = pool.and_then(|pool| pool.standing(step.now, wait_for, session.claim().class(), ticket));
    step.actions.send_new(conn, |out| write_notice(&words, detail.as_deref(), out));
    tables.agenda.arm(Owner::Conn(conn));
}

pub(crate) fn server_due(tables: &mut Tables, step: &mut Step<'_>, conn: ConnId, at: Time) {
    // Deadlines are not taken back when a connection is closed.
    let Some(server) = tables.servers.get_mut(conn) else { return };
    if !server.is_due(at) {
        return;
    }
    // It was armed for what it did before.
    let Some((when, why)) = tables.view().server_deadline(conn) else { return };
    if when > step.now {
        tables.agenda.arm(Owner::Conn(conn));
        return;
    }
    let server = &tables.servers[conn];
    match *server.state() {
        ServerState::Draining { cancelled: false, .. } => drains::stop(tables, step, conn),
        ServerState::Connecting | ServerState::LoggingIn(_) | ServerState::Busy(Chore::Setup | Chore::Base) => {
            lost_servers::login_failed(tables, step, conn, why);
        }
        ServerState::Busy(Chore::First) => name_polls::names_late(tables, step, conn),
        _ => closed_servers::close_server(tables, step, conn, why),
    }
}

pub(crate) fn canceller_due(tables: &mut Tables, step: &mut Step<'_>, conn: ConnId, at: Time) {
    // Deadlines are not taken back when a connection is closed.
    let Some(canceller) = tables.servers.cancels.get_mut(conn) else { return };
    if canceller.armed.spend(at) {
        cancel_requests::canceller_late(tables, step, conn);
    }
}

pub(crate) fn pool_due(tables: &mut Tables, step: &mut Step<'_>, id: PoolId, at: Time) {
    // Nor are deadlines taken back when a pool is forgotten.
    let Some(pool) = tables.pools.get_mut(id) else { return };
    if pool.is_due(at) {
        let shared = pool.exchange().is_shared();
        if shared {
            pool.exchange_mut().beg_anew();
            loans::look_around(tables, step, id);
        }
        closed_servers::ended(tables, step, id);
        capacity::request_reserve(tables, step, id);
        tables.agenda.feed(id);
        if tables.pools.get(id).is_some_and(|pool| pool.is_retired()) {
            forgotten_pools::try_to_forget(tables, step, id);
        }
    }
}
