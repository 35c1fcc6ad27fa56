//! Reads a server's bytes and decides what goes to its client.
//!
//! Rows pass by length, however large. The messages that must be read whole are small: ReadyForQuery, ParameterStatus,
//! command tags, and errors that answer the pooler's own queries.
//!
//! //= pg18 protocol-flow

use machine::snapshot::DeadlockVictim;
use session_state::parameters::Tracked;
use session_state::unnamed;
use settings::PoolMode;
use units::limits;
use wire::backend::{Fields, ParameterStatus, ReadyForQuery, Status, tag};
use wire::{HEADER_LEN, Header, SqlState, sqlstate};

use crate::answers::Answers;
use crate::findings::{Astray, Broken};
use crate::plain::{can_pass, passed};
use crate::server::{Answerer, Chore, CloseReason, Entry, Expect, Server, ServerState, Unexpected};
use crate::{
    announcing, checking, confirming, copying, counting, listening, matching, naming, overdue, parameter_reports,
    splitting,
};

pub fn read(answers: &mut Answers<'_>) -> Result<(), Broken> {
    loop {
        if answers.server.incoming.skip > 0 {
            let count = answers.stream.left().min(answers.server.incoming.skip as usize);
            answers.consume(count, answers.server.incoming.skip_forward);
            answers.server.incoming.skip -= count as u32;
            if answers.server.incoming.skip > 0 {
                return Ok(());
            }
            message_ended(answers, answers.server.incoming.skip_tag)?;
        }
        if answers.stream.left() == 0 {
            return Ok(());
        }
        if answers.findings.transaction_block || answers.findings.is_lost() {
            // This server is given up: the rest of its bytes is dropped.
            answers.consume(answers.stream.left(), false);
            return Ok(());
        }
        let goes_on = if answers.server.incoming.inbox.is_empty() { next(answers)? } else { next_from_inbox(answers)? };
        if !goes_on {
            return Ok(());
        }
    }
}

/// Whether a message must be read whole before anything is done about it.
fn is_whole(answers: &Answers<'_>, header: Header) -> bool {
    match header.tag {
        tag::READY_FOR_QUERY | tag::PARAMETER_STATUS => true,
        // Command tags are short; a longer one is unknown.
        tag::COMMAND_COMPLETE => header.body_len() <= 64,
        // A longer one passes by length if it is for a client.
        tag::ERROR => header.body_len() <= limits::SERVER_MESSAGE_LEN_MAX || !answers.is_error_answer(),
        tag::DATA_ROW => answers.server.ledger.owner().is_some_and(|owner| reads_rows(answers.server, owner)),
        tag::PARAMETER_DESCRIPTION | tag::ROW_DESCRIPTION => {
            header.body_len() <= limits::SERVER_MESSAGE_LEN_MAX
                && matching::reads_description(answers.server, header.tag)
        }
        tag::NOTIFICATION => answers.pool.rules.follows() || matches!(answers.server.state(), ServerState::Listening),
        // A server's log_duration may put a statement's name into a notice; a client is to see its own names.
        tag::NOTICE => header.body_len() <= limits::SERVER_MESSAGE_LEN_MAX && naming::has_names(answers),
        _ => false,
    }
}

/// Whether the rows of this owner's answer are for the pooler itself.
fn reads_rows(server: &Server, owner: Answerer) -> bool {
    owner == Answerer::Check || owner == Answerer::Chore && chore_reads_rows(server)
}

fn chore_reads_rows(server: &Server) -> bool {
    matches!(server.state(), ServerState::Busy(chore) if chore.reads_rows())
}

fn whole_len_max(server: &Server, header: Header) -> usize {
    let of_catalogue = header.tag == tag::DATA_ROW && chore_reads_rows(server);
    if of_catalogue { limits::CATALOGUE_ROW_LEN_MAX } else { limits::SERVER_MESSAGE_LEN_MAX }
}

