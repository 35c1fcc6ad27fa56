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
