//! What the console has answered: rows whose columns are known by name.
//!
//! Promises that all texts are clean. A column that is not there is empty, so that an older or a newer pgweir can be looked at.

use crate::text::clean;

/// An answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    names: Vec<String>,
    rows: Vec<Vec<Option<String>>>,
}

impl Table {
    /// `None` is NULL.
    #[must_use]
    pub fn new(names: &[String], rows: Vec<Vec<Option<String>>>) -> Table {
        let cleaned = |row: Vec<Option<String>>| row.into_iter().map(|value| value.map(|text| clean(&text))).collect();
        Table { names: names.iter().map(|name| clean(name)).collect(), rows: rows.into_iter().map(cleaned).collect() }
    }

    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// # Panics
    /// If there are not as many rows.
    #[must_use]
    pub fn row(&self, at: usize) -> Row<'_> {
        Row { names: &self.names, values: &self.rows[at] }
    }

    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().map(|values| Row { names: &self.names, values })
    }
}

/// One row.
#[derive(Copy, Clone, Debug)]
pub struct Row<'t> {
    names: &'t [String],
    values: &'t [Option<String>],
}

impl<'t> Row<'t> {
    /// `None`: NULL, empty, or no such column.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'t str> {
        let at = self.names.iter().position(|other| other == name)?;
        self.values.get(at)?.as_deref().filter(|text| !text.is_empty())
    }

    #[must_use]
    pub fn number(&self, name: &str) -> Option<f64> {
        self.get(name)?.parse().ok().filter(|number: &f64| number.is_finite())
    }

    /// 0 where there is none.
    #[must_use]
    pub fn count(&self, name: &str) -> u64 {
        self.get(name).and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// Its columns that have a value.
    pub fn pairs(&self) -> impl Iterator<Item = (&'t str, &'t str)> {
        let pairs = self.names.iter().zip(self.values);
        pairs.filter_map(|(name, value)| Some((name.as_str(), value.as_deref().filter(|text| !text.is_empty())?)))
    }

    /// Whether any of its texts contains this one, whatever their case.
    #[must_use]
    pub fn contains(&self, lowercase: &str) -> bool {
        self.values.iter().flatten().any(|text| text.to_lowercase().contains(lowercase))
    }
}

#[cfg(test)]
pub(crate) fn table(names: &[&str], rows: &[&[&str]]) -> Table {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let value = |text: &&str| (!text.is_empty()).then(|| (*text).to_owned());
    Table::new(&names, rows.iter().map(|row| row.iter().map(value).collect()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_known_by_name() {
        let table = table(&["pid", "query"], &[&["7", "select \u{1b}[2J"], &["x", ""]]);
        let row = table.row(0);
        assert_eq!((row.count("pid"), row.get("query"), row.get("other")), (7, Some("select \\x1b[2J"), None));
        assert_eq!(table.row(1).number("pid"), None);
        assert_eq!(table.row(1).pairs().collect::<Vec<_>>(), [("pid", "x")]);
        assert!(row.contains("select") && !row.contains("SELECT"));
    }
}
