//! A named statement is what its client was told, on every server: the types of its parameters, and its columns.
//!
//! ```text
//!   the server has it as the client knows it ──► nothing to do: the way of almost every Bind
//!   it lacks it                              ──► prepared with the types it had, described, and held against what it was
//!   it has it otherwise                      ──► prepared anew, and so on          the client's message waits for the verdict
//!        the same                            ──► the message goes on
//!        other columns                       ──► 0A000, as on a connection of its own
//!   the client does not know it yet          ──► tried: if that fails, it is prepared anew, and the messages are sent again
//!   and it cannot be tried                   ──► prepared anew in front
//! ```
//!
//! Does not do: keeping a batch of more than 64 kB to be sent again; describing what returns something else's rows (EXECUTE,
//! FETCH, CALL).
//!
//! //= pg18 protocol-flow#PROTOCOL-FLOW-EXT-QUERY

use connections::Verdict;
use connections::server::{Answerer, Expect, Server};
use session_state::prepared::{Statement, StatementId, Trial};
use session_state::shape::{Fingerprint, Shape, UNKNOWN};
use units::limits;
use wire::backend::{ErrorResponse, Fields, Status, field, tag};
use wire::frontend::{Describe, Target};
use wire::{frontend, sqlstate};

use crate::answers::Answers;
use crate::large_statements::TOO_LARGE;
use crate::requests::Requests;
use crate::session::Session;
use crate::{pacing, server_statements};

/// What PostgreSQL says of a statement whose columns have become others.
const CHANGED: &str = "cached plan must not change result type";

/// Whether a statement can be named to its server.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Match {
    Yes,
    /// For the first time by this client: an error is not told yet.
    Trial,
    /// Not before it is known what it is there.
    Later,
    /// It has become another.
    Refused,
}

