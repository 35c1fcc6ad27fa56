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
        debug_assert!(
            check_secret(self.secret).is_ok(),
            "a secret has 4 to 256 bytes"
        );
        message(out, tag::BACKEND_KEY_DATA, |out| {
            out.extend_from_slice(&self.pid.to_be_bytes());
            out.extend_from_slice(self.secret);
        });
    }
}
