//! Sessions of the admin database: their commands go to the control plane, one at a time.
//!
//! //= pgbouncer usage.md#admin-console

use std::sync::Arc;

use link::ending::{Ending, checked_header};
use link::session::State;
use machine::Step;
use machine::action::{Action, Question};
use machine::arrival::ConsoleRights;
use machine::pids::virtual_pid;
use units::{ConnId, limits};
use wire::backend::{Authentication, BackendKeyData, ErrorResponse, ParameterStatus, Status};
use wire::frontend::{Query, tag};
use wire::{HEADER_LEN, backend, sqlstate};

use crate::tables::followups::SessionEnd;
use crate::tables::{Tables, backpressure};

/// The ParameterStatus messages of the console. The version is the one that tools look for.
const PARAMETERS: [(&str, &str); 7] = [
    ("server_version", "1.25.2/bouncer"),
    ("client_encoding", "UTF8"),
    ("server_encoding", "UTF8"),
    ("DateStyle", "ISO"),
    ("TimeZone", "GMT"),
    ("standard_conforming_strings", "on"),
    ("is_superuser", "on"),
];

pub(crate) fn welcome_to_console(tables: &mut Tables, step: &mut Step<'_>, conn: ConnId) {
    let session = &tables.sessions[conn];
    let identity = Arc::clone(&session.identity);
    step.actions.send_new(conn, |out| {
        Authentication::Ok.encode(out);
        for (name, value) in PARAMETERS {
            ParameterStatus { name: name.as_bytes(), value: value.as_bytes() }.encode(out);
        }
        BackendKeyData { pid: virtual_pid(conn), secret: identity.cancel_secret.bytes() }.encode(out);
        backend::encode_ready(out, Status::Idle);
    });
    console_received(tables, step, conn);
}

/// Reads what a console client has sent, unless it still waits for an answer.
pub(crate) fn console_received(tables: &mut Tables, step: &mut Step<'_>, conn: ConnId) {
    loop {
        // It may have ended meanwhile.
        let Some(session) = tables.sessions.get_mut(conn) else { return };
        // It waits for an answer, or is ending.
        let State::Console { rights, asked: false } = session.state() else { return };
        if !session.flow.is_clear() {
            // A client that does not read an answer gets no other (I10).
            return;
        }
        let header = match checked_header(&session.incoming.inbox) {
            Ok(Some(header)) => header,
            Ok(None) => return,
            Err(Ending::Refuse(code, text)) => return tables.agenda.refuse(conn, code, &text),
            Err(Ending::Terminate) => return,
        };
        if header.total_len() > limits::CHUNK_LEN_MAX {
            return tables.agenda.refuse(conn, sqlstate::PROTOCOL_VIOLATION, "console command is too long");
        }
        if session.incoming.inbox.len() < header.total_len() {
            return;
        }
        let message: Vec<u8> = session.incoming.inbox.drain(..header.total_len()).collect();
        match header.tag {
            tag::QUERY => return run_command(tables, step, conn, rights, &message[HEADER_LEN..]),
            tag::TERMINATE => return tables.agenda.end(conn, SessionEnd::Left("client close request")),
            tag::SYNC => step.actions.send_new(conn, |out| backend::encode_ready(out, Status::Idle)),
            tag::FLUSH | tag::COPY_DATA | tag::COPY_DONE | tag::COPY_FAIL => {}
            _ => return refuse_extended(tables, step, conn),
        }
    }
}

/// Sends a command to the control plane. Nothing after it is read until it is answered.
fn run_command(tables: &mut Tables, step: &mut Step<'_>, conn: ConnId, rights: ConsoleRights, body: &[u8]) {
    let session = &mut tables.sessions[conn];
    let text = match Query::decode(body) {
        Ok(query) => query.text.to_vec(),
        Err(error) => return tables.agenda.refuse(conn, sqlstate::PROTOCOL_VIOLATION, &error.to_string()),
    };
    session.ask(rights, true);
    session.request_at = step.now;
    let question = Question { text, user: session.identity.user.clone(), admin: rights == ConsoleRights::Admin };
    step.actions.push(Action::AskControl { conn, question });
}

fn refuse_extended(tables: &mut Tables, step: &mut Step<'_>, conn: ConnId) {
    let error = ErrorResponse {
        severity: "ERROR",
        code: sqlstate::PROTOCOL_VIOLATION,
        message: "extended query protocol not supported by admin console",
        detail: None,
        hint: None,
    };
    step.actions.send_new(conn, |out| error.encode(out));
    tables.agenda.end(conn, SessionEnd::Dismissed("extended query protocol not supported by admin console".to_owned()));
}

/// The control plane's answer.
pub(crate) fn console_answered(tables: &mut Tables, step: &mut Step<'_>, conn: ConnId, bytes: &[u8], close: bool) {
    // It may have ended since it asked, or be ending.
    let Some(session) = tables.sessions.get_mut(conn) else { return };
    let State::Console { rights, asked: true } = session.state() else { return };
    session.ask(rights, false);
    step.actions.send_new(conn, |out| out.extend_from_slice(bytes));
    if close {
        tables.agenda.end(conn, SessionEnd::Dismissed("console closed".to_owned()));
    } else {
        // Whether the socket took all of it is known only after this step.
        tables.agenda.go_on_at_console(conn);
    }
}

/// The end of a round: a client that has taken its answer is read again.
pub(crate) fn go_on_at_console(tables: &mut Tables, step: &mut Step<'_>) {
    while let Some(conn) = tables.agenda.next_at_console() {
        console_received(tables, step, conn);
        backpressure::balance_if_paused(tables, step, conn);
    }
}
