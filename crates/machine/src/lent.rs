//! A server that one worker lends to another, as the mail carries it.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use session_state::login_report::LoginReport;
use units::{Life, PoolId, PoolKey, Time, WorkerId};

/// A server on its way to another worker. Only the crate that owns servers sees into it; the mail carries it.
pub trait LentServer: Any + Debug + Send {
    fn pool(&self) -> PoolId;
}

/// A clean, idle server on its way to another worker.
#[derive(Debug)]
pub struct Lent {
    pub server: Box<dyn LentServer>,
    /// Since when it has had no work. If that is long ago, the receiver checks it first.
    pub idle_since: Time,
    pub key: PoolKey,
    pub homes: u16,
    /// The parameters that the pool's sessions are sent at login, for a worker that does not have them yet.
    pub report: Option<Arc<LoginReport>>,
    /// The worker that counts it until the receiver acknowledges.
    pub from: WorkerId,
    pub life: Life,
    pub to: WorkerId,
}

impl Lent {
    #[must_use]
    pub fn pool(&self) -> PoolId {
        self.server.pool()
    }
}
