//! Sessions of the admin database: what they type goes to the control plane, one command at a time.
//!
//! //= pgbouncer usage.md#admin-console

use link::ending::{Ending, checked_header};
use link::session::State;
use machine::Turn;
use machine::action::{Action, Question};
use machine::arrival::ConsoleRights;
use machine::pids::virtual_pid;
use units::{ConnId, limits};
use wire::backend::{Authentication, BackendKeyData, ErrorResponse, ParameterStatus, Status};
use wire::frontend::{Query, tag};
use wire::{HEADER_LEN, backend, sqlstate};

use crate::Worker;

/// What a console client is told about its "server"; the version is the one that tools look for.
const PARAMETERS: [(&str, &str); 7] = [
    ("server_version", "1.25.2/bouncer"),
    ("client_encoding", "UTF8"),
    ("server_encoding", "UTF8"),
    ("DateStyle", "ISO"),
    ("TimeZone", "GMT"),
    ("standard_conforming_strings", "on"),
    ("is_superuser", "on"),
];

impl Worker {
    pub(super) fn welcome_to_console(&mut self, turn: &mut Turn<'_>, conn: ConnId) {
        let Some(session) = self.sessions.get(conn) else { return };
        let secret = session.secret;
        turn.actions.send_new(conn, |out| {
            Authentication::Ok.encode(out);
            for (name, value) in PARAMETERS {
                ParameterStatus { name: name.as_bytes(), value: value.as_bytes() }.encode(out);
            }
            BackendKeyData { pid: virtual_pid(conn), secret: &secret.to_be_bytes() }.encode(out);
            backend::encode_ready(out, Status::Idle);
        });
        self.console_received(turn, conn);
    }

    /// Looks at what a console client has sent, unless it still waits for an answer.
    pub(super) fn console_received(&mut self, turn: &mut Turn<'_>, conn: ConnId) {
        loop {
            let Some(session) = self.sessions.get_mut(conn) else { return };
            let State::Console { rights, asked: false } = session.state else { return };
            if !session.flow.is_clear() {
                // Who does not take an answer gets no other (I10).
                return;
            }
            let header = match checked_header(&session.incoming.inbox) {
                Ok(Some(header)) => header,
                Ok(None) => return,
                Err(Ending::Refuse(code, text)) => return self.refuse_session(turn, conn, code, &text),
                Err(Ending::Terminate) => return,
            };
            if header.total_len() > limits::CHUNK_LEN_MAX {
                return self.refuse_session(turn, conn, sqlstate::PROTOCOL_VIOLATION, "console command is too long");
            }
            if session.incoming.inbox.len() < header.total_len() {
                return;
            }
            let message: Vec<u8> = session.incoming.inbox.drain(..header.total_len()).collect();
            match header.tag {
                tag::QUERY => self.ask_control(turn, conn, rights, &message[HEADER_LEN..]),
                tag::TERMINATE => return self.client_left(turn, conn, "client close request"),
                tag::SYNC => turn.actions.send_new(conn, |out| backend::encode_ready(out, Status::Idle)),
                tag::FLUSH | tag::COPY_DATA | tag::COPY_DONE | tag::COPY_FAIL => {}
                _ => return self.refuse_extended(turn, conn),
            }
        }
    }

    fn ask_control(&mut self, turn: &mut Turn<'_>, conn: ConnId, rights: ConsoleRights, body: &[u8]) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        let text = match Query::decode(body) {
            Ok(query) => query.text.to_vec(),
            Err(error) => return self.refuse_session(turn, conn, sqlstate::PROTOCOL_VIOLATION, &error.to_string()),
        };
        session.state = State::Console { rights, asked: true };
        session.request_at = turn.now;
        let question = Question { text, user: session.identity.user.clone(), admin: rights == ConsoleRights::Admin };
        turn.actions.push(Action::AskControl { conn, question });
    }

    fn refuse_extended(&mut self, turn: &mut Turn<'_>, conn: ConnId) {
        let error = ErrorResponse {
            severity: "ERROR",
            code: sqlstate::PROTOCOL_VIOLATION,
            message: "extended query protocol not supported by admin console",
            detail: None,
            hint: None,
        };
        turn.actions.send_new(conn, |out| error.encode(out));
        self.dismiss(turn, conn, "extended query protocol not supported by admin console");
    }

    /// The control plane's reply.
    pub(super) fn console_answered(&mut self, turn: &mut Turn<'_>, conn: ConnId, bytes: &[u8], close: bool) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        let State::Console { rights, asked: true } = session.state else { return };
        session.state = State::Console { rights, asked: false };
        turn.actions.send_new(conn, |out| out.extend_from_slice(bytes));
        if close {
            self.dismiss(turn, conn, "console closed");
        } else {
            // Whether the socket took it shows only after this step.
            self.agenda.go_on_at_console(conn);
        }
    }

    /// The end of a round: whoever has taken its answer is heard again.
    pub(super) fn go_on_at_console(&mut self, turn: &mut Turn<'_>) {
        while let Some(conn) = self.agenda.next_at_console() {
            self.console_received(turn, conn);
            self.balance_if_paused(turn, conn);
        }
    }
}
