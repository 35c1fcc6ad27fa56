//! Sends a session that has logged in its ParameterStatus messages and cancel key. The parameters are those of its
//! pool's servers, with the client's own over them. The first login of a pool waits until a server has logged in. A
//! client that is to get its server's process id (`stable_backend_pid`) waits for a server of its own.
//!
//! //= pg18 protocol-flow#PROTOCOL-FLOW-START-UP

use std::borrow::Cow;
use std::sync::Arc;

use link::end_reason::EndReason;
use link::pinned::count_pinned;
use link::session::{Newcomer, Session, WaitFor};
use machine::action::Action;
use machine::arrival::Arrival;
use session_state::login_report::LoginReport;
use session_state::parameters::{Reported, Tracked};
use session_state::spelling::{Learnt, canonical};
use session_state::state::State as SessionState;
use session_state::tracker::Tracker;
use units::deadline::Owner;
use units::{ConnId, PoolId};
use wire::backend::{Authentication, BackendKeyData, ErrorResponse, Status};
use wire::{SqlState, backend};

use crate::limits::classes;
use crate::servers::{closed_servers, disturbances, idle_servers, new_pools};
use crate::sessions::{console, faults, links, replicating, waiters};
use crate::tables::notices::write_notice;
use crate::tables::owners::{Pools, Servers, Sessions};
use crate::tables::step::Step;
use crate::tables::{backpressure, suspension};

/// Bytes of a name that PostgreSQL keeps (NAMEDATALEN, less its end).
const NAME_LEN_MAX: usize = 63;

/// The code of a NOTICE about a name that is cut.
const NAME_TOO_LONG: SqlState = SqlState(*b"42622");

/// A session arrives from the door, with its connection.
pub(crate) fn arrived(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    arrival: Arrival,
) {
    let pool = arrival.pool;
    let own_user = arrival.key.user == arrival.identity.user;
    let is_expected = arrival.life == step.plan.life;
    let entry = match is_expected {
        true => new_pools::ensure_pool(pools, step.plan, pool, arrival.key, arrival.homes),
        false => None,
    };
    // A login that waited may arrive after a reload has removed its database.
    let configured = entry.as_ref().is_some_and(|entry| !entry.is_removed());
    let mut identity = arrival.identity;
    if let (Some(entry), Some(identity)) = (entry, Arc::get_mut(&mut identity)) {
        identity.share_names(entry.key());
    }
    let mut parameters = step.caches.tracked.empty();
    let mut first = SessionState::default();
    for (name, value) in arrival.parameters.iter() {
        match step.caches.tracked.index(name) {
            Some(index) => parameters.set(index, value),
            // PostgreSQL passes it over: whose session it is, the login says.
            None if name.eq_ignore_ascii_case(b"session_authorization") => {}
            None => first.begin_with(name, value),
        }
    }
    let sets_local_buffers = first.sets_local_buffers();
    let newcomer = Newcomer {
        pool,
        identity,
        parameters: step.caches.interned.intern(parameters),
        tracker: (!first.is_initial()).then(|| Box::new(Tracker::starting(step.now, first))),
        console: arrival.console,
        reports_limits: arrival.reports_limits,
        deadline_ms: arrival.deadline_ms,
    };
    let session = Session::new(step.now, newcomer);
    let conn = sessions.insert_with(|_| session);
    step.actions.push(Action::Adopt { conn });
    if !is_expected {
        return faults::turn_away(sessions, step, conn);
    }
    if let Some(entry) = pools.get_mut(pool) {
        if sets_local_buffers {
            entry.servers_mut().local_buffers_set();
        }
        entry.counts_mut().session_came();
        entry.counts_mut().count_login();
        // With a forced user, the client's password is not the server's. The latest proof counts: an older one may be of a
        // password that has changed.
        if own_user && !arrival.proved.is_empty() {
            entry.opening_mut().prove(arrival.proved);
        }
        if entry.has_other_excess() {
            step.agenda.publish(pool);
        }
        closed_servers::retire_local_buffers(sessions, servers, pools, step, pool);
    }
    backpressure::stash(sessions, servers, step, conn, &arrival.leftover);
    if arrival.console.is_some() {
        console::welcome_to_console(sessions, step, conn);
    } else if !configured {
        step.agenda.refuse(conn, EndReason::NoSuchDatabase);
    } else if step.plan.stopping.has_begun() {
        step.agenda.refuse(conn, EndReason::ShuttingDown);
    } else if sessions[conn].identity().replication.is_some() {
        replicating::begin(sessions, pools, step, conn);
    } else {
        welcome_or_wait(sessions, servers, pools, step, conn, pool, arrival.stable_backend_pid);
    }
    suspension::hold_session(sessions, step, conn);
}

