//! What the log says of servers that cannot be opened: one line for all workers of a pool.
//!
//! Promises: a reason is logged once of each host in `server_login_retry` for each pool, however many workers try again meanwhile and however
//! often; another reason is logged at once. At most [`REASONS_MAX`] reasons are known of a pool: beyond them nothing is logged.

use std::sync::Arc;
use std::time::Duration;

use connections::databases::Address;
use machine::action::Actions;
use machine::mail::Failure;
use machine::observe::{About, Fact, Level, Topic};
use units::{PoolKey, Time};

/// Several hosts may fail for several reasons.
const REASONS_MAX: usize = 8;

/// Reasons that were logged, of which host, and when.
#[derive(Debug, Default)]
pub(crate) struct Failures(Vec<(Box<str>, Arc<Address>, Time)>);

impl Failures {
    /// A server of this pool could not be opened; `pause`: between two lines with one reason.
    pub(crate) fn tell(&mut self, now: Time, pause: Duration, key: &PoolKey, failure: Failure, actions: &mut Actions) {
        let logged = &mut self.0;
        logged.retain(|(_, _, at)| now < *at + pause);
        let is_known = logged.iter().any(|(why, host, _)| *why == failure.why && *host == failure.address);
        if logged.len() >= REASONS_MAX || is_known {
            return;
        }
        logged.push((failure.why, Arc::clone(&failure.address), now));
        let about = About::Server {
            conn: failure.server,
            name: failure.server,
            database: key.database.clone(),
            user: key.user.clone(),
            address: failure.address,
        };
        for text in failure.lines {
            actions.tell(Fact::new(Level::Warning, Topic::General, about.clone(), text));
        }
    }
}
