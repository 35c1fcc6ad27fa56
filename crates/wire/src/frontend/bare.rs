//! The client's messages that are nothing but a header: Sync, Flush, Terminate, CopyDone.

use super::tag;
use crate::{Error, reader::Reader};

/// Ends a batch of the extended protocol; the server answers with ReadyForQuery.
//= pg18 protocol-message-formats#PROTOCOL-MESSAGE-FORMATS-SYNC
pub const SYNC: [u8; 5] = [tag::SYNC, 0, 0, 0, 4];

/// Asks the server to send what it has, without ending the batch.
//= pg18 protocol-message-formats#PROTOCOL-MESSAGE-FORMATS-FLUSH
pub const FLUSH: [u8; 5] = [tag::FLUSH, 0, 0, 0, 4];

/// The client leaves.
//= pg18 protocol-message-formats#PROTOCOL-MESSAGE-FORMATS-TERMINATE
pub const TERMINATE: [u8; 5] = [tag::TERMINATE, 0, 0, 0, 4];

/// The client has sent all its COPY data.
//= pg18 protocol-message-formats#PROTOCOL-MESSAGE-FORMATS-COPYDONE
pub const COPY_DONE: [u8; 5] = [tag::COPY_DONE, 0, 0, 0, 4];

/// Appends Sync.
pub fn encode_sync(out: &mut Vec<u8>) {
    out.extend_from_slice(&SYNC);
}

/// Appends Flush.
pub fn encode_flush(out: &mut Vec<u8>) {
    out.extend_from_slice(&FLUSH);
}

/// Appends Terminate.
pub fn encode_terminate(out: &mut Vec<u8>) {
    out.extend_from_slice(&TERMINATE);
}

/// Appends CopyDone.
pub fn encode_copy_done(out: &mut Vec<u8>) {
    out.extend_from_slice(&COPY_DONE);
}

/// Checks the body of a message that must have none.
///
/// # Errors
/// [`Error::BadValue`] if the body is not empty: PostgreSQL ends the connection then.
pub fn decode_bare(body: &[u8]) -> Result<(), Error> {
    Reader::new(body).end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check;

    type Encode = fn(&mut Vec<u8>);

    #[test]
    fn as_the_manual_has_them() {
        let all: [(Encode, u8); 4] =
            [(encode_sync, b'S'), (encode_flush, b'H'), (encode_terminate, b'X'), (encode_copy_done, b'c')];
        for (encode, tag) in all {
            let mut out = Vec::new();
            encode(&mut out);
            assert_eq!(decode_bare(check::body(&out, tag)), Ok(()));
        }
    }

    #[test]
    fn a_body_is_refused() {
        check::refuses_parts(b"", |body| decode_bare(body).is_err());
    }
}
