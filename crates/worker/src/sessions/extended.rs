//! The extended query protocol at the console, which PgBouncer has not, and most drivers need.
//!
//! ```text
//!   Parse ─► control: is it a command? ─► ParseComplete       Describe ─► control: which columns?
//!   Bind ─► BindComplete                                      Execute ─► control: rows ─► as many as are asked for, the rest is kept
//! ```
//!
//! Promises PostgreSQL's order of messages, that an error skips all up to Sync, and that a command is run once for each portal. Parameters
//! are counted and not read, as no command has any. Asks one question at a time: what comes behind waits, as behind a simple query.
//= pg18 protocol-flow#PROTOCOL-FLOW-EXT-QUERY

use std::sync::Arc;

use machine::Manner;
use machine::arrival::ConsoleRights;
use units::ConnId;
use wire::backend::{ErrorResponse, tag as backend_tag};
use wire::frontend::{BindNames, BindResults, Close, Describe, Execute, Parse, Target, tag};
use wire::{Error, HEADER_LEN, Header, backend, sqlstate};

use crate::sessions::questions::ask;
use crate::tables::consoles::{Awaited, Console, Portal, Reading, Rows, Statement};
use crate::tables::owners::Sessions;
use crate::tables::step::Step;

/// What the client keeps would be too much.
const NO_ROOM: &str =
    "too much is kept by this client of the admin console: close statements and portals, or fetch fewer rows";

/// What comes of a message.
enum Reaction {
    /// Done, with these bytes for the client.
    Tell(Vec<u8>),
    /// To be asked first.
    Ask(Awaited, Arc<[u8]>, Manner),
    Fail(String),
}

use Reaction::{Ask, Fail, Tell};

pub(super) fn error(message: &str, out: &mut Vec<u8>) {
    ErrorResponse { severity: "ERROR", code: sqlstate::PROTOCOL_VIOLATION, message, detail: None, hint: None }
        .encode(out);
}

/// Handles a message: its tag, and its body.
pub(super) fn received(
    sessions: &mut Sessions,
    step: &mut Step<'_>,
    conn: ConnId,
    rights: ConsoleRights,
    (tag, body): (u8, &[u8]),
) -> Result<(), Error> {
    let console = sessions.consoles.of(conn);
    let reaction = match tag {
        tag::PARSE => parse(console, Parse::decode(body)?),
        tag::BIND => bind(console, body)?,
        tag::DESCRIBE => describe(console, Describe::decode(body)?),
        tag::EXECUTE => execute(console, Execute::decode(body)?),
        tag::CLOSE => close(console, Close::decode(body)?),
        _ => return Err(Error::BadValue("not a message for the admin console")),
    };
    match reaction {
        Tell(bytes) => step.actions.send_new(conn, |out| out.extend_from_slice(&bytes)),
        Ask(awaited, text, manner) => {
            console.awaited = awaited;
            ask(sessions, step, conn, rights, (text.to_vec(), manner));
        }
        Fail(message) => {
            console.reading = Reading::UntilSync;
            step.actions.send_new(conn, |out| error(&message, out));
        }
    }
    Ok(())
}

fn parse(console: &Console, Parse { name, query, .. }: Parse<'_>) -> Reaction {
    if !name.is_empty() && console.statement(name).is_some() {
        return Fail(format!("prepared statement \"{}\" already exists", shown(name)));
    }
    if !console.has_room(name.len() + query.len()) {
        return Fail(NO_ROOM.to_owned());
    }
    let text: Arc<[u8]> = query.into();
    let awaited = Awaited::Parse { name: name.into(), text: Arc::clone(&text) };
    Ask(awaited, text, Manner::Describe { formats: Box::default() })
}

