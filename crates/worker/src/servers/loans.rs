//! Lends idle servers to other workers of the same pool, and asks other workers for servers.
//!
//! A server is lent only clean and idle. It goes to a worker whose waiter has waited clearly longer than all here, or
//! that asks while no session waits here. The sender counts the server until the receiver has acknowledged it. Servers
//! are not opened or closed here.

use link::pool::Pool;
use link::server::{Group, Server};
use machine::action::Action;
use machine::mail::{Exchange, Lent, Mail, ToWorker};
use queueing::board::Cell;
use units::deadline::Owner;
use units::{ConnId, Life, PoolId, Time, WorkerId, limits};

use crate::servers::{chores, resting};
use crate::tables::lookups;
use crate::tables::owners::{Pools, Servers, Sessions};
use crate::tables::step::Step;

pub(crate) fn lend(
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    server_id: ConnId,
    to: WorkerId,
    since: Time,
) {
    let idle_since = servers[server_id].work().since();
    chores::turn_server(servers, pools, step, server_id, Server::withhold);
    let from = step.plan.id;
    let server = servers.remove(server_id).expect("it is idle here");
    if let Some(chaos) = &mut servers.chaos {
        chaos.gone(server_id);
    }
    assert!(
        server.is_clean() && server.flow().is_clear() && server.cancel().under_way() == 0,
        "I3: only a clean server is lent"
    );
    pools.lends += 1;
    let pool = &mut pools[server.pool()];
    pool.lend_to(to, since);
    if machine::sabotage::loses_lent(&step.plan.settings) {
        step.actions.push(Action::Close { conn: server_id, last_words: false });
        return;
    }
    // This worker's waiters may need another server now.
    step.agenda.feed(pool.id());
    let (key, homes, report) = (pool.key().clone(), pool.exchange().homes(), pool.welcome().report().cloned());
    let life = step.plan.life;
    let lent = Lent { key, homes, report, from, life, to, server: Box::new(server), idle_since };
    // This worker counts the server until the receiver acknowledges it (I5).
    let mail = Mail::ToWorker(to, ToWorker::Exchange(Exchange::Lend(Box::new(lent))));
    step.actions.push(Action::Post { mail, carrying: Some(server_id) });
}

/// A lent server has arrived: from now on the other worker counts it.
pub(crate) fn lend_received(pools: &mut Pools, step: &mut Step<'_>, pool: PoolId, life: Life) {
    // Otherwise an earlier worker in this place has lent it, which has panicked since.
    if life != step.plan.life {
        return;
    }
    // A pool with a lent server is not forgotten.
    if pools.get_mut(pool).is_some_and(Pool::lend_arrived) {
        step.agenda.feed(pool);
    }
}

/// A session waits on another worker, which saw on the board that this one has an idle server.
pub(crate) fn begged(servers: &mut Servers, pools: &mut Pools, step: &mut Step<'_>, pool: PoolId, from: WorkerId) {
    // The pool may have been forgotten meanwhile.
    let Some(entry) = pools.get(pool) else { return };
    // The server was idle when the other worker read the board, and is not any more.
    let Some(&server) = entry.servers().idle().back() else { return };
    let since = step.board.cell(pool, from).waiting_since;
    let fed = since != Time::NEVER && entry.exchange().has_fed(from, since);
    let refused = step.now < entry.exchange().lends_refused_until();
    if !entry.queue().has_waiters() && !fed && !refused && !step.plan.stopping.refuses_new_work() {
        lend(servers, pools, step, server, from, since);
    }
}

pub(crate) fn publish(pools: &mut Pools, step: &mut Step<'_>, pool: PoolId) {
    // The pool may have been forgotten in this round.
    let Some(entry) = pools.get_mut(pool) else { return };
    if entry.queue().is_counted() {
        entry.publish_classes(step);
    }
    let cell = Cell {
        waiting_since: entry.waiting_since(),
        idle: entry.servers().count(Group::Idle),
        waiting: entry.queue().len(),
        servers: entry.serving(),
        excess: entry.excess(),
    };
    if entry.exchange_mut().publish(cell) {
        step.actions.push(Action::Publish { pool, cell });
    }
}

