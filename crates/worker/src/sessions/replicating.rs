//! Sessions that replicate. Each waits for leave to open a server of its own, which is opened with the client's startup
//! parameters; then what the two say to each other passes, until either ends.
//!
//! ```text
//!   arrived ──► Waiting ──token──► Opening ──logged in──► Replicating          the session
//!                                  Connecting, LoggingIn ──► Own               its server
//! ```
//!
//! The token is of the pool's like any other's, so limits hold. No timeout applies once the server is there: a stream may be silent
//! for as long as PostgreSQL lets it. Such a session takes part in none of what transactions do: it has no share in its class's
//! server time, no statement of it is limited, and the search for the pool's size does not see it. Its server must be at a host of the wanted role
//! like any other. If the host loses that role, the session ends: the client connects again, and resumes where it was.
//!
//! //= pg18 protocol-replication#PROTOCOL-REPLICATION

use std::sync::Arc;

use link::end_reason::EndReason;
use link::relaying::Relay;
use link::server::CloseReason;
use link::session::{SessionState, WaitFor};
use machine::action::Source;
use machine::mail::ToCoordinator;
use session_state::parameters::Reported;
use units::ConnId;
use units::deadline::Owner;
use wire::backend::{Authentication, BackendKeyData, ParameterStatus, Status};
use wire::{SqlState, backend};

use crate::limits::classes;
use crate::servers::{chores, closed_servers};
use crate::sessions::lost_servers;
use crate::tables::notices::write_notice;
use crate::tables::owners::{Pools, Servers, Sessions};
use crate::tables::step::Step;
use crate::tables::{backpressure, suspension};

/// A session that replicates has arrived.
pub(crate) fn begin(sessions: &mut Sessions, pools: &mut Pools, step: &mut Step<'_>, conn: ConnId) {
    // The class is for the console.
    classes::classify(sessions, pools, step, conn, &[]);
    let session = &mut sessions[conn];
    let pool = &mut pools[session.pool()];
    let ticket = pool.servers_mut().own_mut().wait(conn, step.now);
    session.wait(step.now, WaitFor::Own, ticket, true);
    step.agenda.feed(pool.id());
    step.agenda.publish_shared(pool);
    step.agenda.arm(Owner::Conn(conn));
}

/// Its server has logged in.
pub(crate) fn own_server_ready(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    server_id: ConnId,
    conn: ConnId,
) {
    let server = &mut servers[server_id];
    let login = server.login_mut().expect("the server's login has just come to its end");
    let reported = std::mem::take(&mut login.reported);
    let mut parameters = step.caches.tracked.empty();
    for (name, value) in &reported {
        if let Some(index) = step.caches.tracked.index(name) {
            parameters.set(index, value);
        }
    }
    let parameters = step.caches.interned.intern(parameters);
    server.logged_in_with(Arc::clone(&parameters));
    let pid = server.backend().pid;
    let session = &mut sessions[conn];
    session.take_own_parameters(parameters);
    let pool = &mut pools[session.pool()];
    pool.opening_mut().login_succeeded();
    pool.servers_mut().own_mut().has_opened();
    pool.counts_mut().count_assignment();
    if let SessionState::Opening { since, .. } = session.state() {
        pool.counts_mut().count_wait(step.now.micros_since(since));
    }
    session.replicate(server_id);
    let id = session.pool();
    let holder = step.plan.id.into();
    step.actions.post_to_coordinator(ToCoordinator::Opened { pool: id, holder });
    chores::turn_server(servers, pools, step, server_id, |server| server.join(conn));
    suspension::hold_server(servers, step, server_id);
    servers.cancels.note_pid(pid, conn);
    greet(sessions, step, conn, pid, &reported);
    step.agenda.go_on(conn);
    // One login fewer is under way: another server may be requested.
    step.agenda.feed(id);
}

/// Sends the end of the login: what its server has said about itself.
fn greet(sessions: &Sessions, step: &mut Step<'_>, conn: ConnId, pid: i32, reported: &Reported) {
    let identity = Arc::clone(sessions[conn].identity());
    let notify = &step.plan.settings.global.startup.login_notify_message;
    step.actions.send_new(conn, |out| {
        Authentication::Ok.encode(out);
        for (name, value) in reported {
            ParameterStatus { name, value }.encode(out);
        }
        BackendKeyData { pid, secret: identity.cancel_secret.bytes() }.encode(out);
        if !notify.is_empty() {
            write_notice(notify, None, out);
        }
        backend::encode_ready(out, Status::Idle);
    });
}

