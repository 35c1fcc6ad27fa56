//! Sessions of the admin database: their commands go to the control plane, one at a time.
//!
//! //= pgbouncer usage.md#admin-console

use std::sync::Arc;

use connections::databases::CONSOLE_PARAMETERS;
use link::end_reason::EndReason;
use link::ending::{Ending, checked_header};
use link::session::SessionState;
use machine::Manner;
use machine::arrival::ConsoleRights;
use units::{ConnId, limits};
use wire::backend::{Authentication, BackendKeyData, CommandComplete, ParameterStatus, Status};
use wire::frontend::{Query, tag};
use wire::{Error, HEADER_LEN, Header, backend, sqlstate};

use crate::sessions::extended;
use crate::sessions::questions::ask;
use crate::tables::backpressure;
use crate::tables::consoles::{Awaited, Block, Reading};
use crate::tables::followups::SessionEnd;
use crate::tables::owners::{Servers, Sessions};
use crate::tables::step::Step;

pub(crate) fn welcome_to_console(sessions: &mut Sessions, step: &mut Step<'_>, conn: ConnId) {
    sessions.console_logins += 1;
    let session = &sessions[conn];
    let identity = Arc::clone(session.identity());
    step.actions.send_new(conn, |out| {
        Authentication::Ok.encode(out);
        for (name, value) in CONSOLE_PARAMETERS {
            ParameterStatus { name: name.as_bytes(), value: value.as_bytes() }.encode(out);
        }
        BackendKeyData { pid: identity.pid(conn), secret: identity.cancel_secret.bytes() }.encode(out);
        backend::encode_ready(out, Status::Idle);
    });
    console_received(sessions, step, conn);
}

/// Reads what a console client has sent, unless it still waits for an answer.
pub(crate) fn console_received(sessions: &mut Sessions, step: &mut Step<'_>, conn: ConnId) {
    loop {
        // It may have ended meanwhile.
        let Some(session) = sessions.get_mut(conn) else { return };
        // It waits for an answer, or is ending.
        let SessionState::Console { rights, asked: false } = session.state() else { return };
        if !session.flow().is_clear() {
            // A client that does not read an answer gets no other (I10).
            return;
        }
        let header = match checked_header(session.incoming().inbox()) {
            Ok(Some(header)) => header,
            Ok(None) => return,
            Err(Ending::Refuse(why)) => return step.agenda.refuse(conn, why),
            Err(Ending::Terminate) => return,
        };
        if header.total_len() > limits::CHUNK_LEN_MAX {
            return step.agenda.refuse(conn, EndReason::ConsoleCommandTooLong);
        }
        if session.incoming().inbox().len() < header.total_len() {
            return;
        }
        let message: Vec<u8> = session.incoming_mut().drain(header.total_len()).collect();
        let body = &message[HEADER_LEN..];
        let is_skipping = sessions.consoles.get(conn).is_some_and(|console| console.reading == Reading::UntilSync);
        let read = match header.tag {
            tag::TERMINATE => return step.agenda.end(conn, SessionEnd::Left(EndReason::ClientClosed)),
            tag::SYNC => {
                synced(sessions, step, conn);
                Ok(())
            }
            tag::FLUSH | tag::COPY_DATA | tag::COPY_DONE | tag::COPY_FAIL => Ok(()),
            _ if is_skipping => Ok(()),
            tag::QUERY => run_command(sessions, step, conn, rights, body),
            tag::FUNCTION_CALL => {
                step.actions
                    .send_new(conn, |out| extended::error("function calls are not supported by admin console", out));
                synced(sessions, step, conn);
                Ok(())
            }
            tag => extended::received(sessions, step, conn, rights, (tag, body)),
        };
        if let Err(error) = read {
            return step.agenda.refuse_with(conn, sqlstate::PROTOCOL_VIOLATION, error);
        }
    }
}

