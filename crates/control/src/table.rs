//! A table of the console: columns with PostgreSQL's types, rows of text, and their wire messages.
//!
//! The type ids matter, since drivers convert int4, int8 and numeric to numbers.

mod formats;

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use wire::backend::{self, oid};

use crate::pattern::Pattern;

pub use formats::TableFormat;

/// A column's type, as in PgBouncer's console.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Type {
    Text,
    /// In text `t` or `f`.
    Bool,
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

pub(crate) const fn boolean(name: &'static str) -> Column {
    Column { name, kind: Type::Bool }
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

/// Rows under columns. All values lie in one text: a table of ten thousand rows has two hundred thousand of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    pub columns: &'static [Column],
    text: String,
    /// Where each value ends, row by row.
    ends: Vec<ValueEnd>,
}

/// Of a value in a table's text.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct ValueEnd {
    at: u32,
    is_null: bool,
}

/// A row that is being written, value by value.
#[derive(Debug)]
pub(crate) struct Row<'t> {
    table: &'t mut Table,
}

impl Row<'_> {
    pub(crate) fn text(&mut self, value: &str) -> &mut Self {
        self.table.text.push_str(value);
        self.end(false)
    }

    /// As it writes itself.
    pub(crate) fn shown(&mut self, value: impl fmt::Display) -> &mut Self {
        write!(self.table.text, "{value}").expect("a string takes all");
        self.end(false)
    }

    pub(crate) fn null(&mut self) -> &mut Self {
        self.end(true)
    }

    fn end(&mut self, is_null: bool) -> &mut Self {
        let at = u32::try_from(self.table.text.len()).expect("a table has less than 4 GB of text");
        self.table.ends.push(ValueEnd { at, is_null });
        self
    }
}

impl Table {
    #[must_use]
    pub(crate) fn new(columns: &'static [Column]) -> Table {
        Table { columns, text: String::new(), ends: Vec::new() }
    }

    /// # Panics
    /// If the row does not fit the columns: that is a mistake in a `show_….rs`.
    pub(crate) fn push(&mut self, row: Vec<Value>) {
        self.write(|written| {
            for value in row {
                match value {
                    Some(text) => written.text(&text),
                    None => written.null(),
                };
            }
        });
    }

    /// Adds a row that is written as it goes.
    ///
    /// # Panics
    /// If the row does not fit the columns: that is a mistake in a `show_….rs`.
    pub(crate) fn write(&mut self, write: impl FnOnce(&mut Row<'_>)) {
        let before = self.ends.len();
        write(&mut Row { table: self });
        assert_eq!(self.ends.len() - before, self.columns.len(), "a value for each column");
    }

    /// Makes room for so many rows at once.
    pub(crate) fn reserve(&mut self, rows: usize) {
        self.text.reserve(rows * ROW_LEN_USUAL);
        self.ends.reserve(rows * self.columns.len());
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len() / self.columns.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The rows, each with its values.
    pub fn rows(&self) -> impl Iterator<Item = Vec<Option<&str>>> {
        (0..self.len()).map(|row| self.values(row).collect())
    }

    /// The values of one row.
    fn values(&self, row: usize) -> impl Iterator<Item = Option<&str>> {
        let first = row * self.columns.len();
        let mut from = first.checked_sub(1).map_or(0, |last| self.ends[last].at as usize);
        self.ends[first..first + self.columns.len()].iter().map(move |end| {
            let start = std::mem::replace(&mut from, end.at as usize);
            (!end.is_null).then(|| &self.text[start..end.at as usize])
        })
    }

    /// Leaves the rows of which the first column of text fits; a table without such a column has none that does.
    pub(crate) fn retain(&mut self, pattern: &Pattern) {
        let at = self.columns.iter().position(|column| column.kind == Type::Text);
        let fits = |row: &Vec<Option<&str>>| at.and_then(|at| row[at]).is_some_and(|value| pattern.fits(value));
        let mut left = Table::new(self.columns);
        for row in self.rows().filter(fits) {
            left.write(|written| {
                for value in row {
                    match value {
                        Some(text) => written.text(text),
                        None => written.null(),
                    };
                }
            });
        }
        *self = left;
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
        // A length before each value, and a header before each row.
        out.reserve(self.text.len() + self.ends.len() * 4 + self.len() * 8);
        if formats.iter().all(|format| *format != BINARY) {
            let rows = (0..self.len()).map(|row| self.values(row).map(|value| value.map(str::as_bytes)));
            return rows.for_each(|row| backend::encode_data_row(out, row));
        }
        let kind = |at: usize| (formats.get(at) == Some(&BINARY)).then(|| self.columns[at].kind);
        let kinds: Vec<Option<Type>> = (0..self.columns.len()).map(kind).collect();
        for row in 0..self.len() {
            let values: Vec<Option<Cow<'_, [u8]>>> =
                self.values(row).zip(&kinds).map(|(value, kind)| Some(encoded(value?, *kind))).collect();
            backend::encode_data_row(out, values.iter().map(|value| value.as_deref()));
        }
    }
}

/// Room for a row's text, before it is known: of a client on TCP with an application_name of some twenty letters.
const ROW_LEN_USUAL: usize = 200;

/// The format code of binary.
const BINARY: u16 = 1;

/// A value in text, or in the binary format of a type.
fn encoded(value: &str, kind: Option<Type>) -> Cow<'_, [u8]> {
    const SOUND: &str = "columns of numbers hold numbers";
    match kind {
        None | Some(Type::Text) => Cow::Borrowed(value.as_bytes()),
        Some(Type::Bool) => Cow::Owned(vec![u8::from(value == "t")]),
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
        Type::Bool => (oid::BOOL, 1),
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

/// A number for an int4 column. If it does not fit, the largest int4 is shown, since a driver could not read the number.
pub(crate) fn int4(number: impl TryInto<i32>) -> i32 {
    number.try_into().unwrap_or(i32::MAX)
}

/// The same as a value.
pub(crate) fn count(number: impl TryInto<i32>) -> Value {
    Some(int4(number).to_string())
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
