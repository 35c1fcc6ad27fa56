//! CopyInResponse, CopyOutResponse, CopyBothResponse and CopyData. Their content is nothing to us: it passes by length.

use super::tag;
use crate::{Error, message, reader::Reader};

/// What the three responses share; the tag says in which direction the data goes.
//= pg18 protocol-message-formats#PROTOCOL-MESSAGE-FORMATS-COPYINRESPONSE
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct CopyResponse {
    pub binary: bool,
    pub columns: u16,
}

impl CopyResponse {
    /// # Errors
    /// If the format is neither text nor binary, or there are not as many column formats as the body says.
    pub fn decode(body: &[u8]) -> Result<CopyResponse, Error> {
        let mut reader = Reader::new(body);
        let binary = match reader.u8()? {
            0 => false,
            1 => true,
            _ => {
                return Err(Error::BadValue("a COPY format that is neither text nor binary"));
            }
        };
        let columns = reader.count()?;
        reader.take(usize::from(columns) * 2)?;
        reader.end()?;
        Ok(CopyResponse { binary, columns })
    }
}

/// Appends CopyInResponse: the server waits for text data of so many columns.
pub fn encode_copy_in(out: &mut Vec<u8>, columns: u16) {
    response(out, tag::COPY_IN, columns);
}

/// Appends CopyOutResponse: text data of so many columns follows.
pub fn encode_copy_out(out: &mut Vec<u8>, columns: u16) {
    response(out, tag::COPY_OUT, columns);
}

/// Appends CopyBothResponse, as replication has it: data goes both ways.
pub fn encode_copy_both(out: &mut Vec<u8>, columns: u16) {
    response(out, tag::COPY_BOTH, columns);
}

fn response(out: &mut Vec<u8>, tag: u8, columns: u16) {
    message(out, tag, |out| {
        out.push(0); // text, as is each column
        out.extend_from_slice(&columns.to_be_bytes());
        out.resize(out.len() + usize::from(columns) * 2, 0);
    });
}

/// Appends a CopyData from a server, which holds one row.
//= pg18 protocol-message-formats#PROTOCOL-MESSAGE-FORMATS-COPYDATA
pub fn encode_copy_data(out: &mut Vec<u8>, bytes: &[u8]) {
    message(out, tag::COPY_DATA, |out| out.extend_from_slice(bytes));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check;

    type Encode = fn(&mut Vec<u8>, u16);

    #[test]
    fn as_the_manual_has_them() {
        let all: [(Encode, u8); 3] = [(encode_copy_in, b'G'), (encode_copy_out, b'H'), (encode_copy_both, b'W')];
        for (encode, tag) in all {
            for columns in [0, 1, 3, 65_535] {
                let mut out = Vec::new();
                encode(&mut out, columns);
                let body = check::body(&out, tag);
                assert_eq!(body.len(), 3 + 2 * usize::from(columns));
                assert_eq!(CopyResponse::decode(body), Ok(CopyResponse { binary: false, columns }));
            }
        }
        let mut out = Vec::new();
        encode_copy_out(&mut out, 2);
        assert_eq!(out, b"H\0\0\0\x0b\0\0\x02\0\0\0\0");
    }

    #[test]
    fn binary_is_read_and_parts_are_refused() {
        let body = [1, 0, 2, 0, 1, 0, 1];
        assert_eq!(CopyResponse::decode(&body), Ok(CopyResponse { binary: true, columns: 2 }));
        check::refuses_parts(&body, |part| CopyResponse::decode(part).is_err());
        let odd = CopyResponse::decode(&[2, 0, 0]);
        assert_eq!(odd, Err(Error::BadValue("a COPY format that is neither text nor binary")));
    }

    #[test]
    fn copy_data_holds_any_bytes() {
        let mut out = Vec::new();
        encode_copy_data(&mut out, b"1\t\0\xff\n");
        encode_copy_data(&mut out, b"");
        assert_eq!(out, b"d\0\0\0\x091\t\0\xff\nd\0\0\0\x04");
    }
}
