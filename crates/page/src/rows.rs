//! The rows of a table that are shown: those that fit, in order, and not more than a browser likes to draw.
//!
//! Promises that memory follows what is shown and not what there is: of ten thousand clients some hundreds are kept.

use std::cmp::Ordering;

use serde::Serialize;

/// Rows that are shown at most.
pub(crate) const SHOWN_MAX: usize = 500;
const SHOWN: usize = 200;

/// Characters of a value. A statement may have as many as its client likes.
const VALUE_CHARS_MAX: usize = 2000;

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Column {
    pub name: &'static str,
    /// Its values are numbers: they are ordered as such, and stand on the right.
    pub number: bool,
}

/// What of a table is shown, as a query says it.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(crate) struct Wish {
    /// Is in some value of the row, whatever the case.
    pub(crate) text: String,
    /// A column, and what it is.
    pub(crate) column: String,
    pub(crate) is: String,
    /// A column to order by.
    pub(crate) by: String,
    pub(crate) down: bool,
    pub(crate) rows: Option<usize>,
}

type Row = Vec<Option<String>>;

/// Collects what is shown.
#[derive(Debug, Serialize)]
pub struct Rows {
    columns: Vec<Column>,
    rows: Vec<Row>,
    /// Rows that fit, shown or not.
    fitting: usize,
    /// All rows.
    total: usize,
    #[serde(skip)]
    wish: Wish,
    #[serde(skip)]
    most: usize,
    #[serde(skip)]
    by: Option<usize>,
    #[serde(skip)]
    column: Option<usize>,
}

impl Rows {
    pub(crate) fn new(mut wish: Wish) -> Rows {
        wish.text = wish.text.to_lowercase();
        let most = wish.rows.unwrap_or(SHOWN).clamp(1, SHOWN_MAX);
        Rows { columns: Vec::new(), rows: Vec::new(), fitting: 0, total: 0, wish, most, by: None, column: None }
    }

    /// Before the first row.
    pub fn begin(&mut self, columns: Vec<Column>) {
        let place = |name: &str| columns.iter().position(|column| column.name == name);
        (self.by, self.column) = (place(&self.wish.by), place(&self.wish.column));
        self.columns = columns;
    }

    /// A row with a value for each column.
    pub fn push(&mut self, row: &[Option<&str>]) {
        self.total += 1;
        if !self.fits(row) {
            return;
        }
        self.fitting += 1;
        // In the order in which they come, the first ones stay.
        if self.by.is_none() && self.rows.len() >= self.most {
            return;
        }
        self.rows.push(row.iter().map(|value| value.map(cut)).collect());
        if self.rows.len() >= 2 * self.most {
            self.end();
        }
    }

    /// After the last one.
    pub(crate) fn end(&mut self) {
        if let Some(by) = self.by {
            let (number, down) = (self.columns[by].number, self.wish.down);
            self.rows.sort_by(|a, b| compared(a[by].as_deref(), b[by].as_deref(), number, down));
        }
        self.rows.truncate(self.most);
    }

    fn fits(&self, row: &[Option<&str>]) -> bool {
        if !self.wish.column.is_empty() {
            let value = self.column.and_then(|column| row[column]);
            return value == Some(self.wish.is.as_str());
        }
        let has = |value: &Option<&str>| value.is_some_and(|value| value.to_lowercase().contains(&self.wish.text));
        self.wish.text.is_empty() || row.iter().any(has)
    }
}

/// What is not there comes last, whatever the direction.
fn compared(a: Option<&str>, b: Option<&str>, number: bool, down: bool) -> Ordering {
    let (a, b) = match (a, b) {
        (Some(a), Some(b)) => (a, b),
        (a, b) => return b.is_some().cmp(&a.is_some()),
    };
    let value = |text: &str| text.parse::<f64>().unwrap_or(f64::NEG_INFINITY);
    let order = if number { value(a).total_cmp(&value(b)) } else { a.cmp(b) };
    if down { order.reverse() } else { order }
}

fn cut(value: &str) -> String {
    match value.char_indices().nth(VALUE_CHARS_MAX) {
        Some((at, _)) => format!("{}…", &value[..at]),
        None => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(wish: Wish, count: usize) -> Rows {
        let mut rows = Rows::new(wish);
        rows.begin(vec![Column { name: "name", number: false }, Column { name: "wait", number: true }]);
        for number in 0..count {
            let (name, wait) = (format!("Client-{number}"), ((number * 7919) % 10_007).to_string());
            rows.push(&[Some(&name), (number % 10 != 3).then_some(&*wait)]);
        }
        rows.end();
        rows
    }

    fn names(rows: &Rows) -> Vec<&str> {
        rows.rows.iter().map(|row| row[0].as_deref().unwrap_or_default()).collect()
    }

    #[test]
    fn of_many_rows_the_first_in_order_are_shown_and_all_are_counted() {
        let wish = Wish { by: "wait".to_owned(), down: true, rows: Some(3), ..Wish::default() };
        let rows = shown(wish, 10_000);
        let waits: Vec<_> = rows.rows.iter().map(|row| row[1].as_deref().unwrap_or_default()).collect();
        let mut all: Vec<usize> = (0..10_000).filter(|at| at % 10 != 3).map(|at| at * 7919 % 10_007).collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        assert_eq!(waits, all[..3].iter().map(usize::to_string).collect::<Vec<_>>());
        assert_eq!((rows.total, rows.fitting), (10_000, 10_000));
        let rows = shown(Wish { by: "wait".to_owned(), rows: Some(100), ..Wish::default() }, 20);
        assert_eq!(&names(&rows)[18..], ["Client-3", "Client-13"], "without a value they are last");
    }

    #[test]
    fn a_text_or_a_value_of_a_column_chooses() {
        let rows = shown(Wish { text: "CLIENT-99".to_owned(), ..Wish::default() }, 1000);
        assert_eq!((rows.fitting, rows.total), (11, 1000));
        let only = Wish { column: "name".to_owned(), is: "Client-99".to_owned(), ..Wish::default() };
        assert_eq!(names(&shown(only, 1000)), ["Client-99"]);
        let unknown = Wish { column: "nothing".to_owned(), ..Wish::default() };
        assert_eq!(shown(unknown, 10).fitting, 0);
        assert_eq!(shown(Wish::default(), 1000).rows.len(), SHOWN);
        assert_eq!(shown(Wish { rows: Some(100_000), ..Wish::default() }, 1000).rows.len(), SHOWN_MAX);
    }

    #[test]
    fn a_long_value_is_cut_between_characters() {
        let mut rows = Rows::new(Wish::default());
        rows.begin(vec![Column { name: "statement", number: false }]);
        rows.push(&[Some(&"ä".repeat(100_000))]);
        assert_eq!(rows.rows[0][0], Some("ä".repeat(VALUE_CHARS_MAX) + "…"));
    }
}
