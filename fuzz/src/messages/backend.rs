//! What a server sends, message by message.

use wire::backend::{self, Authentication, tag};
use wire::{message, put_cstr};

use super::{exact, same, silent};

pub(super) fn check(kind: u8, body: &[u8]) {
    match kind {
        tag::AUTHENTICATION => authentication(body),
        tag::PARAMETER_STATUS => {
            exact(kind, body, backend::ParameterStatus::decode, |read, out| read.encode(out));
        }
        tag::BACKEND_KEY_DATA => {
            exact(kind, body, backend::BackendKeyData::decode, |read, out| read.encode(out));
        }
        tag::READY_FOR_QUERY => {
            exact(kind, body, backend::ReadyForQuery::decode, |read, out| read.encode(out));
        }
        tag::COMMAND_COMPLETE => {
            exact(kind, body, backend::CommandComplete::decode, |read, out| read.encode(out));
        }
        tag::NOTIFICATION => {
            exact(kind, body, backend::Notification::decode, |read, out| read.encode(out));
        }
        tag::PARAMETER_DESCRIPTION => {
            exact(kind, body, backend::ParameterDescription::decode, |read, out| {
                let oids: Vec<u32> = read.type_oids().collect();
                backend::encode_parameter_description(out, &oids);
            });
        }
        tag::DATA_ROW => {
            let row = exact(kind, body, backend::DataRow::decode, |read, out| {
                backend::encode_data_row(out, read.values());
            });
            assert!(row.is_none_or(|row| row.len() == row.values().count()));
        }
        tag::ROW_DESCRIPTION => {
            let row = exact(kind, body, backend::RowDescription::decode, columns);
            assert!(row.is_none_or(|row| row.len() == row.columns().count()));
        }
        tag::COPY_IN | tag::COPY_OUT | tag::COPY_BOTH => copy(kind, body),
        tag::NEGOTIATE_VERSION => negotiate(body),
        tag::ERROR | tag::NOTICE => fields(body),
        _ => {}
    }
}

fn authentication(body: &[u8]) {
    // What we do not speak is told by its code alone.
    if matches!(Authentication::decode(body), Ok(Authentication::Other(_))) {
        return;
    }
    exact(tag::AUTHENTICATION, body, Authentication::decode, |read, out| read.encode(out));
}

fn columns(read: &backend::RowDescription<'_>, out: &mut Vec<u8>) {
    message(out, tag::ROW_DESCRIPTION, |out| {
        out.extend_from_slice(&(read.len() as u16).to_be_bytes());
        for column in read.columns() {
            put_cstr(out, column.name);
            out.extend_from_slice(&column.table_oid.to_be_bytes());
            out.extend_from_slice(&column.number.to_be_bytes());
            out.extend_from_slice(&column.type_oid.to_be_bytes());
            out.extend_from_slice(&column.type_len.to_be_bytes());
            out.extend_from_slice(&column.type_modifier.to_be_bytes());
            out.extend_from_slice(&column.format.to_be_bytes());
        }
    });
}

/// Formats of single columns are not kept.
fn copy(kind: u8, body: &[u8]) {
    let Ok(read) = silent(|| backend::CopyResponse::decode(body)) else { return };
    assert_eq!(body.len(), 3 + 2 * usize::from(read.columns));
    let mut again = Vec::new();
    match kind {
        tag::COPY_IN => backend::encode_copy_in(&mut again, read.columns),
        tag::COPY_OUT => backend::encode_copy_out(&mut again, read.columns),
        _ => backend::encode_copy_both(&mut again, read.columns),
    }
    let is_plain = !read.binary && body[3..].iter().all(|byte| *byte == 0);
    assert_eq!(is_plain, again[wire::HEADER_LEN..] == *body);
}

/// A version without its major number is read too, and written in full.
fn negotiate(body: &[u8]) {
    let Ok(read) = silent(|| backend::NegotiateVersion::decode(body)) else { return };
    let unknown: Vec<&[u8]> = read.collect();
    let mut again = Vec::new();
    backend::NegotiateVersion { minor: read.minor, unknown: &unknown }.encode(&mut again);
    let mut full = body.to_vec();
    full[1] = 3;
    same(tag::NEGOTIATE_VERSION, &full, &again);
}

/// Fields are read as far as they go, and never anything that is not there.
fn fields(body: &[u8]) {
    let fields = backend::Fields::decode(body);
    let mut again = Vec::new();
    for (letter, text) in fields {
        again.push(letter);
        put_cstr(&mut again, text);
    }
    assert!(body.starts_with(&again), "fields that did not come so");
    let fields_read =
        silent(|| (fields.severity(), fields.sqlstate(), fields.message(), fields.detail(), fields.hint()));
    assert!(fields_read.0.is_some() || !fields.is_fatal());
}
