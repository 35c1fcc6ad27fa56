//! Requests to the coordinator for servers, and whether they are still needed.

use machine::mail::ToCoordinator;
use machine::observe::{Level, Topic};
use machine::sabotage::{Fault, does};
use units::PoolId;

use crate::tables::lines;
use crate::tables::owners::{Pools, Sessions};
use crate::tables::step::Step;

/// The oldest waiter has waited for reserve_pool_timeout: the reserve may be opened.
pub(crate) fn request_reserve(pools: &mut Pools, step: &mut Step<'_>, id: PoolId) {
    let worker = step.plan.id;
    // It is not set: the reserve is never opened.
    let Some(timeout) = step.plan.settings.global.pools.reserve_pool_timeout else { return };
    let leaves = does(&step.plan.settings, Fault::LeaveReserve);
    let pool = &mut pools[id];
    let waited = pool.oldest().map(|waiter| step.now.since(waiter.since));
    let due = !pool.rules().orders().paused
        && pool.lacks_reserve()
        && waited.is_some_and(|waited| waited >= timeout)
        && !leaves;
    if due && !pool.opening().is_paused(step.now) {
        pool.opening_mut().request_reserve();
        let ask = ToCoordinator::RequestServer {
            pool: id,
            holder: worker.into(),
            reserve: true,
            classes: pool.queue().at_work(),
        };
        step.actions.post_to_coordinator(ask);
    }
}

pub(crate) fn log_reserve(sessions: &Sessions, pools: &Pools, step: &mut Step<'_>, id: PoolId) {
    let waiter = pools.get(id).and_then(|pool| pool.oldest());
    if let Some(waiter) = waiter {
        let words = "taking connection from reserve_pool".to_owned();
        lines::log_session(sessions, step, waiter.session, Level::Warning, Topic::General, words);
    }
}

/// The coordinator asks whether requested servers are still needed.
pub(crate) fn inquired(pools: &Pools, step: &mut Step<'_>, id: PoolId) {
    let unpaused = pools.get(id).filter(|pool| !pool.rules().orders().paused);
    let count = unpaused.map_or(0, |pool| {
        let coming = pool.servers().coming();
        pool.servers_needed().saturating_sub(coming) + pool.servers().own().queue().len()
    });
    let classes = pools.get(id).map(|pool| pool.queue().at_work()).unwrap_or_default();
    let wants = ToCoordinator::StillNeeded { pool: id, holder: step.plan.id.into(), count, classes };
    step.actions.post_to_coordinator(wants);
}

/// The coordinator has dropped so many requests. Sessions that wait since then request servers again.
pub(crate) fn dropped(pools: &mut Pools, step: &mut Step<'_>, id: PoolId, count: u32, reserve: bool) {
    // It may have been forgotten meanwhile.
    let Some(pool) = pools.get_mut(id) else { return };
    pool.opening_mut().requests_dropped(count, reserve);
    step.agenda.feed(id);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use machine::mail::Mail;
    use machine::{Action, Settings};
    use units::Time;

    use super::*;
    use crate::tables::scene::{POOL, Scene};

    const TIMEOUT: Duration = Duration::from_secs(5);

    fn with_a_reserve(settings: &mut Settings) {
        settings.global.pools.reserve_pool_timeout = Some(TIMEOUT);
    }

    /// A scene in which a session has waited for as long as it takes.
    fn scene(change: impl FnOnce(&mut Settings)) -> Scene {
        let mut scene = Scene::new(|settings| {
            settings.global.pools.reserve_pool_size = 1;
            change(settings);
        });
        scene.waiter(scene.now);
        scene.now = scene.now + TIMEOUT;
        scene
    }

    fn requests(scene: &mut Scene) -> usize {
        scene.run(|tables, step| request_reserve(&mut tables.pools, step, POOL));
        let is_request = |action: &Action| {
            matches!(
                action,
                Action::Post { mail: Mail::ToCoordinator(ToCoordinator::RequestServer { reserve: true, .. }), .. }
            )
        };
        scene.asked().iter().filter(|action| is_request(action)).count()
    }

    #[test]
    fn the_reserve_is_asked_for_once_the_oldest_waiter_has_waited_long_enough() {
        let mut scene = scene(with_a_reserve);
        scene.now = Time(scene.now.0 - 1);
        assert_eq!(requests(&mut scene), 0, "not yet");
        scene.now = Time(scene.now.0 + 1);
        assert_eq!((requests(&mut scene), requests(&mut scene)), (1, 0), "once");
        scene.run(|tables, step| dropped(&mut tables.pools, step, POOL, 1, true));
        assert_eq!(requests(&mut scene), 1, "that request came to nothing");
    }

    #[test]
    fn the_reserve_is_left_alone_where_it_would_serve_no_session() {
        type Case = (&'static str, fn(&mut Scene));
        let cases: [Case; 3] = [
            ("there is none", |scene| scene.configure(|settings| settings.global.pools.reserve_pool_size = 0)),
            ("a server is idle", |scene| _ = scene.idle_server(scene.now)),
            ("logins fail", |scene| {
                scene.tables.pools[POOL].opening_mut().login_failed(scene.now, scene.now, Duration::from_secs(1), 0);
            }),
        ];
        for (case, prepare) in cases {
            let mut scene = scene(with_a_reserve);
            prepare(&mut scene);
            assert_eq!(requests(&mut scene), 0, "{case}");
        }
        assert_eq!(
            requests(&mut scene(|settings| settings.global.pools.reserve_pool_timeout = None)),
            0,
            "it is never opened"
        );
    }

    #[test]
    fn what_is_still_needed_is_what_waiters_lack() {
        let mut scene = scene(|_| ());
        let mut needed = || {
            scene.run(|tables, step| inquired(&tables.pools, step, POOL));
            let counts = scene.asked().into_iter().filter_map(|action| match action {
                Action::Post { mail: Mail::ToCoordinator(ToCoordinator::StillNeeded { count, .. }), .. } => Some(count),
                _ => None,
            });
            let counts: Vec<u32> = counts.collect();
            scene.waiter(scene.now);
            if counts == [2] {
                scene.idle_server(scene.now);
            }
            counts
        };
        assert_eq!(
            (needed(), needed(), needed()),
            (vec![1], vec![2], vec![2]),
            "one more waits each time; then one is idle"
        );
    }
}
