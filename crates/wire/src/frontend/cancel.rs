//! CancelRequest: a connection of its own that asks to stop what another one is doing.
//!
//! It reads the key, and does not know whose it is.
//!
//= pg18 protocol-message-formats#PROTOCOL-MESSAGE-FORMATS-CANCELREQUEST

use super::startup::CODE_CANCEL;
use crate::{Error, frame::counted, reader::Reader};

/// Bytes a secret may have. Protocol 3.0 has always 4; 3.2 lets the server choose.
pub(crate) const SECRET_LEN_MIN: usize = 4;
pub(crate) const SECRET_LEN_MAX: usize = 256;

/// The key that a server gave with BackendKeyData, shown to it again.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct CancelRequest<'a> {
    pub pid: i32,
    /// 4 bytes in protocol 3.0, 4 to 256 in 3.2.
    pub secret: &'a [u8],
}

impl<'a> CancelRequest<'a> {
    /// Reads what follows the request code.
    pub(crate) fn decode(body: &'a [u8]) -> Result<CancelRequest<'a>, Error> {
        let mut reader = Reader::new(body);
        let pid = reader.i32()?;
        let secret = reader.rest();
        check_secret(secret)?;
        Ok(CancelRequest { pid, secret })
    }

    /// Appends the whole packet.
    pub fn encode(&self, out: &mut Vec<u8>) {
        debug_assert!(check_secret(self.secret).is_ok(), "a secret has 4 to 256 bytes");
        counted(out, |out| {
            out.extend_from_slice(&CODE_CANCEL.to_be_bytes());
            out.extend_from_slice(&self.pid.to_be_bytes());
            out.extend_from_slice(self.secret);
        });
    }
}

pub(crate) fn check_secret(secret: &[u8]) -> Result<(), Error> {
    if (SECRET_LEN_MIN..=SECRET_LEN_MAX).contains(&secret.len()) {
        Ok(())
    } else {
        Err(Error::BadValue("a cancel key has 4 to 256 bytes"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Startup, parse_startup};
    use super::*;

    #[test]
    fn as_the_manual_has_it() {
        let request = CancelRequest { pid: 0x0102_0304, secret: &[9, 8, 7, 6] };
        let mut out = Vec::new();
        request.encode(&mut out);
        assert_eq!(out, [0, 0, 0, 16, 4, 210, 22, 46, 1, 2, 3, 4, 9, 8, 7, 6]);
        assert_eq!(parse_startup(&out), Ok(Some((Startup::Cancel(request), 16))));
    }

    #[test]
    fn secrets_of_4_to_256_bytes() {
        for len in 0..300 {
            let secret = vec![0xab; len];
            let packet =
                [&(12 + len as u32).to_be_bytes()[..], &CODE_CANCEL.to_be_bytes(), &[0xff; 4], &secret].concat();
            let request = CancelRequest { pid: -1, secret: &secret };
            let expected = if (4..=256).contains(&len) {
                Ok(Some((Startup::Cancel(request), 12 + len)))
            } else {
                Err(Error::BadValue("a cancel key has 4 to 256 bytes"))
            };
            assert_eq!(parse_startup(&packet), expected, "{len} bytes");
        }
    }

    #[test]
    fn too_short_for_a_process_id() {
        let packet = [&[0, 0, 0, 11][..], &CODE_CANCEL.to_be_bytes(), &[1, 2, 3]].concat();
        assert_eq!(parse_startup(&packet), Err(Error::Truncated));
    }
}
