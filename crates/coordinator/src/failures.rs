//! What the log says of servers that cannot be opened: one line for all workers of a pool.
//!
//! Promises: a reason is logged once in `server_login_retry` for each pool, however many workers try again meanwhile and however
//! often; another reason is logged at once. At most [`REASONS_MAX`] reasons are known of a pool: beyond them nothing is logged.

use std::time::Duration;

use machine::action::Actions;
use machine::mail::Failure;
use machine::observe::{About, Fact, Level, Topic};
use units::{PoolKey, Time};

/// Several hosts may fail for several reasons.
const REASONS_MAX: usize = 8;

/// Reasons that were logged, and when.
#[derive(Debug, Default)]
pub(crate) struct Failures(Vec<(Box<str>, Time)>);

impl Failures {
    /// A server of this pool could not be opened; `pause`: between two lines with one reason.
    pub(crate) fn tell(&mut self, now: Time, pause: Duration, key: &PoolKey, failure: Failure, actions: &mut Actions) {
        let logged = &mut self.0;
        logged.retain(|(_, at)| now < *at + pause);
        if logged.len() >= REASONS_MAX || logged.iter().any(|(why, _)| *why == failure.why) {
            return;
        }
        logged.push((failure.why, now));
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
