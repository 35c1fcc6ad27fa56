//! A server that is lost, or whose login fails: what happens to its session, and to the sessions that wait for a
//! server.
//!
//! A host at which a login fails comes after the database's other hosts for `server_login_retry` ([`hosts`]); while one of these is not
//! known to be down, nobody waits for the one that is.
//!
//! If PostgreSQL refuses a login for good, every waiting session gets its error at once. After any other failure the
//! login is tried again while sessions wait, with pauses that double up to `server_login_retry`, each up to a quarter
//! shorter at random.

use std::sync::Arc;

use connections::Broken;
use link::end_reason::EndReason;
use link::lone_reads::send_again;
use link::loss::{Loss, Told};
use link::lost_block::is_loss;
use link::pool::{OtherHost, Pool};
use link::relaying::has_said_goodbye;
use link::server::{Chore, CloseReason, ServerState};
use link::untouched::{keep, untouched};
use machine::Action;
use machine::event::Hangup;
use machine::mail::{Failure, ToCoordinator};
use machine::observe::{Level, Topic};
use machine::sabotage::{Fault, does};
use queueing::refusals::Reason;
use settings::PoolMode;
use units::deadline::Owner;
use units::{ConnId, PoolId};
use wire::backend::Fields;
use wire::{SqlState, sqlstate};

use crate::limits::refusals;
use crate::servers::{closed_servers, drains};
use crate::sessions::lost_blocks::Cause;
use crate::sessions::{hosts, lost_blocks, replicating, untouched_blocks, welcome};
use crate::tables::followups::SessionEnd;
use crate::tables::owners::{Pools, Servers, Sessions};
use crate::tables::step::Step;
use crate::tables::{lines, lookups};

pub(crate) fn server_hung_up(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    _why: Hangup,
) {
    // It may have been closed in this round.
    let Some(server) = servers.get_mut(conn) else { return };
    if matches!(server.state(), ServerState::Connecting) {
        return login_failed(sessions, servers, pools, step, conn, CloseReason::CrashedInLogin);
    }
    if !server.end().is_gone() {
        hosts::lost_a_server(server, step);
    }
    server.end_mut().server_gone();
    let why = match *server.state() {
        ServerState::Connecting | ServerState::LoggingIn(_) => CloseReason::CrashedInLogin,
        _ => CloseReason::Crashed,
    };
    break_server(sessions, servers, pools, step, conn, why);
}

/// A server that cannot be used any more is closed.
pub(crate) fn break_server(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    why: CloseReason,
) {
    let server = &servers[conn];
    match *server.state() {
        ServerState::Connecting
        | ServerState::LoggingIn(_)
        | ServerState::Busy(Chore::Setup | Chore::Role | Chore::Base) => {
            login_failed(sessions, servers, pools, step, conn, why);
        }
        ServerState::Own(_) | ServerState::Linked(_) => {
            server_lost(sessions, servers, pools, step, conn, sqlstate::CONNECTION_FAILURE, why)
        }
        _ => closed_servers::close_server(servers, pools, step, conn, why),
    }
}

/// A linked server is lost. Its session stays ([`lost_blocks`]), unless it has lost more than a transaction, or is within a message that cannot be
/// completed. A request that may have taken effect is not sent again. `code`: PostgreSQL's own, or the pooler's for what is undone for certain.
/// A change that may have been committed gets 08007.
//= pg18 errcodes-appendix
pub(crate) fn server_lost(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    code: SqlState,
    why: CloseReason,
) {
    let server = &servers[conn];
    if let ServerState::Own(session) = *server.state() {
        // One that has gone, or was about to go, is dealt with where it is closed: it may have said why.
        let is_known = server.end().is_gone() || has_said_goodbye(server);
        if !is_known && !server.incoming().is_within_answer() {
            step.agenda.refuse_with(session, code, why.clone());
        }
        return closed_servers::close_server(servers, pools, step, conn, why);
    }
    // Its client was gone already.
    let ServerState::Linked(session) = *server.state() else {
        return break_server(sessions, servers, pools, step, conn, why);
    };
    let in_answer = server.incoming().is_within_answer();
    let error_forwarded = server.end().has_forwarded_fatal_error();
    let loss = lookups::outlives(sessions, pools, server, session);
    let kept = sessions[session].tracker().map(|tracker| tracker.pinning.pins());
    let why = why.with(kept.unwrap_or_default());
    let cause = Cause::new(server, pools[server.pool()].rules(), &step.plan.settings, code, why.clone());
    let code = if server.may_commit() { cause.code_in_doubt() } else { code };
    let refusal = untouched_blocks::refusal(server, &cause, &why);
    // A session that PostgreSQL or the pooler ends on purpose is not begun again.
    if loss.is_some() && is_loss(cause.code()) {
        let has_blocks = pools[server.pool()].rules().mode() == PoolMode::Transaction;
        let block = if has_blocks { untouched(server, &sessions[session]) } else { None };
        if let Some(block) = block {
            keep(server, &mut sessions[session], block, cause.error_of_block());
        }
        let sends_writes = does(&step.plan.settings, Fault::RetryWrites);
        if block.is_some() || send_again(server, &mut sessions[session], sends_writes) {
            closed_servers::close_server(servers, pools, step, conn, why);
            return untouched_blocks::go_on(sessions, servers, pools, step, session, block, &cause);
        }
    }
    closed_servers::close_server(servers, pools, step, conn, why.clone());
    if let Some(loss) = loss {
        lost_blocks::go_on(sessions, servers, pools, step, session, (&loss, Some(&cause)));
        // A block that was to begin again there is not tried at every server in turn.
        match refusal {
            Some((code, words)) => refusals::refuse_begun(sessions, step, session, (code, &words)),
            None => refusals::lose_begun(sessions, step, session, Told::Nothing),
        }
    } else if error_forwarded || in_answer {
        // The client has the error already, or is within a message that cannot be completed.
        step.agenda.end(session, SessionEnd::Dismissed(why.into()));
    } else {
        step.agenda.refuse_with(session, code, why);
    }
}

