//! Definitions that transactions have made and that may be taken back still: on which server, in which database.

use std::collections::BTreeMap;

use session_state::catalogue::{Definition, What};
use units::ConnId;

/// Servers whose transactions have defined something that other pools know of, and may go on.
#[derive(Debug, Default)]
pub(super) struct OpenDefinitions(BTreeMap<ConnId, Box<str>>);

impl OpenDefinitions {
    pub(super) fn note(&mut self, definition: &Definition) {
        if definition.what != What::Relation {
            self.0.insert(definition.server, definition.database.clone());
        }
    }

    pub(super) fn is_of(&self, server: ConnId) -> bool {
        self.0.contains_key(&server)
    }

    /// The transaction on that server is over. In which database it was, if it was one of these.
    pub(super) fn settle(&mut self, server: ConnId) -> Option<Box<str>> {
        self.0.remove(&server)
    }

    /// Servers with such a transaction in a database.
    pub(super) fn in_database<'a>(&'a self, database: &'a str) -> impl Iterator<Item = ConnId> + 'a {
        self.0.iter().filter(move |(_, other)| ***other == *database).map(|(server, _)| *server)
    }
}