pub(crate) fn look_around(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    pool: PoolId,
) {
    let entry = &pools[pool];
    if let Some(&server) = entry.servers().idle().back()
        && !step.plan.stopping.refuses_new_work()
        && let Some((to, since)) = lookups::stranger(step, entry)
    {
        lend(servers, pools, step, server, to, since);
        return;
    }
    let waiting_since = entry.waiting_since();
    if waiting_since == Time::NEVER {
        return resting::rest_for_a_stranger(sessions, servers, pools, step, pool);
    }
    let patience = entry.servers().patience();
    step.agenda.arm(Owner::Pool(pool));
    if step.now < waiting_since + patience {
        return;
    }
    let others = (0..step.plan.settings.workers).map(WorkerId).filter(|&worker| worker != step.plan.id);
    let rich = others.max_by_key(|&worker| step.board.cell(pool, worker).idle);
    // No other worker has one either.
    let Some(rich) = rich.filter(|&worker| step.board.cell(pool, worker).idle > 0) else { return };
    beg(pools, step, pool, rich);
}

/// Servers are missing here. If another worker has more than it can use, it is asked for one first, which comes sooner
/// than a new one. Otherwise, with few clients, each worker would open servers to replace those it has lent. Returns
/// how many may come.
pub(crate) fn borrow(pools: &mut Pools, step: &mut Step<'_>, id: PoolId) -> u32 {
    let (own, workers) = (step.plan.id, step.plan.settings.workers);
    let pool = &mut pools[id];
    let soon = pool.waiting_since() + limits::STRANGER;
    if !pool.exchange().is_shared() || soon <= step.now || soon == Time::NEVER {
        return 0;
    }
    let others = (0..workers).map(WorkerId).filter(|&worker| worker != own);
    let excess_of = |worker: &WorkerId| step.board.cell(id, *worker).excess;
    let excess: u32 = others.clone().map(|worker| excess_of(&worker)).sum();
    // No other worker has more than it uses.
    let Some(rich) = others.max_by_key(excess_of).filter(|_| excess > 0) else { return 0 };
    step.agenda.arm_by(id, soon);
    beg(pools, step, id, rich);
    excess
}

fn beg(pools: &mut Pools, step: &mut Step<'_>, pool: PoolId, rich: WorkerId) {
    let from = step.plan.id;
    let entry = &mut pools[pool];
    let waiting_since = entry.waiting_since();
    // Each worker is asked once for each waiter. If it has no server now, it sees the waiter on the board when it has
    // one.
    if entry.exchange_mut().beg(rich, waiting_since) {
        step.actions.post_to_worker(rich, ToWorker::Exchange(Exchange::Beg { pool, from }));
    }
}

#[cfg(test)]
mod tests {
    use machine::mail::Stop;

    use super::*;
    use crate::tables::scene::{POOL, Scene, THERE};

    /// Which servers were lent, and how often the other worker was asked for one.
    fn exchanged(scene: &mut Scene) -> (Vec<ConnId>, usize) {
        let (mut lent, mut asked) = (Vec::new(), 0);
        for action in scene.asked() {
            match action {
                Action::Post { mail: Mail::ToWorker(THERE, ToWorker::Exchange(Exchange::Lend(_))), carrying } => {
                    lent.extend(carrying);
                }
                Action::Post { mail: Mail::ToWorker(THERE, ToWorker::Exchange(Exchange::Beg { .. })), .. } => {
                    asked += 1
                }
                _ => {}
            }
        }
        (lent, asked)
    }