/// A session without a request under way leaves its server, which is drained and cleared.
pub(crate) fn leave_server(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    server_id: ConnId,
) {
    let Some(session) = servers[server_id].session() else { return };
    let nothing = Loss { answers: Vec::new(), block: None };
    lost_blocks::go_on(sessions, servers, pools, step, session, (&nothing, None));
    servers[server_id].traces_mut().reset_needed();
    drains::detach(servers, pools, step, server_id, false);
}

pub(crate) fn server_open_failed(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    why: CloseReason,
) {
    // It may have been closed meanwhile.
    let Some(server) = servers.get(conn) else { return };
    debug_assert!(matches!(server.state(), ServerState::Connecting));
    login_failed(sessions, servers, pools, step, conn, why);
}

/// The server has no TLS and must have, or does not prove who it is. That is no matter of time, so clients are told.
pub(crate) fn not_encrypted(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    why: CloseReason,
) {
    login_failed_as(sessions, servers, pools, step, conn, why, (None, Some(sqlstate::CONNECTION_FAILURE)));
}

/// Opens a server's connection once more, to try it with TLS if it was without, and the other way round.
fn connect_again(servers: &mut Servers, pools: &Pools, step: &mut Step<'_>, conn: ConnId, words: String) {
    lines::log_server(servers, pools, step, conn, Level::Log, Topic::Connections, words);
    let server = &mut servers[conn];
    if !matches!(server.state(), ServerState::Connecting) {
        server.connect_again();
    }
    server.incoming_mut().forget();
    let address = Arc::clone(server.identity().address());
    step.actions.push(Action::Close { conn, last_words: false });
    step.actions.push(Action::Open { conn, address });
}

/// PostgreSQL answered a login with an error.
pub(crate) fn login_refused(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    body: &[u8],
) {
    let fields = Fields::decode(body);
    let code = fields.sqlstate().unwrap_or(sqlstate::CONNECTION_FAILURE);
    let words = String::from_utf8_lossy(fields.message().unwrap_or(b"login failed")).into_owned();
    let log_text = format!("server login failed: FATAL {words}");
    if servers[conn].identity_mut().encryption_mut().retries_after_refusal(code) {
        let other = if servers[conn].identity().encryption().begins_with_tls() { "with" } else { "without" };
        return connect_again(servers, pools, step, conn, format!("{log_text}; trying {other} TLS"));
    }
    if servers[conn].identity().opened_for_session().is_some() {
        lines::log_server(servers, pools, step, conn, Level::Warning, Topic::General, log_text);
        let words = step.plan.settings.global.login.words.choose(words, "login failed");
        replicating::own_server_refused(
            servers,
            pools,
            step,
            conn,
            (code, EndReason::Said { words }),
            CloseReason::LoginFailed,
        );
    } else if is_final(code) && !hosts::may_let_in_elsewhere(servers, pools, step, conn) {
        let pool = servers[conn].pool();
        lines::log_server(servers, pools, step, conn, Level::Warning, Topic::General, log_text);
        let pause = step.plan.settings.global.servers.server_login_retry;
        pools[pool].opening_mut().refuse_spares(step.now + pause);
        closed_servers::close_server(servers, pools, step, conn, CloseReason::Said { words: words.clone() });
        refuse_waiting(sessions, pools, step, pool, code, &EndReason::Said { words });
    } else {
        login_failed_as(sessions, servers, pools, step, conn, CloseReason::LoginFailed, (Some((code, log_text)), None));
    }
}

