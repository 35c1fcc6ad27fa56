//! The server's messages that are nothing but a header.

use super::tag;

fn bare(out: &mut Vec<u8>, tag: u8) {
    out.extend_from_slice(&[tag, 0, 0, 0, 4]);
}

/// Appends ParseComplete.
pub fn encode_parse_complete(out: &mut Vec<u8>) {
    bare(out, tag::PARSE_COMPLETE);
}

/// Appends BindComplete.
pub fn encode_bind_complete(out: &mut Vec<u8>) {
    bare(out, tag::BIND_COMPLETE);
}

/// Appends CloseComplete.
pub fn encode_close_complete(out: &mut Vec<u8>) {
    bare(out, tag::CLOSE_COMPLETE);
}

/// Appends NoData: what was described returns no rows.
pub fn encode_no_data(out: &mut Vec<u8>) {
    bare(out, tag::NO_DATA);
}

/// Appends PortalSuspended: Execute reached its number of rows.
pub fn encode_portal_suspended(out: &mut Vec<u8>) {
    bare(out, tag::PORTAL_SUSPENDED);
}

/// Appends EmptyQueryResponse, which stands in place of CommandComplete.
pub fn encode_empty_query(out: &mut Vec<u8>) {
    bare(out, tag::EMPTY_QUERY);
}

/// Appends CopyDone.
pub fn encode_copy_done(out: &mut Vec<u8>) {
    bare(out, tag::COPY_DONE);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check;

    type Encode = fn(&mut Vec<u8>);

    #[test]
    fn as_the_manual_has_them() {
        let all: [(Encode, u8); 7] = [
            (encode_parse_complete, b'1'),
            (encode_bind_complete, b'2'),
            (encode_close_complete, b'3'),
            (encode_no_data, b'n'),
            (encode_portal_suspended, b's'),
            (encode_empty_query, b'I'),
            (encode_copy_done, b'c'),
        ];
        for (encode, tag) in all {
            let mut out = Vec::new();
            encode(&mut out);
            assert!(check::body(&out, tag).is_empty());
        }
    }
}
