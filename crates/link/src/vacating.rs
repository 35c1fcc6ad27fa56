//! A client runs a statement that needs a database without other connections: the pooler's servers there are closed.

use machine::mail::ToCoordinator;
use session_state::state::Reading;
use sql::{Marks, Summary, Text, Word};

use crate::answers::Answers;
use crate::requests::Requests;

/// A text is sent that may need the databases which it names to have no connections.
pub(crate) fn vacate(requests: &mut Requests<'_>, text: &[u8], reading: Reading) {
    if !reading.marks.any(Marks::EMPTY_DATABASE) {
        return;
    }
    // In an encoding that is not read, it is not known which database is meant.
    let Some(rules) = requests.caches.reader.rules(&requests.link.server.kept.parameters) else { return };
    let mut names = Summary::of(&Text::new(text, rules)).words().to_vec();
    if names.iter().any(|word| word.name() == Word::of(b"create")) {
        // The template of a database for which none is named. //= pg18 sql-createdatabase
        names.push(Word::of(b"template1"));
    }
    let names = names.into_boxed_slice();
    // If there are several statements, no command tag says which of them has succeeded.
    let is_alone = requests.link.server.ledger.owing().0 == 0 && requests.link.server.facts.effects.emptying.is_none();
    requests.link.server.facts.effects.emptying = Some(if is_alone { names.clone() } else { Box::default() });
    let mail = ToCoordinator::Empty { pool: requests.link.pool.id, names };
    requests.actions.post_to_coordinator(mail);
}

/// Notes the command tag of such a statement.
#[cold]
pub(crate) fn note_emptied(answers: &mut Answers<'_>, tag: &[u8]) {
    if !matches!(tag, b"DROP DATABASE\0" | b"CREATE DATABASE\0") {
        return;
    }
    if let Some(names) = answers.server.facts.effects.emptying.take().filter(|names| !names.is_empty()) {
        let mail = ToCoordinator::Emptied { names };
        answers.actions.post_to_coordinator(mail);
    }
}