fn bind(console: &mut Console, body: &[u8]) -> Result<Reaction, Error> {
    let names = BindNames::decode(body).ok_or(Error::MissingTerminator)?;
    let results = BindResults::decode(&body[names.len..])?;
    let Some(statement) = console.statement(names.statement).cloned() else {
        return Ok(Fail(unknown_statement(names.statement)));
    };
    if results.parameters != statement.parameters {
        let (found, name, wanted) = (results.parameters, shown(names.statement), statement.parameters);
        let text =
            format!("bind message supplies {found} parameters, but prepared statement \"{name}\" requires {wanted}");
        return Ok(Fail(text));
    }
    let given: Vec<u16> = results.formats().collect();
    if let Some(code) = given.iter().find(|code| **code > 1) {
        return Ok(Fail(format!("unsupported format code: {code}")));
    }
    let columns = usize::from(statement.columns);
    let formats: Box<[u16]> = match *given {
        [] => vec![0; columns].into(),
        [all] => vec![all; columns].into(),
        _ if given.len() == columns => given.into(),
        _ => {
            let found = given.len();
            return Ok(Fail(format!("bind message has {found} result formats but query has {columns} columns")));
        }
    };
    if names.portal.is_empty() {
        console.close_portal(b"");
    } else if console.portal(names.portal).is_some() {
        return Ok(Fail(format!("cursor \"{}\" already exists", shown(names.portal))));
    }
    let len = names.portal.len() + names.statement.len() + statement.text.len() + size_of_val(&*formats);
    if !console.has_room(len) {
        return Ok(Fail(NO_ROOM.to_owned()));
    }
    let portal = Portal { statement: names.statement.into(), text: statement.text, formats, rows: Rows::New };
    console.open_portal(names.portal.into(), portal);
    Ok(told(backend::encode_bind_complete))
}

fn describe(console: &mut Console, Describe { target, name }: Describe<'_>) -> Reaction {
    match target {
        Target::Statement => match console.statement(name) {
            Some(statement) => {
                let manner = Manner::Describe { formats: Box::default() };
                Ask(Awaited::DescribeStatement, Arc::clone(&statement.text), manner)
            }
            None => Fail(unknown_statement(name)),
        },
        Target::Portal => match console.portal(name) {
            Some(portal) => {
                let manner = Manner::Describe { formats: portal.formats.clone() };
                Ask(Awaited::DescribePortal, Arc::clone(&portal.text), manner)
            }
            None => Fail(unknown_portal(name)),
        },
    }
}

fn execute(console: &mut Console, Execute { portal: name, rows_max }: Execute<'_>) -> Reaction {
    let rows_max = usize::try_from(rows_max).ok().filter(|rows| *rows > 0).unwrap_or(usize::MAX);
    let Some(portal) = console.portal(name) else { return Fail(unknown_portal(name)) };
    match &portal.rows {
        Rows::New => {
            let awaited = Awaited::Execute { portal: name.into(), rows_max };
            Ask(awaited, Arc::clone(&portal.text), Manner::Execute { formats: portal.formats.clone() })
        }
        Rows::Suspended { .. } => Tell(fetch(portal, rows_max)),
        Rows::Done => Fail(format!("portal \"{}\" cannot be run", shown(name))),
    }
}

/// Closing what is not there is no error.
fn close(console: &mut Console, Close { target, name }: Close<'_>) -> Reaction {
    match target {
        Target::Statement => console.close_statement(name),
        Target::Portal => console.close_portal(name),
    }
    told(backend::encode_close_complete)
}