/// Deals with the next message, which lies in the stream. False: not enough of it is there.
fn next(answers: &mut Answers<'_>) -> Result<bool, Broken> {
    if pass_on(answers) && answers.stream.left() == 0 {
        return Ok(true);
    }
    let rest = answers.stream.rest();
    let Some(header) = Header::parse(rest)? else { return Ok(answers.keep(rest)) };
    if !is_whole(answers, header) {
        begin(answers, header)?;
        let at_hand = rest.len().min(header.total_len());
        answers.consume(at_hand, answers.server.incoming.skip_forward);
        rest_follows(answers, header, at_hand)?;
        return Ok(true);
    }
    if header.body_len() > whole_len_max(answers.server, header) {
        return Err(Broken::TooLong);
    }
    if rest.len() < header.total_len() {
        return Ok(answers.keep(rest));
    }
    let forward = whole(answers, header, &rest[HEADER_LEN..header.total_len()])?;
    answers.consume(header.total_len(), forward);
    message_ended(answers, header.tag)?;
    Ok(true)
}

/// Passes on complete messages that are only for the client, which most are. Whether there were any.
fn pass_on(answers: &mut Answers<'_>) -> bool {
    let rest = answers.stream.rest();
    let mut len = 0;
    if can_pass(answers.server) && matches!(&answers.session, Some((_, session)) if session.facts.tracker.is_none()) {
        len = passed(answers.server, rest, answers.now, &mut answers.caches.statistics, answers.pool.id);
        answers.stream.pass(len);
    } else if let Some((owner, described)) =
        answers.server.ledger.rows().filter(|(owner, _)| !reads_rows(answers.server, *owner))
    {
        let passes = |tag| matches!(tag, tag::DATA_ROW | tag::COPY_DATA) || described && tag == tag::ROW_DESCRIPTION;
        while let Ok(Some(header)) = Header::parse(&rest[len..])
            && passes(header.tag)
            && rest.len() - len >= header.total_len()
        {
            len += header.total_len();
        }
        if len > 0 {
            answers.consume(len, owner == Answerer::Client);
        }
    }
    len > 0
}

/// Deals with the next message, which began in an earlier read. False: not enough of it is there.
fn next_from_inbox(answers: &mut Answers<'_>) -> Result<bool, Broken> {
    loop {
        let header = Header::parse(&answers.server.incoming.inbox)?;
        let wanted = match header {
            None => HEADER_LEN,
            Some(header) if !is_whole(answers, header) => HEADER_LEN,
            Some(header) if header.body_len() > whole_len_max(answers.server, header) => {
                return Err(Broken::TooLong);
            }
            Some(header) => header.total_len(),
        };
        if let Some(header) = header.filter(|_| answers.server.incoming.inbox.len() >= wanted) {
            take_inbox(answers, header)?;
            return Ok(true);
        }
        if answers.stream.left() == 0 {
            return Ok(false);
        }
        let count = (wanted - answers.server.incoming.inbox.len()).min(answers.stream.left());
        let more = &answers.stream.rest()[..count];
        answers.server.incoming.inbox.extend_from_slice(more);
        answers.consume(count, false);
    }
}

/// Deals with the inbox: a complete message, or the header of one that passes by length.
fn take_inbox(answers: &mut Answers<'_>, header: Header) -> Result<(), Broken> {
    let inbox = std::mem::take(&mut answers.server.incoming.inbox);
    if is_whole(answers, header) {
        let forward = whole(answers, header, &inbox[HEADER_LEN..])?;
        answers.send_apart(&inbox, forward);
        return message_ended(answers, header.tag);
    }
    begin(answers, header)?;
    answers.send_apart(&inbox, answers.server.incoming.skip_forward);
    rest_follows(answers, header, inbox.len())
}

