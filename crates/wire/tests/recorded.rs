//! Traffic of real clients with a real PostgreSQL, recorded message by message in `recorded/`: read and written again, it
//! must come out as it came. What was not asked for then is missing here too; the last test says what is there.
//!
//! A line is a message: `F` from the client or `B` from the server, then its bytes, where those that do not print are `\xNN`.
//! Several connections may follow each other in a file; each begins with a packet without a tag.

use std::collections::BTreeSet;

use wire::{HEADER_LEN, Header, backend, frontend, message, put_cstr};

const RECORDINGS: [(&str, &str); 7] = [
    ("by-hand", include_str!("recorded/by-hand.txt")),
    ("pgbench-prepared", include_str!("recorded/pgbench-prepared.txt")),
    ("psql-cancel", include_str!("recorded/psql-cancel.txt")),
    ("psql-cleartext", include_str!("recorded/psql-cleartext.txt")),
    ("psql-extended", include_str!("recorded/psql-extended.txt")),
    ("psql-md5", include_str!("recorded/psql-md5.txt")),
    ("psql-simple", include_str!("recorded/psql-simple.txt")),
];

#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum From {
    Client,
    Server,
}

fn lines(recording: &str) -> Vec<(From, Vec<u8>)> {
    recording.lines().filter(|line| !line.starts_with('#')).map(line).collect()
}

fn line(line: &str) -> (From, Vec<u8>) {
    let from = match &line[..2] {
        "F " => From::Client,
        "B " => From::Server,
        other => panic!("a line begins with {other:?}"),
    };
    (from, unescape(&line[2..]))
}

fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((plain, escaped)) = rest.split_once('\\') {
        bytes.extend_from_slice(plain.as_bytes());
        if let Some(after) = escaped.strip_prefix('\\') {
            bytes.push(b'\\');
            rest = after;
            continue;
        }
        let hex = escaped.strip_prefix('x').expect("only \\\\ and \\xNN are written");
        bytes.push(u8::from_str_radix(&hex[..2], 16).expect("two hexadecimal digits"));
        rest = &hex[2..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

/// What the server asked last, which says what a message `p` is.
#[derive(Copy, Clone, Debug, PartialEq)]
enum Asked {
    Nothing,
    Password,
    Sasl,
    SaslMore,
}

/// Reads the message and writes it again.
fn again(from: From, bytes: &[u8], asked: &mut Asked) -> Result<Vec<u8>, wire::Error> {
    let mut out = Vec::new();
    match from {
        From::Client if bytes[0] == 0 => untagged(bytes, &mut out)?,
        From::Client => client(bytes, *asked, &mut out)?,
        From::Server => server(bytes, asked, &mut out)?,
    }
    Ok(out)
}

fn untagged(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), wire::Error> {
    let (packet, used) = frontend::parse_startup(bytes)?.expect("the packet is whole");
    assert_eq!(used, bytes.len());
    match packet {
        frontend::Startup::Ssl => frontend::encode_ssl_request(out),
        frontend::Startup::GssEnc => frontend::encode_gss_request(out),
        frontend::Startup::Cancel(request) => request.encode(out),
        frontend::Startup::Start(start) => frontend::encode_startup_version(out, start.minor, start.parameters()),
    }
    Ok(())
}

fn client(bytes: &[u8], asked: Asked, out: &mut Vec<u8>) -> Result<(), wire::Error> {
    use frontend::tag;
    let (tag, body) = (bytes[0], &bytes[HEADER_LEN..]);
    assert!(bytes.len() <= frontend::len_max(tag).expect("a client sends no other tags"));
    match tag {
        tag::BIND => {
            let names = frontend::BindNames::decode(body).expect("the body is whole");
            frontend::encode_bind_prefix(out, names.portal, names.statement, body.len() - names.len)?;
            out.extend_from_slice(&body[names.len..]);
        }
        tag::CLOSE => frontend::Close::decode(body)?.encode(out),
        tag::COPY_DATA => frontend::encode_copy_data(out, body),
        tag::COPY_FAIL => frontend::CopyFail::decode(body)?.encode(out),
        tag::DESCRIBE => frontend::Describe::decode(body)?.encode(out),
        tag::EXECUTE => frontend::Execute::decode(body)?.encode(out),
        tag::PARSE => frontend::Parse::decode(body)?.encode(out),
        tag::QUERY => frontend::Query::decode(body)?.encode(out),
        tag::SYNC | tag::FLUSH | tag::TERMINATE | tag::COPY_DONE => {
            frontend::decode_bare(body)?;
            message(out, tag, |_| ());
        }
        tag::PASSWORD => match asked {
            Asked::Password => frontend::Password::decode(body)?.encode(out),
            Asked::Sasl => frontend::SaslInitial::decode(body)?.encode(out),
            Asked::SaslMore => frontend::SaslResponse::decode(body)?.encode(out),
            Asked::Nothing => panic!("nobody asked for a password"),
        },
        tag::FUNCTION_CALL => out.extend_from_slice(bytes), // passes by length
        _ => panic!("tag {}", tag.escape_ascii()),
    }
    Ok(())
}

fn server(bytes: &[u8], asked: &mut Asked, out: &mut Vec<u8>) -> Result<(), wire::Error> {
    use backend::tag;
    let (tag, body) = (bytes[0], &bytes[HEADER_LEN..]);
    match tag {
        tag::AUTHENTICATION => {
            let authentication = backend::Authentication::decode(body)?;
            *asked = match authentication {
                backend::Authentication::Sasl { .. } => Asked::Sasl,
                backend::Authentication::SaslContinue(_) => Asked::SaslMore,
                backend::Authentication::CleartextPassword | backend::Authentication::Md5Password { .. } => {
                    Asked::Password
                }
                _ => Asked::Nothing,
            };
            authentication.encode(out);
        }
        tag::BACKEND_KEY_DATA => backend::BackendKeyData::decode(body)?.encode(out),
        tag::COMMAND_COMPLETE => backend::CommandComplete::decode(body)?.encode(out),
        tag::COPY_DATA => backend::encode_copy_data(out, body),
        tag::COPY_IN | tag::COPY_OUT => copy_response(tag, backend::CopyResponse::decode(body)?, out),
        tag::DATA_ROW => backend::encode_data_row(out, backend::DataRow::decode(body)?.values()),
        tag::ERROR | tag::NOTICE => fields(tag, backend::Fields::decode(body), out),
        tag::NEGOTIATE_VERSION => {
            let read = backend::NegotiateVersion::decode(body)?;
            backend::NegotiateVersion { minor: read.minor, unknown: &read.collect::<Vec<_>>() }.encode(out);
        }
        tag::NOTIFICATION => backend::Notification::decode(body)?.encode(out),
        tag::PARAMETER_DESCRIPTION => {
            let oids: Vec<u32> = backend::ParameterDescription::decode(body)?.type_oids().collect();
            backend::encode_parameter_description(out, &oids);
        }
        tag::PARAMETER_STATUS => backend::ParameterStatus::decode(body)?.encode(out),
        tag::READY_FOR_QUERY => backend::ReadyForQuery::decode(body)?.encode(out),
        tag::ROW_DESCRIPTION => description(backend::RowDescription::decode(body)?, out),
        _ => bare(bytes, out),
    }
    Ok(())
}

fn bare(bytes: &[u8], out: &mut Vec<u8>) {
    use backend::tag;
    match bytes[0] {
        tag::BIND_COMPLETE => backend::encode_bind_complete(out),
        tag::CLOSE_COMPLETE => backend::encode_close_complete(out),
        tag::COPY_DONE => backend::encode_copy_done(out),
        tag::EMPTY_QUERY => backend::encode_empty_query(out),
        tag::NO_DATA => backend::encode_no_data(out),
        tag::PARSE_COMPLETE => backend::encode_parse_complete(out),
        tag::PORTAL_SUSPENDED => backend::encode_portal_suspended(out),
        tag::FUNCTION_CALL_RESPONSE => out.extend_from_slice(bytes), // passes by length
        tag => panic!("tag {}", tag.escape_ascii()),
    }
}

/// Ours are always text; a server's may be binary.
fn copy_response(tag: u8, read: backend::CopyResponse, out: &mut Vec<u8>) {
    message(out, tag, |out| {
        out.push(u8::from(read.binary));
        out.extend_from_slice(&read.columns.to_be_bytes());
        (0..read.columns).for_each(|_| out.extend_from_slice(&u16::from(read.binary).to_be_bytes()));
    });
}

/// We write six fields at most; a server writes more.
fn fields(tag: u8, read: backend::Fields<'_>, out: &mut Vec<u8>) {
    assert!(read.severity().is_some() && read.sqlstate().is_some() && read.message().is_some());
    message(out, tag, |out| {
        for (letter, text) in read {
            out.push(letter);
            put_cstr(out, text);
        }
        out.push(0);
    });
}

/// Our columns belong to no table and are text; a server's do and may be binary.
fn description(read: backend::RowDescription<'_>, out: &mut Vec<u8>) {
    message(out, backend::tag::ROW_DESCRIPTION, |out| {
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

#[test]
fn what_is_read_is_written_as_it_came() {
    for (name, recording) in RECORDINGS {
        let mut asked = Asked::Nothing;
        for (number, (from, bytes)) in lines(recording).into_iter().enumerate() {
            let out =
                again(from, &bytes, &mut asked).unwrap_or_else(|error| panic!("{name}, message {number}: {error}"));
            assert_eq!(out.escape_ascii().to_string(), bytes.escape_ascii().to_string(), "{name}, message {number}");
        }
    }
}

#[test]
fn borders_are_found_however_the_bytes_arrive() {
    for (name, recording) in RECORDINGS {
        let messages: Vec<Vec<u8>> =
            lines(recording).into_iter().filter(|(from, _)| *from == From::Server).map(|(_, bytes)| bytes).collect();
        let stream = messages.concat();
        for step in [1, 2, 3, 5, 7, 64, 8192] {
            let (found, held) = cut(stream.chunks(step));
            assert!(held.is_empty(), "{name} in steps of {step}");
            assert_eq!(found, messages, "{name} in steps of {step}");
        }
    }
}

/// The messages in bytes that come in chunks, and the bytes after the last whole one.
fn cut<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> (Vec<Vec<u8>>, Vec<u8>) {
    let (mut found, mut held) = (Vec::new(), Vec::new());
    for chunk in chunks {
        held.extend_from_slice(chunk);
        while let Some(header) = Header::parse(&held).expect("the recording is sound")
            && header.total_len() <= held.len()
        {
            found.push(held.drain(..header.total_len()).collect());
        }
    }
    (found, held)
}

#[test]
fn the_versions_and_keys_of_the_recordings() {
    let mut secrets = BTreeSet::new();
    for (_, recording) in RECORDINGS {
        for (from, bytes) in lines(recording) {
            if from == From::Server && bytes[0] == backend::tag::BACKEND_KEY_DATA {
                let key = backend::BackendKeyData::decode(&bytes[HEADER_LEN..]).expect("the key is sound");
                secrets.insert(key.secret.len());
            }
        }
    }
    assert_eq!(secrets, BTreeSet::from([4, 32]), "protocol 3.0 and 3.2");

    let cancel = lines(RECORDINGS[2].1);
    let key = cancel.iter().find(|(_, bytes)| bytes[0] == backend::tag::BACKEND_KEY_DATA).expect("a key was given");
    let key = backend::BackendKeyData::decode(&key.1[HEADER_LEN..]).expect("the key is sound");
    let (_, request) = cancel.last().expect("the request comes last");
    let request = frontend::parse_startup(request).expect("the request is sound");
    let shown = frontend::Startup::Cancel(frontend::CancelRequest { pid: key.pid, secret: key.secret });
    assert_eq!(request, Some((shown, 16)), "the key that was given is the one that is shown");
}

/// Without this a recording that lost its lines would pass.
#[test]
fn every_message_but_these_is_recorded() {
    let mut tags: BTreeSet<(From, u8)> = BTreeSet::new();
    for (_, recording) in RECORDINGS {
        tags.extend(lines(recording).iter().map(|(from, bytes)| (*from, bytes[0])));
    }
    let seen = |wanted: From| tags.iter().filter(|(from, _)| *from == wanted).map(|(_, tag)| *tag).collect::<Vec<u8>>();
    // All fourteen tags of a client, and the packets without one.
    assert_eq!(seen(From::Client).escape_ascii().to_string(), "\\x00BCDEFHPQSXcdfp");
    // All of a server's but CopyBothResponse, `W`, which only replication has.
    assert_eq!(seen(From::Server).escape_ascii().to_string(), "123ACDEGHIKNRSTVZcdnstv");
}
