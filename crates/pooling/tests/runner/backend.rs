//! What servers say and clients are told: text to messages and back.

use wire::backend::{
    Authentication, Column, CommandComplete, DataRow, ErrorResponse, Fields, NegotiateVersion, Notification,
    ParameterDescription, ParameterStatus, ReadyForQuery, RowDescription, Status, tag,
};
use wire::{SqlState, backend};

use super::frontend::raw;
use super::words::{Word, Words, show};

/// One message from its words, for instance `CommandComplete "SELECT 1"`.
pub(crate) fn encode(mut words: Words<'_>) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let name = words.bare("a message")?;
    if !simple(name, &mut out) && !authentication(name, &mut words, &mut out)? {
        richer(name, &mut words, &mut out)?;
    }
    words.end()?;
    Ok(out)
}

/// Messages that are nothing but their name.
fn simple(name: &str, out: &mut Vec<u8>) -> bool {
    match name {
        "ParseComplete" => backend::encode_parse_complete(out),
        "BindComplete" => backend::encode_bind_complete(out),
        "CloseComplete" => backend::encode_close_complete(out),
        "NoData" => backend::encode_no_data(out),
        "PortalSuspended" => backend::encode_portal_suspended(out),
        "EmptyQueryResponse" => backend::encode_empty_query(out),
        "CopyDone" => backend::encode_copy_done(out),
        "CopyInResponse" => backend::encode_copy_in(out, 1),
        "CopyOutResponse" => backend::encode_copy_out(out, 1),
        "CopyBothResponse" => backend::encode_copy_both(out, 1),
        _ => return false,
    }
    true
}

fn authentication(name: &str, words: &mut Words<'_>, out: &mut Vec<u8>) -> Result<bool, String> {
    match name {
        "AuthenticationOk" => Authentication::Ok.encode(out),
        "AuthenticationCleartextPassword" => Authentication::CleartextPassword.encode(out),
        "AuthenticationMD5Password" => Authentication::Md5Password { salt: *b"salt" }.encode(out),
        "AuthenticationSASL" => {
            let mechanism = words.name().unwrap_or_else(|| b"SCRAM-SHA-256".to_vec());
            backend::encode_sasl(out, &[&mechanism]);
        }
        "AuthenticationGSS" => Authentication::Gss.encode(out),
        "AuthenticationSASLContinue" => Authentication::SaslContinue(&words.text("the line")?).encode(out),
        "AuthenticationSASLFinal" => Authentication::SaslFinal(&words.text("the line")?).encode(out),
        "Authentication" => Authentication::Other(words.number("the code")?).encode(out),
        _ => return Ok(false),
    }
    Ok(true)
}

fn richer(name: &str, words: &mut Words<'_>, out: &mut Vec<u8>) -> Result<(), String> {
    match name {
        "bytes" => raw(words, out)?,
        "CommandComplete" => backend::encode_command_complete(out, &words.string("the tag")?),
        "ReadyForQuery" => {
            let status = words.bare("the status")?;
            let status = Status::from_byte(status.as_bytes()[0]).ok_or("the status is I, T or E")?;
            backend::encode_ready(out, status);
        }
        "RowDescription" => {
            let mut names = Vec::new();
            while !words.is_empty() {
                names.push(words.string("a column")?);
            }
            let columns: Vec<Column<'_>> =
                names.iter().map(|name| Column { name, type_oid: backend::oid::TEXT, type_len: -1 }).collect();
            backend::encode_row_description(out, &columns);
        }
        "DataRow" => {
            let mut values = Vec::new();
            while !words.is_empty() {
                values.push(if words.eat("null") { None } else { Some(words.text("a value")?) });
            }
            backend::encode_data_row(out, values.iter().map(Option::as_deref));
        }
        "ParameterDescription" => {
            let mut oids = Vec::new();
            while !words.is_empty() {
                oids.push(words.number("an oid")?);
            }
            backend::encode_parameter_description(out, &oids);
        }
        "CopyData" => backend::encode_copy_data(out, &words.text("the data")?),
        "ParameterStatus" => {
            let pair = words.any().ok_or("name=value is missing")?;
            let at = pair.text.iter().position(|byte| *byte == b'=').ok_or("a parameter is name=value")?;
            ParameterStatus { name: &pair.text[..at], value: &pair.text[at + 1..] }.encode(out);
        }
        "BackendKeyData" => key_data(words, out)?,
        "NotificationResponse" => {
            let pid = words.number("the pid")?;
            let channel = words.text("the channel")?;
            let payload = words.text("the payload")?;
            Notification { pid, channel: &channel, payload: &payload }.encode(out);
        }
        "FunctionCallResponse" => {
            let value = words.text("the value")?;
            wire::message(out, tag::FUNCTION_CALL_RESPONSE, |out| {
                out.extend_from_slice(&(value.len() as u32).to_be_bytes());
                out.extend_from_slice(&value);
            });
        }
        "NegotiateProtocolVersion" => negotiated(words, out)?,
        "ErrorResponse" => fields(words, tag::ERROR, out)?,
        "NoticeResponse" => fields(words, tag::NOTICE, out)?,
        severity => told(severity, words, out)?,
    }
    Ok(())
}