/// Begins a message that passes by length.
fn begin(answers: &mut Answers<'_>, header: Header) -> Result<(), Broken> {
    let forward = match header.tag {
        tag::AUTHENTICATION | tag::BACKEND_KEY_DATA | tag::NEGOTIATE_VERSION | tag::COPY_BOTH => {
            return Err(Unexpected(header.tag).into());
        }
        // These come at any time and belong to the linked session.
        tag::NOTICE | tag::NOTIFICATION => answers.is_clients(),
        tag::ERROR => answers.is_error_answer(),
        _ if !answers.server.ledger.accepts(header.tag) => return Err(Unexpected(header.tag).into()),
        tag::ROW_DESCRIPTION if answers.server.ledger.front().is_some_and(Expect::is_shape) => {
            answers.server.statements.described.long_columns(header.body_len());
            false
        }
        _ => {
            matching::send_held_description(answers, header.tag);
            answers.is_clients()
        }
    };
    answers.server.incoming.skip_tag = header.tag;
    answers.server.incoming.skip_forward = forward;
    Ok(())
}

fn rest_follows(answers: &mut Answers<'_>, header: Header, at_hand: usize) -> Result<(), Broken> {
    answers.server.incoming.skip = (header.total_len() - at_hand) as u32;
    if answers.server.incoming.skip == 0 {
        message_ended(answers, header.tag)?;
    }
    Ok(())
}

/// Reads a complete message. Returns whether it is for the client.
fn whole(answers: &mut Answers<'_>, header: Header, body: &[u8]) -> Result<bool, Broken> {
    if header.tag == tag::READY_FOR_QUERY {
        answers.server.ledger.ready_comes();
    }
    let clients = answers.is_clients();
    let ends = matches!(header.tag, tag::READY_FOR_QUERY | tag::COMMAND_COMPLETE | tag::DATA_ROW);
    if ends && !answers.server.ledger.accepts(header.tag) {
        return Err(Unexpected(header.tag).into());
    }
    match header.tag {
        tag::READY_FOR_QUERY => {
            let message = ReadyForQuery::decode(body)?;
            ready(answers, message.status)?;
            // A client in statement mode must not take its BEGIN as done.
            let passed_on = clients && !answers.findings.transaction_block && !splitting::is_of_first_part(answers);
            Ok(passed_on && (message.status != Status::Idle || listening::may_be_ready(answers)))
        }
        tag::PARAMETER_STATUS => {
            let status = ParameterStatus::decode(body)?;
            Ok(parameter_reports::parameter(answers, &status, clients))
        }
        tag::COMMAND_COMPLETE => {
            counting::command_completed(answers, body);
            confirming::command(answers, body);
            Ok(clients)
        }
        tag::PARAMETER_DESCRIPTION | tag::ROW_DESCRIPTION => {
            matching::describes(answers.server, header.tag, body)?;
            Ok(false)
        }
        tag::DATA_ROW if chore_reads_rows(answers.server) => {
            match &mut answers.server.kept.begins {
                Some(begins) => begins.row = Some(body.into()),
                None => answers.pool.answer_row(answers.server_id, body),
            }
            Ok(false)
        }
        tag::NOTIFICATION => Ok(listening::notification(answers, body)),
        tag::NOTICE => Ok(clients && !naming::says_it_by_name(answers, header.tag, body)),
        tag::DATA_ROW => {
            match answers.tracker() {
                Some(tracker) => tracker.inspection.check_row(body),
                None => answers.findings.words().rows.push(body.to_vec()),
            }
            Ok(false)
        }
        _ => Ok(error(answers, body)),
    }
}

