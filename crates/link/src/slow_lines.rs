//! Which lines about slow statements a worker may write: so many a second, and how many were left out.

use std::sync::Arc;

use machine::Settings;
use queueing::classes::ClassId;
use units::{Time, limits};

/// Which lines one worker may write, and how it calls classes in them.
#[derive(Debug)]
pub struct SlowLines {
    /// Empty: there is only one class.
    classes: Vec<Arc<str>>,
    second: u64,
    /// Lines in that second.
    count: u32,
    left_out: u64,
}

/// Whether a line may be written.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Permit {
    No,
    /// So many before it were left out.
    After {
        left_out: u64,
    },
}

impl SlowLines {
    pub(crate) fn new(settings: &Settings) -> SlowLines {
        let mut lines = SlowLines { classes: Vec::new(), second: 0, count: 0, left_out: 0 };
        lines.configure(settings);
        lines
    }

    /// Takes up new settings.
    pub fn configure(&mut self, settings: &Settings) {
        self.classes.clear();
        if !settings.classes.is_single() {
            self.classes.extend(settings.classes.all.iter().map(|class| Arc::clone(&class.name)));
        }
    }

    /// `None`: there is only one.
    pub(crate) fn class(&self, class: ClassId) -> Option<Arc<str>> {
        self.classes.get(usize::from(class.0)).cloned()
    }

    pub(crate) fn permit(&mut self, now: Time) -> Permit {
        let second = now.0 / 1_000_000;
        if self.second != second {
            (self.second, self.count) = (second, 0);
        }
        if self.count >= limits::SLOW_LINES_MAX {
            self.left_out += 1;
            return Permit::No;
        }
        self.count += 1;
        Permit::After { left_out: std::mem::take(&mut self.left_out) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_lines_is_bounded_and_what_is_left_out_is_told() {
        let mut lines = SlowLines::new(&Settings::default());
        let permits: Vec<Permit> = (0..u64::from(limits::SLOW_LINES_MAX) + 5).map(|_| lines.permit(Time(7))).collect();
        let written = permits.iter().filter(|permit| **permit == Permit::After { left_out: 0 }).count();
        assert_eq!(written, limits::SLOW_LINES_MAX as usize);
        assert_eq!(lines.permit(Time(999_999)), Permit::No);
        assert_eq!(lines.permit(Time(1_000_000)), Permit::After { left_out: 6 });
        assert_eq!(lines.permit(Time(1_000_000)), Permit::After { left_out: 0 });
    }
}
