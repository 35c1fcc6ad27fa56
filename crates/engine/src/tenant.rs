//! A machine as the loop uses it, with the calls that only some machines need.

use machine::peering::PeerPool;
use machine::refused_logins::RefusedLogins;
use machine::{Action, Machine, Peer};
use pooling::{Coordinator, Door, Worker};
use units::{ConnId, PoolId, Time};

use crate::system_users;

/// A machine that lives on a thread.
pub(crate) trait Tenant: Machine {
    /// For a door: takes a new client in, or returns `None` if it has no room.
    fn accept(&mut self, _now: Time, _peer: Peer) -> Option<ConnId> {
        None
    }

    /// For a door: the logins that it has refused.
    fn refused_logins(&self) -> RefusedLogins {
        RefusedLogins::default()
    }

    /// For a door: the cancel requests on their way to other processes.
    fn peer_pools(&self) -> Vec<PeerPool> {
        Vec::new()
    }

    /// For a door: clients that are logging in.
    fn logins(&self) -> usize {
        0
    }

    /// For a worker: the rows of the board that it needs.
    fn shared_pools(&self) -> &[PoolId] {
        &[]
    }

    /// After a panic in a step: the clients that can be sent an error. `asked`: the step's actions, none of which was
    /// done; `served`: the connection that the step was about.
    fn clients_to_notify(&self, _asked: &[Action], _served: Option<ConnId>) -> Vec<ConnId> {
        Vec::new()
    }

    /// Checks itself after a panic: describes the first invariant that does not hold.
    fn fault(&self) -> Option<String> {
        None
    }
}

impl Tenant for Door {
    fn accept(&mut self, now: Time, peer: Peer) -> Option<ConnId> {
        if let Peer::Unix { uid, .. } = peer
            && self.system_users.is_needed(uid)
            // If the system cannot tell, this login is refused, and the next one asks again.
            && let Ok(name) = system_users::name(uid)
        {
            self.system_users.learn(uid, name);
        }
        Door::accept(self, now, peer)
    }

    fn refused_logins(&self) -> RefusedLogins {
        self.refused_logins
    }

    fn peer_pools(&self) -> Vec<PeerPool> {
        Door::peer_pools(self)
    }

    fn logins(&self) -> usize {
        Door::logins(self)
    }
}

impl Tenant for Coordinator {
    fn fault(&self) -> Option<String> {
        self.check().err().map(|violation| format!("{violation:?}"))
    }
}

impl Tenant for Worker {
    fn clients_to_notify(&self, asked: &[Action], served: Option<ConnId>) -> Vec<ConnId> {
        Worker::clients_to_notify(self, asked, served)
    }

    fn shared_pools(&self) -> &[PoolId] {
        Worker::shared_pools(self)
    }

    fn fault(&self) -> Option<String> {
        self.check().err().map(|violation| format!("{violation:?}"))
    }
}