/// The answer to what was asked, without its ReadyForQuery.
pub(super) fn answered(sessions: &mut Sessions, step: &mut Step<'_>, conn: ConnId, awaited: Awaited, messages: &[u8]) {
    let console = sessions.consoles.of(conn);
    let is_error = Header::parse(messages).ok().flatten().is_some_and(|header| header.tag == backend_tag::ERROR);
    if is_error {
        console.reading = Reading::UntilSync;
        return step.actions.send_new(conn, |out| out.extend_from_slice(messages));
    }
    let (parameters, description) = divided(messages);
    let reaction = match awaited {
        Awaited::Query => Tell(messages.to_vec()),
        Awaited::DescribePortal => Tell(description.to_vec()),
        Awaited::Parse { name, text } => {
            let (columns, parameters) = (columns(description), count(parameters));
            console.prepare(name, Statement { text, columns, parameters });
            told(backend::encode_parse_complete)
        }
        Awaited::DescribeStatement => {
            let mut out = Vec::with_capacity(messages.len() + 16);
            if parameters.is_empty() {
                backend::encode_parameter_description(&mut out, &[]);
            }
            out.extend_from_slice(messages);
            Tell(out)
        }
        Awaited::Execute { portal, rows_max } => executed(console, &portal, rows_max, messages),
    };
    match reaction {
        Tell(bytes) => step.actions.send_new(conn, |out| out.extend_from_slice(&bytes)),
        Fail(message) => {
            console.reading = Reading::UntilSync;
            step.actions.send_new(conn, |out| error(&message, out));
        }
        Ask(..) => unreachable!("an answer leads to no question"),
    }
}

fn executed(console: &mut Console, name: &[u8], rows_max: usize, messages: &[u8]) -> Reaction {
    let (end, is_over) = some_rows(messages, rows_max);
    let has_room = console.has_room(messages.len());
    let portal = console.portal(name).expect("nothing was read since it was executed");
    if is_over {
        portal.rows = Rows::Done;
        return Tell(messages.to_vec());
    }
    if !has_room {
        portal.rows = Rows::Done;
        return Fail(NO_ROOM.to_owned());
    }
    portal.rows = Rows::Suspended { answer: messages.to_vec(), at: end };
    let mut out = messages[..end].to_vec();
    backend::encode_portal_suspended(&mut out);
    Tell(out)
}

/// The next rows of a suspended portal.
fn fetch(portal: &mut Portal, rows_max: usize) -> Vec<u8> {
    let Rows::Suspended { answer, at } = &mut portal.rows else { return Vec::new() };
    let (len, is_over) = some_rows(&answer[*at..], rows_max);
    let mut out = answer[*at..*at + len].to_vec();
    *at += len;
    if is_over {
        portal.rows = Rows::Done;
    } else {
        backend::encode_portal_suspended(&mut out);
    }
    out
}

/// The length of so many rows, or of all, and whether the end of the answer is among them. As in PostgreSQL it is not if the last row is the
/// last one that was asked for.
fn some_rows(messages: &[u8], rows_max: usize) -> (usize, bool) {
    let (mut at, mut rows) = (0, 0);
    while let Some(rest) = messages.get(at..)
        && let Ok(Some(header)) = Header::parse(rest)
    {
        if rows == rows_max {
            return (at, false);
        }
        rows += usize::from(header.tag == backend_tag::DATA_ROW);
        at += header.total_len();
    }
    (messages.len(), true)
}

/// The description of the parameters, which is there if there are any, and the rest.
fn divided(messages: &[u8]) -> (&[u8], &[u8]) {
    match Header::parse(messages) {
        Ok(Some(header)) if header.tag == backend_tag::PARAMETER_DESCRIPTION => messages.split_at(header.total_len()),
        _ => (&[], messages),
    }
}

/// How many columns a description has.
fn columns(description: &[u8]) -> u16 {
    match Header::parse(description) {
        Ok(Some(header)) if header.tag == backend_tag::ROW_DESCRIPTION => count(description),
        _ => 0,
    }
}

/// The number with which the body of a description begins; 0 if there is none.
fn count(description: &[u8]) -> u16 {
    let body = description.get(HEADER_LEN..).unwrap_or_default();
    body.first_chunk().map(|count| u16::from_be_bytes(*count)).unwrap_or_default()
}

fn told(encode: fn(&mut Vec<u8>)) -> Reaction {
    let mut out = Vec::new();
    encode(&mut out);
    Tell(out)
}

fn unknown_statement(name: &[u8]) -> String {
    match name {
        b"" => "unnamed prepared statement does not exist".to_owned(),
        name => format!("prepared statement \"{}\" does not exist", shown(name)),
    }
}

