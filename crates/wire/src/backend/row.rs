//! RowDescription and DataRow: tables as a server sends them. We write them for the admin console, and read them for our
//! own queries; a client's rows pass by length. Text format only when writing.

use super::tag;
use crate::{
    Error, message, put_cstr,
    reader::{Reader, put_value},
};

/// Type ids as PostgreSQL's catalog has them.
pub mod oid {
    pub const BOOL: u32 = 16;
    pub const BYTEA: u32 = 17;
    pub const INT8: u32 = 20;
    pub const INT4: u32 = 23;
    pub const TEXT: u32 = 25;
    pub const NUMERIC: u32 = 1700;
}

/// A column of a table that we write.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Column<'a> {
    pub name: &'a str,
    pub type_oid: u32,
    /// Bytes of the type in PostgreSQL's memory, -1 if it varies.
    pub type_len: i16,
}

/// Appends RowDescription. The columns belong to no table, have no modifier, and are text.
///
/// # Panics
/// If there are more than 65,535 columns.
pub fn encode_row_description(out: &mut Vec<u8>, columns: &[Column<'_>]) {
    let count = u16::try_from(columns.len()).expect("a table of ours has few columns");
    message(out, tag::ROW_DESCRIPTION, |out| {
        out.extend_from_slice(&count.to_be_bytes());
        for column in columns {
            put_cstr(out, column.name.as_bytes());
            out.extend_from_slice(&[0; 6]); // table and column number: none
            out.extend_from_slice(&column.type_oid.to_be_bytes());
            out.extend_from_slice(&column.type_len.to_be_bytes());
            out.extend_from_slice(&(-1_i32).to_be_bytes()); // no modifier
            out.extend_from_slice(&[0; 2]); // text
        }
    });
}

/// Appends DataRow; `None` is NULL.
///
/// # Panics
/// If there are more than 65,535 values, or more than 2 GB of them.
pub fn encode_data_row<'v>(out: &mut Vec<u8>, values: impl IntoIterator<Item = Option<&'v [u8]>>) {
    message(out, tag::DATA_ROW, |out| {
        let at = out.len();
        out.extend_from_slice(&[0; 2]);
        let mut count: u16 = 0;
        for value in values {
            count = count
                .checked_add(1)
                .expect("a table of ours has few columns");
            put_value(out, value);
        }
        out[at..at + 2].copy_from_slice(&count.to_be_bytes());
    });
}

/// A RowDescription that was read and checked.
//= pg18 protocol-message-formats#PROTOCOL-MESSAGE-FORMATS-ROWDESCRIPTION
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct RowDescription<'a> {
    count: u16,
    columns: &'a [u8],
}

impl<'a> RowDescription<'a> {
    /// # Errors
    /// If there are not as many columns as the body says.
    pub fn decode(body: &'a [u8]) -> Result<RowDescription<'a>, Error> {
        let mut reader = Reader::new(body);
        let count = reader.count()?;
        let columns = reader.peek();
        for _ in 0..count {
            ColumnRead::decode(&mut reader)?;
        }
        reader.end()?;
        Ok(RowDescription { count, columns })
    }

    /// Number of columns.
    pub fn len(&self) -> usize {
        usize::from(self.count)
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn columns(&self) -> Columns<'a> {
        Columns { rest: self.columns }
    }
}

/// A column of a table that was read.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ColumnRead<'a> {
    pub name: &'a [u8],
    /// 0 if the column belongs to no table.
    pub table_oid: u32,
    /// Number within the table, 0 if it belongs to none.
    pub number: i16,
    pub type_oid: u32,
    pub type_len: i16,
    pub type_modifier: i32,
    /// 0 text, 1 binary.
    pub format: i16,
}

impl<'a> ColumnRead<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<ColumnRead<'a>, Error> {
        Ok(ColumnRead {
            name: reader.cstr()?,
            table_oid: reader.u32()?,
            number: reader.i16()?,
            type_oid: reader.u32()?,
            type_len: reader.i16()?,
            type_modifier: reader.i32()?,
            format: reader.i16()?,
        })
    }
}

/// Iterator over the columns of a [`RowDescription`].
#[derive(Clone, Debug)]
pub struct Columns<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Columns<'a> {
    type Item = ColumnRead<'a>;

    fn next(&mut self) -> Option<ColumnRead<'a>> {
        let mut reader = Reader::new(self.rest);
        // The columns were checked when they were decoded: this fails only at their end.
        let column = ColumnRead::decode(&mut reader).ok()?;
        self.rest = reader.rest();
        Some(column)
    }
}

/// A DataRow that was read and checked.
//= pg18 protocol-message-formats#PROTOCOL-MESSAGE-FORMATS-DATAROW
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct DataRow<'a> {
    count: u16,
    values: &'a [u8],
}

impl<'a> DataRow<'a> {
    /// # Errors
    /// If there are not as many values as the body says, or one reaches beyond it.
    pub fn decode(body: &'a [u8]) -> Result<DataRow<'a>, Error> {
        let mut reader = Reader::new(body);
        let count = reader.count()?;
        let values = reader.peek();
        for _ in 0..count {
            reader.value()?;
        }
        reader.end()?;
        Ok(DataRow { count, values })
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        usize::from(self.count)
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The values; `None` is NULL.
    pub fn values(&self) -> Values<'a> {
        Values { rest: self.values }
    }
}

/// Iterator over the values of a [`DataRow`].
#[derive(Clone, Debug)]
pub struct Values<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Values<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Option<&'a [u8]>> {
        let mut reader = Reader::new(self.rest);
        // The values were checked when they were decoded: this fails only at their end.
        let value = reader.value().ok()?;
        self.rest = reader.rest();
        Some(value)
    }
}