/// `stable_pid`: the client's own choice, if it made one.
fn welcome_or_wait(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    pool: PoolId,
    stable_pid: Option<bool>,
) {
    let entry = &mut pools[pool];
    if stable_pid.unwrap_or(entry.rules().stable_backend_pid()) {
        welcome_with_server(sessions, servers, pools, step, conn, pool);
        return;
    }
    if entry.welcome().is_known(entry.rules().orders().paused || entry.opening().is_paused(step.now)) {
        welcome(sessions, servers, pools, step, conn);
        return;
    }
    entry.welcome_mut().wait(conn, step.now);
    let shared = entry.exchange().is_shared();
    step.agenda.feed(pool);
    if shared {
        step.agenda.publish(pool);
    }
    step.agenda.arm(Owner::Conn(conn));
}

/// A client that is to get its server's process id gets a server first.
fn welcome_with_server(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    pool: PoolId,
) {
    // Sessions that wait already come first.
    classes::classify(sessions, pools, step, conn, &[]);
    let class = sessions[conn].claim().class();
    let may_take = pools[pool].queue().admits(class);
    let server =
        if may_take { idle_servers::take_idle(sessions, servers, pools, step, pool, Some(conn)) } else { None };
    let server = server.map(|server| disturbances::rotate(servers, pools, step, pool, conn, server));
    match server {
        Some(server) => welcome_linked(sessions, servers, pools, step, conn, server),
        None => {
            waiters::begin_waiting(sessions, servers, pools, step, conn, WaitFor::Login);
            step.agenda.arm(Owner::Conn(conn));
        }
    }
}

/// A client has its server: it gets that server's process id, and keeps the server until it ends.
pub(crate) fn welcome_linked(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    server_id: ConnId,
) {
    let notice = take_base(sessions, pools, step, conn);
    links::link(sessions, servers, pools, step, conn, server_id);
    let (session, server) = (&mut sessions[conn], &mut servers[server_id]);
    // No transaction has begun yet.
    server.not_begun();
    let (pid, held) = (server.backend().pid, server.holds_messages());
    let pool = session.pool();
    let tracker = session.ensure_tracker();
    if !held {
        tracker.reported_at_login = Some(Arc::new(server.kept().reported().clone()));
    }
    tracker.pinning.pin_for_life(step.now);
    count_pinned(tracker, &mut pools[pool]);
    servers.cancels.note_pid(pid, conn);
    greet(sessions, pools, step, conn, pid, notice.as_deref());
    if !held {
        step.agenda.go_on(conn);
    }
    step.agenda.arm(Owner::Conn(conn));
}

/// A server has logged in: sessions that waited for its parameters go on.
pub(crate) fn welcome_all(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    pool: PoolId,
) {
    let entry = &mut pools[pool];
    step.agenda.publish_shared(entry);
    for conn in entry.welcome_mut().take_waiting() {
        welcome(sessions, servers, pools, step, conn);
    }
}

/// The first new server has not come soon: the session is told what is known, and gets the news with its first statement.
pub(crate) fn welcome_overdue(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
) {
    let pool = sessions[conn].pool();
    pools[pool].welcome_mut().stop_waiting(conn);
    welcome(sessions, servers, pools, step, conn);
}

fn welcome(sessions: &mut Sessions, servers: &mut Servers, pools: &Pools, step: &mut Step<'_>, conn: ConnId) {
    let notice = take_base(sessions, pools, step, conn);
    let session = &mut sessions[conn];
    session.let_in(step.now);
    let pid = session.identity().pid(conn);
    if session.identity().cancel_secret.pid().is_some() {
        servers.cancels.note_pid(pid, conn);
    }
    greet(sessions, pools, step, conn, pid, notice.as_deref());
    if !sessions[conn].incoming().inbox().is_empty() {
        step.agenda.reconsider(conn);
    }
    step.agenda.arm(Owner::Conn(conn));
}

