//! What the board shows of a pool's classes.

use std::time::Duration;

use machine::Step;
use machine::action::Action;
use queueing::board::ClassCell;
use queueing::classes::{ClassId, ClassSet};
use queueing::queue::Queue;
use units::{PoolId, Time};

/// The server time of classes is published no more often.
const PUBLISH_EVERY: Duration = Duration::from_millis(1);

/// What was last published of a pool's classes.
#[derive(Debug, Default)]
pub struct Published {
    at: Time,
    /// The classes that had waiters.
    waiting: ClassSet,
    cells: Vec<ClassCell>,
}

impl Published {
    /// Publishes a pool's classes: at once if the waiting ones or their oldest waiters have changed, otherwise once in
    /// a while for the server time.
    pub(crate) fn publish(&mut self, step: &mut Step<'_>, pool: PoolId, queue: &Queue) {
        let Published { at, waiting, cells } = self;
        let eligible = queue.eligible();
        let since = |class: ClassId| queue.oldest_of(class).map(|waiter| waiter.since);
        let published = |class: ClassId| cells.get(usize::from(class.0)).map(|cell| cell.waiting_since);
        let is_as_published = cells.len() == queue.lanes()
            && eligible == *waiting
            && eligible.iter().all(|one| since(one) == published(one));
        if is_as_published && (step.now < *at + PUBLISH_EVERY || queue.cells(step.now).eq(cells.iter().copied())) {
            return;
        }
        (*at, *waiting) = (step.now, eligible);
        cells.clear();
        cells.extend(queue.cells(step.now));
        step.actions.push(Action::PublishClasses { pool, cells: cells.as_slice().into() });
    }
}
