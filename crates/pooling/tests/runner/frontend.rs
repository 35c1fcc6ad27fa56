//! What clients say and servers are told: text to messages and back.

use wire::frontend;
use wire::frontend::{Bind, BindNames, Close, CopyFail, Describe, Execute, Parse, Query, Startup, Target, tag};

use super::words::{Word, Words, show};

/// One message from its words, for instance `Parse s1 "select $1"`.
pub(crate) fn encode(mut words: Words<'_>) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    match words.bare("a message")? {
        "bytes" => raw(&mut words, &mut out)?,
        "Query" => Query { text: &words.text("the query")? }.encode(&mut out),
        "Parse" => parse(&mut words, &mut out)?,
        "Bind" => bind(&mut words, &mut out),
        "Describe" => {
            let (target, name) = target(&mut words);
            Describe { target, name: &name }.encode(&mut out);
        }
        "Close" => {
            let (target, name) = target(&mut words);
            Close { target, name: &name }.encode(&mut out);
        }
        "Execute" => {
            let rows_max = if words.eat("rows") { words.number("rows")? } else { 0 };
            Execute { portal: &words.name().unwrap_or_default(), rows_max }.encode(&mut out);
        }
        "Sync" => frontend::encode_sync(&mut out),
        "Flush" => frontend::encode_flush(&mut out),
        "Terminate" => frontend::encode_terminate(&mut out),
        "CopyData" => frontend::encode_copy_data(&mut out, &words.text("the data")?),
        "CopyDone" => frontend::encode_copy_done(&mut out),
        "CopyFail" => CopyFail { message: &words.text("the reason")? }.encode(&mut out),
        "FunctionCall" => function_call(&mut words, &mut out)?,
        "Password" => frontend::Password { password: &words.text("the password")? }.encode(&mut out),
        "SASLInitialResponse" => {
            let mechanism = words.text("the mechanism")?;
            let response = words.text("the response")?;
            frontend::SaslInitial { mechanism: &mechanism, response: Some(&response) }.encode(&mut out);
        }
        "SASLResponse" | "GSSResponse" => {
            frontend::SaslResponse { response: &words.text("the response")? }.encode(&mut out)
        }
        "SSLRequest" => frontend::encode_ssl_request(&mut out),
        "GSSENCRequest" => frontend::encode_gss_request(&mut out),
        "StartupMessage" => startup(&mut words, &mut out)?,
        "CancelRequest" => {
            let pid = words.number("the pid")?;
            let secret: i32 = words.number("the secret")?;
            frontend::CancelRequest { pid, secret: &secret.to_be_bytes() }.encode(&mut out);
        }
        other => return Err(format!("'{other}' is no message of a client's")),
    }
    words.end()?;
    Ok(out)
}

/// `bytes 51 00 00 00 04`
pub(crate) fn raw(words: &mut Words<'_>, out: &mut Vec<u8>) -> Result<(), String> {
    while !words.is_empty() {
        if words.eat("and") {
            out.extend(words.text("bytes")?);
            continue;
        }
        let byte = words.bare("a byte")?;
        out.push(u8::from_str_radix(byte, 16).map_err(|_| format!("'{byte}' is no byte"))?);
    }
    Ok(())
}

fn target(words: &mut Words<'_>) -> (Target, Vec<u8>) {
    let target = if words.eat("portal") { Target::Portal } else { Target::Statement };
    (target, words.name().unwrap_or_default())
}

/// `Parse s1 "select $1" 23`: a name, if any, the text, and the types' oids.
fn parse(words: &mut Words<'_>, out: &mut Vec<u8>) -> Result<(), String> {
    let unnamed = words.rest().first().is_some_and(|word| word.quoted || word.text.starts_with(b"x*"));
    let name = if unnamed { Vec::new() } else { words.name().unwrap_or_default() };
    let query = words.text("the query")?;
    let mut oids = Vec::new();
    let mut count: u16 = 0;
    while !words.is_empty() {
        oids.extend_from_slice(&words.number::<u32>("an oid")?.to_be_bytes());
        count += 1;
    }
    let types = [&count.to_be_bytes()[..], &oids].concat();
    Parse { name: &name, query: &query, types: &types }.encode(out);
    Ok(())
}

