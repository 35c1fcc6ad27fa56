//! A named statement has the same parameter types and columns on every server as in its client's first description.
//!
//! ```text
//! the server has it as the client knows it ──► nothing to do: almost every Bind
//! it lacks it ──► prepared with the types it had, described, and compared with what it was
//!   it has it otherwise                      ──► prepared anew, and so on          the client's message waits for the verdict
//!        the same                            ──► the message goes on
//!        other columns                       ──► 0A000, as on a connection of its own
//! the client does not know it yet ──► trial: if it fails, the statement is prepared anew, and the messages are sent again
//! and a trial is not possible ──► prepared anew first
//! ```
//!
//! A batch of more than 64 kB is not kept to be sent again. Statements that return the rows of another one (EXECUTE,
//! FETCH, CALL) are not described.
//!
//! //= pg18 protocol-flow#PROTOCOL-FLOW-EXT-QUERY

use session_state::prepared::{Statement, StatementId, Trial};
use session_state::shape::{Fingerprint, Shape, UNKNOWN};
use units::limits;
use wire::backend::{ErrorResponse, Fields, Status, field, tag};
use wire::frontend::{Describe, Target};
use wire::{frontend, sqlstate};

use crate::answers::Answers;
use crate::large_statements::TOO_LARGE;
use crate::requests::Requests;
use crate::server::{Answerer, Expect, Server};
use crate::session::Session;
use crate::verdict::Verdict;
use crate::{pacing, server_statements};

/// PostgreSQL's error for a statement whose columns have changed.
const CHANGED: &str = "cached plan must not change result type";

/// Whether a message that names a statement can be sent to the server.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Match {
    Yes,
    /// Yes, as this client's trial: an error is not passed on at once.
    Trial,
    /// Not before the server has described it.
    Later,
    /// No: its columns have changed.
    Refused,
}

/// Makes sure that the server has a client's statement, as the client knows it, when it reads the next message, which
/// has `len` bytes.
pub(crate) fn matched(
    requests: &mut Requests<'_>,
    name: &[u8],
    statement: &Statement,
    client_shape: Fingerprint,
    len: usize,
) -> Match {
    let found = requests.link.server.statements.prepared.touch(statement.id);
    if found == Some(client_shape) && client_shape != UNKNOWN {
        return Match::Yes;
    }
    let follows = requests.link.pool.rules.follows()
        && !statement.varies
        && requests.link.server.transaction.status != Status::Failed;
    if (follows || found.is_none()) && pacing::must_pace(requests, statement.len()) {
        return Match::Later;
    }
    match found {
        _ if follows => make_match(requests, name, statement, found, len),
        None => {
            server_statements::prepare_as(requests, statement, false, None);
            Match::Yes
        }
        Some(_) => Match::Yes,
    }
}

#[cold]
fn make_match(
    requests: &mut Requests<'_>,
    name: &[u8],
    statement: &Statement,
    found: Option<Fingerprint>,
    len: usize,
) -> Match {
    let verdict = std::mem::take(&mut requests.link.server.lease.verdict);
    let Some(named) = requests.link.session.statements.names.as_ref().and_then(|names| names.named(name)) else {
        return Match::Yes;
    };
    let is_there = found.is_some();
    let Some(shape) = named.shape().cloned() else {
        if named.shape_requested && is_there {
            return Match::Yes;
        }
        if found.is_some_and(|found| found != UNKNOWN) && may_try(requests.link.server, requests.link.session, len) {
            begin_trial(requests.link.server, requests.link.session, name, statement.id);
            return Match::Trial;
        }
        server_statements::prepare_as(requests, statement, is_there, None);
        describe_for(requests, name, statement);
        return Match::Yes;
    };
    if verdict == Verdict::Differs(statement.id) {
        return Match::Refused;
    }
    server_statements::prepare_as(requests, statement, is_there, shape.types());
    if !is_there && !shape.has_rows() {
        // A statement without result columns never gets any.
        requests.link.server.statements.prepared.set_shape(statement.id, Some(shape));
        return Match::Yes;
    }
    requests.link.server.lease.verdict = Verdict::Pending(shape.fingerprint());
    describe_statement(requests, statement, Expect::Verdict(statement.id));
    requests.actions.send_new(requests.link.server_id, frontend::encode_flush);
    Match::Later
}

