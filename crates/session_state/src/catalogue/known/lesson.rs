//! What a new catalogue tells: what it hides that nobody knew, and the other pools of its database.

use std::sync::Arc;

use units::Time;

use super::super::news::News;
use super::super::schedule::Schedule;
use super::super::{Catalogue, Hidden};
use super::Known;

/// What one pool has learned, for the others of its database.
#[derive(Debug)]
pub struct Lesson {
    catalogue: Arc<Catalogue>,
    polled: Option<Box<[u8]>>,
    right_at: Time,
    right_since: Time,
    due: Time,
    schedule: Schedule,
}

impl Known {
    /// Another catalogue is there.
    pub(super) fn replace(&mut self, catalogue: Arc<Catalogue>, now: Time) {
        // What nothing was known of may have left anything.
        let none = Catalogue::new([]);
        let older = self.catalogue.as_deref().or(self.is_unreadable.then_some(&none));
        if let Some(older) = older {
            let defined = |name| self.fresh.get(&name).map_or(Hidden::NONE, |fresh| fresh.hidden);
            let mut hidden = catalogue.news(older, defined);
            if catalogue.has_other_settings(older, |name| self.fresh_settings.contains(name)) {
                hidden |= Hidden::SETTINGS;
            }
            if !hidden.is_empty() {
                let news = News { hidden, since: self.right_since };
                (self.news, self.last_news) = (Some(news), Some((now, news)));
            }
        }
        self.catalogue = Some(catalogue);
    }

    /// Side effects that nobody knew, once.
    pub fn take_news(&mut self) -> Option<News> {
        self.news.take()
    }

    /// A server comes from another worker that has worked last then: what it may have had there that was found here meanwhile.
    pub fn news_since(&self, worked_at: Time) -> Option<News> {
        self.last_news.filter(|(found, news)| (news.since..=*found).contains(&worked_at)).map(|(_, news)| news)
    }

    /// What another pool of the same database on the same worker can take over.
    pub fn lesson(&self) -> Option<Lesson> {
        let lesson = |catalogue: &Arc<Catalogue>| Lesson {
            catalogue: Arc::clone(catalogue),
            polled: self.polled.clone(),
            right_at: self.right_at,
            right_since: self.right_since,
            due: self.due,
            schedule: self.schedule.clone(),
        };
        self.catalogue.as_ref().filter(|_| self.asking.is_none() && self.failures == 0).map(lesson)
    }

    pub fn take_over(&mut self, lesson: &Lesson) {
        if !self.is_on || self.catalogue.is_none() || self.asking.is_some() || self.right_since > lesson.right_since {
            return;
        }
        if self.polled != lesson.polled {
            self.replace(Arc::clone(&lesson.catalogue), lesson.right_at);
            self.polled.clone_from(&lesson.polled);
        }
        (self.schedule, self.is_unreadable) = (lesson.schedule.clone(), false);
        if self.right_since < lesson.right_since {
            self.is_right(lesson.right_since, true, lesson.right_at);
        }
        self.due = if self.has_settled() { self.due.min(lesson.due) } else { lesson.due };
    }
}