/// `Bind s1 "a" null`; `Bind portal p s1`; names first, then values.
fn bind(words: &mut Words<'_>, out: &mut Vec<u8>) {
    let portal = if words.eat("portal") { words.name().unwrap_or_default() } else { Vec::new() };
    let is_value = |word: &Word| word.quoted || word.text == b"null" || word.text.starts_with(b"x*");
    let unnamed = words.rest().first().is_none_or(is_value);
    let statement = if unnamed { Vec::new() } else { words.name().unwrap_or_default() };
    let mut values: Vec<Option<Vec<u8>>> = Vec::new();
    while !words.is_empty() {
        values.push(if words.eat("null") { None } else { words.text("a value").ok() });
    }
    Bind::encode(out, &portal, &statement, values.iter().map(Option::as_deref));
}

/// `FunctionCall 1598 "argument"`, all of it text.
fn function_call(words: &mut Words<'_>, out: &mut Vec<u8>) -> Result<(), String> {
    let oid: u32 = words.number("the function's oid")?;
    let mut arguments = Vec::new();
    while !words.is_empty() {
        arguments.push(words.text("an argument")?);
    }
    wire::message(out, tag::FUNCTION_CALL, |out| {
        out.extend_from_slice(&oid.to_be_bytes());
        out.extend_from_slice(&[0, 0]);
        out.extend_from_slice(&(arguments.len() as u16).to_be_bytes());
        for argument in &arguments {
            out.extend_from_slice(&(argument.len() as u32).to_be_bytes());
            out.extend_from_slice(argument);
        }
        out.extend_from_slice(&[0, 0]);
    });
    Ok(())
}

/// `StartupMessage 3.2 user=u database=db`
fn startup(words: &mut Words<'_>, out: &mut Vec<u8>) -> Result<(), String> {
    let mut minor = 0;
    let mut pairs: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    while let Some(word) = words.any() {
        if let Some(version) = word.text.strip_prefix(b"3.") {
            let text = String::from_utf8_lossy(version);
            minor = text.parse().map_err(|_| format!("'{text}' is no version"))?;
            continue;
        }
        let at = word.text.iter().position(|byte| *byte == b'=').ok_or("a startup parameter is name=value")?;
        pairs.push((word.text[..at].to_vec(), word.text[at + 1..].to_vec()));
    }
    let pairs = pairs.iter().map(|(name, value)| (&name[..], &value[..]));
    frontend::encode_startup_version(out, minor, pairs);
    Ok(())
}

/// What a server was sent before its login began: no tag, see `wire::frontend::startup`.
pub(crate) fn show_startup(bytes: &[u8]) -> Option<(String, usize)> {
    let (startup, used) = frontend::parse_startup(bytes).ok()??;
    let text = match startup {
        Startup::Ssl => "SSLRequest".to_owned(),
        Startup::GssEnc => "GSSENCRequest".to_owned(),
        Startup::Cancel(request) => {
            let secret = request.secret.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            format!("CancelRequest {} {secret}", request.pid)
        }
        Startup::Start(message) => {
            let mut text = format!("StartupMessage 3.{}", message.minor);
            for (name, value) in message.parameters() {
                text += &format!(" {}={}", String::from_utf8_lossy(name), String::from_utf8_lossy(value));
            }
            text
        }
    };
    Some((text, used))
}

fn word(name: &[u8]) -> String {
    if name.is_empty() {
        return String::new();
    }
    match name.len() {
        0..=60 => format!(" {}", String::from_utf8_lossy(name)),
        len => format!(" <a name of {len} bytes>"),
    }
}