/// A login failed: closes the server, and tries again after a pause.
pub(crate) fn login_failed(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    why: CloseReason,
) {
    let told = is_wrong_password_type(&why).then_some(sqlstate::INVALID_AUTHORIZATION);
    login_failed_as(sessions, servers, pools, step, conn, why, (None, told));
}

/// The coordinator writes the log, since all workers retry often while a PostgreSQL is down. `refused`: PostgreSQL's error, its SQLSTATE and
/// the log line with it. `told`: those who wait get the error with this code, if no other host may do better.
fn login_failed_as(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    why: CloseReason,
    (refused, told): (Option<(SqlState, String)>, Option<SqlState>),
) {
    let (code, words) = refused.unzip();
    let is_host = hosts::failed(servers, pools, step, conn, code, &why);
    let server = &servers[conn];
    let (id, host) = (server.pool(), Arc::clone(server.identity().host()));
    let longest = hosts::longest_pause(step, server.identity().opened_for().target_session_attrs);
    let is_other_elsewhere = !is_wrong_password_type(&why);
    if server.identity().opened_for_session().is_some() {
        let other = pools[id].other_host(&host, &pools.upstreams, step.now);
        if is_other_elsewhere && other == Some(OtherHost::Fits) {
            return replicating::own_server_elsewhere(sessions, servers, pools, step, conn, why);
        }
        let told = (sqlstate::CONNECTION_FAILURE, why.clone().into());
        return replicating::own_server_refused(servers, pools, step, conn, told, why);
    }
    let began = server.identity().connected_at();
    let told_why: Box<str> = words.clone().unwrap_or_else(|| why.to_string()).into();
    let failure = Failure {
        pool: id,
        server: server.identity().name(),
        address: server.identity().address().clone(),
        why: told_why.clone(),
        lines: words.into_iter().chain([lines::words_of_end(servers, step, conn, &why)]).collect(),
    };
    let failed = ToCoordinator::Failed(Box::new(failure));
    step.actions.post_to_coordinator(failed);
    closed_servers::remove_server(servers, pools, step, conn, why.clone());
    let jitter = u32::from_ne_bytes(servers.random.bytes()) >> 16;
    let pool = &mut pools.table[id];
    let other = pool.other_host(&host, &pools.upstreams, step.now).filter(|_| is_other_elsewhere);
    if other == Some(OtherHost::Fits) {
        // The next server is opened there, at once.
        return;
    }
    if other.is_none() {
        pool.opening_mut().login_failed(step.now, began, longest, jitter);
    }
    if is_host {
        pool.opening_mut().hold(began, &told_why);
        held_clients(pool).for_each(|conn| step.agenda.arm(Owner::Conn(conn)));
    }
    if other.is_some() {
        return;
    }
    if pool.welcome().is_known(true) {
        // Who waits only to be told what the new servers begin with is let in all the same, and waits with its first statement.
        welcome::welcome_all(sessions, servers, pools, step, id);
    }
    if let Some(code) = told {
        refuse_waiting(sessions, pools, step, id, code, &why.into());
    }
}

/// Another host asks for the same, so it is not tried.
fn is_wrong_password_type(why: &CloseReason) -> bool {
    matches!(why, CloseReason::Broken { how: Broken::WrongPasswordType })
}

/// Refuses all sessions that wait for this pool.
fn refuse_waiting(
    sessions: &Sessions,
    pools: &mut Pools,
    step: &mut Step<'_>,
    id: PoolId,
    code: SqlState,
    why: &EndReason,
) {
    for conn in held_clients(&pools[id]).collect::<Vec<_>>() {
        refusals::count_ended(sessions, pools, step, conn, Reason::ServerLogin);
        step.agenda.refuse_with(conn, code, why.clone());
    }
}

/// All sessions that wait for a server of this pool.
pub(crate) fn held_clients(pool: &Pool) -> impl Iterator<Item = ConnId> {
    pool.queue().waiters().map(|waiter| waiter.session).chain(pool.welcome().waiting())
}

/// Errors that a retry does not cure: credentials, no such database, no right to connect.
fn is_final(code: SqlState) -> bool {
    &code.class() == b"28" || [sqlstate::INVALID_CATALOG_NAME, SqlState(*b"42501")].contains(&code)
}
