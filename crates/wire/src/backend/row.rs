//! RowDescription and DataRow: tables as a server sends them. We write them for the admin console, and read them for our
//! own queries; a client's rows pass by length.

use super::tag;
use crate::{
    Error, HEADER_LEN, cstr, message, put_cstr,
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

/// Appends RowDescription. The columns belong to no table, have no modifier, and are text until [`set_formats`].
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

/// Gives each column of a whole RowDescription of ours its format, in order; columns without one stay as they are.
pub fn set_formats(description: &mut [u8], formats: &[u16]) {
    // Behind a name: table and number, type and its length, modifier, format.
    const FIXED_LEN: usize = 6 + 6 + 4 + 2;
    let mut at = HEADER_LEN + 2;
    for format in formats {
        let Some((_, rest)) = cstr(&description[at..]) else { return };
        at = description.len() - rest.len() + FIXED_LEN;
        description[at - 2..at].copy_from_slice(&format.to_be_bytes());
    }
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
            count = count.checked_add(1).expect("a table of ours has few columns");
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{self, Random};

    const DESCRIPTION: &[u8] = b"T\0\0\0\x2f\0\x02\
        id\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0\
        t\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0";

    #[test]
    fn type_ids_are_those_of_pg_type() {
        // select oid from pg_type where typname in ('bool', 'bytea', 'int8', 'int4', 'text', 'numeric') order by oid
        assert_eq!([oid::BOOL, oid::BYTEA, oid::INT8, oid::INT4, oid::TEXT, oid::NUMERIC], [16, 17, 20, 23, 25, 1700]);
    }

    #[test]
    fn a_description_as_the_manual_has_it() {
        let columns = [
            Column { name: "id", type_oid: oid::INT4, type_len: 4 },
            Column { name: "t", type_oid: oid::TEXT, type_len: -1 },
        ];
        let mut out = Vec::new();
        encode_row_description(&mut out, &columns);
        assert_eq!(out.escape_ascii().to_string(), DESCRIPTION.escape_ascii().to_string());

        let body = check::body(DESCRIPTION, tag::ROW_DESCRIPTION);
        let read = RowDescription::decode(body).unwrap();
        assert_eq!((read.len(), read.is_empty()), (2, false));
        let read: Vec<_> = read.columns().collect();
        let plain = ColumnRead {
            name: b"id",
            table_oid: 0,
            number: 0,
            type_oid: oid::INT4,
            type_len: 4,
            type_modifier: -1,
            format: 0,
        };
        assert_eq!(read[0], plain);
        assert_eq!(read[1], ColumnRead { name: b"t", type_oid: oid::TEXT, type_len: -1, ..plain });
        assert_eq!(read.len(), 2);
        check::refuses_parts(body, |part| RowDescription::decode(part).is_err());
    }

    #[test]
    fn each_column_gets_its_format() {
        let mut out = DESCRIPTION.to_vec();
        let formats = |out: &[u8]| {
            let read = RowDescription::decode(check::body(out, tag::ROW_DESCRIPTION)).unwrap();
            read.columns().map(|column| column.format).collect::<Vec<_>>()
        };
        set_formats(&mut out, &[]);
        assert_eq!(out, DESCRIPTION);
        set_formats(&mut out, &[0, 1]);
        assert_eq!(formats(&out), [0, 1]);
        set_formats(&mut out, &[1]);
        assert_eq!(formats(&out), [1, 1]);
        set_formats(&mut out, &[0, 0]);
        assert_eq!(out, DESCRIPTION, "and nothing else has changed");
    }

    #[test]
    fn every_number_of_a_column_is_read_from_its_place() {
        let body = b"\0\x01c\0\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12";
        let column = RowDescription::decode(body).unwrap().columns().next().unwrap();
        let expected = ColumnRead {
            name: b"c",
            table_oid: 0x0102_0304,
            number: 0x0506,
            type_oid: 0x0708_090a,
            type_len: 0x0b0c,
            type_modifier: 0x0d0e_0f10,
            format: 0x1112,
        };
        assert_eq!(column, expected);
    }

    #[test]
    fn a_row_as_the_manual_has_it() {
        let values = [Some(&b"42"[..]), None, Some(b"")];
        let mut out = Vec::new();
        encode_data_row(&mut out, values);
        assert_eq!(out, b"D\0\0\0\x14\0\x03\0\0\0\x0242\xff\xff\xff\xff\0\0\0\0");
        let body = check::body(&out, tag::DATA_ROW);
        let row = DataRow::decode(body).unwrap();
        assert_eq!((row.len(), row.is_empty()), (3, false));
        assert_eq!(row.values().collect::<Vec<_>>(), values);
        check::refuses_parts(body, |part| DataRow::decode(part).is_err());
    }

    #[test]
    fn no_columns_at_all() {
        let (mut description, mut row) = (Vec::new(), Vec::new());
        encode_row_description(&mut description, &[]);
        encode_data_row(&mut row, []);
        assert_eq!(description, b"T\0\0\0\x06\0\0");
        assert_eq!(row, b"D\0\0\0\x06\0\0");
        assert!(RowDescription::decode(&description[5..]).unwrap().is_empty());
        assert!(DataRow::decode(&row[5..]).unwrap().is_empty());
    }

    #[test]
    fn hostile_counts_and_lengths() {
        assert_eq!(DataRow::decode(b"\xff\xff"), Err(Error::Truncated));
        assert_eq!(RowDescription::decode(b"\xff\xff"), Err(Error::MissingTerminator));
        let row = |len: i32| [&[0, 1][..], &len.to_be_bytes(), b"ab"].concat();
        assert!(DataRow::decode(&row(2)).is_ok());
        assert_eq!(DataRow::decode(&row(3)), Err(Error::Truncated));
        assert_eq!(DataRow::decode(&row(i32::MAX)), Err(Error::Truncated));
        assert_eq!(DataRow::decode(&row(-2)), Err(Error::BadValue("a value's length is below -1")));
        for len in [-1, 0, 1] {
            assert_eq!(DataRow::decode(&row(len)), Err(Error::BadValue("bytes follow the last field")));
        }
    }

    #[test]
    fn random_rows_come_back() {
        let mut random = Random::new(5);
        for _ in 0..2_000 {
            let values: Vec<Option<Vec<u8>>> = (0..random.below(12))
                .map(|_| {
                    let len = random.below(40);
                    (random.below(5) != 0).then(|| random.noise(len))
                })
                .collect();
            let values: Vec<Option<&[u8]>> = values.iter().map(Option::as_deref).collect();
            let mut out = Vec::new();
            encode_data_row(&mut out, values.iter().copied());
            let row = DataRow::decode(check::body(&out, tag::DATA_ROW)).unwrap();
            assert_eq!(row.values().collect::<Vec<_>>(), values);
        }
    }

    #[test]
    fn damaged_rows_are_refused_or_come_back() {
        let mut out = Vec::new();
        encode_data_row(&mut out, [Some(&b"42"[..]), None, Some(b"")]);
        check::damage(&out[5..], |body| {
            let Ok(row) = DataRow::decode(body) else { return };
            assert_eq!(row.values().count(), row.len());
            let mut again = Vec::new();
            encode_data_row(&mut again, row.values());
            assert_eq!(&again[5..], body);
        });
        check::damage(&DESCRIPTION[5..], |body| {
            let Ok(read) = RowDescription::decode(body) else { return };
            assert_eq!(read.columns().count(), read.len());
        });
    }
}
