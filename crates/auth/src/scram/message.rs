//! The text of SCRAM messages: fields `x=value` between commas, base64, nonces.
//!
//! Promises to take bytes as they come (no UTF-8 assumed) and to refuse base64 that is not in its one canonical
//! form, so that no two texts mean the same proof. Does not know which fields a message has.

use base64ct::{Base64, Encoding};

use super::ScramError;

/// The comma-separated fields of a message, one after the other. An empty message has one empty field.
pub(super) struct Fields<'a> {
    /// None once the last field was taken.
    rest: Option<&'a [u8]>,
}

impl<'a> Fields<'a> {
    pub(super) fn of(message: &'a [u8]) -> Fields<'a> {
        Fields { rest: Some(message) }
    }

    /// The next field, whatever its name, or None at the end.
    pub(super) fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        match rest.iter().position(|&byte| byte == b',') {
            Some(comma) => {
                self.rest = Some(&rest[comma + 1..]);
                Some(&rest[..comma])
            }
            None => {
                self.rest = None;
                Some(rest)
            }
        }
    }

    /// All that is still to be read, or None at the end.
    pub(super) fn rest(&self) -> Option<&'a [u8]> {
        self.rest
    }

    /// The value of the next field, which must have this name.
    pub(super) fn value(&mut self, name: u8) -> Result<&'a [u8], ScramError> {
        match self.next().and_then(split) {
            Some((found, value)) if found == name => Ok(value),
            // A mandatory extension stands where the peer likes; its presence decides.
            Some((b'm', _)) => Err(ScramError::Extension),
            _ => Err(ScramError::Malformed),
        }
    }

    /// Reads over optional extensions to the end: they are to be ignored, but must be fields.
    //= rfc5802#section-5.1
    pub(super) fn skip_extensions(&mut self) -> Result<(), ScramError> {
        while let Some(field) = self.next() {
            match split(field) {
                Some((b'm', _)) => return Err(ScramError::Extension),
                Some((name, _)) if name.is_ascii_alphabetic() => {}
                _ => return Err(ScramError::Malformed),
            }
        }
        Ok(())
    }

    /// That nothing follows. libpq wants this of a server's messages, and so do we.
    pub(super) fn end(&self) -> Result<(), ScramError> {
        match self.rest {
            Some(_) => Err(ScramError::Malformed),
            None => Ok(()),
        }
    }
}

/// `x=value` as name and value.
fn split(field: &[u8]) -> Option<(u8, &[u8])> {
    match field {
        [name, b'=', value @ ..] => Some((*name, value)),
        _ => None,
    }
}

/// A nonce is printable ASCII without a comma, and there is some of it.
//= rfc5802#section-7
pub(super) fn nonce(value: &[u8], len_max: usize) -> Result<&str, ScramError> {
    let is_printable = |byte: &u8| matches!(byte, 0x21..=0x7e) && *byte != b',';
    let is_nonce = !value.is_empty() && value.len() <= len_max && value.iter().all(is_printable);
    match std::str::from_utf8(value) {
        Ok(text) if is_nonce => Ok(text),
        _ => Err(ScramError::Nonce),
    }
}

/// Bytes as base64, with padding.
pub(super) fn encode(bytes: &[u8]) -> String {
    Base64::encode_string(bytes)
}

/// Base64 as bytes. The caller has bounded the length of the text.
pub(super) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(text).ok()?;
    Base64::decode_vec(text).ok()
}

/// Base64 of a hash or key: 32 bytes, no more, no less.
pub(super) fn decode_key(text: &[u8]) -> Option<[u8; 32]> {
    // 32 bytes are 43 digits and one '='; anything else need not be decoded.
    if text.len() != 44 {
        return None;
    }
    let text = std::str::from_utf8(text).ok()?;
    let mut key = [0; 32];
    match Base64::decode(text, &mut key) {
        Ok(bytes) if bytes.len() == 32 => Some(key),
        _ => None,
    }
}
