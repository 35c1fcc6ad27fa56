//! An answer: columns with names, and rows of texts.

use std::str::FromStr;
use std::time::Duration;

/// What one statement returns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub names: Vec<String>,
    /// `None` is NULL.
    pub rows: Vec<Vec<Option<String>>>,
}

/// A row, whose values are found by their names.
#[derive(Copy, Clone)]
pub(super) struct Cells<'a> {
    names: &'a [String],
    row: &'a [Option<String>],
}

impl Answer {
    pub(super) fn cells(&self) -> impl Iterator<Item = Cells<'_>> {
        self.rows.iter().map(|row| Cells { names: &self.names, row })
    }

    /// A value of each row.
    pub(super) fn all<T>(&self, read: impl Fn(Cells<'_>) -> T) -> Vec<T> {
        self.cells().map(read).collect()
    }
}

impl Cells<'_> {
    /// `None`: NULL, or there is no such column.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let at = self.names.iter().position(|known| known == name)?;
        self.row.get(at)?.as_deref()
    }

    pub(super) fn text(&self, name: &str) -> String {
        self.get(name).unwrap_or_default().to_owned()
    }

    pub(super) fn maybe<T: FromStr>(&self, name: &str) -> Option<T> {
        self.get(name)?.trim().parse().ok()
    }

    /// Zero if it is none.
    pub(super) fn number<T: FromStr + Default>(&self, name: &str) -> T {
        self.maybe(name).unwrap_or_default()
    }

    pub(super) fn is_true(&self, name: &str) -> bool {
        self.get(name) == Some("t")
    }

    pub(super) fn micros(&self, name: &str) -> Duration {
        Duration::from_micros(self.number(name))
    }

    /// A clock that was set back makes it negative for a while.
    pub(super) fn maybe_seconds(&self, name: &str) -> Option<Duration> {
        Duration::try_from_secs_f64(self.maybe::<f64>(name)?.max(0.0)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_name_and_may_be_missing() {
        let names = ["a", "b", "t", "s"].map(str::to_owned).to_vec();
        let row = vec![Some(" 7".to_owned()), None, Some("t".to_owned()), Some("-2".to_owned())];
        let answer = Answer { names, rows: vec![row, vec![]] };
        let cells: Vec<Cells<'_>> = answer.cells().collect();
        assert_eq!((cells[0].number::<u32>("a"), cells[0].maybe::<u32>("b"), cells[0].get("c")), (7, None, None));
        assert!(cells[0].is_true("t") && !cells[0].is_true("a"));
        assert_eq!(cells[0].maybe_seconds("s"), Some(Duration::ZERO));
        assert_eq!(cells[1].text("a"), "", "a row that is too short");
    }
}
