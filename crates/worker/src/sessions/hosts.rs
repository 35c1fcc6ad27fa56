//! A worker's observations of the hosts of databases with several: at which of them servers cannot be opened, at which they log in, and which of
//! them is the primary. Observations of a database's only host stay on the worker.
//!
//! | a login fails because | it is passed over by |
//! |---|---|
//! | no connection is opened; TLS fails; PostgreSQL does not answer in time, or hangs up without an answer; it starts up or shuts down (57P03) | all pools of all workers |
//! | of anything after the first answer: the user, the password, the database, its `connect_query`, too many connections | this pool on this worker |
//!
//! Both end after `server_login_retry`, or with the first login there: anybody's for the first, one of this pool's for the second.
//!
//! Each new server of a database with `target_session_attrs` must have the role that is wanted, as in libpq. PostgreSQL 14 and later reports its
//! role at the login; earlier ones are asked. A server of another role is closed, and the next one is opened at another host. If no host fits, all
//! are tried again after a pause of a second at most.
//= pg18 libpq-connect#LIBPQ-CONNECT-TARGET-SESSION-ATTRS

use std::sync::Arc;
use std::time::Duration;

use connections::databases::{Address, TargetSessionAttrs};
use link::end_reason::EndReason;
use link::request_refusal::RequestRefusal;
use link::server::{CloseReason, Group, Server, ServerState};
use link::server_login;
use link::session::SessionState;
use machine::Action;
use machine::mail::ToCoordinator;
use machine::primaries::Decision;
use machine::sabotage::{Fault, does};
use machine::upstreams::{HostRole, HostState, Noted, Observed, Upstream};
use queueing::refusals::Reason;
use units::deadline::Owner;
use units::{ConnId, limits};
use wire::{SqlState, sqlstate};

use crate::limits::{deadlines, refusals};
use crate::servers::closed_servers;
use crate::sessions::lost_servers::{self, held_clients};
use crate::sessions::{replicating, silent_hosts};
use crate::tables::followups::Followup;
use crate::tables::lookups;
use crate::tables::owners::{Pools, Servers, Sessions};
use crate::tables::step::Step;

/// A server could not be opened, or its login has failed. `code`: of PostgreSQL's error, if it sent one. Whether it would be the same for all pools.
pub(crate) fn failed(
    servers: &Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    code: Option<SqlState>,
    why: &CloseReason,
) -> bool {
    let server = &servers[conn];
    let host = Arc::clone(server.identity().host());
    let until = step.now + step.plan.settings.global.servers.server_login_retry;
    step.actions.push(Action::Probe { host: Arc::clone(&host), is_urgent: true });
    let is_host = match why {
        CloseReason::WrongRole { is_host, .. } => {
            let role = server.identity().role();
            if !is_host {
                pools[server.pool()].opening_mut().host_refused(&host, step.now, until);
            }
            observe(pools, step, &host, HostState::Alive { role });
            true
        }
        CloseReason::TwoPrimaries => true,
        _ if fails_for_all(server, code) => {
            observe(pools, step, &host, HostState::Failed { until });
            true
        }
        _ => {
            pools[server.pool()].opening_mut().host_refused(&host, step.now, until);
            false
        }
    };
    pools[server.pool()].leave_host(&host);
    is_host
}

/// Whether a login that is refused for good is tried at another host: where a role is wanted and this is not the host that is written to, it may lack a
/// database or a user that others have.
pub(crate) fn may_let_in_elsewhere(servers: &Servers, pools: &Pools, step: &Step<'_>, conn: ConnId) -> bool {
    let server = &servers[conn];
    let (database, host) = (server.identity().opened_for(), server.identity().host());
    let is_written_to = pools.upstreams.primary(&database.hosts) == Some(host);
    database.target_session_attrs != TargetSessionAttrs::Any
        && !(is_written_to && database.target_session_attrs.wants_primary())
        && pools[server.pool()].opening().has_untried_host(database, host, &pools.upstreams, step.now)
}

