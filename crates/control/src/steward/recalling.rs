//! Questions about what is on disk: they are answered once it is read, by a thread of the program's.

use machine::{Manner, Question};

use crate::admin::Show;
use crate::command::Command;
use crate::console;
use crate::past::Recall;
use crate::plane::{Asker, Plane};

/// What memory does not have of what is asked for.
pub(super) fn wanted(plane: &mut impl Plane, question: &Question) -> Option<Recall> {
    let Ok(Command::Show(shown)) = console::command(question) else { return None };
    if matches!(question.manner, Manner::Describe { .. }) || !matches!(shown.show, Show::Waits | Show::History) {
        return None;
    }
    let history = plane.history()?;
    let oldest = history.lock().expect("nothing panics while it holds this lock").seconds().next().map(|it| it.at);
    shown.recall(&plane.wall_clock(), oldest)
}

/// All that wait, by number.
#[derive(Debug, Default)]
pub(super) struct Recalling {
    last: u64,
    waiting: Vec<(u64, Asker, Question)>,
}

impl Recalling {
    /// Its number.
    pub(super) fn add(&mut self, asker: Asker, question: Question) -> u64 {
        self.last += 1;
        self.waiting.push((self.last, asker, question));
        self.last
    }

    /// `None`: none of this number waits.
    pub(super) fn take(&mut self, number: u64) -> Option<(Asker, Question)> {
        let place = self.waiting.iter().position(|(known, ..)| *known == number)?;
        let (_, asker, question) = self.waiting.swap_remove(place);
        Some((asker, question))
    }
}
