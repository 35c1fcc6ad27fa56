//! ErrorResponse and NoticeResponse as we write them ourselves. Reading what a server wrote is in `fields`.
//!
//= pg18 protocol-message-formats#PROTOCOL-MESSAGE-FORMATS-ERRORRESPONSE

use super::{field, tag};
use crate::{SqlState, message, put_cstr};

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ErrorResponse<'a> {
    /// `ERROR`, `FATAL` or `PANIC`; for a notice `WARNING`, `NOTICE`, `INFO`, `LOG` or `DEBUG`.
    pub severity: &'a str,
    pub code: SqlState,
    pub message: &'a str,
    pub detail: Option<&'a str>,
    pub hint: Option<&'a str>,
}

impl ErrorResponse<'_> {
    /// Appends it as an ErrorResponse.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.encode_as(out, tag::ERROR);
    }

    /// Appends it as a NoticeResponse.
    pub fn encode_notice(&self, out: &mut Vec<u8>) {
        self.encode_as(out, tag::NOTICE);
    }

    fn encode_as(&self, out: &mut Vec<u8>, tag: u8) {
        let fields = [
            (field::SEVERITY_LOCALIZED, Some(self.severity)),
            (field::SEVERITY, Some(self.severity)),
            (field::CODE, Some(self.code.as_str())),
            (field::MESSAGE, Some(self.message)),
            (field::DETAIL, self.detail),
            (field::HINT, self.hint),
        ];
        message(out, tag, |out| {
            for (letter, text) in fields {
                let Some(text) = text else { continue };
                out.push(letter);
                put_cstr(out, text.as_bytes());
            }
            out.push(0);
        });
    }
}

/// Appends an ErrorResponse of a server's with a DETAIL after its fields. `fields`: its body without the zero byte that
/// ends them; it has no DETAIL of its own.
pub fn encode_error_with_detail(fields: &[u8], detail: &str, out: &mut Vec<u8>) {
    message(out, tag::ERROR, |out| {
        out.extend_from_slice(fields);
        out.push(field::DETAIL);
        put_cstr(out, detail.as_bytes());
        out.push(0);
    });
}

#[cfg(test)]
mod tests {
    use super::super::Fields;
    use super::*;
    use crate::{check, sqlstate};

    #[test]
    fn as_the_manual_has_it() {
        let error = ErrorResponse {
            severity: "FATAL",
            code: sqlstate::PROTOCOL_VIOLATION,
            message: "no",
            detail: None,
            hint: None,
        };
        let mut out = Vec::new();
        error.encode(&mut out);
        assert_eq!(out, b"E\0\0\0\x1eSFATAL\0VFATAL\0C08P01\0Mno\0\0");
    }

    #[test]
    fn a_detail_may_be_added_to_what_a_server_wrote() {
        let mut out = Vec::new();
        encode_error_with_detail(b"SERROR\0VERROR\0C57014\0Mno\0", "late", &mut out);
        assert_eq!(out, b"E\0\0\0\x24SERROR\0VERROR\0C57014\0Mno\0Dlate\0\0");
    }

    #[test]
    fn what_is_written_is_read() {
        let written = ErrorResponse {
            severity: "WARNING",
            code: sqlstate::TOO_MANY_CONNECTIONS,
            message: "genug für heute",
            detail: Some("1000 clients are here"),
            hint: Some("raise max_client_conn"),
        };
        let mut out = Vec::new();
        written.encode_notice(&mut out);
        let fields = Fields::decode(check::body(&out, tag::NOTICE));
        let text = |field: Option<&[u8]>| field.and_then(|field| String::from_utf8(field.to_vec()).ok());
        assert_eq!(text(fields.severity()).as_deref(), Some(written.severity));
        assert_eq!(fields.sqlstate(), Some(written.code));
        assert_eq!(text(fields.message()).as_deref(), Some(written.message));
        assert_eq!(text(fields.detail()).as_deref(), written.detail);
        assert_eq!(text(fields.hint()).as_deref(), written.hint);
        assert_eq!(fields.iter().map(|(letter, _)| letter).collect::<Vec<_>>(), b"SVCMDH");
        out.clear();
        ErrorResponse { detail: None, ..written }.encode(&mut out);
        let fields = Fields::decode(check::body(&out, tag::ERROR));
        assert_eq!(fields.iter().map(|(letter, _)| letter).collect::<Vec<_>>(), b"SVCMH");
    }
}
