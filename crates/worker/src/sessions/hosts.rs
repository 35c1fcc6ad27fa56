//! A worker's observations of the hosts of databases with several: at which of them servers cannot be opened, and at which they log in. No other
//! worker is told of a database's only host.
//!
//! | a login fails because | it is passed over by |
//! |---|---|
//! | no connection is opened; TLS fails; PostgreSQL does not answer in time, or hangs up without an answer; it starts up or shuts down (57P03) | all pools of all workers |
//! | of anything after the first answer: the user, the password, the database, its `connect_query`, too many connections | this pool on this worker |
//!
//! Both end after `server_login_retry`, or with the first login there: anybody's for the first, one of this pool's for the second.

use link::server::{Server, ServerState};
use machine::mail::ToCoordinator;
use machine::upstreams::{HostState, Noted, Observed, Upstream};
use units::ConnId;
use wire::{SqlState, sqlstate};

use crate::tables::owners::{Pools, Servers};
use crate::tables::step::Step;

/// A server could not be opened, or its login has failed. `code`: of PostgreSQL's error, if it sent one.
pub(crate) fn failed(servers: &Servers, pools: &mut Pools, step: &mut Step<'_>, conn: ConnId, code: Option<SqlState>) {
    let server = &servers[conn];
    let (host, pool) = (server.identity().host(), &mut pools.table[server.pool()]);
    let until = step.now + step.plan.settings.global.servers.server_login_retry;
    if fails_for_all(server, code) {
        let failed = Upstream { at: step.now, state: HostState::Failed { until } };
        if let Some(observed) = pools.upstreams.observe(host, failed) {
            step.actions.post_to_coordinator(ToCoordinator::Upstream(observed));
        }
    } else {
        pool.opening_mut().host_refused(host, step.now, until);
    }
    pool.leave_host(host);
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

/// A server has logged in.
pub(crate) fn let_in(servers: &Servers, pools: &mut Pools, step: &mut Step<'_>, conn: ConnId) {
    let server = &servers[conn];
    let host = server.identity().host();
    pools[server.pool()].opening_mut().host_let_in(host);
    let alive = Upstream { at: step.now, state: HostState::Alive };
    if let Some(observed) = pools.upstreams.observe(host, alive) {
        step.actions.post_to_coordinator(ToCoordinator::Upstream(observed));
    }
}

/// The coordinator sends the state of a host. If there is a later observation here, the coordinator lacks it.
pub(crate) fn told(pools: &mut Pools, step: &mut Step<'_>, observed: &Observed) {
    if pools.upstreams.note(observed) == Noted::Outdated {
        let later = pools.upstreams.of(&observed.host);
        step.actions.post_to_coordinator(ToCoordinator::Upstream(later));
    }
}
