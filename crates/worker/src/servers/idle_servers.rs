//! Which idle server is handed out, and which is closed or checked first.

use link::pool::Pool;
use link::server::{Chore, CloseReason, Server};
use machine::Settings;
use units::{ConnId, PoolId, Time};

use crate::servers::{closed_servers, own_queries};
use crate::tables::lookups;
use crate::tables::owners::{Pools, Servers, Sessions};
use crate::tables::stale::is_stale;
use crate::tables::step::Step;

/// Takes an idle server that may be used at once. One that has been idle for long is checked first, and placed after
/// that.
pub(crate) fn take_idle(
    sessions: &Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    pool: PoolId,
    session: Option<ConnId>,
) -> Option<ConnId> {
    loop {
        let round_robin = step.plan.settings.global.servers.server_round_robin;
        let pool = pools.get(pool)?;
        let conn = if round_robin {
            *pool.servers().idle().front()?
        } else {
            lookups::fitting(sessions, servers, pool, session)?
        };
        let server = servers.get(conn)?;
        if let Some(why) = expired(step.now, server, pool, &step.plan.settings) {
            closed_servers::close_server(servers, pools, step, conn, why);
            continue;
        }
        if !is_stale(step.now, server, &step.plan.settings) {
            return Some(conn);
        }
        let Some(check) = step.plan.settings.global.servers.server_check_query.0.clone() else { return Some(conn) };
        let fresh = pool.servers().idle().iter().copied().find(|&other| {
            servers.get(other).is_some_and(|other| {
                !is_stale(step.now, other, &step.plan.settings) && other.end().close_needed().is_none()
            })
        });
        if fresh.is_none() {
            own_queries::send(servers, pools, step, conn, Chore::Check, &check);
        }
        return fresh;
    }
}

/// Whether a free server is closed instead of used again.
#[inline]
pub(crate) fn is_expired(now: Time, server: &Server, pool: &Pool, settings: &Settings) -> bool {
    let (limits, uses) = (pool.rules().servers(), server.work().uses());
    server.end().close_needed().is_some()
        || settings.global.tests.chaos_close && uses > 0
        || pool.rules().orders().paused
        || limits.is_used_up(uses)
        || limits.too_old_at(server.identity().connected_at(), uses).is_some_and(|at| now >= at)
}

/// Why a free server is closed instead of used again.
pub(crate) fn expired(now: Time, server: &Server, pool: &Pool, settings: &Settings) -> Option<CloseReason> {
    if !is_expired(now, server, pool, settings) {
        return None;
    }
    if let Some(why) = server.end().close_needed() {
        return Some(why.clone());
    }
    Some(match server.work().uses() {
        1.. if settings.global.tests.chaos_close => CloseReason::ChaosClose,
        _ if pool.rules().orders().paused => CloseReason::Paused,
        uses if pool.rules().servers().is_used_up(uses) => CloseReason::MaxUses,
        _ => CloseReason::LifetimeOver,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use machine::Action;

    use super::*;
    use crate::tables::scene::{POOL, Scene};

    /// With a check of servers that were idle for more than half a minute.
    fn scene() -> Scene {
        Scene::new(|settings| settings.global.servers.server_check_delay = Duration::from_secs(30))
    }

    #[test]
    fn a_free_server_is_closed_for_one_reason_or_none() {
        type Case = (&'static str, fn(&mut Server), Duration, Duration, Option<CloseReason>);
        let (second, hour) = (Duration::from_secs(1), Duration::from_secs(3600));
        let cases: [Case; 8] = [
            (
                "used once less than it may be",
                |server| (0..2).for_each(|_| server.work_mut().count_use()),
                hour,
                second,
                None,
            ),
            (
                "used as often as it may be",
                |server| (0..3).for_each(|_| server.work_mut().count_use()),
                hour,
                second,
                Some(CloseReason::MaxUses),
            ),
            ("young", |_| (), hour, second, None),
            (
                "to be closed",
                |server| server.end_mut().close_when_released(CloseReason::DatabaseChanged),
                hour,
                second,
                Some(CloseReason::DatabaseChanged),
            ),
            ("in its last moment", |_| (), hour, hour - Duration::from_micros(1), None),
            ("old", |_| (), hour, hour, Some(CloseReason::LifetimeOver)),
            ("unused, where each is used once", |_| (), Duration::ZERO, second, None),
            (
                "used, where each is used once",
                |server| server.work_mut().count_use(),
                Duration::ZERO,
                second,
                Some(CloseReason::LifetimeOver),
            ),
        ];
        for (case, change, lifetime, age, expected) in cases {
            let mut scene = Scene::new(|settings| {
                let servers = &mut settings.global.servers;
                (servers.server_lifetime, servers.server_max_uses) = (lifetime, 3);
            });
            let conn = scene.idle_server(scene.now);
            change(&mut scene.tables.servers[conn]);
            let (server, pool) = (&scene.tables.servers[conn], &scene.tables.pools[POOL]);
            assert_eq!(expired(scene.now + age, server, pool, &scene.plan.settings), expected, "{case}");
        }
    }

    #[test]
    fn the_server_that_was_used_last_is_taken_or_with_round_robin_the_first() {
        for round_robin in [false, true] {
            let mut scene = Scene::new(|settings| settings.global.servers.server_round_robin = round_robin);
            let [first, last] = [scene.idle_server(scene.now), scene.idle_server(scene.now)];
            let taken = scene.run(|tables, step| {
                take_idle(&tables.sessions, &mut tables.servers, &mut tables.pools, step, POOL, None)
            });
            assert_eq!(taken, Some(if round_robin { first } else { last }));
        }
    }

    #[test]
    fn an_expired_server_is_closed_and_the_next_taken() {
        let mut scene = scene();
        let [next, expired] = [scene.idle_server(scene.now), scene.idle_server(scene.now)];
        scene.tables.servers[expired].end_mut().close_when_released(CloseReason::DatabaseChanged);
        assert_eq!(
            scene.run(|tables, step| take_idle(
                &tables.sessions,
                &mut tables.servers,
                &mut tables.pools,
                step,
                POOL,
                None
            )),
            Some(next)
        );
        assert!(scene.asked().iter().any(|action| matches!(action, Action::Close { conn, .. } if *conn == expired)));
        assert!(scene.tables.servers.get(expired).is_none());
    }

    #[test]
    fn a_server_that_was_idle_for_long_is_checked_unless_another_can_serve() {
        let mut scene = scene();
        let long_ago = Time(scene.now.0 - 31_000_000);
        let stale = scene.idle_server(long_ago);
        assert_eq!(
            scene.run(|tables, step| take_idle(
                &tables.sessions,
                &mut tables.servers,
                &mut tables.pools,
                step,
                POOL,
                None
            )),
            None
        );
        assert!(matches!(scene.tables.servers[stale].state(), link::server::ServerState::Busy(Chore::Check)));
        assert!(scene.asked().iter().any(|action| matches!(action, Action::Send { conn, .. } if *conn == stale)));
        let [fresh, stale] = [scene.idle_server(scene.now), scene.idle_server(long_ago)];
        assert_eq!(
            scene.run(|tables, step| take_idle(
                &tables.sessions,
                &mut tables.servers,
                &mut tables.pools,
                step,
                POOL,
                None
            )),
            Some(fresh)
        );
        assert!(matches!(scene.tables.servers[stale].state(), link::server::ServerState::Idle), "no need to check it");
    }
}