    /// A server is on its way to the other worker, for its waiter that has waited since `since`.
    fn has_been_lent(scene: &mut Scene, since: Time) {
        let pool = &mut scene.tables.pools[POOL];
        pool.servers_mut().enter(Group::Recovering);
        pool.lend_to(THERE, since);
    }

    #[test]
    fn a_server_is_lent_to_a_worker_that_asks_unless_it_is_needed_here() {
        type Case = (&'static str, fn(&mut Scene), bool);
        let cases: [Case; 6] = [
            ("none waits here", |_| (), true),
            ("a session waits here", |scene| _ = scene.waiter(scene.now), false),
            ("its waiter has been lent one", |scene| has_been_lent(scene, Time(5)), false),
            ("another of its waiters has", |scene| has_been_lent(scene, Time(4)), true),
            (
                "its mailbox was full",
                |scene| {
                    has_been_lent(scene, Time(4));
                    scene.tables.pools[POOL].lend_returned(THERE, scene.now + limits::STRANGER);
                },
                false,
            ),
            ("all is about to end", |scene| _ = scene.plan.stopping.begin(Stop::WaitForServers), false),
        ];
        for (case, prepare, is_lent) in cases {
            let mut scene = Scene::new(|_| ());
            let [_, last] = [scene.idle_server(scene.now), scene.idle_server(scene.now)];
            scene.show(Time(5), 0);
            prepare(&mut scene);
            let before = scene.tables.pools[POOL].servers().lent();
            scene.run(|tables, step| begged(&mut tables.servers, &mut tables.pools, step, POOL, THERE));
            let expected = if is_lent { vec![last] } else { Vec::new() };
            assert_eq!(exchanged(&mut scene).0, expected, "{case}");
            let pool = &scene.tables.pools[POOL];
            assert_eq!(
                (pool.servers().lent() - before, pool.servers().idle().len()),
                (u32::from(is_lent), 2 - usize::from(is_lent)),
                "{case}"
            );
        }
    }

    #[test]
    fn a_lent_server_counts_here_until_the_other_worker_has_it() {
        let mut scene = Scene::new(|_| ());
        scene.idle_server(scene.now);
        scene.run(|tables, step| begged(&mut tables.servers, &mut tables.pools, step, POOL, THERE));
        let counted =
            |scene: &Scene| (scene.tables.pools[POOL].servers().all(), scene.tables.pools[POOL].servers().lent());
        assert_eq!(counted(&scene), (1, 1));
        let (own, former) = (scene.plan.life, Life(scene.plan.life.0 + 1));
        scene.run(|tables, step| lend_received(&mut tables.pools, step, POOL, former));
        assert_eq!(counted(&scene), (1, 1), "that one was lent by a worker that is gone");
        scene.run(|tables, step| lend_received(&mut tables.pools, step, POOL, own));
        assert_eq!(counted(&scene), (0, 0));
        scene.run(|tables, step| lend_received(&mut tables.pools, step, POOL, own));
        assert_eq!(counted(&scene), (0, 0), "none is lent any more");
    }

    #[test]
    fn another_worker_is_asked_once_for_a_waiter_that_has_waited_for_long() {
        let mut scene = Scene::new(|_| ());
        scene.show(Time::NEVER, 3);
        let since = scene.now;
        scene.waiter(since);
        let look = |scene: &mut Scene| {
            scene.run(|tables, step| {
                look_around(&mut tables.sessions, &mut tables.servers, &mut tables.pools, step, POOL)
            });
            exchanged(scene)
        };
        assert_eq!(look(&mut scene), (Vec::new(), 0), "it has come just now");
        scene.now = since + limits::STRANGER;
        assert_eq!(look(&mut scene), (Vec::new(), 1));
        assert_eq!(look(&mut scene), (Vec::new(), 0), "it was asked");
        scene.show(Time::NEVER, 0);
        scene.tables.pools[POOL].exchange_mut().beg_anew();
        assert_eq!(look(&mut scene), (Vec::new(), 0), "it has none");
    }
}
