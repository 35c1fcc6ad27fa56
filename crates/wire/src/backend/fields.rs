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
        self.iter().find(|(letter, _)| *letter == field).map(|(_, text)| text)
    }

    /// Letters and texts in the order they came, up to the end of the list or where it breaks off.
    pub fn iter(&self) -> FieldsIter<'a> {
        FieldsIter { rest: self.body }
    }

    /// `ERROR`, `FATAL`, `PANIC`, `WARNING`, … in English if the server says so, else in its language.
    pub fn severity(&self) -> Option<&'a [u8]> {
        self.get(field::SEVERITY).or_else(|| self.get(field::SEVERITY_LOCALIZED))
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
        let (&letter, rest) = self.rest.split_first().filter(|(letter, _)| **letter != 0)?;
        let (text, rest) = cstr(rest)?;
        self.rest = rest;
        Some((letter, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check;

    const BODY: &[u8] = b"SFEHLER\0VERROR\0C26000\0Mno such statement\0Dd\0Hh\0Fprepare.c\0L445\0\0";

    fn text(field: Option<&[u8]>) -> Option<String> {
        field.map(|field| field.escape_ascii().to_string())
    }

    #[test]
    fn every_field_is_found() {
        let fields = Fields::decode(BODY);
        assert_eq!(text(fields.severity()).as_deref(), Some("ERROR"));
        assert_eq!(text(fields.get(field::SEVERITY_LOCALIZED)).as_deref(), Some("FEHLER"));
        assert_eq!(text(fields.code()).as_deref(), Some("26000"));
        assert_eq!(fields.sqlstate(), Some(crate::sqlstate::UNDEFINED_PSTATEMENT));
        assert_eq!(text(fields.message()).as_deref(), Some("no such statement"));
        assert_eq!(text(fields.detail()).as_deref(), Some("d"));
        assert_eq!(text(fields.hint()).as_deref(), Some("h"));
        assert_eq!(text(fields.get(field::LINE)).as_deref(), Some("445"));
        assert_eq!(fields.get(field::ROUTINE), None);
        assert_eq!(fields.get(0), None);
        assert_eq!(fields.iter().map(|(letter, _)| letter).collect::<Vec<_>>(), b"SVCMDHFL");
        assert!(!fields.is_fatal());
    }

    #[test]
    fn nothing_is_missed_when_all_is_missing() {
        for body in [&b""[..], b"\0", b"\0\0Cxxxxx\0", b"M", b"Mno end", b"\0M\0"] {
            let fields = Fields::decode(body);
            assert_eq!(fields.iter().count(), 0, "{}", body.escape_ascii());
            assert_eq!((fields.severity(), fields.code(), fields.sqlstate()), (None, None, None));
            assert_eq!((fields.message(), fields.detail(), fields.hint()), (None, None, None));
            assert!(!fields.is_fatal());
        }
    }

    #[test]
    fn a_list_that_breaks_off_is_read_so_far() {
        let whole = Fields::decode(BODY).iter().collect::<Vec<_>>();
        for len in 0..BODY.len() {
            let read = Fields::decode(&BODY[..len]).iter().collect::<Vec<_>>();
            assert_eq!(read, whole[..read.len()], "the first {len} bytes");
        }
        assert_eq!(Fields::decode(b"C57P01\0M").code(), Some(&b"57P01"[..]));
    }

    #[test]
    fn severity_falls_back_and_fatal_is_known() {
        for (body, severity, fatal) in [
            (&b"SFATAL\0\0"[..], "FATAL", true),
            (b"SFATAL\0VFATAL\0\0", "FATAL", true),
            (b"SPANIQUE\0VPANIC\0\0", "PANIC", true),
            (b"SFATAL\0VERROR\0\0", "ERROR", false),
            (b"VWARNING\0\0", "WARNING", false),
        ] {
            let fields = Fields::decode(body);
            assert_eq!(text(fields.severity()).as_deref(), Some(severity));
            assert_eq!(fields.is_fatal(), fatal, "{severity}");
        }
    }

    #[test]
    fn the_first_of_a_letter_counts() {
        assert_eq!(Fields::decode(b"Ma\0Mb\0\0").message(), Some(&b"a"[..]));
    }

    #[test]
    fn a_code_that_is_none_is_still_shown() {
        let fields = Fields::decode(b"Ca code\0\0");
        assert_eq!((fields.code(), fields.sqlstate()), (Some(&b"a code"[..]), None));
    }

    #[test]
    fn damage_ends_the_list_and_nothing_else() {
        check::damage(BODY, |body| {
            let read: usize = Fields::decode(body).into_iter().map(|(_, text)| text.len() + 2).sum();
            assert!(read <= body.len());
        });
    }
}
