//! Notes which one of its names a client has given a statement in a message, where it has several.
//!
//! The server has one name for all of them. An error or a notice gets the name that is in the message it answers.

use session_state::prepared::StatementNames;

use crate::requests::Requests;

/// A message with this name of a statement was sent.
#[inline]
pub(crate) fn sent(requests: &mut Requests<'_>, name: &[u8]) {
    if has_synonyms(requests) {
        note(requests, name);
    }
}

#[cold]
fn note(requests: &mut Requests<'_>, name: &[u8]) {
    let kept = requests.link.session.statements.names.as_deref().and_then(|names| names.kept_name(name));
    // The session has no statement of this name, so the server has got the name itself.
    let Some((statement, name)) = kept else { return };
    requests.link.server.ledger.name_last(statement, name);
}

fn has_synonyms(requests: &Requests<'_>) -> bool {
    requests.link.session.statements.names.as_deref().is_some_and(StatementNames::has_synonyms)
}
