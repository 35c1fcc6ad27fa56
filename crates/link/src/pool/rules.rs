//! The settings for one pool, as the worker reads them. [`Rules::new`] is the only one that writes them.

use std::time::Duration;

use machine::DatabaseOrders;
use settings::{Fidelity, LossCode, PoolMode};
use units::{Span, Time};

use super::{Rules, ServerLimits};

impl Rules {
    /// pool_mode of its clients: when a client gets a server, and for how long.
    #[inline]
    pub fn mode(&self) -> PoolMode {
        self.mode
    }

    /// How long a session waits while no host can be used.
    #[inline]
    pub fn failover_wait(&self) -> Duration {
        self.failover_wait
    }

    /// How long a session waits for a server; `None`: for ever.
    pub fn query_wait_timeout(&self) -> Option<Duration> {
        self.query_wait_timeout
    }

    /// How long a query may take.
    #[inline]
    pub fn query_timeout(&self) -> Option<Duration> {
        self.query_timeout
    }

    /// How long a transaction may wait for its client.
    #[inline]
    pub fn idle_transaction_timeout(&self) -> Option<Duration> {
        self.idle_transaction_timeout
    }

    /// How long a transaction may take.
    #[inline]
    pub fn transaction_timeout(&self) -> Option<Duration> {
        self.transaction_timeout
    }

    /// How long a client may be silent.
    #[inline]
    pub fn client_idle_timeout(&self) -> Option<Duration> {
        self.client_idle_timeout
    }

    /// The settings that close a free server.
    #[inline]
    pub fn servers(&self) -> &ServerLimits {
        &self.servers
    }

    /// How many more servers may be opened for sessions that wait for long.
    #[inline]
    pub fn reserve_pool_size(&self) -> u32 {
        self.reserve_pool_size
    }

    /// 0: names of prepared statements are not mapped.
    #[inline]
    pub fn max_prepared_statements(&self) -> usize {
        self.max_prepared_statements
    }

    /// How session state is followed: `pool_fidelity`.
    #[inline]
    pub fn fidelity(&self) -> Fidelity {
        self.fidelity
    }

    /// Clients get their servers' process ids, if they do not choose otherwise.
    #[inline]
    pub fn stable_backend_pid(&self) -> bool {
        self.stable_backend_pid
    }

    /// How many sessions may be pinned, over all homes; 0: no limit.
    #[inline]
    pub fn max_pinned(&self) -> u32 {
        self.max_pinned
    }

    /// The SQLSTATE for a transaction that is lost with its server: `failover_sqlstate`.
    #[inline]
    pub fn loss_code(&self) -> LossCode {
        self.loss_code
    }

    /// What was ordered at the console for its database.
    #[inline]
    pub fn orders(&self) -> DatabaseOrders {
        self.orders
    }
}

impl ServerLimits {
    /// Whether a server with this number of uses is closed instead of used again.
    #[inline]
    pub fn is_used_up(&self, uses: u32) -> bool {
        self.max_uses > 0 && uses >= self.max_uses
    }

    /// When a server is too old that was opened at `connected_at`. A lifetime of zero is over after the first use.
    #[inline]
    pub fn too_old_at(&self, connected_at: Time, uses: u32) -> Option<Time> {
        (uses > 0 || !self.lifetime.is_zero()).then(|| connected_at + self.lifetime)
    }

    /// How long a server may be open.
    #[inline]
    pub fn lifetime(&self) -> Span {
        self.lifetime
    }

    /// How long a server may be idle, where there are more than min_pool_size.
    #[inline]
    pub fn idle_timeout(&self) -> Option<Span> {
        self.idle_timeout
    }
}
