//! A table of the console: columns with PostgreSQL's types, rows of text, and their wire messages.
//!
//! The type ids matter, since drivers convert int4, int8 and numeric to numbers.

use std::borrow::Cow;

use wire::backend::{self, oid};

use crate::pattern::Pattern;

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

    /// Leaves the rows of which the first column of text fits; a table without such a column has none that does.
    pub(crate) fn retain(&mut self, pattern: &Pattern) {
        let at = self.columns.iter().position(|column| column.kind == Type::Text);
        self.rows.retain(|row| at.and_then(|at| row[at].as_deref()).is_some_and(|value| pattern.fits(value)));
    }

    /// Appends RowDescription. A column has the format that is given for it, text if none is.
    pub(crate) fn encode_columns(&self, formats: &[u16], out: &mut Vec<u8>) {
        let columns: Vec<_> = self.columns.iter().map(|column| wire_column(*column)).collect();
        let at = out.len();
        backend::encode_row_description(out, &columns);
        backend::set_formats(&mut out[at..], &formats[..formats.len().min(columns.len())]);
    }

    /// Appends a DataRow for each row. A column has the format that is given for it, text if none is.
    pub(crate) fn encode_rows(&self, formats: &[u16], out: &mut Vec<u8>) {
        let kind = |at: usize| (formats.get(at) == Some(&BINARY)).then(|| self.columns[at].kind);
        let kinds: Vec<Option<Type>> = (0..self.columns.len()).map(kind).collect();
        for row in &self.rows {
            let values: Vec<Option<Cow<'_, [u8]>>> =
                row.iter().zip(&kinds).map(|(value, kind)| Some(encoded(value.as_deref()?, *kind))).collect();
            backend::encode_data_row(out, values.iter().map(|value| value.as_deref()));
        }
    }
}

/// The format code of binary.
const BINARY: u16 = 1;

/// A value in text, or in the binary format of a type.
fn encoded(value: &str, kind: Option<Type>) -> Cow<'_, [u8]> {
    const SOUND: &str = "columns of numbers hold numbers";
    match kind {
        None | Some(Type::Text) => Cow::Borrowed(value.as_bytes()),
        Some(Type::Int4) => Cow::Owned(value.parse::<i32>().expect(SOUND).to_be_bytes().to_vec()),
        Some(Type::Int8) => Cow::Owned(value.parse::<i64>().expect(SOUND).to_be_bytes().to_vec()),
        Some(Type::Numeric) => Cow::Owned(numeric_bytes(value)),
        // `SHOW FDS` has no rows.
        Some(Type::Bytea) => unreachable!("no table has a value of this type"),
    }
}

/// A numeric as PostgreSQL sends it in binary: how many digits to the base of 10,000 there are, the weight of the first one, the sign, how many
/// decimal places are shown, and the digits.
fn numeric_bytes(value: &str) -> Vec<u8> {
    const SOUND: &str = "a number of ours has few digits";
    let (sign, digits) = value.strip_prefix('-').map_or((0_u16, value), |digits| (0x4000, digits));
    let (whole, places) = digits.split_once('.').unwrap_or((digits, ""));
    // Both sides of the point in whole groups of four.
    let (lead, trail) = (whole.len().next_multiple_of(4), places.len().next_multiple_of(4));
    let aligned = format!("{whole:0>lead$}{places:0<trail$}");
    let groups: Vec<u16> = aligned
        .as_bytes()
        .chunks(4)
        .map(|group| group.iter().fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0')))
        .collect();
    let first = groups.iter().position(|group| *group != 0).unwrap_or(groups.len());
    let end = groups.iter().rposition(|group| *group != 0).map_or(first, |last| last + 1);
    let kept = &groups[first..end];
    let weight = if kept.is_empty() {
        0
    } else {
        i16::try_from(lead / 4).expect(SOUND) - 1 - i16::try_from(first).expect(SOUND)
    };
    let mut out = u16::try_from(kept.len()).expect(SOUND).to_be_bytes().to_vec();
    out.extend_from_slice(&weight.to_be_bytes());
    out.extend_from_slice(&(if kept.is_empty() { 0 } else { sign }).to_be_bytes());
    out.extend_from_slice(&u16::try_from(places.len()).expect(SOUND).to_be_bytes());
    out.extend(kept.iter().flat_map(|group| group.to_be_bytes()));
    out
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

#[cfg(test)]
mod tests {
    use super::*;

    /// As `select encode(numeric_send(…), 'hex')` has them in PostgreSQL 15.
    #[test]
    fn a_table_of_numerics() {
        let table: [(&str, &[u16]); 12] = [
            ("0", &[0, 0, 0, 0]),
            ("1", &[1, 0, 0, 0, 1]),
            ("9999", &[1, 0, 0, 0, 9999]),
            ("10000", &[1, 1, 0, 0, 1]),
            ("12345678", &[2, 1, 0, 0, 1234, 5678]),
            ("100000001", &[3, 2, 0, 0, 1, 0, 1]),
            ("18446744073709551615", &[5, 4, 0, 0, 1844, 6744, 737, 955, 1615]),
            ("-42", &[1, 0, 0x4000, 0, 42]),
            ("1.5", &[2, 0, 0, 1, 1, 5000]),
            ("0.0001", &[1, 0xffff, 0, 4, 1]),
            ("0.000", &[0, 0, 0, 3]),
            ("-12345.678900", &[3, 1, 0x4000, 6, 1, 2345, 6789]),
        ];
        for (text, words) in table {
            let expected: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
            assert_eq!(numeric_bytes(text), expected, "{text}");
        }
    }

    #[test]
    fn each_column_has_its_format() {
        const COLUMNS: &[Column] = &[text("t"), int("i"), int8("b"), numeric("n"), int("null")];
        let mut table = Table::new(COLUMNS);
        table.push(vec![words("ab"), count(-2), words("3"), big(10_000), None]);
        let row = |formats: &[u16]| {
            let mut out = Vec::new();
            table.encode_rows(formats, &mut out);
            let row = backend::DataRow::decode(&out[wire::HEADER_LEN..]).expect("sound");
            row.values().map(|value| value.map(<[u8]>::to_vec)).collect::<Vec<_>>()
        };
        let value = |bytes: &[u8]| Some(bytes.to_vec());
        let all_text = vec![value(b"ab"), value(b"-2"), value(b"3"), value(b"10000"), None];
        assert_eq!(row(&[]), all_text);
        assert_eq!(row(&[0; 5]), all_text);
        let all_binary = vec![
            value(b"ab"),
            value(&(-2_i32).to_be_bytes()),
            value(&3_i64.to_be_bytes()),
            value(b"\0\x01\0\x01\0\0\0\0\0\x01"),
            None,
        ];
        assert_eq!(row(&[1; 5]), all_binary);
        assert_eq!(row(&[0, 1, 0, 0, 0])[1..3], [value(&(-2_i32).to_be_bytes()), value(b"3")]);
    }
}
