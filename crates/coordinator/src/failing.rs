//! What the log says of servers that cannot be opened: one line for all workers of a pool.
//!
//! Promises: a reason is told once in `server_login_retry` for each pool, however many workers try again meanwhile and however
//! often; another reason is told at once. At most [`REASONS_MAX`] reasons are known of a pool: beyond them nothing is told.

use machine::action::Actions;
use machine::mail::Failure;
use machine::observe::{About, Fact, Level, Topic};
use units::Time;

use super::Coordinator;

/// Several hosts may fail for several reasons.
const REASONS_MAX: usize = 8;

/// Reasons that were told, and when.
#[derive(Debug, Default)]
pub(super) struct Failures(Vec<(Box<str>, Time)>);

impl Coordinator {
    pub(super) fn open_failed(&mut self, now: Time, failure: Failure, actions: &mut Actions) {
        let pause = self.settings.global.servers.server_login_retry;
        let Some(entry) = self.pools.get_mut(failure.pool.0 as usize).filter(|entry| entry.is_live()) else { return };
        let told = &mut entry.failures.0;
        told.retain(|(_, at)| now < *at + pause);
        if told.len() >= REASONS_MAX || told.iter().any(|(why, _)| *why == failure.why) {
            return;
        }
        told.push((failure.why, now));
        let about = About::Server {
            conn: failure.server,
            name: failure.server,
            database: entry.key.database.clone(),
            user: entry.key.user.clone(),
            address: failure.address,
        };
        for text in failure.lines {
            actions.tell(Fact { level: Level::Warning, topic: Topic::General, about: about.clone(), text });
        }
    }
}