fn unknown_portal(name: &[u8]) -> String {
    format!("portal \"{}\" does not exist", shown(name))
}

/// A name as an error repeats it.
fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use units::limits::CONSOLE_KEPT_MAX;

    use super::*;

    fn failure(reaction: Reaction) -> Option<String> {
        match reaction {
            Fail(message) => Some(message),
            Tell(_) | Ask(..) => None,
        }
    }

    /// Parse, and the control plane's answer that it is a command of two columns.
    fn prepare(console: &mut Console, name: &[u8], text: &[u8]) -> Option<String> {
        match parse(console, Parse { name, query: text, types: Parse::NO_TYPES }) {
            Ask(Awaited::Parse { name, text }, ..) => {
                console.prepare(name, Statement { text, columns: 2, parameters: 0 });
                None
            }
            other => failure(other),
        }
    }

    fn open(console: &mut Console, portal: &[u8], statement: &[u8]) -> Option<String> {
        let mut message = Vec::new();
        wire::frontend::Bind::encode(&mut message, portal, statement, []);
        failure(bind(console, &message[HEADER_LEN..]).expect("it is sound"))
    }

    fn answer(rows: usize, len: usize) -> Vec<u8> {
        let (mut out, value) = (Vec::new(), vec![b'x'; len]);
        for _ in 0..rows {
            backend::encode_data_row(&mut out, [Some(&value[..]), None]);
        }
        backend::encode_command_complete(&mut out, "SHOW");
        out
    }

    #[test]
    fn statements_and_portals_have_a_bound_together() {
        let mut console = Console::default();
        let text = vec![b'x'; 60_000];
        let mut kept = 0;
        while prepare(&mut console, format!("s{kept}").as_bytes(), &text).is_none() {
            kept += 1;
            assert!(console.weight() <= CONSOLE_KEPT_MAX);
        }
        assert_eq!(kept, CONSOLE_KEPT_MAX / (60_000 + 256 + 3));
        assert_eq!(open(&mut console, b"p", b"s0").as_deref(), Some(NO_ROOM));
        console.close_statement(b"s1");
        assert_eq!(open(&mut console, b"p", b"s0"), None, "there is room again");
        assert_eq!(open(&mut console, b"q", b"s0").as_deref(), Some(NO_ROOM));
        console.end_batch();
        assert_eq!(open(&mut console, b"q", b"s0"), None, "Sync closes portals");
        // Names weigh as well.
        let mut names = 0;
        let mut console = Console::default();
        while prepare(&mut console, format!("{names}").as_bytes(), b"").is_none() {
            names += 1;
        }
        assert!((10_000..=CONSOLE_KEPT_MAX / 256).contains(&names), "{names} statements without a text");
    }

    #[test]
    fn rows_that_were_not_fetched_have_the_same_bound() {
        let mut console = Console::default();
        assert_eq!(prepare(&mut console, b"", b"show clients"), None);
        let long = answer(3, CONSOLE_KEPT_MAX / 3);
        assert_eq!(open(&mut console, b"", b""), None);
        let Fail(message) = executed(&mut console, b"", 1, &long) else { panic!("it does not fit") };
        assert_eq!(message, NO_ROOM);
        assert!(console.weight() < 1024, "nothing of it is kept");
        assert_eq!(open(&mut console, b"", b""), None);
        // All at once is no question of what is kept.
        let Tell(all) = executed(&mut console, b"", usize::MAX, &long) else { panic!("it is sent") };
        assert_eq!(all, long);
        let short = answer(3, 1000);
        assert_eq!(open(&mut console, b"", b""), None);
        let Tell(first) = executed(&mut console, b"", 1, &short) else { panic!("it fits") };
        assert!(console.weight() > short.len(), "the rest is counted");
        let Tell(rest) = execute(&mut console, Execute { portal: b"", rows_max: 0 }) else { panic!("it is there") };
        assert_eq!([&first[..first.len() - 5], &rest].concat(), short, "each row once");
        assert!(console.weight() < 1024, "and nothing is kept of it");
    }
}