/// `4711 66051`, a process id and a secret of four bytes; `4711 66051 of 32`, these four over and over.
fn key_data(words: &mut Words<'_>, out: &mut Vec<u8>) -> Result<(), String> {
    let (pid, secret): (i32, i32) = (words.number("the pid")?, words.number("the secret")?);
    let len = if words.eat("of") { words.number("its length")? } else { 4 };
    let secret: Vec<u8> = secret.to_be_bytes().into_iter().cycle().take(len).collect();
    wire::message(out, tag::BACKEND_KEY_DATA, |out| {
        out.extend_from_slice(&pid.to_be_bytes());
        out.extend_from_slice(&secret);
    });
    Ok(())
}

/// `2 _pq_.name`: the minor version, and what is not known.
fn negotiated(words: &mut Words<'_>, out: &mut Vec<u8>) -> Result<(), String> {
    let minor = words.number("the minor version")?;
    let names: Vec<Vec<u8>> = std::iter::from_fn(|| words.any().map(|word| word.text.clone())).collect();
    let unknown: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
    NegotiateVersion { minor, unknown: &unknown }.encode(out);
    Ok(())
}

/// `FATAL 57P01 "terminating connection"`, `NOTICE 00000 "hello"`.
fn told(severity: &str, words: &mut Words<'_>, out: &mut Vec<u8>) -> Result<(), String> {
    let is_error = matches!(severity, "ERROR" | "FATAL" | "PANIC");
    let is_notice = matches!(severity, "WARNING" | "NOTICE" | "INFO" | "LOG" | "DEBUG");
    if !is_error && !is_notice {
        return Err(format!("'{severity}' is no message of a server's"));
    }
    let code = SqlState::from_bytes(words.bare("the code")?.as_bytes()).ok_or("a code has five characters")?;
    let message = words.string("the message")?;
    let told = ErrorResponse { severity, code, message: &message, detail: None, hint: None };
    if is_error {
        told.encode(out)
    } else {
        told.encode_notice(out)
    }
    Ok(())
}

