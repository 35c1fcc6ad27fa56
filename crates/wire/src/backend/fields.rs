//! Reading ErrorResponse and NoticeResponse: both are a list of fields, each a letter and a string.
//!
//! It promises to read whatever a server sends: a field that is missing is `None`, and a list that breaks off ends there.
//! For an error that cannot be read must still be passed on. It judges nothing; [`Fields::is_fatal`] only reads a word.
//!
//= pg18 protocol-error-fields

use crate::{SqlState, cstr};

/// The letters of the fields.
pub mod field {
    /// Severity, in the server's language.
    pub const SEVERITY_LOCALIZED: u8 = b'S';
    /// Severity, never translated.
    pub const SEVERITY: u8 = b'V';
    pub const CODE: u8 = b'C';
    pub const MESSAGE: u8 = b'M';
    pub const DETAIL: u8 = b'D';
    pub const HINT: u8 = b'H';
    pub const POSITION: u8 = b'P';
    pub const INTERNAL_POSITION: u8 = b'p';
    pub const INTERNAL_QUERY: u8 = b'q';
    pub const WHERE: u8 = b'W';
    pub const SCHEMA: u8 = b's';
    pub const TABLE: u8 = b't';
    pub const COLUMN: u8 = b'c';
    pub const DATA_TYPE: u8 = b'd';
    pub const CONSTRAINT: u8 = b'n';
    pub const FILE: u8 = b'F';
    pub const LINE: u8 = b'L';
    pub const ROUTINE: u8 = b'R';
}

/// The fields of an ErrorResponse or a NoticeResponse, unread.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Fields<'a> {
    body: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Takes any body; see the file's head.
    pub fn decode(body: &'a [u8]) -> Fields<'a> {
        Fields { body }
    }

    /// The first field with this letter.
    pub fn get(&self, field: u8) -> Option<&'a [u8]> {
        self.iter()
            .find(|(letter, _)| *letter == field)
            .map(|(_, text)| text)
    }

    /// Letters and texts in the order they came, up to the end of the list or where it breaks off.
    pub fn iter(&self) -> FieldsIter<'a> {
        FieldsIter { rest: self.body }
    }

    /// `ERROR`, `FATAL`, `PANIC`, `WARNING`, … in English if the server says so, else in its language.
    pub fn severity(&self) -> Option<&'a [u8]> {
        self.get(field::SEVERITY)
            .or_else(|| self.get(field::SEVERITY_LOCALIZED))
    }

    /// The SQLSTATE as it came.
    pub fn code(&self) -> Option<&'a [u8]> {
        self.get(field::CODE)
    }

    /// The SQLSTATE, if it looks like one.
    pub fn sqlstate(&self) -> Option<SqlState> {
        self.code().and_then(SqlState::from_bytes)
    }

    /// The one line that people read.
    pub fn message(&self) -> Option<&'a [u8]> {
        self.get(field::MESSAGE)
    }

    pub fn detail(&self) -> Option<&'a [u8]> {
        self.get(field::DETAIL)
    }

    pub fn hint(&self) -> Option<&'a [u8]> {
        self.get(field::HINT)
    }

    /// Whether the server says that it ends the connection. False if it says nothing, so a closed socket still counts.
    pub fn is_fatal(&self) -> bool {
        matches!(self.severity(), Some(b"FATAL" | b"PANIC"))
    }
}

impl<'a> IntoIterator for Fields<'a> {
    type Item = (u8, &'a [u8]);
    type IntoIter = FieldsIter<'a>;

    fn into_iter(self) -> FieldsIter<'a> {
        self.iter()
    }
}

/// Iterator over the letters and texts of [`Fields`].
#[derive(Clone, Debug)]
pub struct FieldsIter<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for FieldsIter<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&letter, rest) = self
            .rest
            .split_first()
            .filter(|(letter, _)| **letter != 0)?;
        let (text, rest) = cstr(rest)?;
        self.rest = rest;
        Some((letter, text))
    }
}
