//! Accessors of a pool for the crate `worker`, and its parts, which have methods of their own.

use std::sync::Arc;

use connections::databases::{Address, Database};
use machine::Upstreams;
use queueing::classes::Classes;
use queueing::queue::{Queue, Waiter};
use session_state::catalogue::Known;
use units::deadline::{Deadlines, Owner};
use units::{PoolId, PoolKey, Time};

use super::{Exchange, Measured, Opening, OtherHost, Pool, PoolCounts, PoolPins, Rules, Servers, Welcome};
use crate::listener::Listener;

impl Pool {
    /// Its id, the same on all workers.
    #[inline]
    pub fn id(&self) -> PoolId {
        self.id
    }

    /// Its database and user.
    #[inline]
    pub fn key(&self) -> &PoolKey {
        &self.key
    }

    /// The entry of its database.
    #[inline]
    pub fn database(&self) -> &Arc<Database> {
        &self.database
    }

    /// Its settings.
    #[inline]
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The sessions that wait for a server.
    #[inline]
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    #[inline]
    pub fn queue_mut(&mut self) -> &mut Queue {
        &mut self.queue
    }

    /// Its servers here.
    #[inline]
    pub fn servers(&self) -> &Servers {
        &self.servers
    }

    #[inline]
    pub fn servers_mut(&mut self) -> &mut Servers {
        &mut self.servers
    }

    /// How more servers are requested and opened.
    #[inline]
    pub fn opening(&self) -> &Opening {
        &self.opening
    }

    #[inline]
    pub fn opening_mut(&mut self) -> &mut Opening {
        &mut self.opening
    }

    /// The sessions that keep their servers.
    #[inline]
    pub fn pins(&self) -> &PoolPins {
        &self.pins
    }

    #[inline]
    pub fn pins_mut(&mut self) -> &mut PoolPins {
        &mut self.pins
    }

    /// The report that logins end with.
    #[inline]
    pub fn welcome(&self) -> &Welcome {
        &self.welcome
    }

    #[inline]
    pub fn welcome_mut(&mut self) -> &mut Welcome {
        &mut self.welcome
    }

    /// The exchange with other homes.
    #[inline]
    pub fn exchange(&self) -> &Exchange {
        &self.exchange
    }

    #[inline]
    pub fn exchange_mut(&mut self) -> &mut Exchange {
        &mut self.exchange
    }

    /// Its counters.
    #[inline]
    pub fn counts(&self) -> &PoolCounts {
        &self.counts
    }

    #[inline]
    pub fn counts_mut(&mut self) -> &mut PoolCounts {
        &mut self.counts
    }

    /// The known side effects of its database's functions, triggers and views.
    #[inline]
    pub fn known(&self) -> &Known {
        &self.names.known
    }

    #[inline]
    pub fn known_mut(&mut self) -> &mut Known {
        &mut self.names.known
    }

    /// What is measured of it.
    #[inline]
    pub fn measured(&self) -> &Measured {
        &self.measured
    }

    #[inline]
    pub fn measured_mut(&mut self) -> &mut Measured {
        &mut self.measured
    }

    /// The listener for its sessions, once one of them has needed it.
    #[inline]
    pub fn listener(&self) -> Option<&Listener> {
        self.listener.as_deref()
    }

    pub fn listener_mut(&mut self) -> Option<&mut Listener> {
        self.listener.as_deref_mut()
    }

    /// A session needs the listener: there is one from now on.
    pub fn ensure_listener(&mut self) -> &mut Listener {
        self.listener.get_or_insert_default()
    }

    /// The listener's server is lost: all that listened through it learn this from what is returned.
    pub fn take_listener(&mut self) -> Option<Box<Listener>> {
        self.listener.take()
    }

    /// Whether no session listens through its listener.
    pub fn listens_for_none(&self) -> bool {
        self.listener.as_ref().is_none_or(|listener| listener.is_unused())
    }

    /// Arms its timer.
    pub fn arm(&mut self, deadlines: &mut Deadlines, at: Time) {
        deadlines.arm(Owner::Pool(self.id), &mut self.armed, at);
    }

    /// Whether its timer was armed for this time last.
    pub fn is_due(&mut self, at: Time) -> bool {
        self.armed.spend(at)
    }

    /// A reload has its database.
    pub fn take_entry(&mut self, database: Arc<Database>) {
        self.database = database;
    }

    /// Its classes have changed: it gets a new, empty queue. Returns the sessions that waited, the oldest first.
    pub fn take_classes(&mut self, classes: &Arc<Classes>) -> Vec<Waiter> {
        let old = std::mem::replace(&mut self.queue, Queue::new(classes, self.exchange.homes));
        let mut waiters: Vec<_> = old.waiters().collect();
        waiters.sort_by_key(|waiter| waiter.since);
        waiters
    }

    /// The host for its next server.
    pub fn take_host(&mut self, upstreams: &Upstreams, now: Time) -> Address {
        self.opening.take_host(&self.database, upstreams, now)
    }

    /// A server could not be opened at this host: the next one is tried at another.
    pub fn leave_host(&mut self, host: &Address) {
        self.opening.leave_host(&self.database, host);
    }

    /// Whether a server can be opened at another host, and whether that one is known to fit. `None`: it cannot.
    #[must_use]
    pub fn other_host(&self, host: &Address, upstreams: &Upstreams, now: Time) -> Option<OtherHost> {
        self.opening.other_host(&self.database, host, upstreams, now)
    }
}
