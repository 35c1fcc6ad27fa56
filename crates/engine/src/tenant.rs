//! A machine as the loop sees it: what it is stepped by, and what else the loop asks of some of them.

use machine::{Action, Actions, Event, Machine, Peer};
use pooling::{Coordinator, Door, Worker};
use queueing::board::Board;
use units::{ConnId, PoolId, Time};

/// A machine that lives on a thread.
pub(crate) trait Tenant: Machine {
    /// Steps it and takes out what it asks for; `actions` keeps the bytes meant. Tests put in lists of their own.
    fn decide(&mut self, now: Time, board: &Board, event: Event<'_>, actions: &mut Actions) -> Vec<Action> {
        self.step(now, board, event, actions);
        actions.take()
    }

    /// As [`Tenant::decide`], of bytes that a connection has sent.
    fn take_in(&mut self, now: Time, board: &Board, conn: ConnId, bytes: &[u8], actions: &mut Actions) -> Vec<Action> {
        self.decide(now, board, Event::Received { conn, bytes }, actions)
    }

    /// A door's: takes a new client in, or has no room.
    fn accept(&mut self, _now: Time, _peer: Peer) -> Option<ConnId> {
        None
    }

    /// A worker's: the board's rows that it wants to see.
    fn shared_pools(&self) -> &[PoolId] {
        &[]
    }

    /// Looks itself over after a panic: the first broken invariant in words.
    fn fault(&self) -> Option<String> {
        None
    }
}

impl Tenant for Door {
    fn accept(&mut self, now: Time, peer: Peer) -> Option<ConnId> {
        Door::accept(self, now, peer)
    }
}

impl Tenant for Coordinator {
    fn fault(&self) -> Option<String> {
        self.check().err().map(|violation| format!("{violation:?}"))
    }
}

impl Tenant for Worker {
    fn take_in(&mut self, now: Time, board: &Board, conn: ConnId, bytes: &[u8], actions: &mut Actions) -> Vec<Action> {
        self.receive(now, board, conn, bytes, actions);
        actions.take()
    }

    fn shared_pools(&self) -> &[PoolId] {
        Worker::shared_pools(self)
    }

    fn fault(&self) -> Option<String> {
        self.check().err().map(|violation| format!("{violation:?}"))
    }
}