/// `ErrorResponse S=ERROR C=42601 M="syntax error" P=8`, any fields or none.
fn fields(words: &mut Words<'_>, tag: u8, out: &mut Vec<u8>) -> Result<(), String> {
    let mut fields: Vec<&Word> = Vec::new();
    while let Some(word) = words.any() {
        if word.text.get(1) != Some(&b'=') {
            return Err("a field is a letter, =, and a text".to_owned());
        }
        fields.push(word);
    }
    wire::message(out, tag, |out| {
        for field in fields {
            out.push(field.text[0]);
            wire::put_cstr(out, &field.text[2..]);
        }
        out.push(0);
    });
    Ok(())
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A whole message as text. Salts, nonces and keys are left out: they are drawn anew.
pub(crate) fn show_message(tag: u8, body: &[u8]) -> String {
    let shown = match tag {
        tag::AUTHENTICATION => Authentication::decode(body).ok().map(show_authentication),
        tag::COMMAND_COMPLETE => {
            CommandComplete::decode(body).ok().map(|it| format!("CommandComplete {}", show(it.tag)))
        }
        tag::READY_FOR_QUERY => {
            ReadyForQuery::decode(body).ok().map(|it| format!("ReadyForQuery {}", it.status.byte() as char))
        }
        tag::ROW_DESCRIPTION => RowDescription::decode(body).ok().map(|it| {
            let names: String = it.columns().map(|column| format!(" {}", lossy(column.name))).collect();
            format!("RowDescription{names}")
        }),
        tag::DATA_ROW => DataRow::decode(body).ok().map(|it| {
            let values = it.values().map(|value| value.map_or("null".to_owned(), show));
            values.fold("DataRow".to_owned(), |text, value| format!("{text} {value}"))
        }),
        tag::PARAMETER_DESCRIPTION => ParameterDescription::decode(body).ok().map(|it| {
            let oids: String = it.type_oids().map(|oid| format!(" {oid}")).collect();
            format!("ParameterDescription{oids}")
        }),
        tag::COPY_DATA => Some(format!("CopyData {}", show(body))),
        tag::PARAMETER_STATUS => ParameterStatus::decode(body)
            .ok()
            .map(|it| format!("ParameterStatus {}={}", lossy(it.name), lossy(it.value))),
        tag::BACKEND_KEY_DATA if body.len() > 8 => Some(format!("BackendKeyData of {} bytes", body.len() - 4)),
        tag::BACKEND_KEY_DATA => Some("BackendKeyData".to_owned()),
        tag::NOTIFICATION => Notification::decode(body)
            .ok()
            .map(|it| format!("NotificationResponse {} {} {}", it.pid, show(it.channel), show(it.payload))),
        tag::FUNCTION_CALL_RESPONSE => body.get(4..).map(|value| format!("FunctionCallResponse {}", show(value))),
        tag::NEGOTIATE_VERSION => NegotiateVersion::decode(body).ok().map(|it| {
            let minor = it.minor;
            let names: String = it.map(|name| format!(" {}", lossy(name))).collect();
            format!("NegotiateProtocolVersion 3.{minor}{names}")
        }),
        tag::ERROR | tag::NOTICE => Some(show_fields(tag, body)),
        tag::COPY_IN | tag::COPY_OUT | tag::COPY_BOTH => Some(name(tag)),
        _ if body.is_empty() => Some(name(tag)),
        _ => None,
    };
    shown.unwrap_or_else(|| format!("{} {}", name(tag), show(body)))
}

fn show_authentication(message: Authentication<'_>) -> String {
    match message {
        Authentication::Ok => "AuthenticationOk".to_owned(),
        Authentication::CleartextPassword => "AuthenticationCleartextPassword".to_owned(),
        Authentication::Md5Password { .. } => "AuthenticationMD5Password".to_owned(),
        Authentication::Sasl { mechanisms } => {
            mechanisms.fold("AuthenticationSASL".to_owned(), |text, name| format!("{text} {}", lossy(name)))
        }
        Authentication::Gss => "AuthenticationGSS".to_owned(),
        Authentication::GssContinue(message) => format!("AuthenticationGSSContinue {}", show(message)),
        Authentication::SaslContinue(_) => "AuthenticationSASLContinue".to_owned(),
        Authentication::SaslFinal(_) => "AuthenticationSASLFinal".to_owned(),
        Authentication::Other(code) => format!("Authentication {code}"),
    }
}

fn show_fields(tag: u8, body: &[u8]) -> String {
    let fields = Fields::decode(body);
    let letters: Vec<u8> = fields.iter().map(|(letter, _)| letter).collect();
    if letters == b"SVCM" {
        let text = |letter| fields.get(letter).unwrap_or_default();
        return format!("{} {} {}", lossy(text(b'S')), lossy(text(b'C')), show(text(b'M')));
    }
    let mut told = name(tag);
    for (letter, text) in fields.iter() {
        told += &format!(" {}={}", letter as char, show(text));
    }
    told
}

/// What a message is called while it is not whole.
pub(crate) fn name(tag: u8) -> String {
    let known = match tag {
        tag::AUTHENTICATION => "Authentication",
        tag::BACKEND_KEY_DATA => "BackendKeyData",
        tag::BIND_COMPLETE => "BindComplete",
        tag::CLOSE_COMPLETE => "CloseComplete",
        tag::COMMAND_COMPLETE => "CommandComplete",
        tag::COPY_BOTH => "CopyBothResponse",
        tag::COPY_DATA => "CopyData",
        tag::COPY_DONE => "CopyDone",
        tag::COPY_IN => "CopyInResponse",
        tag::COPY_OUT => "CopyOutResponse",
        tag::DATA_ROW => "DataRow",
        tag::EMPTY_QUERY => "EmptyQueryResponse",
        tag::ERROR => "ErrorResponse",
        tag::FUNCTION_CALL_RESPONSE => "FunctionCallResponse",
        tag::NEGOTIATE_VERSION => "NegotiateProtocolVersion",
        tag::NOTICE => "NoticeResponse",
        tag::NOTIFICATION => "NotificationResponse",
        tag::NO_DATA => "NoData",
        tag::PARAMETER_DESCRIPTION => "ParameterDescription",
        tag::PARAMETER_STATUS => "ParameterStatus",
        tag::PARSE_COMPLETE => "ParseComplete",
        tag::PORTAL_SUSPENDED => "PortalSuspended",
        tag::READY_FOR_QUERY => "ReadyForQuery",
        tag::ROW_DESCRIPTION => "RowDescription",
        other => return format!("message '{}'", other.escape_ascii()),
    };
    known.to_owned()
}