/// No host can be used, and a session has waited for as long as `failover_wait` allows.
pub(crate) fn held_too_long(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
) {
    let session = &sessions[conn];
    let pool = &pools[session.pool()];
    let why = lookups::tried(pool, &pools.upstreams, step.now);
    let SessionState::Waiting { since, .. } = session.state() else {
        refusals::count_ended(sessions, pools, step, conn, Reason::FailoverWait);
        return step.agenda.refuse(conn, EndReason::NoHost { why });
    };
    let detail = format!(
        "waited_ms={} failover_wait_ms={}",
        step.now.since(since).as_millis(),
        pool.rules().failover_wait().as_millis()
    );
    let why = RequestRefusal::NoHost { why };
    refusals::count_refusal(sessions, pools, step, conn, &why);
    refusals::refuse_waiting_request(sessions, servers, pools, step, conn, &deadlines::deadline_error(why, detail));
}

/// Whether no pool would get in there.
fn fails_for_all(server: &Server, code: Option<SqlState>) -> bool {
    match server.state() {
        _ if code == Some(sqlstate::CANNOT_CONNECT_NOW) => true,
        ServerState::Connecting => true,
        ServerState::LoggingIn(login) => !login.is_answered(),
        _ => false,
    }
}

/// A host was observed here. One that has not shown its role has the one that is known.
fn observe(pools: &mut Pools, step: &mut Step<'_>, host: &Arc<Address>, state: HostState) {
    let state = match state {
        // The prober notices when it answers again.
        HostState::Failed { .. } if pools.upstreams.get(host).is_silent() => return,
        HostState::Alive { role: None } => HostState::Alive { role: pools.upstreams.get(host).role() },
        state => state,
    };
    if let Some(observed) = pools.upstreams.observe(host, Upstream::new(step.now, state)) {
        step.actions.post_to_coordinator(ToCoordinator::Upstream(observed));
        step.agenda.follow(Followup::HostChanged(Arc::clone(host)));
    }
}

/// The state of a host has changed. Pools that wait for a host with its role open servers at once. If it is the primary now, its servers are closed where a
/// standby is wanted.
pub(crate) fn host_changed(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    host: &Address,
) {
    match pools.upstreams.get(host).state {
        // Each failed connection changes the state of its host, and there may be thousands of pools.
        HostState::Failed { .. } => return,
        HostState::Silent => {
            silent_hosts::close_idle(servers, pools, step, host);
            // Some servers there may have owed their answers for long enough. The next look is due as it was.
            let _ = silent_hosts::look(sessions, servers, pools, step);
            // Clients may have waited for a server that is there by now.
            let there = pools.iter().filter(|pool| pool.database().hosts.contains(host));
            there.flat_map(held_clients).for_each(|conn| step.agenda.arm(Owner::Conn(conn)));
            return;
        }
        HostState::Alive { .. } => {}
    }
    end_pauses(pools, step, host);
    // A standby that was promoted, or a primary of before that wakes up.
    if pools.upstreams.get(host).role() == Some(HostRole::Primary) {
        leave(sessions, servers, pools, step, |pools, server| {
            let attrs = lookups::fence(pools, server).target_session_attrs;
            attrs != TargetSessionAttrs::Any && !attrs.wants_primary() && **server.identity().host() == *host
        });
    }
}

/// Which host of a list is written to was decided anew. Servers at others are closed: nothing may be written to two hosts. Pools that wait open servers at once.
pub(crate) fn decided(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    decision: &Decision,
) {
    if !pools.upstreams.follow(decision) {
        return;
    }
    let hosts = &decision.hosts;
    leave(sessions, servers, pools, step, |pools, server| lookups::fence(pools, server).hosts == **hosts);
    if let Some(host) = decision.primary.host() {
        end_pauses(pools, step, host);
    }
}

/// Pools that pause after a failed login, and that this host fits now, open servers again.
fn end_pauses(pools: &mut Pools, step: &mut Step<'_>, host: &Address) {
    let Pools { table, upstreams, .. } = pools;
    for pool in table.iter_mut() {
        let database = pool.database();
        if pool.opening().is_paused(step.now) && pool.opening().host_fits(database, host, upstreams, step.now) {
            pool.opening_mut().end_pause(step.now);
            step.agenda.feed(pool.id());
        }
    }
}

/// Closes all servers that are at the wrong host.
pub(crate) fn leave_wrong_hosts(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
) {
    leave(sessions, servers, pools, step, |_, _| true);
}