/// Reads a complete error. Returns whether it is for the client.
fn error(answers: &mut Answers<'_>, body: &[u8]) -> bool {
    let fields = Fields::decode(body);
    let words = || String::from_utf8_lossy(fields.message().unwrap_or(b"no message")).into_owned();
    if let Some(is_passed_on) = copying::leads_astray(answers, &fields) {
        return is_passed_on;
    }
    let in_use = answers.server.transaction.status != Status::Idle || answers.server.ledger.owner().is_some();
    let engaged = in_use || confirming::keeps_state(answers);
    if fields.is_fatal() && answers.session.is_some() && answers.pool.rules.mode != PoolMode::Session && engaged {
        // The server ends, but the session may not: it gets this as the error of its request.
        let code = fields.sqlstate().unwrap_or(sqlstate::CONNECTION_FAILURE);
        answers.findings.words().lost = Some((code, CloseReason::Said { words: words() }));
        return false;
    }
    let misnames = |code| matches!(code, sqlstate::UNDEFINED_PSTATEMENT | sqlstate::DUPLICATE_PSTATEMENT);
    let is_of_pooler = matches!(answers.server.ledger.owner(), Some(Answerer::Prelude | Answerer::Restore));
    let is_misnamed = is_of_pooler && fields.sqlstate().is_some_and(misnames);
    if is_misnamed {
        // It has other prepared statements than the pooler believes.
        answers.server.kept.on_server.clear();
    }
    note_prepared_statement(answers, &fields);
    let clients = match answers.server.ledger.owner() {
        None => {
            answers.findings.words().dying = Some(CloseReason::Said { words: words() });
            // Between transactions it does not concern the client: its next statement goes to another server, unless it has this one for life.
            let stays = answers.pool.rules.mode == PoolMode::Session || confirming::is_for_life(answers);
            answers.session.is_some() && (answers.server.transaction.status != Status::Idle || stays)
        }
        // The statement was deallocated before.
        Some(Answerer::Restore) if is_misnamed => false,
        Some(Answerer::Replay | Answerer::Restore) => {
            answers.findings.words().replay_error = Some(body.to_vec());
            answers.server.kept.owners.refused();
            false
        }
        Some(Answerer::Begin) => {
            answers.findings.words().begin_error = Some(body.to_vec());
            false
        }
        Some(Answerer::Attempt) => {
            attempt_failed(answers.server, fields.sqlstate());
            false
        }
        Some(Answerer::Chore) => {
            answers.findings.words().chore_error = Some(words());
            false
        }
        // The state on the server stays unknown.
        Some(Answerer::Check) => {
            if matches!(answers.server.state(), ServerState::Busy(Chore::Compare)) {
                answers.findings.words().chore_error = Some(words());
            }
            false
        }
        Some(Answerer::Client) if answers.server.ledger.front().is_some_and(Expect::is_refusal) => {
            matching::refused(answers);
            false
        }
        Some(Answerer::Client) if matching::is_of_trial(answers, &fields) => {
            answers.findings.tries_again = true;
            false
        }
        Some(Answerer::Prepare | Answerer::Prelude | Answerer::Nobody | Answerer::Client) => answers.is_error_answer(),
    };
    clients && is_passed_on(answers, &fields, body)
}

/// A statement that a text may see could not be prepared, or was not there to be deallocated.
fn attempt_failed(server: &mut Server, code: Option<SqlState>) {
    // The server has other prepared statements than the pooler believes: the next session gets it without any.
    server.facts.traces.needs_reset |=
        matches!(code, Some(sqlstate::UNDEFINED_PSTATEMENT | sqlstate::DUPLICATE_PSTATEMENT));
    match code {
        Some(sqlstate::UNDEFINED_PSTATEMENT) => server.kept.on_server.done(),
        Some(sqlstate::DUPLICATE_PSTATEMENT) => server.kept.on_server.failed_for_unknown(),
        _ => server.kept.on_server.failed(),
    }
}

/// Notes an error about a prepared statement that shows more than the failure of one answer.
fn note_prepared_statement(answers: &mut Answers<'_>, fields: &Fields<'_>) {
    let prepares = answers.server.ledger.front().is_some_and(|expect| matches!(expect, Expect::Parse(Some(_))));
    if prepares && fields.sqlstate() == Some(sqlstate::DUPLICATE_PSTATEMENT) {
        // A client has given a statement the pooler's name for another: on this server nobody can have that any more.
        answers.server.facts.end.close_needed = Some(CloseReason::StatementNameTaken);
    }
    if fields.sqlstate() == Some(sqlstate::FEATURE_NOT_SUPPORTED)
        && fields.message().is_some_and(|message| message.starts_with(b"cached plan"))
    {
        // Something was changed past the pooler: the same text prepared from now on is another statement.
        answers.pool.names.generation += 1;
    }
}

