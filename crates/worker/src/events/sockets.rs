//! A socket did not take everything, took the rest, or was closed by the other side.

use link::session::SessionState;
use machine::event::Hangup;
use session_state::state::Subscriptions;
use units::{ConnId, Kind};

use crate::servers::{free_servers, listener};
use crate::sessions::{cancel_requests, console, ends, lost_servers};
use crate::tables::owners::{Pools, Servers, Sessions};
use crate::tables::step::Step;
use crate::tables::{self, backpressure, suspension, timers};

pub(crate) fn hung_up(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    why: Hangup,
) {
    match conn.kind() {
        Kind::Client => ends::client_hung_up(sessions, step, conn),
        Kind::Server => lost_servers::server_hung_up(sessions, servers, pools, step, conn, why),
        Kind::Cancel => cancel_requests::canceller_done(sessions, servers, pools, step, conn),
        Kind::Login | Kind::Lookup | Kind::Peer => {}
    }
}

/// The socket did not take everything: the connection whose bytes go to it is not read until it has.
pub(crate) fn blocked(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
) {
    match conn.kind() {
        Kind::Client => {
            backpressure::balance_session(sessions, servers, step, conn);
            timers::arm_linked(sessions, pools, step, conn);
        }
        Kind::Server => {
            free_servers::balance_server(sessions, servers, pools, step, conn);
            suspension::hold_server(servers, step, conn);
        }
        Kind::Cancel | Kind::Login | Kind::Lookup | Kind::Peer => {
            if let Some(flow) = tables::flow_mut(sessions, servers, conn) {
                step.actions.watch(conn, flow, true);
            }
        }
    }
}

pub(crate) fn drained(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    count: usize,
) {
    // This event may arrive after its connection was closed.
    let Some(flow) = tables::flow_mut(sessions, servers, conn) else { return };
    if let Some(buffer) = flow.drained(count) {
        step.caches.buffers.put_back(buffer);
    }
    if let Some(session) = sessions.get_mut(conn) {
        session.progresses(step.now);
        let left = session.flow().is_clear() && matches!(session.state(), SessionState::Leaving { .. });
        if left {
            ends::close_session(sessions, step, conn, true);
            return;
        }
        let has_news = session
            .tracker()
            .and_then(|tracker| tracker.notifications.subscriptions())
            .is_some_and(Subscriptions::has_news);
        if has_news {
            listener::send_notifications(sessions, servers, step, conn);
        } else if session.flow().is_clear() && matches!(session.state(), SessionState::Console { .. }) {
            console::console_received(sessions, step, conn);
        }
    }
    blocked(sessions, servers, pools, step, conn);
}