/// Its server could not be opened at one host, or that has another role, and another host may do: the session waits for leave to open one there.
pub(crate) fn own_server_elsewhere(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    why: CloseReason,
) {
    let server = &mut servers[conn];
    let waiting =
        server.identity().opened_for_session().and_then(|session| sessions.get_mut(session).zip(Some(session)));
    if let Some((session, session_id)) = waiting
        && let SessionState::Opening { since, .. } = session.state()
    {
        server.end_mut().session_stays();
        let ticket = pools[session.pool()].servers_mut().own_mut().wait(session_id, since);
        session.wait(since, WaitFor::Own, ticket, true);
        step.agenda.arm(Owner::Conn(session_id));
    }
    closed_servers::close_server(servers, pools, step, conn, why);
}

/// Its server could not be opened. The session ends with these words: clients that replicate try again by themselves, and a wait
/// would hide from them what is wrong. `why`: the log's words.
pub(crate) fn own_server_refused(
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    (code, words): (SqlState, EndReason),
    why: CloseReason,
) {
    if let Some(session) = servers[conn].identity().opened_for_session() {
        step.agenda.refuse_with(session, code, words);
    }
    closed_servers::close_server(servers, pools, step, conn, why);
}

/// Bytes of its client, after those that are kept.
pub(crate) fn client_said(
    sessions: &mut Sessions,
    servers: &mut Servers,
    step: &mut Step<'_>,
    conn: ConnId,
    bytes: &[u8],
) {
    // It may have ended since it was put on the agenda.
    let Some(session) = sessions.get_mut(conn) else { return };
    // Its server may have been closed in this step, which ends the session too.
    let Some(server_id) = session.server() else { return };
    // The same.
    let Some(server) = servers.get_mut(server_id) else { return };
    let mut inbox = session.incoming_mut().take_inbox();
    let is_first = inbox.is_empty();
    let source = if is_first { Source::Chunk } else { step.actions.next_kept() };
    if !is_first {
        inbox.extend_from_slice(bytes);
    }
    let all = if is_first { bytes } else { &inbox };
    let settings = &step.plan.settings;
    let mut relay =
        Relay { session_id: conn, session, server_id, server, settings, now: step.now, actions: step.actions };
    let read = relay.requests(all, source);
    if let Ok(count) = read {
        session.incoming_mut().put_back(all[count..].to_vec());
    }
    if !is_first {
        step.actions.keep(source, inbox);
    }
    match read {
        Ok(_) => backpressure::balance_if_paused(sessions, servers, step, conn),
        Err(ending) => step.agenda.end_by_request(conn, ending),
    }
}

/// Bytes of its server.
pub(crate) fn own_server_said(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    server_id: ConnId,
    bytes: &[u8],
) {
    let server = &mut servers[server_id];
    let conn = server.session().expect("a server that passes what it says has somebody to pass it to");
    let session = &mut sessions[conn];
    let mut inbox = server.incoming_mut().take_inbox();
    let is_first = inbox.is_empty();
    let source = if is_first { Source::Chunk } else { step.actions.next_kept() };
    if !is_first {
        inbox.extend_from_slice(bytes);
    }
    let all = if is_first { bytes } else { &inbox };
    let settings = &step.plan.settings;
    let mut relay =
        Relay { session_id: conn, session, server_id, server, settings, now: step.now, actions: step.actions };
    let read = relay.answers(all, source);
    if let Ok(count) = read {
        server.incoming_mut().keep(&all[count..]);
        pools[sessions[conn].pool()].counts_mut().count_sent(count);
    }
    if !is_first {
        step.actions.keep(source, inbox);
    }
    match read {
        Ok(_) => _ = closed_servers::close_fast(sessions, servers, pools, step, server_id),
        Err(how) => lost_servers::break_server(sessions, servers, pools, step, server_id, how.into()),
    }
}