/// The error answers the client, and passes unchanged unless the pooler has other words for it.
fn is_passed_on(answers: &mut Answers<'_>, fields: &Fields<'_>, body: &[u8]) -> bool {
    answers.server.facts.end.fatal_error_forwarded |= fields.is_fatal();
    if fields.sqlstate() == Some(sqlstate::DEADLOCK_DETECTED) {
        count_deadlock(answers);
    }
    !overdue::says_it_was_late(answers, fields, body) && !naming::says_it_by_name(answers, tag::ERROR, body)
}

/// PostgreSQL has ended the session's statement; the others of the deadlock go on.
//= pg18 explicit-locking#LOCKING-DEADLOCKS
fn count_deadlock(answers: &mut Answers<'_>) {
    let deadlocks = &mut answers.pool.counts.deadlocks;
    deadlocks.count += 1;
    if let Some((_, session)) = &answers.session {
        let name = session.parameters.get(Tracked::APPLICATION_NAME).unwrap_or_default();
        let application_name = String::from_utf8_lossy(name).into_owned();
        let victim = DeadlockVictim { at: answers.now, client: session.identity.serial, application_name };
        deadlocks.last = Some(victim);
    }
}

fn ready(answers: &mut Answers<'_>, status: Status) -> Result<(), Broken> {
    let owner = answers.server.ledger.owner();
    answers.server.transaction.status = status;
    announcing::settle_definitions(answers, status);
    #[cfg(debug_assertions)]
    {
        answers.server.transaction.status_seen = true;
    }
    if owner == Some(Answerer::Client) {
        confirming::restart(answers);
        if let Some((_, session)) = &mut answers.session
            && let Some(tracker) = session.tracker_mut()
        {
            tracker.ready(status == Status::Idle);
            if status == Status::Idle && tracker.pinning.is_pinned() {
                answers.pool.counts.fidelity.count_transaction(tracker.pinning.pins());
            }
        }
        parameter_reports::settle_own(answers);
        if answers.server.facts.cancel.is_requested {
            answers.server.facts.cancel.is_requested = false;
        }
        if let Some((_, session)) = &mut answers.session {
            session.end_retries();
        }
        if status == Status::Idle {
            // By commit or rollback: the server has reported what that has changed.
            if answers.server.facts.effects.before.is_some() {
                answers.server.facts.effects.before = None;
            }
            confirming::renew_statements(answers);
        }
        overdue::count_query(answers, status);
    }
    // If what came before it was refused, the block does not begin here.
    let is_refused = answers.findings.words.as_ref().is_some_and(|words| words.replay_error.is_some());
    if owner == Some(Answerer::Begin)
        && status == Status::InTransaction
        && !is_refused
        && let Some((_, session)) = &mut answers.session
    {
        session.take_begun();
        if let Some(tracker) = session.tracker_mut() {
            tracker.ready(false);
        }
    }
    (answers.server.transaction.answer_failed, answers.server.transaction.answer_tagged) = (false, false);
    Ok(())
}

/// A message has been read to its end: deals with what it completes.
fn message_ended(answers: &mut Answers<'_>, message: u8) -> Result<(), Broken> {
    if message == tag::COMMAND_COMPLETE && answers.server.ledger.owner() == Some(Answerer::Client) {
        answers.server.transaction.answer_tagged = true;
    }
    match message {
        tag::NOTICE | tag::NOTIFICATION | tag::PARAMETER_STATUS => return Ok(()),
        tag::ERROR => return failed(answers),
        _ => {}
    }
    if message == tag::PORTAL_SUSPENDED {
        counting::suspended(answers);
        confirming::suspended(answers);
    }
    if let Some(entry) = answers.server.ledger.answered(message)? {
        completed(answers, entry);
        // Only now can such an answer be next.
        confirming::answer_fakes(answers);
    }
    Ok(())
}

