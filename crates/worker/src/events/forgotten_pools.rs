//! A pool without clients is forgotten when the coordinator says so, as soon as nothing of it is left here. What may be
//! left: a client that is still receiving its last error, a cancel, a lent server whose arrival was not acknowledged
//! yet.

use machine::mail::ToCoordinator;
use units::{PoolId, limits};

use crate::tables::owners::{Pools, Sessions};
use crate::tables::step::Step;

pub(crate) fn forget(sessions: &Sessions, pools: &mut Pools, step: &mut Step<'_>, id: PoolId) {
    if let Some(pool) = pools.get_mut(id) {
        pool.retire();
    }
    try_to_forget(sessions, pools, step, id);
}

/// Forgets a retired pool now, or tries again later.
pub(crate) fn try_to_forget(sessions: &Sessions, pools: &mut Pools, step: &mut Step<'_>, id: PoolId) {
    // No pool counts sessions that have ended and whose sockets are not closed yet.
    let lingers = sessions.departing > 0 && sessions.iter().any(|(_, session)| session.pool() == id);
    if let Some(pool) = pools.get(id) {
        let over = pool.is_deserted() && pool.exchange().is_calm() && !lingers;
        if !over {
            let at = step.now + limits::FORGET;
            step.agenda.arm_by(id, at);
            return;
        }
        pools.remove(id, &step.plan.settings);
        step.caches.statistics.forget(id);
    }
    pools.refusals.forget(id);
    let forgotten = ToCoordinator::Forgotten { pool: id, worker: step.plan.id };
    step.actions.post_to_coordinator(forgotten);
}

#[cfg(test)]
mod tests {
    use link::server::Group;
    use machine::Action;
    use machine::mail::Mail;
    use queueing::board::Cell;

    use super::*;
    use crate::tables::scene::{POOL, Scene, THERE};

    fn is_forgotten(scene: &mut Scene) -> bool {
        let told = scene.asked().into_iter().any(|action| {
            matches!(action, Action::Post { mail: Mail::ToCoordinator(ToCoordinator::Forgotten { .. }), .. })
        });
        assert_eq!(told, scene.tables.pools.get(POOL).is_none());
        told
    }

    #[test]
    fn a_pool_is_forgotten_when_nothing_of_it_is_left() {
        type Case = (&'static str, fn(&mut Scene), fn(&mut Scene));
        let cases: [Case; 4] = [
            ("a client", |scene| _ = scene.session(), |scene| scene.tables.pools[POOL].counts_mut().session_left()),
            (
                "a cancel",
                |scene| scene.tables.pools[POOL].counts_mut().cancel_begins(),
                |scene| scene.tables.pools[POOL].counts_mut().cancel_ended(),
            ),
            (
                "a lent server",
                |scene| {
                    scene.tables.pools[POOL].servers_mut().enter(Group::Recovering);
                    scene.tables.pools[POOL].lend_to(THERE, scene.now);
                },
                |scene| assert!(scene.tables.pools[POOL].lend_arrived()),
            ),
            (
                "what the board shows",
                |scene| _ = scene.tables.pools[POOL].exchange_mut().publish(Cell { idle: 1, ..Cell::CALM }),
                |scene| _ = scene.tables.pools[POOL].exchange_mut().publish(Cell::CALM),
            ),
        ];
        for (what, put, take) in cases {
            let mut scene = Scene::new(|_| ());
            put(&mut scene);
            scene.run(|tables, step| forget(&tables.sessions, &mut tables.pools, step, POOL));
            assert!(!is_forgotten(&mut scene), "{what} is left");
            assert_eq!(
                scene.tables.clock.deadlines.next(),
                Some(scene.now + limits::FORGET),
                "{what}: it is tried again"
            );
            take(&mut scene);
            scene.run(|tables, step| try_to_forget(&tables.sessions, &mut tables.pools, step, POOL));
            assert!(is_forgotten(&mut scene), "{what} is gone");
        }
    }

    #[test]
    fn a_client_whose_socket_is_open_still_has_its_pool() {
        let mut scene = Scene::new(|_| ());
        let session = scene.session();
        scene.tables.pools[POOL].counts_mut().session_left();
        scene.tables.sessions.departing = 1;
        scene.run(|tables, step| forget(&tables.sessions, &mut tables.pools, step, POOL));
        assert!(!is_forgotten(&mut scene));
        scene.tables.sessions.remove(session);
        scene.run(|tables, step| try_to_forget(&tables.sessions, &mut tables.pools, step, POOL));
        assert!(is_forgotten(&mut scene));
    }
}
