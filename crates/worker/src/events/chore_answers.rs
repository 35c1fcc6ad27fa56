//! What follows when a server answers a query of the pooler itself.

use link::server::{Chore, CloseReason};
use machine::observe::{Level, Topic};
use units::ConnId;
use wire::backend::Status;

use crate::events::server_logins;
use crate::servers::{disturbances, free_servers, listener, name_answers, name_polls, wait_samples};
use crate::sessions::lost_servers;
use crate::tables::lines;
use crate::tables::owners::{Pools, Servers, Sessions};
use crate::tables::step::Step;

pub(crate) fn chore_progress(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    chore: Chore,
    error: Option<String>,
) {
    let server = &mut servers[conn];
    if let Some(words) = error {
        if is_excused(servers, pools, step, conn, chore, &words) {
            return chore_progress(sessions, servers, pools, step, conn, chore, None);
        }
        // The error is kept until the answer is complete, so that it is logged once.
        lost_servers::break_server(
            sessions,
            servers,
            pools,
            step,
            conn,
            CloseReason::ChoreFailed { chore, error: words },
        );
        return;
    }
    if !server.ledger().is_clear() || !server.is_between_messages() {
        return;
    }
    if server.transaction().status() != Status::Idle {
        lost_servers::break_server(sessions, servers, pools, step, conn, CloseReason::ChoreInTransaction { chore });
        return;
    }
    match chore {
        Chore::Role => server_logins::role_known(sessions, servers, pools, step, conn),
        Chore::Setup => server_logins::set_up(sessions, servers, pools, step, conn),
        Chore::Base => server_logins::server_ready(sessions, servers, pools, step, conn),
        Chore::Rollback => free_servers::reset_or_free(servers, pools, step, conn),
        Chore::Check | Chore::Reset => free_servers::restore_or_free(servers, pools, step, conn),
        Chore::Clear => {
            // Whatever the command tag was: it is not cleared again.
            server.traces_mut().cleared();
            free_servers::restore_or_free(servers, pools, step, conn);
        }
        Chore::Restore => {
            server.restored();
            free_servers::free(servers, pools, step, conn);
        }
        Chore::Unlisten => {
            server.traces_mut().unlistened();
            free_servers::reset_or_free(servers, pools, step, conn);
        }
        Chore::Poison => {
            disturbances::disturbance_ended(sessions, servers, pools, step, conn, chore);
            free_servers::reset_or_free(servers, pools, step, conn);
        }
        Chore::Compare => {
            disturbances::disturbance_ended(sessions, servers, pools, step, conn, chore);
            free_servers::free(servers, pools, step, conn);
        }
        Chore::WaitEvents => wait_samples::wait_events_answered(servers, pools, step, conn),
        Chore::Poll | Chore::Catalogue | Chore::First => name_answers::names_answered(servers, pools, step, conn),
    }
}

/// A query of the pooler's was refused. Whether the server can be used all the same.
fn is_excused(
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    chore: Chore,
    words: &str,
) -> bool {
    let pool = servers[conn].pool();
    match chore {
        Chore::Poison | Chore::Compare => {
            let words = words.to_owned();
            let complaint = servers.chaos.as_mut().and_then(|chaos| chaos.refused(chore, conn, pool, words));
            if let Some(text) = complaint {
                lines::log_server(servers, pools, step, conn, Level::Debug, Topic::General, text);
            }
        }
        Chore::WaitEvents => wait_samples::wait_events_refused(servers, pools, conn),
        Chore::Base => {
            let text = format!("{chore} failed: {words}; it is reset after each session that has set something");
            // Where texts are not read, it matters to roles by ALTER ROLE alone.
            let level = if pools[pool].rules().follows() { Level::Warning } else { Level::Debug };
            lines::log_server(servers, pools, step, conn, level, Topic::General, text);
        }
        chore if chore.is_of_names() => name_polls::names_refused(servers, pools, step, conn, words),
        _ => return false,
    }
    true
}

/// The listener has answered something.
pub(crate) fn listener_progress(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    server_id: ConnId,
    error: Option<String>,
) {
    let server = &servers[server_id];
    if let Some(words) = error {
        lost_servers::break_server(
            sessions,
            servers,
            pools,
            step,
            server_id,
            CloseReason::ListenFailed { error: words },
        );
        return;
    }
    if !server.ledger().is_clear() {
        return;
    }
    let listener = pools[server.pool()].listener_mut();
    let listener = listener.expect("a server that listens is its pool's listener's");
    for conn in listener.answered() {
        listener::attended(sessions, servers, pools, step, conn);
    }
    listener::begin_round(servers, pools, step, server_id);
}
