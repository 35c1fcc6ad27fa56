//! Hosts that do not answer: a PostgreSQL that is frozen, as its machine is paused or its storage hangs. Its kernel still accepts connections and
//! bytes, so no socket shows it.
//!
//! ```text
//!   a server owes an answer for 1 s        Action::Probe: the prober asks its host by a connection of its own
//!   the host has not answered a probe      Silent: its idle servers are closed, and clients wait for another host, or for this one
//!     for host_timeout
//!   a server there has owed its answer     it is closed: its client is told what is known, and its place is free
//!     for host_timeout, too
//! ```
//!
//! A query that merely runs for long is not touched: its host answers probes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use connections::databases::Address;
use link::server::{Chore, CloseReason, Server, ServerState};
use machine::Action;
use machine::sabotage::{Fault, does};
use units::{ConnId, Time, limits};

use crate::servers::closed_servers;
use crate::sessions::lost_servers;
use crate::tables::owners::{Pools, Servers, Sessions};
use crate::tables::step::Step;

/// Looks at servers that owe an answer. When to look again; `None`: none of them owes one.
pub(crate) fn look(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
) -> Option<Time> {
    let owing: Vec<(ConnId, Time)> =
        servers.iter().filter_map(|(conn, server)| Some((conn, owing_since(server)?))).collect();
    let timeout = step.plan.settings.global.servers.host_timeout;
    let dues = owing.iter().map(|(_, since)| due(step.now, *since, timeout));
    // Servers that are busy with short queries do not have each of them looked at.
    let again = dues.min().map(|at| at.max(step.now + limits::SILENCE / 4));
    let Some(timeout) = timeout else { return again };
    let keeps = does(&step.plan.settings, Fault::KeepSilentServers);
    let mut suspected: BTreeSet<Arc<Address>> = BTreeSet::new();
    for (conn, since) in owing {
        let host = Arc::clone(servers[conn].identity().host());
        if step.now < since + limits::SILENCE {
            continue;
        }
        if pools.upstreams.get(&host).is_silent() && since + timeout <= step.now && !keeps {
            lost_servers::break_server(sessions, servers, pools, step, conn, CloseReason::HostSilent);
        } else {
            suspected.insert(host);
        }
    }
    for host in suspected {
        step.actions.push(Action::Probe { host, is_urgent: false });
    }
    again
}

/// When to look again at a server that owes an answer since then: its host is asked after [`limits::SILENCE`] and each second from then on, and it is
/// closed after `timeout`.
fn due(now: Time, since: Time, timeout: Option<Duration>) -> Time {
    let steps = [Some(limits::SILENCE), timeout].into_iter().flatten().map(|span| since + span);
    steps.filter(|at| *at > now).chain([now + limits::SILENCE]).min().expect("one step is always there")
}

/// Since when a server that a client has, or had, or that is checked or reset for the next one, owes an answer without a byte of it. One that is not read, as its client takes nothing, owes none.
fn owing_since(server: &Server) -> Option<Time> {
    let is_used = match server.state() {
        ServerState::Linked(_) | ServerState::Draining { .. } => true,
        // These have deadlines of their own.
        ServerState::Busy(Chore::Setup | Chore::Role | Chore::Base | Chore::First) => false,
        ServerState::Busy(_) => true,
        _ => false,
    };
    let owes = is_used && !server.ledger().is_clear() && server.flow().is_reading();
    owes.then(|| server.transaction().query_at().max(server.work().heard_at()))
}

/// A host is silent: nobody gets one of its idle servers.
pub(crate) fn close_idle(servers: &mut Servers, pools: &mut Pools, step: &mut Step<'_>, host: &Address) {
    let is_idle = |server: &Server| matches!(server.state(), ServerState::Idle) && **server.identity().host() == *host;
    let idle: Vec<ConnId> = servers.iter().filter(|(_, server)| is_idle(server)).map(|(conn, _)| conn).collect();
    for conn in idle {
        closed_servers::close_server(servers, pools, step, conn, CloseReason::HostSilent);
    }
}
