//! Replaces the pooler's statement names in errors and notices by the client's.

use crate::answers::Answers;
use session_state::statement_errors::with_client_name;

/// Whether the client has named statements.
pub(crate) fn has_names(answers: &Answers<'_>) -> bool {
    answers.session.as_ref().is_some_and(|(_, session)| session.statements.names.is_some())
}

/// If an error or a notice contains a statement's name on servers, the client gets it with its own name instead. True: it was sent.
pub(crate) fn says_it_by_name(answers: &mut Answers<'_>, tag: u8, body: &[u8]) -> bool {
    // Its client has gone, or it names none of its statements.
    let Some((conn, session)) = &answers.session else { return false };
    let ledger = &answers.server.ledger;
    let renamed = session.statements.names.as_deref().and_then(|names| {
        with_client_name(body, |statement| ledger.owed().name_of(statement).or_else(|| names.of_statement(statement)))
    });
    let (conn, Some(renamed)) = (*conn, renamed) else { return false };
    answers.flush();
    answers.pool.counts.totals.sent += renamed.len() as u64;
    answers.actions.send_new(conn, |out| wire::message(out, tag, |out| out.extend_from_slice(&renamed)));
    true
}