fn completed(answers: &mut Answers<'_>, entry: Entry) {
    if entry.noted && entry.expect == Expect::Close(None) {
        confirming::closed_prepared(answers);
    }
    if entry.noted
        && let Some(tracker) = answers.tracker()
    {
        tracker.under_way.finished();
    }
    match (entry.owner, entry.expect) {
        // At once, since later answers are newer.
        (Answerer::Check, Expect::Query) => checking::check_answered(answers),
        // Its effect on the unnamed statement was noted when it was sent, since the client's may have been sent after
        // it.
        (Answerer::Replay, Expect::Query) => {
            answers.findings.replayed = true;
            // At once, since a later failure may set the mark again.
            let refused = answers.findings.words.as_ref().is_some_and(|words| words.replay_error.is_some());
            answers.server.facts.traces.needs_reset &= answers.session.is_none() || refused;
            if !refused && answers.session.is_some() {
                parameter_reports::replayed(answers);
            }
        }
        // Other reasons for a reset remain.
        (Answerer::Restore, Expect::Query) => {
            answers.server.facts.traces.needs_reset |=
                answers.findings.words.as_ref().is_some_and(|words| words.replay_error.is_some());
        }
        // The client's unnamed statement may have been sent after it.
        (Answerer::Attempt, Expect::Query) => {}
        (owner, Expect::Query) => {
            answers.server.statements.unnamed = unnamed::NONE;
            if let Some(unnamed) = answers.unnamed().filter(|_| owner == Answerer::Client) {
                unnamed.forget();
            }
        }
        (Answerer::Client, Expect::Unnamed) => {
            let doubtful = answers.server.ledger.is_doubtful();
            answers.server.statements.unnamed =
                answers.unnamed().map_or(unnamed::UNKNOWN, |unnamed| unnamed.answered(doubtful));
        }
        (_, Expect::Unnamed) => answers.server.statements.unnamed = unnamed::UNKNOWN,
        (Answerer::Client, Expect::TrialBind | Expect::TrialDescribe) => matching::tried(answers),
        (_, expect @ (Expect::Shape(id) | Expect::Verdict(id))) => matching::described(answers, id, expect),
        (Answerer::Client, Expect::Parse(Some(_))) => {
            if let Some(names) = answers.session.as_mut().and_then(|(_, session)| session.statements.names.as_mut()) {
                names.answered();
            }
        }
        _ => {}
    }
}

fn failed(answers: &mut Answers<'_>) -> Result<(), Broken> {
    if answers.findings.is_lost() {
        return Ok(());
    }
    if answers.server.ledger.owner().is_none() {
        // No client gets it: a linked one has all its answers.
        answers.findings.words().dying.get_or_insert(CloseReason::ErrorWhileIdle);
        return Ok(());
    }
    let tries_again = std::mem::take(&mut answers.findings.tries_again);
    splitting::first_part_failed(answers);
    answers.server.transaction.answer_failed |= answers.is_error_answer() && !tries_again;
    if answers.server.overdue_since().is_some()
        && answers.server.ledger.front().is_some_and(Expect::is_extended)
        && answers.is_error_answer()
    {
        // Everything up to the Sync is skipped, and its timeout begins anew.
        answers.server.query_answered();
        answers.server.transaction.query_at = answers.now;
    }
    let is_clients = answers.is_error_answer() && !tries_again;
    confirming::failed_followed(answers, tries_again);
    let mut skipped = Vec::new();
    answers.server.ledger.failed(|entry| skipped.push(entry))?;
    if is_clients {
        counting::failed(answers, &skipped);
    }
    if skipped.first().is_some_and(|entry| (entry.owner, entry.expect) == (Answerer::Client, Expect::Unnamed)) {
        // PostgreSQL drops the unnamed statement before it reads the new one.
        answers.server.statements.unnamed = unnamed::NONE;
        if let Some(unnamed) = answers.unnamed() {
            unnamed.forget();
        }
    }
    if answers.server.ledger.is_doubtful() {
        answers.findings.words().astray = Some(Astray::Reported);
    }
    confirming::undo(answers, &skipped);
    matching::end_trial(answers, tries_again);
    answers.server.facts.traces.prelude_failed |= skipped.iter().any(|entry| entry.owner == Answerer::Prelude);
    let is_prelude = skipped.first().is_some_and(|entry| entry.owner == Answerer::Prelude);
    if is_prelude {
        answers.server.facts.traces.needs_reset = true;
        answers.findings.prelude_skipped_query = skipped.iter().any(|entry| entry.expect == Expect::Query);
    }
    Ok(())
}
