//! What a user has chosen in one view: its table, the order and the filter of the rows, and the row that is selected.
//!
//! Promises that the selection stays with its row when rows move, and is on the row nearest to it when that one is gone.

use std::cmp::Ordering;

use crate::rows::{Row, Table};
use crate::views::Shape;

/// Of one view.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Choice {
    /// Which of the view's tables.
    pub table: usize,
    pub order: RowOrder,
    pub filter: String,
    /// Columns that are left out, from the left.
    pub left: usize,
    selected: Option<Vec<String>>,
    /// Where it was last.
    at: usize,
}

/// The order of rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum RowOrder {
    /// As the view has it.
    #[default]
    Usual,
    /// As the console has it.
    Console,
    By {
        column: String,
        direction: Direction,
    },
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    GreatestFirst,
    LeastFirst,
}

impl Choice {
    /// The column that rows are ordered by.
    #[must_use]
    pub(crate) fn sorted_by<'c>(&'c self, shape: &'c Shape) -> Option<(&'c str, Direction)> {
        match &self.order {
            RowOrder::Usual => shape.sort.map(|column| (column, Direction::GreatestFirst)),
            RowOrder::Console => None,
            RowOrder::By { column, direction } => Some((column, *direction)),
        }
    }

    /// The rows that pass the filter, in their order, as places in the table.
    #[must_use]
    pub(crate) fn rows(&self, table: &Table, shape: &Shape) -> Vec<usize> {
        let filter = self.filter.to_lowercase();
        let passes = |at: &usize| filter.is_empty() || table.row(*at).contains(&filter);
        let mut all: Vec<usize> = (0..table.len()).filter(passes).collect();
        if let Some((column, direction)) = self.sorted_by(shape) {
            all.sort_by(|one, other| compare(table.row(*one), table.row(*other), column, direction));
        }
        all
    }

    /// The place of the selected row among `rows`.
    #[must_use]
    pub(crate) fn selected(&self, table: &Table, shape: &Shape, rows: &[usize]) -> Option<usize> {
        let same = |key: &Vec<String>| rows.iter().position(|row| key_of(table.row(*row), shape) == *key);
        let found = self.selected.as_ref().and_then(same);
        found.or_else(|| rows.len().checked_sub(1).map(|last| self.at.min(last)))
    }

    /// Selects the row so many places further down, or up.
    pub(crate) fn move_by(&mut self, table: &Table, shape: &Shape, steps: isize) {
        let rows = self.rows(table, shape);
        let Some(at) = self.selected(table, shape, &rows) else { return };
        self.at = at.saturating_add_signed(steps).min(rows.len() - 1);
        self.selected = Some(key_of(table.row(rows[self.at]), shape));
    }

    /// Takes note of where the selected row is now.
    pub(crate) fn settle(&mut self, table: &Table, shape: &Shape) {
        if self.selected.is_some() {
            self.move_by(table, shape, 0);
        }
    }

    /// Sorts by the next of these columns, or by the one before.
    pub(crate) fn sort_by_next(&mut self, columns: &[String], shape: &Shape, steps: isize) {
        let now = self.sorted_by(shape).and_then(|(column, _)| columns.iter().position(|other| other == column));
        let count = isize::try_from(columns.len()).unwrap_or(isize::MAX);
        let next = match now {
            Some(now) => (isize::try_from(now).unwrap_or(0) + steps).rem_euclid(count.max(1)),
            None => 0,
        };
        let Some(column) = usize::try_from(next).ok().and_then(|next| columns.get(next)) else { return };
        self.order = RowOrder::By { column: column.clone(), direction: Direction::GreatestFirst };
    }

    /// Turns the order round.
    pub(crate) fn reverse(&mut self, shape: &Shape) {
        let Some((column, direction)) = self.sorted_by(shape) else { return };
        let direction = match direction {
            Direction::GreatestFirst => Direction::LeastFirst,
            Direction::LeastFirst => Direction::GreatestFirst,
        };
        self.order = RowOrder::By { column: column.to_owned(), direction };
    }

    /// Another table of the view: columns have other names there.
    pub(crate) fn show(&mut self, table: usize) {
        *self = Choice { table, filter: std::mem::take(&mut self.filter), ..Choice::default() };
    }
}

pub(crate) fn key_of(row: Row<'_>, shape: &Shape) -> Vec<String> {
    shape.key.iter().map(|name| row.get(name).unwrap_or_default().to_owned()).collect()
}

/// Numbers by their size, texts by their letters; empty ones are last in either direction.
fn compare(one: Row<'_>, other: Row<'_>, column: &str, direction: Direction) -> Ordering {
    let (Some(first), Some(second)) = (one.get(column), other.get(column)) else {
        return one.get(column).is_none().cmp(&other.get(column).is_none());
    };
    let ordering = match (one.number(column), other.number(column)) {
        (Some(first), Some(second)) => second.total_cmp(&first),
        (Some(_), None) => return Ordering::Less,
        (None, Some(_)) => return Ordering::Greater,
        (None, None) => second.cmp(first),
    };
    match direction {
        Direction::GreatestFirst => ordering,
        Direction::LeastFirst => ordering.reverse(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::table;

    const SHAPE: Shape = Shape { show: "X", columns: &["id", "n"], wide: None, key: &["id"], sort: Some("n") };

    fn ids(choice: &Choice, table: &Table) -> String {
        choice.rows(table, &SHAPE).iter().map(|at| table.row(*at).get("id").unwrap_or("-")).collect::<Vec<_>>().join("")
    }

    #[test]
    fn rows_are_sorted_as_numbers_where_they_are_numbers_and_empty_ones_last() {
        let table = table(&["id", "n"], &[&["a", "9"], &["b", ""], &["c", "10"], &["d", "word"], &["e", "-1"]]);
        let mut choice = Choice::default();
        assert_eq!(ids(&choice, &table), "caedb");
        choice.reverse(&SHAPE);
        assert_eq!(ids(&choice, &table), "eacdb");
        choice.order = RowOrder::Console;
        assert_eq!(ids(&choice, &table), "abcde");
        choice.sort_by_next(&["id".to_owned(), "n".to_owned()], &SHAPE, 1);
        assert_eq!(ids(&choice, &table), "edcba");
        choice.sort_by_next(&["id".to_owned(), "n".to_owned()], &SHAPE, -1);
        assert_eq!(choice.sorted_by(&SHAPE), Some(("n", Direction::GreatestFirst)));
        choice.filter = "WOR".to_owned();
        assert_eq!(ids(&choice, &table), "d");
    }

    #[test]
    fn the_selection_stays_with_its_row() {
        let before = table(&["id", "n"], &[&["a", "9"], &["b", "8"], &["c", "7"]]);
        let mut choice = Choice::default();
        choice.move_by(&before, &SHAPE, 1);
        let after = table(&["id", "n"], &[&["a", "1"], &["b", "2"], &["c", "3"], &["d", "4"]]);
        let place = |choice: &Choice, table: &Table| choice.selected(table, &SHAPE, &choice.rows(table, &SHAPE));
        assert_eq!(place(&choice, &after), Some(2), "c and d are above b now");
        choice.settle(&after, &SHAPE);
        let gone = table(&["id", "n"], &[&["a", "1"], &["c", "3"], &["d", "4"]]);
        assert_eq!(place(&choice, &gone), Some(2), "the row that has come into its place");
        choice.move_by(&gone, &SHAPE, 100);
        assert_eq!(place(&choice, &gone), Some(2));
        assert_eq!(place(&choice, &table(&["id"], &[])), None);
    }
}
