//! Servers that go from worker to worker within a pool: who is told of whose hunger, who lends, who begs.
//!
//! Promises: a server travels only clean and idle, and only for somebody who has waited clearly longer than everybody here, or who
//! begs where nobody waits; it is the sender's to answer for until the other side has acknowledged it. Does not open or close
//! servers.

use connections::server::{Chore, Group, Lent, Server, State as ServerState};
use machine::Turn;
use machine::action::Action;
use machine::mail::{Exchange, Mail, ToCoordinator, ToWorker};
use machine::sabotage::{Fault, does};
use queueing::board::Cell;
use units::deadline::Owner;
use units::{ConnId, PoolId, Time, WorkerId, limits};

use crate::Worker;
use crate::linking::is_stale;
use crate::steering::concerns_servers;
use crate::sweeping::taint;

impl Worker {
    pub(super) fn lend(&mut self, turn: &mut Turn<'_>, server_id: ConnId, to: WorkerId, since: Time) {
        let Some(idle_since) = self.servers.get(server_id).map(|server| server.work.since) else { return };
        self.turn_server(turn, server_id, ServerState::Held);
        let from = self.id;
        let Some(server) = self.servers.remove(server_id) else { return };
        assert!(
            server.is_clean() && server.flow.is_clear() && server.cancel.under_way == 0,
            "I3: only a clean server is lent"
        );
        let Some(pool) = self.pools.get_mut(server.pool) else { return };
        pool.exchange.fed.insert(to, since);
        pool.servers.lent += 1;
        self.counts.lends += 1;
        if machine::sabotage::loses_lent(&self.settings) {
            turn.actions.push(Action::Close { conn: server_id, last_words: false });
            return;
        }
        // Our own waiters look at what is left.
        self.agenda.feed(pool.id);
        let (key, homes, base) = (pool.key.clone(), pool.exchange.homes, pool.welcome.base.clone());
        let lent = Lent { key, homes, base, from, to, server, idle_since };
        // The group count stays until the other side acknowledges: the server is still ours to answer for (I5).
        let mail = Mail::ToWorker(to, ToWorker::Exchange(Exchange::Lend(Box::new(lent))));
        turn.actions.push(Action::Post { mail, carrying: Some(server_id) });
    }

    /// The other worker's mailbox was full: the server stays.
    pub(super) fn lend_returned(&mut self, turn: &mut Turn<'_>, lent: Lent) {
        let Some(pool) = self.pools.get_mut(lent.pool()) else { return };
        pool.leave(Group::Recovering);
        pool.servers.lent -= 1;
        pool.exchange.fed.remove(&lent.to);
        // Not again in this very round, or a full mailbox would keep us busy with nothing else.
        pool.exchange.lends_refused_until = turn.now + limits::STRANGER;
        let id = pool.id;
        self.arm_pool(turn, id);
        self.counts.lends -= 1;
        self.adopt(turn, lent.server, lent.idle_since);
    }

    pub(super) fn lent_to_us(&mut self, turn: &mut Turn<'_>, lent: Lent) {
        let (pool, from) = (lent.pool(), lent.from);
        let Some(entry) = self.ensure_pool(pool, lent.key, lent.homes) else {
            debug_assert!(false, "a pool that is lent to us has a database");
            return;
        };
        entry.welcome.base = entry.welcome.base.take().or(lent.base);
        entry.exchange.begged.clear();
        entry.exchange.fed.remove(&from);
        let known = entry.welcome.base.is_some();
        // The receiver tells the coordinator, before anything else that it may tell of this server.
        let moved = ToCoordinator::Moved { pool, from, to: self.id };
        turn.actions.post_to_coordinator(moved);
        turn.actions.post_to_worker(from, ToWorker::Received { pool });
        let mut server = lent.server;
        server.work.travelled_at = Some(turn.now);
        if does(&self.settings, Fault::RejuvenateLent) {
            server.identity.connected_at = turn.now;
        }
        self.adopt(turn, server, lent.idle_since);
        if known {
            self.welcome_all(turn, pool);
        }
    }

    /// Takes in a server that comes with its connection, and has had no work since then.
    fn adopt(&mut self, turn: &mut Turn<'_>, mut server: Server, idle_since: Time) {
        let Some(pool) = self.pools.get_mut(server.pool) else { return };
        if concerns_servers(&pool.database, &server.identity.opened_for) {
            server.end.close_needed = Some("database configuration changed");
        }
        if let Some(news) = pool.names.known.news_since(server.work.worked_at) {
            taint(&mut server, news);
        }
        server.state = ServerState::Held;
        server.armed = units::deadline::Armed::default();
        server.flow.restart();
        // Versions are the other worker's.
        server.statements.unnamed = session_state::unnamed::UNKNOWN;
        server.kept.parameters = self.caches.interned.intern((*server.kept.parameters).clone());
        pool.enter(Group::Recovering);
        let conn = self.servers.insert_with(|_| server);
        turn.actions.push(Action::Adopt { conn });
        match self.settings.global.servers.server_check_query.0.clone() {
            Some(check) if is_stale(turn.now, idle_since, &self.settings) => {
                self.start_chore(turn, conn, Chore::Check, check.as_bytes());
            }
            Some(_) | None => {
                self.free(turn, conn);
                if let Some(server) = self.servers.get_mut(conn).filter(|server| server.state.group() == Group::Idle) {
                    // The way was no work.
                    server.work.since = idle_since;
                }
            }
        }
    }