/// The end of a batch, and whatever an error in it had skipped.
fn synced(sessions: &mut Sessions, step: &mut Step<'_>, conn: ConnId) {
    if let Some(console) = sessions.consoles.get(conn) {
        console.end_batch();
    }
    let status = sessions.consoles.status(conn);
    step.actions.send_new(conn, |out| backend::encode_ready(out, status));
}

/// Sends a command to the control plane. Nothing after it is read until it is answered.
fn run_command(
    sessions: &mut Sessions,
    step: &mut Step<'_>,
    conn: ConnId,
    rights: ConsoleRights,
    body: &[u8],
) -> Result<(), Error> {
    let text = Query::decode(body)?.text.to_vec();
    if let Some(console) = sessions.consoles.get(conn) {
        console.close_statement(b"");
        console.close_portal(b"");
        console.end_batch();
        console.awaited = Awaited::Query;
    }
    ask(sessions, step, conn, rights, (text, Manner::Query));
    Ok(())
}

/// The control plane's answer.
pub(crate) fn console_answered(sessions: &mut Sessions, step: &mut Step<'_>, conn: ConnId, bytes: &[u8], close: bool) {
    // It may have ended since it asked, or be ending.
    let Some(session) = sessions.get_mut(conn) else { return };
    let SessionState::Console { rights, asked: true } = session.state() else { return };
    session.ask(rights, false);
    answer(sessions, step, conn, bytes);
    if close {
        step.agenda.end(conn, SessionEnd::Dismissed(EndReason::ConsoleClosed));
    } else {
        // Whether the socket took all of it is known only after this step.
        step.agenda.go_on_at_console(conn);
    }
}

/// Passes an answer on, as what it was asked for.
fn answer(sessions: &mut Sessions, step: &mut Step<'_>, conn: ConnId, bytes: &[u8]) {
    let block = block_behind(bytes);
    if block.is_some() || sessions.consoles.get(conn).is_some() {
        let console = sessions.consoles.of(conn);
        console.block = block.unwrap_or(console.block);
    }
    let messages = bytes.strip_suffix(&READY).unwrap_or(bytes);
    let awaited = sessions.consoles.get(conn).map(|console| std::mem::take(&mut console.awaited)).unwrap_or_default();
    if !matches!(awaited, Awaited::Query) {
        return extended::answered(sessions, step, conn, awaited, messages);
    }
    let status = sessions.consoles.status(conn);
    step.actions.send_new(conn, |out| {
        out.extend_from_slice(messages);
        if messages.len() < bytes.len() {
            backend::encode_ready(out, status);
        }
    });
}

/// ReadyForQuery as the control plane ends its answers with: it knows of no block.
const READY: [u8; 6] = [backend::tag::READY_FOR_QUERY, 0, 0, 0, 5, b'I'];

/// The last block that an answer says has begun or ended. A text may have several statements.
fn block_behind(bytes: &[u8]) -> Option<Block> {
    let (mut rest, mut block) = (bytes, None);
    while let Ok(Some(header)) = Header::parse(rest)
        && let Some((message, behind)) = rest.split_at_checked(header.total_len())
    {
        if header.tag == backend::tag::COMMAND_COMPLETE
            && let Ok(complete) = CommandComplete::decode(&message[HEADER_LEN..])
        {
            block = match complete.tag {
                b"BEGIN" | b"START TRANSACTION" => Some(Block::Inside),
                b"COMMIT" | b"ROLLBACK" => Some(Block::Outside),
                _ => block,
            };
        }
        rest = behind;
    }
    block
}

/// The end of a round: a client that has taken its answer is read again.
pub(crate) fn go_on_at_console(sessions: &mut Sessions, servers: &mut Servers, step: &mut Step<'_>) {
    while let Some(conn) = step.agenda.next_at_console() {
        console_received(sessions, step, conn);
        backpressure::balance_if_paused(sessions, servers, step, conn);
    }
}
