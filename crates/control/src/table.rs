//! A table of the console: columns with PostgreSQL's types, rows of text, and their wire messages.
//!
//! The type ids matter, since drivers convert int4, int8 and numeric to numbers.

use wire::backend::{self, oid};

/// A column's type, as in PgBouncer's console.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Type {
    Text,
    Int4,
    Int8,
    Numeric,
    Bytea,
}

/// A column of a table.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: &'static str,
    pub kind: Type,
}

pub(crate) const fn text(name: &'static str) -> Column {
    Column { name, kind: Type::Text }
}

pub(crate) const fn int(name: &'static str) -> Column {
    Column { name, kind: Type::Int4 }
}

pub(crate) const fn int8(name: &'static str) -> Column {
    Column { name, kind: Type::Int8 }
}

pub(crate) const fn bytea(name: &'static str) -> Column {
    Column { name, kind: Type::Bytea }
}

pub(crate) const fn numeric(name: &'static str) -> Column {
    Column { name, kind: Type::Numeric }
}

/// A value; `None` is NULL.
pub type Value = Option<String>;

/// Rows under columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    pub columns: &'static [Column],
    pub rows: Vec<Vec<Value>>,
}

impl Table {
    #[must_use]
    pub(crate) fn new(columns: &'static [Column]) -> Table {
        Table { columns, rows: Vec::new() }
    }

    /// # Panics
    /// If the row does not fit the columns: that is a mistake in a `show_….rs`.
    pub(crate) fn push(&mut self, row: Vec<Value>) {
        assert_eq!(row.len(), self.columns.len(), "a value for each column");
        self.rows.push(row);
    }

    /// Appends RowDescription and a DataRow for each row.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let columns: Vec<_> = self.columns.iter().map(|column| wire_column(*column)).collect();
        backend::encode_row_description(out, &columns);
        for row in &self.rows {
            backend::encode_data_row(out, row.iter().map(|value| value.as_ref().map(String::as_bytes)));
        }
    }
}

fn wire_column(column: Column) -> backend::Column<'static> {
    let (type_oid, type_len) = match column.kind {
        Type::Text => (oid::TEXT, -1),
        Type::Int4 => (oid::INT4, 4),
        Type::Int8 => (oid::INT8, 8),
        Type::Bytea => (oid::BYTEA, -1),
        Type::Numeric => (oid::NUMERIC, -1),
    };
    backend::Column { name: column.name, type_oid, type_len }
}

pub(crate) fn words(text: impl Into<String>) -> Value {
    Some(text.into())
}

pub(crate) fn yes_no(yes: bool) -> Value {
    words(if yes { "yes" } else { "no" })
}

/// A count for an int4 column. If it does not fit, the largest int4 is shown, since a driver could not read the number.
pub(crate) fn count(number: impl TryInto<i32>) -> Value {
    Some(number.try_into().unwrap_or(i32::MAX).to_string())
}

/// A number for a numeric column, which has no bound.
pub(crate) fn big(number: u64) -> Value {
    Some(number.to_string())
}