/// Sees to it that the server knows a client's statement, as the client knows it, by the time it reads the next message:
/// that one has `len` bytes.
pub(crate) fn matched(
    requests: &mut Requests<'_>,
    name: &[u8],
    statement: &Statement,
    client_shape: Fingerprint,
    len: usize,
) -> Match {
    let found = requests.server.statements.prepared.touch(statement.id);
    if found == Some(client_shape) && client_shape != UNKNOWN {
        return Match::Yes;
    }
    let follows =
        requests.pool.rules.follows() && !statement.varies && requests.server.transaction.status != Status::Failed;
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
    let verdict = std::mem::take(&mut requests.server.statements.verdict);
    let Some(named) = requests.session.statements.names.as_ref().and_then(|names| names.named(name)) else {
        return Match::Yes;
    };
    let is_there = found.is_some();
    let Some(shape) = named.shape().cloned() else {
        if named.shape_requested && is_there {
            return Match::Yes;
        }
        if found.is_some_and(|found| found != UNKNOWN) && may_try(requests.server, requests.session, len) {
            begin_trial(requests.server, requests.session, name, statement.id);
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
        // What returns nothing never returns anything else.
        requests.server.statements.prepared.set_shape(statement.id, Some(shape));
        return Match::Yes;
    }
    requests.server.statements.verdict = Verdict::Asked(shape.fingerprint());
    describe_statement(requests, statement, Expect::Verdict(statement.id));
    requests.actions.send_new(requests.server_id, frontend::encode_flush);
    Match::Later
}

/// Learns what a statement is that its client has just prepared, or that was just prepared for it.
pub(crate) fn describe_for(requests: &mut Requests<'_>, name: &[u8], statement: &Statement) {
    if !requests.pool.rules.follows() || statement.varies {
        return;
    }
    if let Some(names) = &mut requests.session.statements.names {
        names.request_shape(name);
        describe_statement(requests, statement, Expect::Shape(statement.id));
    }
}

fn describe_statement(requests: &mut Requests<'_>, statement: &Statement, expect: Expect) {
    requests.server.ledger.sent(Answerer::Prepare, expect);
    requests.stream.flush(requests.server_id, requests.actions);
    let describe = Describe { target: Target::Statement, name: &statement.name };
    requests.actions.send_new(requests.server_id, |out| describe.encode(out));
}

/// Whether a message can be sent again if it fails: nothing of its transaction has been done.
fn may_try(server: &Server, session: &Session, len: usize) -> bool {
    let ledger = &server.ledger;
    let first = server.transaction.status == Status::Idle && !ledger.awaits_ready() && !ledger.has_run();
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

/// A message of the client's, or a piece of one, is sent while a statement is being tried.
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

/// Makes the server fail, where it would run a statement that is not the client's any more: its transaction fails, and
/// it skips to Sync, as if it had said so itself. Its log says why.
pub(crate) fn refuse(requests: &mut Requests<'_>, replaced: usize, in_stream: bool) {
    requests.sent(Expect::Refusal);
    let unknown = Describe { target: Target::Statement, name: CHANGED.as_bytes() };
    requests.replace(replaced, in_stream, |out| unknown.encode(out));
}

/// Whether this part of a description is read whole: it is for the pooler, or may not be the client's.
pub(crate) fn reads_description(server: &Server, message: u8) -> bool {
    let ledger = &server.ledger;
    ledger.is_shape() || message == tag::PARAMETER_DESCRIPTION && ledger.front() == Some(Expect::TrialDescribe)
}

/// Part of a description, whole.
pub(crate) fn describes(server: &mut Server, message: u8, body: &[u8]) -> Result<(), wire::Error> {
    match message {
        tag::PARAMETER_DESCRIPTION => server.statements.described.parameters(body),
        _ => server.statements.described.columns(body),
    }
}

/// What comes next of an answer passes by length. The first part of a description that was tried is the client's when the
/// second comes: PostgreSQL says what parameters a statement has before it finds that its columns have changed.
pub(crate) fn tell_held(answers: &mut Answers<'_>, message: u8) {
    if answers.server.ledger.front() != Some(Expect::TrialDescribe) {
        return;
    }
    if message == tag::PARAMETER_DESCRIPTION {
        // Too long to be held.
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

/// It has come to its end.
pub(crate) fn described(answers: &mut Answers<'_>, id: StatementId, expect: Expect) {
    let shape = std::mem::take(&mut answers.server.statements.described).finish();
    match (expect, answers.server.statements.verdict) {
        (Expect::Verdict(_), Verdict::Asked(wanted)) => {
            let differs = shape.fingerprint() != wanted;
            answers.server.statements.verdict = if differs { Verdict::Differs(id) } else { Verdict::None };
        }
        (Expect::Verdict(_), _) => {}
        _ => learn(answers, Some((id, &shape))),
    }
    answers.server.statements.prepared.set_shape(id, Some(shape));
}

/// The session's statement that was asked about first is this, or was skipped.
pub(crate) fn learn(answers: &mut Answers<'_>, found: Option<(StatementId, &Shape)>) {
    if let Some((_, session)) = &mut answers.session
        && let Some(names) = &mut session.statements.names
    {
        names.described(found);
    }
}

/// A statement was tried, and the server took it.
pub(crate) fn tried(answers: &mut Answers<'_>) {
    if let Some((_, session)) = &mut answers.session
        && let Some(names) = &mut session.statements.names
    {
        names.trial = None;
    }
}

/// The client is told what PostgreSQL would say.
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
        // By this name drivers know that preparing again helps.
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

/// Whether an error is of a statement that is tried, and not told.
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

/// A batch has failed. If it was for a statement that was tried, this is prepared anew, and what the client has sent since
/// comes again.
pub(crate) fn end_trial(answers: &mut Answers<'_>, again: bool) {
    // Its client has gone, or nothing of its was tried.
    let Some((_, session)) = &mut answers.session else { return };
    let Some(names) = &mut session.statements.names else { return };
    let Some(trial) = names.trial.take() else { return };
    // Nobody has said what it is.
    names.take_for(&trial.name, None);
    if !again {
        return;
    }
    if let Some(statement) = names.get(&trial.name) {
        answers.server.statements.prepared.set_shape(statement.id, None);
    }
    let behind = std::mem::replace(&mut session.incoming.inbox, trial.bytes);
    session.incoming.inbox.extend_from_slice(&behind);
    answers.server.hold.is_on = true;
    if !answers.server.ledger.take_ready() {
        answers.server.ledger.sent(Answerer::Prepare, Expect::Sync);
        answers.actions.send_new(answers.server_id, frontend::encode_sync);
    }
}
