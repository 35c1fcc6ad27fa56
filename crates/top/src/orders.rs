//! Orders to the console: end a client's query, or the client.
//!
//! Promises that an order names the client that was on the screen when it was chosen, by an id that no other client ever gets.

use crate::looking::client_id;
use crate::rows::Row;
use crate::text::one_line;
use crate::views::Shown;

/// What is to be ended.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    Query,
    Client,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    kind: Kind,
    id: String,
    /// The client in words.
    client: String,
}

impl Order {
    /// For the client that a row is of.
    ///
    /// # Errors
    /// It is none of the pooler's clients, with what can be done instead.
    pub fn new(kind: Kind, row: Row<'_>, shown: &Shown) -> Result<Order, String> {
        if let Some(id) = client_id(row, shown) {
            let names = [row.get("application_name"), row.get("client_addr").or(row.get("addr"))];
            let names: Vec<&str> = names.into_iter().flatten().collect();
            let named = if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) };
            return Ok(Order {
                kind,
                id: id.to_owned(),
                client: one_line(&format!("client {id}{named}")).into_owned(),
            });
        }
        if let Some(gid) = row.get("gid") {
            let rollback = row.get("note").filter(|note| note.starts_with("ROLLBACK PREPARED"));
            let rollback = rollback.map_or_else(|| "ROLLBACK PREPARED".to_owned(), |note| one_line(note).into_owned());
            return Err(format!("{} is a prepared transaction. To end it: {rollback}", one_line(gid)));
        }
        // A prepared transaction whose gid is not known: no process has it.
        if row.get("pid") == Some("0") {
            return Err(
                "a prepared transaction: SELECT * FROM pg_prepared_xacts has it, ROLLBACK PREPARED ends it".to_owned()
            );
        }
        let function = match kind {
            Kind::Query => "pg_cancel_backend",
            Kind::Client => "pg_terminate_backend",
        };
        Err(match row.get("pid") {
            Some(pid) => format!("no client of this pooler: SELECT {function}({pid}) at PostgreSQL would end it"),
            None => "this row is of no client".to_owned(),
        })
    }

    /// For a client that is looked at.
    #[must_use]
    pub fn for_client(kind: Kind, id: &str) -> Order {
        Order { kind, id: id.to_owned(), client: format!("client {id}") }
    }

    /// As the console has it.
    #[must_use]
    pub fn sql(&self) -> String {
        let word = self.word();
        format!("{word} {}", self.id)
    }

    fn word(&self) -> &'static str {
        match self.kind {
            Kind::Query => "KILL_QUERY",
            Kind::Client => "KILL_CLIENT",
        }
    }

    /// The question before it is given.
    #[must_use]
    pub fn question(&self) -> String {
        match self.kind {
            Kind::Query => format!("Cancel the query of {}?", self.client),
            Kind::Client => format!("End {}, with its transaction?", self.client),
        }
    }

    /// What became of it.
    #[must_use]
    pub fn came_to(&self, result: &Result<(), String>) -> String {
        match (result, self.kind) {
            (Ok(()), Kind::Query) => format!("{}: query cancelled", self.client),
            (Ok(()), Kind::Client) => format!("{}: ended", self.client),
            (Err(why), _) if is_unknown(why) => format!("this pgweir has no {}", self.word()),
            (Err(why), _) => format!("{}: {why}", self.client),
        }
    }
}

/// Whether the console does not know the command. It says so with the code of any error of its own.
#[must_use]
pub(crate) fn is_unknown(why: &str) -> bool {
    why.contains("invalid command")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::table;
    use crate::views::View;

    /// `pg_terminate_backend(0)` ends nothing.
    #[test]
    fn a_prepared_transaction_is_ended_by_its_gid() {
        let locks = table(
            &["pid", "depth", "gid", "note"],
            &[
                &["0", "0", "it's", "ROLLBACK PREPARED 'it''s'; as app or a superuser, in database shop"],
                &["0", "0", "", ""],
                &["99", "0", "", ""],
            ],
        );
        let shown = &View::Locks.tables(&[], "")[0];
        let advised = |at: usize| Order::new(Kind::Client, locks.row(at), shown).expect_err("none is a client");
        let expected = "it's is a prepared transaction. To end it: ROLLBACK PREPARED 'it''s'; as app or a superuser, in database shop";
        assert_eq!(advised(0), expected);
        assert!(advised(1).contains("pg_prepared_xacts") && !advised(1).contains("pg_terminate_backend"));
        assert!(advised(2).contains("pg_terminate_backend(99)"));
    }
}
