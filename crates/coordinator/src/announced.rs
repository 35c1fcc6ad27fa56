//! Log lines of a pool's first refusals: one for all its workers.
//!
//! Promises: of each class and reason, at most one line in a `stats_period`.

use std::sync::Arc;
use std::time::Duration;

use machine::action::Actions;
use machine::observe::{About, Fact, Level, Topic};
use queueing::refusals::{News, Reason};
use units::{PoolKey, Time};

/// What was logged, and when.
#[derive(Debug, Default)]
pub(crate) struct Announced(Vec<(Arc<str>, Reason, Time)>);

impl Announced {
    /// A request in this pool was refused; `period`: between two lines of one class and reason.
    pub(crate) fn tell(&mut self, now: Time, period: Duration, key: &PoolKey, news: News, actions: &mut Actions) {
        let logged = &mut self.0;
        logged.retain(|(_, _, at)| now < *at + period);
        if logged.iter().any(|(class, reason, _)| *class == news.class && *reason == news.reason) {
            return;
        }
        let News { class, reason, message, .. } = news;
        let (database, user, code) =
            (&key.database, &key.user, reason.code().map_or(String::new(), |code| format!(", {code}")));
        let text = format!(
            "pool {database}/{user}: a request of class \"{class}\" was refused ({}{code}): {message}",
            reason.name()
        );
        logged.push((class, reason, now));
        actions.tell(Fact::new(Level::Warning, Topic::General, About::Pooler, text));
    }
}
