//! A query that takes longer than `query_timeout`: its cancel, and what happens to its server if the cancel has no
//! effect, or must not be sent since PostgreSQL may be committing.

use link::overdue::PGBOUNCERS_WORDS;
use link::request_refusal::RequestRefusal;
use link::server::CloseReason;
use machine::observe::{Level, Topic};
use machine::sabotage::{Fault, does};
use queueing::refusals::Reason;
use units::ConnId;
use units::deadline::Owner;
use wire::sqlstate;

use crate::limits::refusals;
use crate::servers::cancellers;
use crate::sessions::lost_servers;
use crate::tables::lines;
use crate::tables::owners::{Pools, Servers, Sessions};
use crate::tables::step::Step;

/// A session's query runs longer than it may: it is cancelled.
pub(crate) fn cancel_overdue(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
) {
    let server_id = sessions[conn].server().expect("a query that runs has a server");
    let server = &mut servers[server_id];
    let may_commit = server.may_commit() && !does(&step.plan.settings, Fault::CancelCommits);
    if server.backend().secret.is_empty() || may_commit {
        // It cannot be cancelled, or its commit would be told although it waits for a standby.
        refusals::count_ended(sessions, pools, step, conn, Reason::RunTimeout);
        give_up_overdue(sessions, servers, pools, step, conn);
        return;
    }
    server.cancel_mut().query_overdue(step.now);
    refusals::count_ended(sessions, pools, step, conn, Reason::RunTimeout);
    let words =
        step.plan.settings.global.login.words.choose(RequestRefusal::QueryTimeout.to_string(), PGBOUNCERS_WORDS);
    lines::log_session(sessions, step, conn, Level::Warning, Topic::PoolerErrors, words);
    cancellers::cancel_linked(sessions, servers, pools, step, conn, server_id, &RequestRefusal::QueryTimeout);
    step.agenda.arm(Owner::Conn(conn));
}

/// No cancel is sent, or it had no effect: the server is closed. Its client gets an error, and goes on if nothing else is lost with the
/// server.
pub(crate) fn give_up_overdue(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
) {
    let server = sessions[conn].server().expect("a query that runs has a server");
    lost_servers::server_lost(
        sessions,
        servers,
        pools,
        step,
        server,
        sqlstate::QUERY_CANCELED,
        CloseReason::QueryTimeout,
    );
}

/// Holds the client's next messages, so that the cancel of a query that has ended does not hit them.
#[cold]
pub(crate) fn wait_for_cancel(servers: &mut Servers, server_id: ConnId) {
    if let Some(server) = servers.get_mut(server_id).filter(|server| server.session().is_some()) {
        server.hold_mut().begin();
    }
}
