//! What the log is told of the first refusals of a pool: one line for all its workers.
//!
//! Promises: of each class and reason, at most one line in a `stats_period`.

use std::sync::Arc;

use machine::action::Actions;
use machine::observe::{About, Fact, Level, Topic};
use queueing::refusals::{News, Reason};
use units::Time;

use super::Coordinator;

/// What was told, and when.
#[derive(Debug, Default)]
pub(super) struct Announced(Vec<(Arc<str>, Reason, Time)>);

impl Coordinator {
    pub(super) fn refused(&mut self, now: Time, news: News, actions: &mut Actions) {
        let period = self.settings.global.console.stats_period;
        let Some(entry) = self.pools.get_mut(news.pool.0 as usize).filter(|entry| entry.is_live()) else { return };
        let told = &mut entry.announced.0;
        told.retain(|(_, _, at)| now < *at + period);
        if told.iter().any(|(class, reason, _)| *class == news.class && *reason == news.reason) {
            return;
        }
        let News { class, reason, message, .. } = news;
        let (database, user, code) = (&entry.key.database, &entry.key.user, reason.code());
        let text = format!(
            "pool {database}/{user}: a request of class \"{class}\" was refused ({}, {code}): {message}",
            reason.name()
        );
        told.push((class, reason, now));
        actions.tell(Fact { level: Level::Warning, topic: Topic::General, about: About::Pooler, text });
    }
}
