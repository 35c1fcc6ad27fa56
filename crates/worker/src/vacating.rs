//! Servers that leave a database because a client wants it empty.

use connections::server::{Group, Server, State};
use machine::Turn;
use units::{ConnId, PoolId, Time, limits};

use crate::Worker;

const WHY: &str = "its database is to be empty";

impl Worker {
    /// Closes the servers of a pool that serve nobody, also those that are being reset, checked or opened while nobody waits,
    /// and one that has listened for sessions that are gone.
    /// Those in use stay: whoever says DROP DATABASE may not be allowed to. Their clients may be about to leave, so as long as
    /// PostgreSQL waits for a database to be empty, servers that come free are closed as well.
    pub(super) fn vacate(&mut self, turn: &mut Turn<'_>, id: PoolId) {
        let Some(pool) = self.pool_mut(id) else { return };
        pool.life.vacant_until = turn.now + limits::VACATING;
        let is_awaited = pool.queue.is_hungry() || !pool.welcome.waiting.is_empty();
        let listens_for_nobody = pool.listener.as_ref().is_none_or(|listener| listener.is_unused());
        for conn in self.servers.ids() {
            let leaves = |server: &&Server| {
                let group = server.state.group();
                let is_in_use = match server.state {
                    State::Listening => !listens_for_nobody,
                    _ => group == Group::Linked,
                };
                server.pool == id && !is_in_use && !(is_awaited && group == Group::Opening)
            };
            if self.servers.get(conn).filter(leaves).is_some() {
                self.close_server(turn, conn, WHY);
            }
        }
        self.forget_database(turn.now, id);
    }

    /// A database that is to be empty, and is, may be gone: the next login asks PostgreSQL.
    pub(super) fn forget_database(&mut self, now: Time, id: PoolId) {
        let Some(pool) = self.pool_mut(id).filter(|pool| pool.life.vacant_until > now) else { return };
        let groups = [Group::Opening, Group::Returning, Group::Recovering, Group::Idle, Group::Linked];
        if groups.into_iter().all(|group| pool.count(group) == 0) {
            pool.welcome.base = None;
        }
    }

    /// A server has no work: whether it leaves a database that is to be empty.
    pub(super) fn leaves_vacant(&mut self, turn: &mut Turn<'_>, id: PoolId, conn: ConnId) -> bool {
        let leaves = self.pool(id).is_some_and(|pool| pool.life.vacant_until > turn.now);
        if leaves {
            self.close_server(turn, conn, WHY);
        }
        leaves
    }
}