/// Closes those of these servers that are at the wrong host.
fn leave(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    are_these: impl Fn(&Pools, &Server) -> bool,
) {
    let are_left = |server: &Server| are_these(pools, server) && is_left(pools, server);
    let left: Vec<ConnId> = servers.iter().filter(|(_, server)| are_left(server)).map(|(conn, _)| conn).collect();
    for conn in left {
        let server = &mut servers[conn];
        let database = lookups::fence(pools, server);
        let attrs = database.target_session_attrs;
        let is_disputed = attrs.wants_primary() && pools.upstreams.are_disputed(&database.hosts);
        let is_foreign = pools.upstreams.is_foreign(&database.hosts, server.identity().host());
        let why = match attrs {
            _ if is_foreign => CloseReason::OtherSystem,
            TargetSessionAttrs::Standby => wrong_role("the host is the primary", true, attrs),
            _ if is_disputed => CloseReason::TwoPrimaries,
            _ => CloseReason::PrimaryElsewhere,
        };
        let is_own = server.identity().opened_for_session().is_some();
        match server.state().group() {
            // The stream of a standby stays when that is promoted.
            Group::Linked if is_own && attrs == TargetSessionAttrs::Standby && !is_foreign => {}
            // The transaction under way may end there. A stream has no end.
            Group::Linked if !is_own && (!attrs.wants_primary() || is_disputed) => {
                server.end_mut().close_when_released(why);
            }
            // Its host is not known to be down.
            Group::Opening if is_own => {
                replicating::own_server_elsewhere(sessions, servers, pools, step, conn, why);
            }
            Group::Opening => closed_servers::close_server(servers, pools, step, conn, why),
            _ => lost_servers::break_server(sessions, servers, pools, step, conn, why),
        }
    }
}

/// A server is lost, and not by its own rules or ours: its host may be, too.
pub(crate) fn lost_a_server(server: &Server, step: &mut Step<'_>) {
    step.actions.push(Action::Probe { host: Arc::clone(server.identity().host()), is_urgent: true });
}

/// Whether a server is at the wrong host: the host belongs to another database system; or its database wants the primary, and another host is it, or
/// several accept writes; or it wants a standby, and the host is the primary; or the host accepts writes, and another one is the primary.
pub(crate) fn is_left(pools: &Pools, server: &Server) -> bool {
    let (database, host) = (lookups::fence(pools, server), server.identity().host());
    let is_primary = || pools.upstreams.get(host).role() == Some(HostRole::Primary);
    match database.target_session_attrs {
        _ if pools.upstreams.is_foreign(&database.hosts, host) => true,
        TargetSessionAttrs::ReadWrite | TargetSessionAttrs::Primary => {
            let upstreams = &pools.upstreams;
            upstreams.are_disputed(&database.hosts)
                || upstreams.primary(&database.hosts).is_some_and(|primary| **primary != **host)
        }
        TargetSessionAttrs::Standby => is_primary(),
        TargetSessionAttrs::PreferStandby | TargetSessionAttrs::ReadOnly => {
            is_primary() && pools.upstreams.primary(&database.hosts).is_some_and(|primary| **primary != **host)
        }
        TargetSessionAttrs::Any => false,
    }
}

/// Whether nothing may be sent to a server any more, since it may write and another host is the primary.
pub(crate) fn is_at_former_primary(pools: &Pools, server: &Server) -> bool {
    let may_write = lookups::fence(pools, server).target_session_attrs.wants_primary();
    may_write && is_left(pools, server) && !lookups::is_disputed(pools, server)
}

/// Whether a new server has to be asked for its role.
pub(crate) fn asks_for_role(servers: &mut Servers, conn: ConnId) -> bool {
    let server = &mut servers[conn];
    let is_choosy = server.identity().opened_for().target_session_attrs != TargetSessionAttrs::Any;
    is_choosy && server_login::take_role(server).is_none()
}