/// Asks for the shape of a statement that its client has just prepared, or that was just prepared for it.
pub(crate) fn describe_for(requests: &mut Requests<'_>, name: &[u8], statement: &Statement) {
    if !requests.link.pool.rules.follows() || statement.varies {
        return;
    }
    if let Some(names) = &mut requests.link.session.statements.names {
        names.request_shape(name);
        describe_statement(requests, statement, Expect::Shape(statement.id));
    }
}

fn describe_statement(requests: &mut Requests<'_>, statement: &Statement, expect: Expect) {
    requests.link.server.ledger.sent(Answerer::Prepare, expect);
    requests.stream.flush(requests.link.server_id, requests.actions);
    let describe = Describe { target: Target::Statement, name: &statement.name };
    requests.actions.send_new(requests.link.server_id, |out| describe.encode(out));
}

/// Whether a message can be sent again if it fails: its transaction has not done anything yet.
fn may_try(server: &Server, session: &Session, len: usize) -> bool {
    let ledger = &server.ledger;
    let first = server.transaction.status == Status::Idle && !ledger.owed().awaits_ready() && !ledger.has_run();
    first
        && len <= limits::CHUNK_LEN_MAX
        && session.statements.names.as_ref().is_some_and(|names| names.trial.is_none())
}

fn begin_trial(server: &mut Server, session: &mut Session, name: &[u8], statement: StatementId) {
    let shape = server.statements.prepared.shape(statement).cloned();
    let names = session.statements.names.as_mut().expect("whoever may try has names");
    names.take_for(name, shape);
    names.trial = Some(Box::new(Trial { name: name.into(), bytes: Vec::new() }));
}

/// Keeps a client's message, or a piece of one, that is sent during a trial.
#[inline]
pub(crate) fn keep_for_trial(session: &mut Session, bytes: &[u8]) {
    if let Some(names) = &mut session.statements.names
        && let Some(trial) = &mut names.trial
    {
        if trial.bytes.len() + bytes.len() > limits::CHUNK_LEN_MAX {
            names.trial = None;
        } else {
            trial.bytes.extend_from_slice(bytes);
        }
    }
}

pub(crate) fn is_trying(session: &Session) -> bool {
    session.statements.names.as_ref().is_some_and(|names| names.trial.is_some())
}

/// Makes the server fail instead of running a statement that has changed: its transaction fails, and it skips to Sync,
/// as if it had found the change itself. The server's log shows why.
pub(crate) fn refuse(requests: &mut Requests<'_>, replaced: usize, in_stream: bool) {
    requests.sent(Expect::Refusal);
    let unknown = Describe { target: Target::Statement, name: CHANGED.as_bytes() };
    requests.replace(replaced, in_stream, |out| unknown.encode(out));
}

/// Whether this part of a description is read whole: it is for the pooler, or belongs to a trial.
pub(crate) fn reads_description(server: &Server, message: u8) -> bool {
    let ledger = &server.ledger;
    ledger.front().is_some_and(Expect::is_shape)
        || message == tag::PARAMETER_DESCRIPTION && ledger.front() == Some(Expect::TrialDescribe)
}

/// Notes a part of a description.
pub(crate) fn describes(server: &mut Server, message: u8, body: &[u8]) -> Result<(), wire::Error> {
    match message {
        tag::PARAMETER_DESCRIPTION => server.statements.described.parameters(body),
        _ => server.statements.described.columns(body),
    }
}

/// The next message of an answer passes by length. In a trial, the ParameterDescription goes to the client only when
/// the next message shows that it succeeds: PostgreSQL sends it before it finds that the columns have changed.
pub(crate) fn send_held_description(answers: &mut Answers<'_>, message: u8) {
    if answers.server.ledger.front() != Some(Expect::TrialDescribe) {
        return;
    }
    if message == tag::PARAMETER_DESCRIPTION {
        // It is too long to be kept.
        return tried(answers);
    }
    let held = std::mem::take(&mut answers.server.statements.described).into_types();
    if let (Some(types), Some((conn, _))) = (held, &answers.session) {
        let conn = *conn;
        answers.flush();
        answers
            .actions
            .send_new(conn, |out| wire::message(out, tag::PARAMETER_DESCRIPTION, |out| out.extend_from_slice(&types)));
    }
}

