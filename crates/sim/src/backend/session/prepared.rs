//! Prepared statements by name. Parse and SQL's PREPARE share one set of names.

use std::collections::BTreeMap;

use super::super::answer::{Done, counted, refused, said, selected};
use crate::command::Command;
use crate::statement::{Body, Mark, Statement, row};

/// A prepared statement.
#[derive(Clone, Debug)]
pub(super) struct Prepared {
    pub(super) statement: Statement,
    /// How many columns it returned when it was prepared, where that may change.
    pub(super) columns: usize,
    /// By PREPARE, not by Parse.
    of_sql: bool,
}

impl Prepared {
    /// One of Parse.
    pub(super) fn new(statement: Statement, columns: usize) -> Prepared {
        Prepared { statement, columns, of_sql: false }
    }

    /// It gets its mark from each Bind, so that it may be bound again.
    pub(super) fn takes_mark(&self) -> bool {
        self.statement.mark.is_none()
    }

    /// Whether SQL's EXECUTE of it returns rows.
    pub(super) fn is_executable(&self) -> bool {
        matches!(self.statement.body, Body::Select { .. })
    }
}

#[derive(Debug, Default)]
pub(super) struct Statements {
    by_name: BTreeMap<Vec<u8>, Prepared>,
}

impl Statements {
    pub(super) fn get(&self, name: &[u8]) -> Option<&Prepared> {
        self.by_name.get(name)
    }

    pub(super) fn insert(&mut self, name: &[u8], prepared: Prepared) {
        self.by_name.insert(name.to_vec(), prepared);
    }

    /// False: there was none.
    pub(super) fn remove(&mut self, name: &[u8]) -> bool {
        self.by_name.remove(name).is_some()
    }

    /// The unnamed statement stays, as in PostgreSQL.
    pub(super) fn forget_named(&mut self) {
        self.by_name.retain(|name, _| name.is_empty());
    }

    /// Those that SQL has prepared.
    pub(super) fn of_sql(&self) -> Statements {
        let of_sql = self.by_name.iter().filter(|(_, prepared)| prepared.of_sql);
        Statements { by_name: of_sql.map(|(name, prepared)| (name.clone(), prepared.clone())).collect() }
    }

    /// PREPARE, EXECUTE, DEALLOCATE, and the list of prepared statements.
    pub(super) fn obey(&mut self, command: &Command, mark: Option<Mark>) -> Done {
        let missing = |name: &str| refused("26000", format!("prepared statement \"{name}\" does not exist"));
        match command {
            Command::Prepare { name, body } => {
                if self.get(name.as_bytes()).is_some() {
                    return refused("42P05", format!("prepared statement \"{name}\" already exists"));
                }
                let statement = Statement { body: Body::parse(body), mark: None };
                let prepared = Prepared { statement, columns: 0, of_sql: true };
                if !prepared.is_executable() {
                    return refused("42601", "syntax error");
                }
                self.insert(name.as_bytes(), prepared);
                said("PREPARE")
            }
            Command::Execute(name) => {
                let Some(&Body::Select { rows, len }) =
                    self.get(name.as_bytes()).map(|prepared| &prepared.statement.body)
                else {
                    return missing(name);
                };
                Ok(counted("SELECT", (0..rows).map(|index| row(mark, index, len))))
            }
            Command::Deallocate(Some(name)) => {
                if self.remove(name.as_bytes()) {
                    said("DEALLOCATE")
                } else {
                    missing(name)
                }
            }
            Command::Deallocate(None) => {
                self.forget_named();
                said("DEALLOCATE ALL")
            }
            // Those of the protocol have other names on a pooled server.
            _ => {
                let named = self.by_name.keys().filter(|name| name.first() == Some(&b'q'));
                selected(named.map(|name| String::from_utf8_lossy(name).into_owned()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn obey(statements: &mut Statements, text: &str) -> Result<(), &'static str> {
        let command = Command::parse(text).expect("it is in the language");
        statements.obey(&command, None).map(drop).map_err(|(code, _)| code)
    }

    #[test]
    fn sql_and_the_protocol_share_their_names() {
        let mut statements = Statements::default();
        statements.insert(b"", Prepared::new(Statement::parse("select 1 0"), 0));
        statements.insert(b"p", Prepared::new(Statement::parse("begin"), 0));
        assert_eq!(obey(&mut statements, "prepare p as select 1 0"), Err("42P05"));
        assert_eq!(obey(&mut statements, "execute p"), Err("26000"), "it returns no rows");
        assert_eq!(obey(&mut statements, "prepare q as begin"), Err("42601"));
        assert_eq!(obey(&mut statements, "prepare q as select 1 0"), Ok(()));
        let moved = statements.of_sql();
        assert!(moved.get(b"q").is_some() && moved.get(b"p").is_none() && moved.get(b"").is_none());
        assert_eq!(obey(&mut statements, "deallocate all"), Ok(()));
        assert!(statements.get(b"").is_some() && statements.get(b"p").is_none());
        assert_eq!(obey(&mut statements, "deallocate q"), Err("26000"));
    }
}
