//! Lends idle servers to other workers of the same pool, and asks other workers for servers.
//!
//! A server is lent only clean and idle. It goes to a worker whose waiter has waited clearly longer than all here, or
//! that asks while no session waits here. The sender counts the server until the receiver has acknowledged it. Servers
//! are not opened or closed here.

use connections::server::{Group, Lent, Server};
use machine::Step;
use machine::action::Action;
use machine::mail::{Exchange, Mail, ToWorker};
use queueing::board::Cell;
use units::deadline::Owner;
use units::{ConnId, Life, PoolId, Time, WorkerId, limits};

use crate::servers::{chores, resting};
use crate::tables::{Tables, timers};

pub(crate) fn lend(tables: &mut Tables, step: &mut Step<'_>, server_id: ConnId, to: WorkerId, since: Time) {
    let idle_since = tables.servers[server_id].work.since;
    chores::turn_server(tables, step, server_id, Server::withhold);
    let from = tables.id;
    let server = tables.servers.remove(server_id).expect("it is idle here");
    if let Some(chaos) = &mut tables.chaos {
        chaos.gone(server_id);
    }
    assert!(
        server.is_clean() && server.flow.is_clear() && server.cancel.under_way == 0,
        "I3: only a clean server is lent"
    );
    let pool = &mut tables.pools[server.pool];
    pool.exchange.fed.insert(to, since);
    pool.servers.lent += 1;
    tables.counts.lends += 1;
    if machine::sabotage::loses_lent(&tables.settings) {
        step.actions.push(Action::Close { conn: server_id, last_words: false });
        return;
    }
    // This worker's waiters may need another server now.
    tables.agenda.feed(pool.id);
    let (key, homes, base) = (pool.key.clone(), pool.exchange.homes, pool.welcome.base.clone());
    let life = tables.life;
    let lent = Lent { key, homes, base, from, life, to, server, idle_since };
    // This worker counts the server until the receiver acknowledges it (I5).
    let mail = Mail::ToWorker(to, ToWorker::Exchange(Exchange::Lend(Box::new(lent))));
    step.actions.push(Action::Post { mail, carrying: Some(server_id) });
}

/// A lent server has arrived: from now on the other worker counts it.
pub(crate) fn lend_received(tables: &mut Tables, pool: PoolId, life: Life) {
    // Otherwise an earlier worker in this place has lent it, which has panicked since.
    if life != tables.life {
        return;
    }
    // A pool with a lent server is not forgotten.
    let Some(entry) = tables.pools.get_mut(pool).filter(|entry| entry.servers.lent > 0) else { return };
    entry.servers.leave(Group::Recovering);
    entry.servers.lent -= 1;
    if entry.servers.lent == 0 {
        // A session that waits from now on is another waiter, even if its time is the same.
        entry.exchange.fed.clear();
    }
    tables.agenda.feed(pool);
}

/// A session waits on another worker, which saw on the board that this one has an idle server.
pub(crate) fn begged(tables: &mut Tables, step: &mut Step<'_>, pool: PoolId, from: WorkerId) {
    // The pool may have been forgotten meanwhile.
    let Some(entry) = tables.pools.get(pool) else { return };
    // The server was idle when the other worker read the board, and is not any more.
    let Some(&server) = entry.servers.idle.back() else { return };
    let since = step.board.cell(pool, from).waiting_since;
    let fed = since != Time::NEVER && entry.exchange.fed.get(&from) == Some(&since);
    let refused = step.now < entry.exchange.lends_refused_until;
    if !entry.queue.has_waiters() && !fed && !refused && !tables.stopping.refuses_new_work() {
        lend(tables, step, server, from, since);
    }
}

pub(crate) fn publish(tables: &mut Tables, step: &mut Step<'_>, pool: PoolId) {
    // The pool may have been forgotten in this round.
    let Some(entry) = tables.pools.get_mut(pool) else { return };
    if entry.queue.is_counted() {
        entry.publish_classes(step);
    }
    let cell = Cell {
        waiting_since: entry.waiting_since(),
        idle: entry.servers.count(Group::Idle),
        waiting: entry.queue.len(),
        servers: entry.serving(),
        excess: entry.excess(),
    };
    if !cell.is_much_like(entry.exchange.published) {
        entry.exchange.published = cell;
        step.actions.push(Action::Publish { pool, cell });
    }
}

pub(crate) fn look_around(tables: &mut Tables, step: &mut Step<'_>, pool: PoolId) {
    let entry = &tables.pools[pool];
    if let Some(&server) = entry.servers.idle.back()
        && !tables.stopping.refuses_new_work()
        && let Some((to, since)) = tables.view().stranger(step.now, step.board, entry)
    {
        lend(tables, step, server, to, since);
        return;
    }
    let waiting_since = entry.waiting_since();
    if waiting_since == Time::NEVER {
        return resting::rest_for_a_stranger(tables, step, pool);
    }
    let patience = entry.servers.patience();
    timers::arm_pool(tables, step, pool);
    if step.now < waiting_since + patience {
        return;
    }
    let others = (0..tables.settings.workers).map(WorkerId).filter(|&worker| worker != tables.id);
    let rich = others.max_by_key(|&worker| step.board.cell(pool, worker).idle);
    // No other worker has one either.
    let Some(rich) = rich.filter(|&worker| step.board.cell(pool, worker).idle > 0) else { return };
    beg(tables, step, pool, rich);
}

/// Servers are missing here. If another worker has more than it can use, it is asked for one first, which comes sooner
/// than a new one. Otherwise, with few clients, each worker would open servers to replace those it has lent. Returns
/// how many may come.
pub(crate) fn borrow(tables: &mut Tables, step: &mut Step<'_>, id: PoolId) -> u32 {
    let (own, workers) = (tables.id, tables.settings.workers);
    let pool = &mut tables.pools[id];
    let soon = pool.waiting_since() + limits::STRANGER;
    if pool.exchange.homes == 1 || soon <= step.now || soon == Time::NEVER {
        return 0;
    }
    let others = (0..workers).map(WorkerId).filter(|&worker| worker != own);
    let excess_of = |worker: &WorkerId| step.board.cell(id, *worker).excess;
    let excess: u32 = others.clone().map(|worker| excess_of(&worker)).sum();
    // No other worker has more than it uses.
    let Some(rich) = others.max_by_key(excess_of).filter(|_| excess > 0) else { return 0 };
    tables.deadlines.arm(Owner::Pool(id), &mut pool.armed, soon);
    beg(tables, step, id, rich);
    excess
}

fn beg(tables: &mut Tables, step: &mut Step<'_>, pool: PoolId, rich: WorkerId) {
    let from = tables.id;
    let entry = &mut tables.pools[pool];
    let waiting_since = entry.waiting_since();
    // Each worker is asked once for each waiter. If it has no server now, it sees the waiter on the board when it has
    // one.
    if entry.exchange.begged.insert(rich, waiting_since) != Some(waiting_since) {
        step.actions.post_to_worker(rich, ToWorker::Exchange(Exchange::Beg { pool, from }));
    }
}
