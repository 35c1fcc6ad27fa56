//! Whole conversations, written by one side and read by the other: however the bytes are cut, the same messages come out, and
//! a length that lies is refused or waited for, never believed.

use wire::{Error, HEADER_LEN, Header, backend, frontend, sqlstate};

/// What a client says from its first byte to its last: login by SCRAM, a query, a pipeline, a COPY that fails, the end.
fn client() -> Vec<u8> {
    let mut out = Vec::new();
    frontend::encode_startup(&mut out, [(&b"user"[..], &b"ann"[..]), (b"database", b"shop")]);
    frontend::SaslInitial { mechanism: b"SCRAM-SHA-256", response: Some(b"n,,n=,r=a") }.encode(&mut out);
    frontend::SaslResponse { response: b"c=biws,r=ab,p=x" }.encode(&mut out);
    frontend::Query { text: b"begin; select 1" }.encode(&mut out);
    frontend::Parse { name: b"s", query: b"select $1", types: &[0, 1, 0, 0, 0, 25] }.encode(&mut out);
    frontend::Describe { target: frontend::Target::Statement, name: b"s" }.encode(&mut out);
    frontend::Bind::encode(&mut out, b"p", b"s", [Some(&b"hello"[..])]);
    frontend::Execute { portal: b"p", rows_max: 10 }.encode(&mut out);
    frontend::encode_flush(&mut out);
    frontend::Close { target: frontend::Target::Portal, name: b"p" }.encode(&mut out);
    frontend::encode_sync(&mut out);
    frontend::Query { text: b"copy t from stdin" }.encode(&mut out);
    frontend::encode_copy_data(&mut out, b"1\n");
    frontend::CopyFail { message: b"enough" }.encode(&mut out);
    frontend::Query { text: b"copy t from stdin" }.encode(&mut out);
    frontend::encode_copy_done(&mut out);
    frontend::encode_terminate(&mut out);
    out
}

const CLIENT_SAYS: &str = "\
start 3.0 user=ann database=shop
sasl SCRAM-SHA-256 n,,n=,r=a
sasl c=biws,r=ab,p=x
query begin; select 1
parse s: select $1 [25]
describe Statement s
bind p to s, 15 bytes more
execute p, 10 rows
flush
close Portal p
sync
query copy t from stdin
copy data of 2 bytes
copy fails: enough
query copy t from stdin
copy done
terminate
";

/// What the server answers.
fn server() -> Vec<u8> {
    let mut out = Vec::new();
    backend::encode_sasl(&mut out, &[b"SCRAM-SHA-256"]);
    backend::Authentication::SaslContinue(b"r=ab,s=cw==,i=4096").encode(&mut out);
    backend::Authentication::SaslFinal(b"v=x").encode(&mut out);
    backend::Authentication::Ok.encode(&mut out);
    backend::ParameterStatus { name: b"TimeZone", value: b"UTC" }.encode(&mut out);
    backend::BackendKeyData { pid: 7, secret: b"abcd" }.encode(&mut out);
    backend::encode_ready(&mut out, backend::Status::Idle);
    backend::encode_command_complete(&mut out, "BEGIN");
    let columns = [backend::Column { name: "n", type_oid: backend::oid::INT4, type_len: 4 }];
    backend::encode_row_description(&mut out, &columns);
    backend::encode_data_row(&mut out, [Some(&b"1"[..])]);
    backend::encode_data_row(&mut out, [None]);
    backend::encode_command_complete(&mut out, "SELECT 2");
    backend::encode_ready(&mut out, backend::Status::InTransaction);
    backend::encode_parse_complete(&mut out);
    backend::encode_parameter_description(&mut out, &[25]);
    backend::encode_no_data(&mut out);
    backend::encode_bind_complete(&mut out);
    backend::encode_portal_suspended(&mut out);
    backend::encode_close_complete(&mut out);
    backend::Notification { pid: 9, channel: b"jobs", payload: b"42" }.encode(&mut out);
    refusal("NOTICE", sqlstate::SUCCESS).encode_notice(&mut out);
    refusal("ERROR", sqlstate::QUERY_CANCELED).encode(&mut out);
    backend::encode_ready(&mut out, backend::Status::Failed);
    backend::encode_copy_in(&mut out, 1);
    backend::encode_copy_out(&mut out, 2);
    backend::encode_copy_data(&mut out, b"1\t2\n");
    backend::encode_copy_done(&mut out);
    backend::encode_empty_query(&mut out);
    backend::NegotiateVersion { minor: 0, unknown: &[b"_pq_.moon"] }.encode(&mut out);
    refusal("FATAL", sqlstate::ADMIN_SHUTDOWN).encode(&mut out);
    out
}

