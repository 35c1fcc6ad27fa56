//! What follows from the decisions of a step, and what is done at the end of the round: short lists, so that nothing recurses.

use units::{ConnId, PoolId};

/// What follows next from the decisions of a step.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A server is free: find work for it.
    Place(ConnId),
    /// A session may go on: it has more at hand, or what it waited for has come.
    Reconsider(ConnId),
    /// Somebody may wait in a pool that could have another server.
    Feed(PoolId),
}

/// The lists of one worker.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    free_servers: Vec<ConnId>,
    sessions: Vec<ConnId>,
    hungry_pools: Vec<PoolId>,
    leaving: Vec<ConnId>,
    answered: Vec<ConnId>,
    unpublished: Vec<PoolId>,
}

impl Agenda {
    pub(super) fn place(&mut self, server: ConnId) {
        self.free_servers.push(server);
    }

    pub(super) fn reconsider(&mut self, session: ConnId) {
        self.sessions.push(session);
    }

    pub(super) fn feed(&mut self, pool: PoolId) {
        self.hungry_pools.push(pool);
    }

    /// What is to be done next in this step: servers first, then sessions, then pools, the newest of each first.
    #[inline]
    pub(super) fn next(&mut self) -> Option<Next> {
        if let Some(server) = self.free_servers.pop() {
            return Some(Next::Place(server));
        }
        if let Some(session) = self.sessions.pop() {
            return Some(Next::Reconsider(session));
        }
        self.hungry_pools.pop().map(Next::Feed)
    }

    /// Whether a step has left nothing to be done.
    pub(super) fn is_settled(&self) -> bool {
        self.free_servers.is_empty() && self.sessions.is_empty() && self.hungry_pools.is_empty()
    }

    /// At the end of the round: a session has had its last words, and is closed if they are written by then.
    pub(super) fn close(&mut self, session: ConnId) {
        self.leaving.push(session);
    }

    pub(super) fn next_to_close(&mut self) -> Option<ConnId> {
        self.leaving.pop()
    }

    /// At the end of the round: a console session was answered, and may ask again if it has taken that.
    pub(super) fn go_on_at_console(&mut self, session: ConnId) {
        self.answered.push(session);
    }

    pub(super) fn next_at_console(&mut self) -> Option<ConnId> {
        self.answered.pop()
    }

    /// At the end of the round: a pool's cell on the board may have changed.
    pub(super) fn publish(&mut self, pool: PoolId) {
        self.unpublished.push(pool);
    }

    /// Where a pool puts itself down for that.
    pub(super) fn unpublished(&mut self) -> &mut Vec<PoolId> {
        &mut self.unpublished
    }

    /// Those pools, each once; the list comes back by [`Agenda::published`].
    pub(super) fn take_unpublished(&mut self) -> Vec<PoolId> {
        let mut pools = std::mem::take(&mut self.unpublished);
        pools.sort_unstable();
        pools.dedup();
        pools
    }

    pub(super) fn published(&mut self, mut pools: Vec<PoolId>) {
        debug_assert!(self.unpublished.is_empty(), "publishing changes no cell");
        pools.clear();
        self.unpublished = pools;
    }

    /// Whether the end of the round means anything.
    pub(super) fn awaits_round_end(&self) -> bool {
        !(self.unpublished.is_empty() && self.leaving.is_empty() && self.answered.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use units::Kind;

    use super::*;

    #[test]
    fn servers_come_before_sessions_and_these_before_pools() {
        let conn = |slot| ConnId::new(Kind::Client, 0, slot, 0);
        let mut agenda = Agenda::default();
        agenda.feed(PoolId(1));
        agenda.reconsider(conn(1));
        agenda.place(conn(2));
        agenda.reconsider(conn(3));
        let order: Vec<_> = std::iter::from_fn(|| agenda.next()).collect();
        let expected =
            [Next::Place(conn(2)), Next::Reconsider(conn(3)), Next::Reconsider(conn(1)), Next::Feed(PoolId(1))];
        assert_eq!(order, expected);
        assert!(agenda.is_settled());
    }

    #[test]
    fn a_pool_is_published_once_a_round() {
        let mut agenda = Agenda::default();
        for pool in [3, 1, 3] {
            agenda.publish(PoolId(pool));
        }
        assert!(agenda.awaits_round_end());
        let pools = agenda.take_unpublished();
        assert_eq!(pools, [PoolId(1), PoolId(3)]);
        agenda.published(pools);
        assert!(!agenda.awaits_round_end());
    }
}
