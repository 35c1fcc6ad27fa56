//! What is learnt from a new catalogue: side effects that were unknown, and what is to be passed to the other pools of its database.

use std::sync::Arc;

use sql::Word;
use units::Time;

use super::super::news::News;
use super::super::timetable::Timetable;
use super::super::{Catalogue, SideEffects};
use super::{Edition, Known};

/// What one pool has learned, for the others of its database.
#[derive(Debug)]
pub struct Lesson {
    catalogue: Arc<Catalogue>,
    polled: Option<Box<[u8]>>,
    times: Timetable,
}

impl Known {
    /// Another catalogue is there.
    pub(super) fn replace(&mut self, catalogue: Arc<Catalogue>, now: Time) {
        // What nothing was known of may have left anything.
        let none = Catalogue::new([]);
        let older = self.catalogue.as_deref().or(self.is_unreadable.then_some(&none));
        if let Some(older) = older {
            let defined = |name: Word| self.defined.side_effects([name].iter());
            let mut side_effects = catalogue.news(older, defined);
            if catalogue.has_other_settings(older, |name| self.defined.has_setting(name)) {
                side_effects |= SideEffects::SETTINGS;
            }
            if !side_effects.is_empty() {
                self.findings.add(News { side_effects, since: self.times.right_since() }, now);
            }
        }
        self.edition = Edition::NONE;
        self.catalogue = Some(catalogue);
    }

    /// Side effects that nobody knew, once.
    pub fn take_news(&mut self) -> Option<News> {
        self.findings.take()
    }

    /// A server comes from another worker that has worked last then: what it may have had there that was found here meanwhile.
    pub fn news_since(&self, worked_at: Time) -> Option<News> {
        self.findings.since(worked_at)
    }

    /// What another pool of the same database on the same worker can take over.
    pub fn lesson(&self) -> Option<Lesson> {
        let lesson = |catalogue: &Arc<Catalogue>| Lesson {
            catalogue: Arc::clone(catalogue),
            polled: self.polled.clone(),
            times: self.times.clone(),
        };
        self.catalogue.as_ref().filter(|_| self.under_way.is_none() && !self.times.has_failed()).map(lesson)
    }

    pub fn take_over(&mut self, lesson: &Lesson) {
        if !self.is_on
            || self.catalogue.is_none()
            || self.under_way.is_some()
            || self.times.right_since() > lesson.times.right_since()
        {
            return;
        }
        let right_at = lesson.times.right_at();
        if self.polled != lesson.polled {
            self.replace(Arc::clone(&lesson.catalogue), right_at);
            self.polled.clone_from(&lesson.polled);
        }
        self.times.take_schedule(&lesson.times);
        // A lesson that is no newer than our own catalogue does not reach `is_right`.
        self.edition = Edition::NONE;
        self.is_unreadable = false;
        if self.times.right_since() < lesson.times.right_since() {
            self.is_right(lesson.times.right_since(), true, right_at);
        }
        self.times.take_due(&lesson.times, self.defined.has_settled());
    }
}
