//! A table as CSV or JSON, in one column of text: for whoever takes it out of a console with any client.
//!
//! Promises that texts of clients stay texts: in CSV they are quoted, what a terminal would obey is written as `\x1b`, and one that a spreadsheet
//! would take for a formula has a `'` before it.
//= rfc4180#section-2
//= rfc8259#section-7

use std::fmt::Write as _;

use super::{Column, Table, Type, text};

/// How a table is written.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum TableFormat {
    #[default]
    Columns,
    /// The names in the first row; a row of text for each.
    Csv,
    /// An array of objects, in one row. Numbers are numbers.
    Json,
}

const CSV: &[Column] = &[text("csv")];
const JSON: &[Column] = &[text("json")];

impl Table {
    /// In one column of text, but for [`TableFormat::Columns`].
    #[must_use]
    pub fn in_format(self, format: TableFormat) -> Table {
        match format {
            TableFormat::Columns => self,
            TableFormat::Csv => self.csv(),
            TableFormat::Json => self.json_in_a_row(),
        }
    }

    fn csv(&self) -> Table {
        let mut out = Table::new(CSV);
        let names: Vec<_> = self.columns.iter().map(|column| column.name).collect();
        out.push(vec![Some(names.join(","))]);
        for row in self.rows() {
            let fields: Vec<String> =
                row.iter().zip(self.columns).map(|(value, column)| field(*value, column)).collect();
            out.push(vec![Some(fields.join(","))]);
        }
        out
    }

    fn json_in_a_row(&self) -> Table {
        let mut out = Table::new(JSON);
        out.push(vec![Some(self.json())]);
        out
    }

    /// As an array of objects.
    #[must_use]
    pub fn json(&self) -> String {
        let mut out = String::from("[");
        for (index, row) in self.rows().enumerate() {
            out.push_str(if index == 0 { "{" } else { ",\n{" });
            for (place, (value, column)) in row.iter().zip(self.columns).enumerate() {
                let comma = if place == 0 { "" } else { "," };
                write!(out, "{comma}\"{}\":", column.name).expect("a string takes all");
                match value {
                    None => out.push_str("null"),
                    Some(value) if column.kind == Type::Text => string(&mut out, value),
                    Some(value) => out.push_str(value),
                }
            }
            out.push('}');
        }
        out.push(']');
        out
    }
}

/// NULL is nothing, an empty text two quotes.
fn field(value: Option<&str>, column: &Column) -> String {
    match value {
        None => String::new(),
        Some(value) if column.kind != Type::Text => value.to_owned(),
        Some(value) => {
            let guard = if value.starts_with(['=', '+', '-', '@', '\t', '\r']) { "'" } else { "" };
            format!("\"{guard}{}\"", visible(value).replace('"', "\"\""))
        }
    }
}

/// What a terminal would obey, as `\x1b`; lines stay lines.
fn visible(value: &str) -> String {
    value.chars().fold(String::with_capacity(value.len()), |mut out, char| {
        match char.is_control() && !matches!(char, '\n' | '\t') {
            true => write!(out, "\\x{:02x}", u32::from(char)).expect("a string takes all"),
            false => out.push(char),
        }
        out
    })
}

fn string(out: &mut String, value: &str) {
    for char in serde_json::to_string(value).expect("a text is JSON").chars() {
        // JSON allows some that terminals obey.
        match char.is_control() {
            true => write!(out, "\\u{:04x}", u32::from(char)).expect("a string takes all"),
            false => out.push(char),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{count, words};
    use super::*;

    fn table() -> Table {
        const COLUMNS: &[Column] = &[text("name"), super::super::int("n")];
        let mut table = Table::new(COLUMNS);
        table.push(vec![words("=cmd()"), count(-1)]);
        table.push(vec![words("a \"b\",\n\u{1b}[31m<b>\\"), None]);
        table.push(vec![None, count(2)]);
        table
    }

    fn rows(table: &Table) -> Vec<String> {
        table.rows().map(|row| row[0].expect("a text").to_owned()).collect()
    }

    #[test]
    fn a_table_as_csv() {
        let expected = ["name,n", "\"'=cmd()\",-1", "\"a \"\"b\"\",\n\\x1b[31m<b>\\\",", ",2"];
        assert_eq!(rows(&table().in_format(TableFormat::Csv)), expected);
    }

    #[test]
    fn a_table_as_json() {
        let expected = r#"[{"name":"=cmd()","n":-1},
{"name":"a \"b\",\n\u001b[31m<b>\\","n":null},
{"name":null,"n":2}]"#;
        assert_eq!(rows(&table().in_format(TableFormat::Json)), [expected]);
        let mut empty = Table::new(JSON);
        assert_eq!(empty.json(), "[]");
        empty.push(vec![None]);
        assert_eq!(empty.json(), "[{\"json\":null}]");
    }
}
