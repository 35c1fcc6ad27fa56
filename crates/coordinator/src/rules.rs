//! What the settings say of one pool.

use std::time::Duration;

/// What the settings say of one pool: user over database over global.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    pub(crate) reserve: u32,
    pub(crate) min: u32,
    /// It has a min_pool_size, though nothing be opened for it now.
    pub(crate) has_minimum: bool,
    /// Its database has a forced user: it has servers before its first client.
    pub(crate) forced: bool,
    pub(crate) max_db: u32,
    pub(crate) max_user: u32,
    pub(crate) lifetime: Duration,
    /// Nothing is opened, and what is counted says nothing of its size.
    pub(crate) is_paused: bool,
}
