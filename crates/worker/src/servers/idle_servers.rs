//! Which idle server is handed out, and which is closed or checked first.

use connections::server::{Chore, Server};
use link::pool::Pool;
use machine::{Settings, Step};
use units::{ConnId, PoolId, Time};

use crate::servers::{chores, closed_servers};
use crate::tables::Tables;

/// Takes an idle server that may be used at once. One that has been idle for long is checked first, and placed after
/// that.
pub(crate) fn take_idle(
    tables: &mut Tables,
    step: &mut Step<'_>,
    pool: PoolId,
    session: Option<ConnId>,
) -> Option<ConnId> {
    loop {
        let round_robin = tables.settings.global.servers.server_round_robin;
        let pool = tables.pools.get(pool)?;
        let conn = if round_robin { *pool.servers.idle.front()? } else { tables.view().fitting(pool, session)? };
        let server = tables.servers.get(conn)?;
        if let Some(why) = expired(step.now, server, pool, &tables.settings) {
            closed_servers::close_server(tables, step, conn, why);
            continue;
        }
        if !is_stale(step.now, server.work.since, &tables.settings) {
            return Some(conn);
        }
        let Some(check) = tables.settings.global.servers.server_check_query.0.clone() else { return Some(conn) };
        let fresh = pool.servers.idle.iter().copied().find(|&other| {
            tables.servers.get(other).is_some_and(|other| {
                !is_stale(step.now, other.work.since, &tables.settings) && other.end.close_needed.is_none()
            })
        });
        if fresh.is_none() {
            chores::start_chore(tables, step, conn, Chore::Check, check.as_bytes());
        }
        return fresh;
    }
}

/// It was idle for so long that `server_check_query` is sent first.
#[inline]
pub(crate) fn is_stale(now: Time, idle_since: Time, settings: &Settings) -> bool {
    now > idle_since + settings.global.servers.server_check_delay
}

/// Why a free server is closed instead of used again.
#[inline]
pub(crate) fn expired(now: Time, server: &Server, pool: &Pool, settings: &Settings) -> Option<&'static str> {
    if let Some(why) = server.end.close_needed {
        return Some(why);
    }
    if settings.global.tests.chaos_close && server.work.used {
        return Some("chaos_close");
    }
    let lifetime = pool.rules.server_lifetime;
    // A lifetime of zero is over after the first use.
    let counts = server.work.used || !lifetime.is_zero();
    (counts && now >= server.identity.connected_at + lifetime).then_some("server lifetime over")
}