/// A description is complete.
pub(crate) fn described(answers: &mut Answers<'_>, id: StatementId, expect: Expect) {
    let shape = std::mem::take(&mut answers.server.statements.described).finish();
    match (expect, answers.server.lease.verdict) {
        (Expect::Verdict(_), Verdict::Pending(wanted)) => {
            let differs = shape.fingerprint() != wanted;
            answers.server.lease.verdict = if differs { Verdict::Differs(id) } else { Verdict::None };
        }
        (Expect::Verdict(_), _) => {}
        _ => learn(answers, Some((id, &shape))),
    }
    answers.server.statements.prepared.set_shape(id, Some(shape));
}

/// Notes the description of the session's statement that was requested first, or that it was skipped.
pub(crate) fn learn(answers: &mut Answers<'_>, found: Option<(StatementId, &Shape)>) {
    if let Some((_, session)) = &mut answers.session
        && let Some(names) = &mut session.statements.names
    {
        names.described(found);
    }
}

/// A trial has succeeded.
pub(crate) fn tried(answers: &mut Answers<'_>) {
    if let Some((_, session)) = &mut answers.session
        && let Some(names) = &mut session.statements.names
    {
        names.trial = None;
    }
}

/// Sends the client the error that PostgreSQL would send.
pub(crate) fn refused(answers: &mut Answers<'_>) {
    answers.flush();
    // Its client has gone.
    let Some((conn, _)) = &answers.session else { return };
    if answers.server.ledger.front() == Some(Expect::TooLarge) {
        let (code, message) = (sqlstate::PROGRAM_LIMIT_EXCEEDED, TOO_LARGE);
        let error = ErrorResponse { severity: "ERROR", code, message, detail: None, hint: None };
        return answers.actions.send_new(*conn, |out| error.encode(out));
    }
    let fields = [
        (field::SEVERITY_LOCALIZED, &b"ERROR"[..]),
        (field::SEVERITY, b"ERROR"),
        (field::CODE, b"0A000"),
        (field::MESSAGE, CHANGED.as_bytes()),
        (field::FILE, b"plancache.c"),
        // Drivers recognise by this name that preparing again helps.
        (field::ROUTINE, b"RevalidateCachedQuery"),
    ];
    answers.actions.send_new(*conn, |out| {
        wire::message(out, tag::ERROR, |out| {
            for (letter, text) in fields {
                out.push(letter);
                out.extend_from_slice(text);
                out.push(0);
            }
            out.push(0);
        });
    });
}

/// Whether an error belongs to a trial, so that it is not passed on.
pub(crate) fn is_of_trial(answers: &Answers<'_>, fields: &Fields<'_>) -> bool {
    // Its client has gone, and the trial with it.
    let Some((_, session)) = &answers.session else { return false };
    let tries = answers.server.ledger.front().is_some_and(Expect::is_trial)
        && session.statements.names.as_ref().is_some_and(|names| names.trial.is_some());
    let cancelled = fields.sqlstate() == Some(sqlstate::QUERY_CANCELED);
    tries
        && answers.server.transaction.status == Status::Idle
        && session.incoming.skip == 0
        && !cancelled
        && !answers.server.ledger.is_doubtful()
}

/// A batch has failed. If `again`, it was because of a trial: the statement is prepared anew, and the client's messages
/// since then are sent again.
pub(crate) fn end_trial(answers: &mut Answers<'_>, again: bool) {
    // Its client has gone, or there was no trial.
    let Some((_, session)) = &mut answers.session else { return };
    let Some(names) = &mut session.statements.names else { return };
    let Some(trial) = names.trial.take() else { return };
    // Its shape is not known any more.
    names.take_for(&trial.name, None);
    if !again {
        return;
    }
    if let Some(statement) = names.get(&trial.name) {
        answers.server.statements.prepared.set_shape(statement.id, None);
    }
    let rest = std::mem::replace(&mut session.incoming.inbox, trial.bytes);
    session.incoming.inbox.extend_from_slice(&rest);
    answers.server.facts.hold.begin();
    if !answers.server.ledger.take_ready() {
        answers.server.ledger.sent(Answerer::Prepare, Expect::Sync);
        answers.actions.send_new(answers.server_id, frontend::encode_sync);
    }
}
