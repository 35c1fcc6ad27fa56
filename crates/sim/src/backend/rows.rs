//! Rows of the model's language as PostgreSQL sends them: each has the mark of the statement that it answers.

use std::ops::Range;

use wire::backend::{self, Column, oid};

use crate::statement::{Mark, row};

const COLUMN: Column<'static> = Column { name: "value", type_oid: oid::TEXT, type_len: -1 };

/// The length of a value in a table whose columns may grow in number.
const WIDE_LEN: u32 = 5;

pub(super) fn describe(out: &mut Vec<u8>) {
    describe_columns(1, out);
}

pub(super) fn describe_columns(columns: usize, out: &mut Vec<u8>) {
    backend::encode_row_description(out, &vec![COLUMN; columns]);
}

/// Some rows of a statement, without CommandComplete.
pub(super) fn encode(mark: Option<Mark>, rows: Range<u32>, len: u32, out: &mut Vec<u8>) {
    for index in rows {
        backend::encode_data_row(out, [Some(&row(mark, index, len)[..])]);
    }
}

/// All rows of a simple query's statement.
pub(super) fn encode_all(mark: Option<Mark>, rows: u32, len: u32, out: &mut Vec<u8>) {
    describe(out);
    encode(mark, 0..rows, len, out);
    backend::encode_command_complete(out, &format!("SELECT {rows}"));
}

/// The one row of a table with so many columns, and CommandComplete.
pub(super) fn encode_wide(mark: Option<Mark>, columns: usize, out: &mut Vec<u8>) {
    let value = row(mark, 0, WIDE_LEN);
    backend::encode_data_row(out, std::iter::repeat_n(Some(&value[..]), columns));
    backend::encode_command_complete(out, "SELECT 1");
}

/// COPY TO STDOUT, whole.
pub(super) fn encode_copy(mark: Option<Mark>, rows: u32, len: u32, out: &mut Vec<u8>) {
    backend::encode_copy_out(out, 1);
    for index in 0..rows {
        backend::encode_copy_data(out, &row(mark, index, len));
    }
    backend::encode_copy_done(out);
    backend::encode_command_complete(out, &format!("COPY {rows}"));
}