/// Gives a session the pool's parameters where the client has set none. Returns PostgreSQL's NOTICE about the client's
/// own, if there is one.
fn take_base(sessions: &mut Sessions, pools: &Pools, step: &mut Step<'_>, conn: ConnId) -> Option<String> {
    let session = sessions.get_mut(conn)?;
    let pool = pools.get(session.pool())?;
    let report = pool.welcome().report()?;
    session.begin_with(report);
    if session.tracker().is_none()
        && let Some(known) = step.caches.interned.laid(session.parameters(), &report.parameters)
    {
        session.take_parameters(known, report);
        return None;
    }
    let own = session.parameters().spelled(|index, value| {
        let name = step.caches.tracked.names().nth(index)?;
        canonical(name.as_bytes(), value, report.parameters.get(index)).map(Cow::into_owned)
    });
    let mut parameters = own.as_ref().unwrap_or(session.parameters()).over(&report.parameters);
    let state = session.tracker().map(|tracker| &**tracker.state());
    let mut others = begun_others(report, state, &step.caches.tracked);
    let key = Learnt::key(&parameters, state, report, &step.caches.tracked);
    let nothing_learnt = key.is_none();
    if let Some(reported) = key.and_then(|key| pool.welcome().learnt().get(&key)) {
        parameters = parameters.learnt(&reported.parameters, &report.parameters);
        others = Arc::clone(&reported.others);
    }
    if let Some(tracker) = session.tracker_mut().filter(|_| !others.is_empty()) {
        tracker.reported_at_login = Some(others);
    }
    let asked = parameters
        .get(Tracked::APPLICATION_NAME)
        .filter(|_| !step.plan.settings.global.startup.application_name_add_host);
    let name = asked.and_then(cut_name);
    let notice = name.map(|(cut, notice)| (parameters.with(Tracked::APPLICATION_NAME, &cut), notice));
    let notice = notice.map(|(shorter, notice)| {
        parameters = shorter.unwrap_or_else(|| parameters.clone());
        notice
    });
    let is_short = parameters.get(Tracked::APPLICATION_NAME).is_none_or(|name| name.len() <= NAME_LEN_MAX);
    let own = session.take_parameters(step.caches.interned.intern(parameters), report);
    // Only a result that is the same next time is kept: without values learnt from servers and without a NOTICE.
    if nothing_learnt && is_short && notice.is_none() && session.tracker().is_none() {
        step.caches.interned.keep_laid(own, Arc::clone(&report.parameters), Arc::clone(session.parameters()));
    }
    notice
}

/// Sends the end of the login.
fn greet(sessions: &mut Sessions, pools: &Pools, step: &mut Step<'_>, conn: ConnId, pid: i32, remark: Option<&str>) {
    let session = &mut sessions[conn];
    let report = pools[session.pool()].welcome().report().expect("a server of its pool has logged in");
    let (parameters, identity) = (Arc::clone(session.parameters()), Arc::clone(session.identity()));
    let others = session.tracker().and_then(|tracker| tracker.reported_at_login.clone());
    let nothing = Reported::new();
    let others = others.as_deref().unwrap_or(&nothing);
    let notify = &step.plan.settings.global.startup.login_notify_message;
    step.actions.send_new(conn, |out| {
        Authentication::Ok.encode(out);
        if let Some(message) = remark {
            let (severity, code) = ("NOTICE", NAME_TOO_LONG);
            ErrorResponse { severity, code, message, detail: None, hint: None }.encode_notice(out);
        }
        report.write(&parameters, others, out);
        BackendKeyData { pid, secret: identity.cancel_secret.bytes() }.encode(out);
        if !notify.is_empty() {
            write_notice(notify, None, out);
        }
        backend::encode_ready(out, Status::Idle);
    });
}

/// An application_name as PostgreSQL truncates it, if it does, and its NOTICE about it. A name that is not all
/// printable ASCII is left to the server.
fn cut_name(name: &[u8]) -> Option<(Vec<u8>, String)> {
    let cut = name.get(..NAME_LEN_MAX).filter(|cut| cut.len() < name.len() && !name.contains(&b'\\'))?;
    let [whole, kept] = [name, cut].map(String::from_utf8_lossy);
    Some((cut.to_vec(), format!("identifier \"{whole}\" will be truncated to \"{kept}\"")))
}

/// The values of untracked parameters that a client beginning with this state is sent, as far as they are known.
fn begun_others(report: &LoginReport, state: Option<&SessionState>, tracked: &Tracked) -> Arc<Reported> {
    let Some(state) = state.filter(|state| !state.is_initial()) else { return Arc::default() };
    let untracked = report.reported.iter().filter(|(name, _)| tracked.index(name).is_none());
    let reported = untracked.filter_map(|(name, begins)| {
        let value = canonical(name, state.value(name)?, Some(begins))?;
        (*value != **begins).then(|| (name.clone(), (&*value).into()))
    });
    Arc::new(reported.collect())
}
