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