/// A whole message as text; the names that servers know statements by come out as they are.
pub(crate) fn show_message(tag: u8, body: &[u8]) -> String {
    let shown = match tag {
        tag::QUERY => Query::decode(body).ok().map(|query| format!("Query {}", show(query.text))),
        tag::PARSE => Parse::decode(body).ok().map(|parse| {
            let oids: String = parse.type_oids().map(|oid| format!(" {oid}")).collect();
            format!("Parse{} {}{oids}", word(parse.name), show(parse.query))
        }),
        tag::BIND => show_bind(body),
        tag::DESCRIBE => Describe::decode(body).ok().map(|it| format!("Describe{}", show_target(it.target, it.name))),
        tag::CLOSE => Close::decode(body).ok().map(|it| format!("Close{}", show_target(it.target, it.name))),
        tag::EXECUTE => Execute::decode(body).ok().map(|it| match it.rows_max {
            0 => format!("Execute{}", word(it.portal)),
            rows => format!("Execute rows {rows}{}", word(it.portal)),
        }),
        tag::COPY_FAIL => CopyFail::decode(body).ok().map(|it| format!("CopyFail {}", show(it.message))),
        tag::COPY_DATA => Some(format!("CopyData {}", show(body))),
        tag::PASSWORD if body.starts_with(b"SCRAM-SHA-256-PLUS\0") => Some("SASLInitialResponse, bound".to_owned()),
        tag::PASSWORD if body.starts_with(b"SCRAM-SHA-256\0") => {
            let knows_how = body.get(18).is_some_and(|&flag| flag == b'y');
            Some(if knows_how { "SASLInitialResponse, not bound" } else { "SASLInitialResponse" }.to_owned())
        }
        tag::PASSWORD if body.starts_with(b"c=") => Some("SASLResponse".to_owned()),
        tag::PASSWORD => Some(format!("Password {}", show(body.strip_suffix(b"\0").unwrap_or(body)))),
        tag::FUNCTION_CALL => Some(format!("FunctionCall <{} bytes>", body.len())),
        tag::SYNC if body.is_empty() => Some("Sync".to_owned()),
        tag::FLUSH if body.is_empty() => Some("Flush".to_owned()),
        tag::TERMINATE if body.is_empty() => Some("Terminate".to_owned()),
        tag::COPY_DONE if body.is_empty() => Some("CopyDone".to_owned()),
        _ => None,
    };
    shown.unwrap_or_else(|| format!("{} {}", name(tag), show(body)))
}

fn show_target(target: Target, name: &[u8]) -> String {
    match target {
        Target::Portal => format!(" portal{}", word(name)),
        Target::Statement => word(name),
    }
}

fn show_bind(body: &[u8]) -> Option<String> {
    let names = BindNames::decode(body)?;
    let portal = if names.portal.is_empty() { String::new() } else { format!(" portal{}", word(names.portal)) };
    let mut text = format!("Bind{portal}{}", word(names.statement));
    // Only what the transcripts themselves write: no formats, then the values.
    let mut rest = body.get(names.len..)?.strip_prefix(&[0, 0])?;
    let count = u16::from_be_bytes(*rest.first_chunk::<2>()?);
    rest = &rest[2..];
    for _ in 0..count {
        let len = i32::from_be_bytes(*rest.first_chunk::<4>()?);
        rest = &rest[4..];
        let Ok(len) = usize::try_from(len) else {
            text += " null";
            continue;
        };
        text += &format!(" {}", show(rest.get(..len)?));
        rest = &rest[len..];
    }
    Some(text)
}

/// What a message is called while it is not whole.
pub(crate) fn name(tag: u8) -> String {
    let known = match tag {
        tag::QUERY => "Query",
        tag::PARSE => "Parse",
        tag::BIND => "Bind",
        tag::DESCRIBE => "Describe",
        tag::CLOSE => "Close",
        tag::EXECUTE => "Execute",
        tag::SYNC => "Sync",
        tag::FLUSH => "Flush",
        tag::COPY_DATA => "CopyData",
        tag::COPY_DONE => "CopyDone",
        tag::COPY_FAIL => "CopyFail",
        tag::FUNCTION_CALL => "FunctionCall",
        tag::PASSWORD => "Password",
        tag::TERMINATE => "Terminate",
        other => return format!("message '{}'", other.escape_ascii()),
    };
    known.to_owned()
}
