//! What PostgreSQL made of a statement's text when it prepared it: its parameters' types, and its columns.
//!
//! A direct connection settles both at Parse, for as long as the statement lives: parameters keep their types whatever
//! becomes of the tables, and when the columns are others, it says 0A000 `cached plan must not change result type`. Here a
//! statement may be prepared again on another server at any time, so what it was made of goes with its name.
//!
//! Does not do: telling tables apart. A table that was dropped and made again with the same columns has the same shape, as it
//! has for PostgreSQL.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use wire::backend::{ParameterDescription, RowDescription};

/// Stands for a shape: equal for equal ones.
pub type Fingerprint = u64;

/// Of what is not known.
pub const UNKNOWN: Fingerprint = 0;

/// One text's shape.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Shape {
    fingerprint: Fingerprint,
    /// As in a Parse message; `None`: too many to be kept.
    types: Option<Arc<[u8]>>,
    has_rows: bool,
}

impl Shape {
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// The types of its parameters, as in a Parse message.
    pub fn types(&self) -> Option<&[u8]> {
        self.types.as_deref()
    }

    /// Whether it could have other columns another time. What returns no rows never does.
    pub fn has_rows(&self) -> bool {
        self.has_rows
    }
}

/// A shape while a server describes it: ParameterDescription first, then RowDescription or NoData.
#[derive(Debug, Default)]
pub struct Described {
    types: Option<Arc<[u8]>>,
    columns: Option<u64>,
}

impl Described {
    /// The body of a ParameterDescription, which has the layout of the types in a Parse.
    pub fn parameters(&mut self, body: &[u8]) -> Result<(), wire::Error> {
        ParameterDescription::decode(body)?;
        self.types = Some(body.into());
        Ok(())
    }

    /// The body of a RowDescription: what PostgreSQL compares of it.
    pub fn columns(&mut self, body: &[u8]) -> Result<(), wire::Error> {
        let mut hasher = DefaultHasher::new();
        let row = RowDescription::decode(body)?;
        row.len().hash(&mut hasher);
        for column in row.columns() {
            (column.name, column.type_oid, column.type_len, column.type_modifier).hash(&mut hasher);
        }
        self.columns = Some(hasher.finish());
        Ok(())
    }

    /// A RowDescription passes that is too long to be read: only its length is compared.
    pub fn long_columns(&mut self, body_len: usize) {
        self.columns = Some(body_len as u64);
    }

    /// Of the first part alone.
    pub fn into_types(self) -> Option<Arc<[u8]>> {
        self.types
    }

    pub fn finish(self) -> Shape {
        let mut hasher = DefaultHasher::new();
        (&self.types, self.columns).hash(&mut hasher);
        let has_rows = self.columns.is_some();
        Shape { fingerprint: hasher.finish().max(UNKNOWN + 1), types: self.types, has_rows }
    }
}

/// Whether a text returns what something else that it names returns at that time (EXECUTE, FETCH, CALL and the like):
/// PostgreSQL does not hold such a statement to its first columns, or not in the same way.
pub(crate) fn varies(text: &[u8]) -> bool {
    let rest = behind_comments(text);
    let len = rest.iter().position(|byte| !byte.is_ascii_alphabetic()).unwrap_or(rest.len());
    let word = rest[..len].to_ascii_lowercase();
    let plain = [&b"select"[..], b"insert", b"update", b"delete", b"merge", b"with", b"values", b"table"];
    !plain.contains(&&word[..])
}

/// A text from its first word on. Of comments within comments only the beginning is skipped: what is left is no word then.
fn behind_comments(mut text: &[u8]) -> &[u8] {
    loop {
        let start = text.iter().position(|byte| !byte.is_ascii_whitespace() && *byte != b'(' && *byte != b';');
        let Some(start) = start else { return b"" };
        text = &text[start..];
        let end = match text {
            [b'-', b'-', ..] => text.iter().position(|byte| *byte == b'\n'),
            [b'/', b'*', ..] => text.windows(2).position(|pair| pair == b"*/").map(|end| end + 1),
            _ => return text,
        };
        let Some(end) = end else { return b"" };
        text = &text[end + 1..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::backend::Column;

    fn shape(types: &[u32], names: &[&str]) -> Shape {
        let mut described = Described::default();
        let mut out = Vec::new();
        wire::backend::encode_parameter_description(&mut out, types);
        described.parameters(&out[5..]).expect("it was written just now");
        let columns: Vec<Column<'_>> = names.iter().map(|name| Column { name, type_oid: 25, type_len: -1 }).collect();
        out.clear();
        wire::backend::encode_row_description(&mut out, &columns);
        if !names.is_empty() {
            described.columns(&out[5..]).expect("it was written just now");
        }
        described.finish()
    }

    #[test]
    fn types_and_columns_tell_shapes_apart() {
        let one = shape(&[23], &["a", "b"]);
        assert_eq!(one.fingerprint(), shape(&[23], &["a", "b"]).fingerprint());
        for other in [shape(&[20], &["a", "b"]), shape(&[23], &["a"]), shape(&[23], &["a", "c"]), shape(&[23], &[])] {
            assert_ne!(one.fingerprint(), other.fingerprint());
        }
        assert_eq!(one.types(), Some(&b"\0\x01\0\0\0\x17"[..]));
        assert!(one.has_rows() && !shape(&[23], &[]).has_rows());
    }

    #[test]
    fn what_names_something_else_varies() {
        for text in [
            "select 1",
            " (SELECT 1)",
            "with a as (select 1) table a",
            "Insert into t values (1)",
            "/* a */ -- b\nselect 1",
        ] {
            assert!(!varies(text.as_bytes()), "{text}");
        }
        for text in ["execute p", "fetch 10 from c", "call p()", "show all", "", "selection", "-- with\nfetch c"] {
            assert!(varies(text.as_bytes()), "{text}");
        }
    }
}