/// Notes the role of a new server. Why the server cannot be used, if it cannot.
pub(crate) fn judge(servers: &mut Servers, pools: &Pools, step: &Step<'_>, conn: ConnId) -> Option<CloseReason> {
    let server = &mut servers[conn];
    let database = Arc::clone(server.identity().opened_for());
    let attrs = database.target_session_attrs;
    let is_own = server.identity().opened_for_session().is_some();
    let shown = match is_own {
        true => {
            let known = pools.upstreams.get(server.identity().host()).role();
            server_login::own_role(server).or(known.map(|role| (role, false)))
        }
        false => server_login::take_role(server),
    };
    let Some((role, is_read_only)) = shown else {
        // The answer to the question for its role was not PostgreSQL's. The server of a session that replicates was not asked.
        let is_refused = attrs != TargetSessionAttrs::Any && !is_own;
        return is_refused.then(|| wrong_role("the host has not shown its role", false, attrs));
    };
    server.identity_mut().note_role(role);
    let is_accepted = attrs.accepts(role.is_standby(), is_read_only) && !is_left(pools, server);
    if is_accepted || does(&step.plan.settings, Fault::TakeAnyRole) {
        return None;
    }
    let (pool, host) = (&pools[server.pool()], server.identity().host());
    if pools.upstreams.is_foreign(&database.hosts, host) {
        return Some(wrong_role("the host belongs to another database system", true, attrs));
    }
    if attrs == TargetSessionAttrs::PreferStandby
        && !is_left(pools, server)
        && !pool.opening().has_standby(&database, host, &pools.upstreams, step.now)
    {
        return None;
    }
    match role {
        HostRole::Primary if pools.upstreams.are_disputed(&database.hosts) => Some(CloseReason::TwoPrimaries),
        HostRole::Primary if attrs.accepts(false, is_read_only) => {
            Some(wrong_role("another host is the primary", true, attrs))
        }
        HostRole::Standby => Some(wrong_role("the host is a standby", true, attrs)),
        HostRole::Primary if attrs == TargetSessionAttrs::ReadWrite => {
            Some(wrong_role("sessions are read-only by default", false, attrs))
        }
        HostRole::Primary if is_left(pools, server) && attrs != TargetSessionAttrs::Standby => {
            Some(wrong_role("another host is the primary", true, attrs))
        }
        // Whether sessions are read-only may differ from user to user.
        HostRole::Primary => Some(wrong_role("the host is the primary", attrs != TargetSessionAttrs::ReadOnly, attrs)),
    }
}

fn wrong_role(found: &'static str, is_host: bool, attrs: TargetSessionAttrs) -> CloseReason {
    CloseReason::WrongRole { found, is_host, wanted: attrs.as_str() }
}

/// The longest pause after logins that have failed, for a database with this `target_session_attrs`: a primary is looked for each second.
pub(crate) fn longest_pause(step: &Step<'_>, attrs: TargetSessionAttrs) -> Duration {
    let retry = step.plan.settings.global.servers.server_login_retry;
    if attrs == TargetSessionAttrs::Any { retry } else { retry.min(limits::ROLE_PAUSE) }
}

/// A server has logged in.
pub(crate) fn let_in(servers: &Servers, pools: &mut Pools, step: &mut Step<'_>, conn: ConnId) {
    let server = &servers[conn];
    let host = Arc::clone(server.identity().host());
    pools[server.pool()].opening_mut().host_let_in(&host);
    observe(pools, step, &host, HostState::Alive { role: server.identity().role() });
}

/// A server reports that its PostgreSQL, a standby, has been promoted.
pub(crate) fn promoted(servers: &mut Servers, pools: &mut Pools, step: &mut Step<'_>, conn: ConnId) {
    let server = &mut servers[conn];
    server.identity_mut().note_role(HostRole::Primary);
    let host = Arc::clone(server.identity().host());
    let attrs = pools[server.pool()].database().target_session_attrs;
    if matches!(attrs, TargetSessionAttrs::Standby | TargetSessionAttrs::ReadOnly) {
        server.end_mut().close_when_released(wrong_role("the host is the primary", true, attrs));
    }
    observe(pools, step, &host, HostState::Alive { role: Some(HostRole::Primary) });
}

/// The coordinator sends the state of a host. If there is a later observation here, the coordinator lacks it.
pub(crate) fn told(pools: &mut Pools, step: &mut Step<'_>, observed: &Observed) {
    match pools.upstreams.note(observed) {
        Noted::Unchanged => {}
        Noted::Changed => step.agenda.follow(Followup::HostChanged(Arc::clone(&observed.host))),
        Noted::Outdated => {
            let later = pools.upstreams.of(&observed.host);
            step.actions.post_to_coordinator(ToCoordinator::Upstream(later));
        }
    }
}
