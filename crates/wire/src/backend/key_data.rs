//! BackendKeyData: what a client must show to cancel a query of this connection.

use super::tag;
use crate::{Error, frontend::check_secret, message, reader::Reader};

//= pg18 protocol-message-formats#PROTOCOL-MESSAGE-FORMATS-BACKENDKEYDATA
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct BackendKeyData<'a> {
    pub pid: i32,
    /// 4 bytes in protocol 3.0, 4 to 256 in 3.2.
    pub secret: &'a [u8],
}

impl<'a> BackendKeyData<'a> {
    /// # Errors
    /// If the body is not a process id and a secret of 4 to 256 bytes.
    pub fn decode(body: &'a [u8]) -> Result<BackendKeyData<'a>, Error> {
        let mut reader = Reader::new(body);
        let pid = reader.i32()?;
        let secret = reader.rest();
        check_secret(secret)?;
        Ok(BackendKeyData { pid, secret })
    }

    /// Appends the whole message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        debug_assert!(check_secret(self.secret).is_ok(), "a secret has 4 to 256 bytes");
        message(out, tag::BACKEND_KEY_DATA, |out| {
            out.extend_from_slice(&self.pid.to_be_bytes());
            out.extend_from_slice(self.secret);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check;

    #[test]
    fn as_the_manual_has_it() {
        let key = BackendKeyData { pid: 258, secret: &[0xde, 0xad, 0xbe, 0xef] };
        let mut out = Vec::new();
        key.encode(&mut out);
        assert_eq!(out, b"K\0\0\0\x0c\0\0\x01\x02\xde\xad\xbe\xef");
        assert_eq!(BackendKeyData::decode(check::body(&out, tag::BACKEND_KEY_DATA)), Ok(key));
    }

    #[test]
    fn secrets_of_4_to_256_bytes() {
        for len in 0..300 {
            let body = vec![7; 4 + len];
            let expected = if (4..=256).contains(&len) {
                Ok(BackendKeyData { pid: 0x0707_0707, secret: &body[4..] })
            } else {
                Err(Error::BadValue("a cancel key has 4 to 256 bytes"))
            };
            assert_eq!(BackendKeyData::decode(&body), expected, "{len} bytes");
        }
        for len in 0..4 {
            assert_eq!(BackendKeyData::decode(&[0; 4][..len]), Err(Error::Truncated));
        }
    }
}