    /// A server that we lent has arrived: the other worker answers for it now.
    pub(super) fn lend_received(&mut self, pool: PoolId) {
        let Some(entry) = self.pool_mut(pool) else { return };
        entry.leave(Group::Recovering);
        entry.servers.lent -= 1;
        if entry.servers.lent == 0 {
            // Whoever is hungry from now on is another waiter, though perhaps of the same moment.
            entry.exchange.fed.clear();
        }
        self.agenda.feed(pool);
    }

    /// Another worker is hungry and believes that we have an idle server.
    pub(super) fn begged(&mut self, turn: &mut Turn<'_>, pool: PoolId, from: WorkerId) {
        let Some(entry) = self.pool(pool) else { return };
        let Some(&server) = entry.servers.idle.back() else { return };
        let since = turn.board.cell(pool, from).hungry_since;
        let fed = since != Time::NEVER && entry.exchange.fed.get(&from) == Some(&since);
        let refused = turn.now < entry.exchange.lends_refused_until;
        if !entry.queue.is_hungry() && !fed && !refused && !self.stopping.refuses_new_work() {
            self.lend(turn, server, from, since);
        }
    }

    /// The end of a round: show on the board what changed, then look who could help or be helped.
    pub(super) fn round_ended(&mut self, turn: &mut Turn<'_>) {
        self.bury_leaving(turn);
        self.go_on_at_console(turn);
        self.hear_of_classes(turn.board);
        let pools = self.agenda.take_unpublished();
        for &pool in &pools {
            self.publish(turn, pool);
        }
        self.agenda.published(pools);
        if !turn.actions.is_empty() {
            // Published just now: the board is read anew and this is told once more.
            return;
        }
        for index in 0..self.pools.shared().len() {
            let pool = self.pools.shared()[index];
            self.look_around(turn, pool);
        }
    }

    fn publish(&mut self, turn: &mut Turn<'_>, pool: PoolId) {
        let Some(entry) = self.pool_mut(pool) else { return };
        if entry.queue.is_counted() {
            entry.publish_classes(turn);
        }
        let cell = Cell {
            hungry_since: entry.hungry_since(),
            idle: entry.count(Group::Idle),
            waiting: entry.queue.len(),
            servers: entry.serving(),
            excess: entry.excess(),
        };
        if !cell.is_much_like(entry.exchange.published) {
            entry.exchange.published = cell;
            turn.actions.push(Action::Publish { pool, cell });
        }
    }

    pub(super) fn look_around(&mut self, turn: &mut Turn<'_>, pool: PoolId) {
        let Some(entry) = self.pool(pool) else { return };
        if let Some(&server) = entry.servers.idle.back()
            && !self.stopping.refuses_new_work()
            && let Some((to, since)) = self.view().stranger(turn.now, turn.board, entry)
        {
            self.lend(turn, server, to, since);
            return;
        }
        let hungry_since = entry.hungry_since();
        if hungry_since == Time::NEVER {
            return self.rest_for_a_stranger(turn, pool);
        }
        let patience = entry.patience();
        self.arm_pool(turn, pool);
        if turn.now < hungry_since + patience {
            return;
        }
        let others = (0..self.settings.workers).map(WorkerId).filter(|&worker| worker != self.id);
        let rich = others.max_by_key(|&worker| turn.board.cell(pool, worker).idle);
        let Some(rich) = rich.filter(|&worker| turn.board.cell(pool, worker).idle > 0) else { return };
        self.beg(turn, pool, rich);
    }

    /// Servers are missing. Where another worker has more than it can use, one of those comes sooner than a new one, and is asked for
    /// first: with few clients, each worker would else open for itself what it has lent. How many may come.
    pub(super) fn borrow(&mut self, turn: &mut Turn<'_>, id: PoolId) -> u32 {
        let (own, workers) = (self.id, self.settings.workers);
        let Some(pool) = self.pools.get_mut(id) else { return 0 };
        let soon = pool.hungry_since() + limits::STRANGER;
        if pool.exchange.homes == 1 || soon <= turn.now || soon == Time::NEVER {
            return 0;
        }
        let others = (0..workers).map(WorkerId).filter(|&worker| worker != own);
        let excess_of = |worker: &WorkerId| turn.board.cell(id, *worker).excess;
        let excess: u32 = others.clone().map(|worker| excess_of(&worker)).sum();
        let Some(rich) = others.max_by_key(excess_of).filter(|_| excess > 0) else { return 0 };
        self.deadlines.arm(Owner::Pool(id), &mut pool.armed, soon);
        self.beg(turn, id, rich);
        excess
    }

    fn beg(&mut self, turn: &mut Turn<'_>, pool: PoolId, rich: WorkerId) {
        let from = self.id;
        let Some(entry) = self.pool_mut(pool) else { return };
        let hungry_since = entry.hungry_since();
        // One begging a waiter and worker: whoever was begged and had nothing sees our hunger when it has.
        if entry.exchange.begged.insert(rich, hungry_since) != Some(hungry_since) {
            turn.actions.post_to_worker(rich, ToWorker::Exchange(Exchange::Beg { pool, from }));
        }
    }
}