fn refusal(severity: &str, code: wire::SqlState) -> backend::ErrorResponse<'_> {
    backend::ErrorResponse { severity, code, message: "so be it", detail: Some("why"), hint: None }
}

const SERVER_SAYS: &str = "\
sasl SCRAM-SHA-256
sasl more r=ab,s=cw==,i=4096
sasl end v=x
welcome
TimeZone is UTC
key 7 abcd
ready Idle
done BEGIN
columns n:23
row 1
row null
done SELECT 2
ready InTransaction
parsed
parameters [25]
no data
bound
suspended
closed
9 says jobs 42
NOTICE 00000 so be it (why)
ERROR 57014 so be it (why)
ready Failed
copy in of 1
copy out of 2
copy data of 4 bytes
copy done
empty
speaks 3.0 but not _pq_.moon
FATAL 57P01 so be it (why)
";

fn text(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

fn client_line(tag: u8, body: &[u8], sasl_begun: bool) -> Result<String, Error> {
    use frontend::tag;
    Ok(match tag {
        tag::PASSWORD if sasl_begun => format!("sasl {}", text(frontend::SaslResponse::decode(body)?.response)),
        tag::PASSWORD => {
            let first = frontend::SaslInitial::decode(body)?;
            format!("sasl {} {}", text(first.mechanism), text(first.response.unwrap_or(b"-")))
        }
        tag::QUERY => format!("query {}", text(frontend::Query::decode(body)?.text)),
        tag::PARSE => {
            let parse = frontend::Parse::decode(body)?;
            let oids: Vec<u32> = parse.type_oids().collect();
            format!("parse {}: {} {oids:?}", text(parse.name), text(parse.query))
        }
        tag::DESCRIBE => {
            let describe = frontend::Describe::decode(body)?;
            format!("describe {:?} {}", describe.target, text(describe.name))
        }
        tag::BIND => {
            let names = frontend::BindNames::decode(body).ok_or(Error::MissingTerminator)?;
            let more = body.len() - names.len;
            format!("bind {} to {}, {more} bytes more", text(names.portal), text(names.statement))
        }
        tag::EXECUTE => {
            let execute = frontend::Execute::decode(body)?;
            format!("execute {}, {} rows", text(execute.portal), execute.rows_max)
        }
        tag::CLOSE => {
            let close = frontend::Close::decode(body)?;
            format!("close {:?} {}", close.target, text(close.name))
        }
        tag::COPY_DATA => format!("copy data of {} bytes", body.len()),
        tag::COPY_FAIL => format!("copy fails: {}", text(frontend::CopyFail::decode(body)?.message)),
        _ => {
            frontend::decode_bare(body)?;
            match tag {
                tag::SYNC => "sync",
                tag::FLUSH => "flush",
                tag::TERMINATE => "terminate",
                tag::COPY_DONE => "copy done",
                _ => return Err(Error::BadValue("an unknown tag")),
            }
            .to_owned()
        }
    })
}

fn server_line(tag: u8, body: &[u8]) -> Result<String, Error> {
    use backend::{Authentication, tag};
    Ok(match tag {
        tag::AUTHENTICATION => match Authentication::decode(body)? {
            Authentication::Ok => "welcome".to_owned(),
            Authentication::Sasl { mechanisms } => {
                format!("sasl {}", text(&mechanisms.collect::<Vec<_>>().join(&b' ')))
            }
            Authentication::SaslContinue(line) => format!("sasl more {}", text(line)),
            Authentication::SaslFinal(line) => format!("sasl end {}", text(line)),
            other => format!("{other:?}"),
        },
        tag::PARAMETER_STATUS => {
            let status = backend::ParameterStatus::decode(body)?;
            format!("{} is {}", text(status.name), text(status.value))
        }
        tag::BACKEND_KEY_DATA => {
            let key = backend::BackendKeyData::decode(body)?;
            format!("key {} {}", key.pid, text(key.secret))
        }
        tag::READY_FOR_QUERY => format!("ready {:?}", backend::ReadyForQuery::decode(body)?.status),
        tag::COMMAND_COMPLETE => format!("done {}", text(backend::CommandComplete::decode(body)?.tag)),
        tag::ROW_DESCRIPTION => {
            let columns = backend::RowDescription::decode(body)?.columns();
            let columns: Vec<String> = columns.map(|c| format!("{}:{}", text(c.name), c.type_oid)).collect();
            format!("columns {}", columns.join(" "))
        }
        tag::DATA_ROW => {
            let values = backend::DataRow::decode(body)?.values();
            format!("row {}", values.map(|value| text(value.unwrap_or(b"null"))).collect::<Vec<_>>().join(" "))
        }
        tag::PARAMETER_DESCRIPTION => {
            let oids: Vec<u32> = backend::ParameterDescription::decode(body)?.type_oids().collect();
            format!("parameters {oids:?}")
        }
        tag::NOTIFICATION => {
            let said = backend::Notification::decode(body)?;
            format!("{} says {} {}", said.pid, text(said.channel), text(said.payload))
        }
        tag::ERROR | tag::NOTICE => {
            let fields = backend::Fields::decode(body);
            let [severity, code, message, detail] =
                [fields.severity(), fields.code(), fields.message(), fields.detail()]
                    .map(|field| text(field.unwrap_or(b"-")));
            format!("{severity} {code} {message} ({detail})")
        }
        tag::COPY_IN => format!("copy in of {}", backend::CopyResponse::decode(body)?.columns),
        tag::COPY_OUT => format!("copy out of {}", backend::CopyResponse::decode(body)?.columns),
        tag::COPY_DATA => format!("copy data of {} bytes", body.len()),
        tag::NEGOTIATE_VERSION => {
            let read = backend::NegotiateVersion::decode(body)?;
            format!("speaks 3.{} but not {}", read.minor, text(&read.collect::<Vec<_>>().join(&b' ')))
        }
        tag::PARSE_COMPLETE => "parsed".to_owned(),
        tag::NO_DATA => "no data".to_owned(),
        tag::BIND_COMPLETE => "bound".to_owned(),
        tag::PORTAL_SUSPENDED => "suspended".to_owned(),
        tag::CLOSE_COMPLETE => "closed".to_owned(),
        tag::COPY_DONE => "copy done".to_owned(),
        tag::EMPTY_QUERY => "empty".to_owned(),
        _ => return Err(Error::BadValue("an unknown tag")),
    })
}

/// The first whole message at the front of `bytes`.
fn first(bytes: &[u8]) -> Result<Option<(Header, &[u8])>, Error> {
    let Some(header) = Header::parse(bytes)? else { return Ok(None) };
    let body = bytes.get(HEADER_LEN..header.total_len());
    Ok(body.map(|body| (header, body)))
}

/// Reads as many messages as are whole; what was read before an error stays read.
fn read_client(mut bytes: &[u8], lines: &mut String) -> Result<(), Error> {
    let Some((packet, used)) = frontend::parse_startup(bytes)? else { return Ok(()) };
    let frontend::Startup::Start(start) = packet else { return Err(Error::BadValue("another packet")) };
    lines.push_str(&format!("start 3.{}", start.minor));
    start.parameters().for_each(|(name, value)| lines.push_str(&format!(" {}={}", text(name), text(value))));
    lines.push('\n');
    bytes = &bytes[used..];
    let mut sasl_begun = false;
    while let Some((header, body)) = first(bytes)? {
        lines.push_str(&client_line(header.tag, body, sasl_begun)?);
        lines.push('\n');
        sasl_begun |= header.tag == frontend::tag::PASSWORD;
        bytes = &bytes[header.total_len()..];
    }
    Ok(())
}

fn read_server(mut bytes: &[u8], lines: &mut String) -> Result<(), Error> {
    while let Some((header, body)) = first(bytes)? {
        lines.push_str(&server_line(header.tag, body)?);
        lines.push('\n');
        bytes = &bytes[header.total_len()..];
    }
    Ok(())
}

type Read = fn(&[u8], &mut String) -> Result<(), Error>;

fn both() -> [(Vec<u8>, &'static str, Read); 2] {
    [(client(), CLIENT_SAYS, read_client), (server(), SERVER_SAYS, read_server)]
}

#[test]
fn what_is_said_is_understood() {
    for (stream, says, read) in both() {
        let mut lines = String::new();
        assert_eq!(read(&stream, &mut lines), Ok(()));
        assert_eq!(lines, says);
    }
}

#[test]
fn a_conversation_that_breaks_off_is_understood_so_far() {
    for (stream, says, read) in both() {
        let mut whole = 0;
        for len in 0..stream.len() {
            let mut lines = String::new();
            assert_eq!(read(&stream[..len], &mut lines), Ok(()), "after {len} bytes");
            assert!(says.starts_with(&lines), "after {len} bytes: {lines}");
            assert!(lines.lines().count() >= whole, "bytes more, messages less");
            whole = lines.lines().count();
        }
        assert_eq!(whole + 1, says.lines().count(), "only the last message was missing its last byte");
    }
}

/// Where the length words of a stream are.
fn length_words(stream: &[u8], mut at: usize) -> Vec<usize> {
    let mut words = Vec::new();
    while let Some((header, _)) = first(&stream[at..]).expect("the stream is sound") {
        words.push(at + 1);
        at += header.total_len();
    }
    words
}

#[test]
fn a_length_that_lies_is_refused_or_waited_for() {
    for (stream, _, read) in both() {
        let start = if stream == client() { stream[3] as usize } else { 0 };
        for word in length_words(&stream, start) {
            let lie = |len: i32| {
                let mut stream = stream.clone();
                stream[word..word + 4].copy_from_slice(&len.to_be_bytes());
                read(&stream, &mut String::new())
            };
            for len in [0, 1, 2, 3, -1, i32::MIN] {
                assert_eq!(lie(len), Err(Error::BadLength { len }));
            }
            assert_eq!(lie(i32::MAX), Ok(()), "it waits for the rest and takes nothing for it");
        }
    }
}

/// Changes one byte at a time, to each of the values that mean something at a border: an answer, whatever it is, but no panic,
/// and what came before the changed message is understood as before.
#[test]
fn one_wrong_byte_is_survived() {
    for (stream, says, read) in both() {
        for at in 0..stream.len() {
            for byte in [0, 1, 4, b'x', 0x7f, 0x80, 0xff, stream[at] ^ 1] {
                let mut wrong = stream.clone();
                wrong[at] = byte;
                let (mut before, mut lines) = (String::new(), String::new());
                read(&stream[..at], &mut before).expect("a stream that breaks off is sound");
                let _an_error_or_other_words = read(&wrong, &mut lines);
                assert!(lines.starts_with(&before), "byte {at} changed what came before it in {says}");
            }
        }
    }
}
