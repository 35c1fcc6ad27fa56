//! A look at one client, one backend or one row: all that is known of it.
//!
//! Promises that what was seen last stays on the screen when it is gone, and that it is said.

use crate::choice::key_of;
use crate::rows::{Row, Table};
use crate::views::Shown;

/// What is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// By its id of `SHOW CLIENTS`.
    Client(String),
    /// A backend that is no client's of the pooler.
    Backend { server: String, pid: String },
    /// A row of a table by its key, such as a pool or a statement.
    Row { shown: Shown, key: Vec<String> },
}

impl Subject {
    #[must_use]
    pub(crate) fn of(row: Row<'_>, shown: &Shown) -> Subject {
        if let Some(id) = client_id(row, shown) {
            return Subject::Client(id.to_owned());
        }
        match (row.get("server"), row.get("pid")) {
            (Some(server), Some(pid)) => Subject::Backend { server: server.to_owned(), pid: pid.to_owned() },
            _ => Subject::Row { shown: shown.clone(), key: key_of(row, shown.shape) },
        }
    }

    #[must_use]
    pub(crate) fn title(&self) -> String {
        match self {
            Subject::Client(id) => format!("client {id}"),
            Subject::Backend { server, pid } => format!("backend {pid} of {server}"),
            Subject::Row { shown, .. } => format!("{}: one row", shown.name),
        }
    }

    /// What is asked for it.
    #[must_use]
    pub(crate) fn questions(&self) -> Vec<String> {
        let fixed = |all: &[&str]| all.iter().map(|sql| (*sql).to_owned()).collect();
        match self {
            Subject::Client(_) => fixed(&["SHOW ACTIVITY", "SHOW CLIENTS", "SHOW HOLDERS", "SHOW LOCKS", "SHOW PINS"]),
            Subject::Backend { .. } => fixed(&["SHOW ACTIVITY", "SHOW LOCKS"]),
            Subject::Row { shown, .. } => vec![shown.sql.clone()],
        }
    }

    fn is_of(&self, sql: &str, row: Row<'_>) -> bool {
        match self {
            Subject::Client(id) => row.get(id_column(sql)) == Some(id),
            Subject::Backend { server, pid } => row.get("server") == Some(server) && row.get("pid") == Some(pid),
            Subject::Row { shown, key } => shown.sql == sql && key_of(row, shown.shape) == *key,
        }
    }
}

/// The id of the client that a row is of.
#[must_use]
pub(crate) fn client_id<'t>(row: Row<'t>, shown: &Shown) -> Option<&'t str> {
    let is_number = |id: &&str| id.bytes().all(|byte| byte.is_ascii_digit());
    // That of SHOW SERVERS is a server's.
    let is_clients = matches!(shown.shape.show, "ACTIVITY" | "HOLDERS" | "LOCKS" | "CLIENTS" | "PINS");
    row.get(id_column(&shown.sql)).filter(is_number).filter(|_| is_clients)
}

fn id_column(sql: &str) -> &'static str {
    if matches!(sql, "SHOW CLIENTS" | "SHOW PINS") { "id" } else { "client_id" }
}

/// A look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Looking {
    pub subject: Subject,
    /// The first line that is shown.
    pub first: usize,
    pub parts: Vec<Part>,
    pub presence: Presence,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Here,
    Gone,
}

/// What one table knows of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub title: String,
    pub pairs: Vec<(String, String)>,
}

impl Looking {
    #[must_use]
    pub(crate) fn at(subject: Subject) -> Looking {
        Looking { subject, first: 0, parts: Vec::new(), presence: Presence::Here }
    }

    /// Takes all answers that are there.
    pub(crate) fn take<'t>(&mut self, answers: impl Fn(&str) -> Option<&'t Table>) {
        let mut parts = Vec::new();
        for sql in self.subject.questions() {
            let Some(table) = answers(&sql) else { continue };
            let rows = table.rows().filter(|row| self.subject.is_of(&sql, *row));
            parts.extend(rows.map(|row| Part::of(&sql, row)));
        }
        match parts.is_empty() {
            true => self.presence = Presence::Gone,
            false => (self.parts, self.presence) = (parts, Presence::Here),
        }
    }
}

impl Part {
    fn of(sql: &str, row: Row<'_>) -> Part {
        let pairs = row.pairs().map(|(name, value)| (name.to_owned(), value.to_owned()));
        Part { title: sql.to_owned(), pairs: pairs.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::table;
    use crate::views::View;

    #[test]
    fn all_tables_are_asked_for_a_client_and_what_was_seen_last_stays() {
        let activity = table(&["client_id", "query"], &[&["7", "select 1"], &["8", "select 2"]]);
        let clients = table(&["id", "addr"], &[&["7", "10.0.0.5"]]);
        let shown = &View::Clients.tables(&[], "")[0];
        let subject = Subject::of(activity.row(0), shown);
        assert_eq!(subject, Subject::Client("7".to_owned()));
        let mut looking = Looking::at(subject);
        looking.take(|sql| match sql {
            "SHOW ACTIVITY" => Some(&activity),
            "SHOW CLIENTS" => Some(&clients),
            _ => None,
        });
        let titles: Vec<&str> = looking.parts.iter().map(|part| part.title.as_str()).collect();
        assert_eq!(titles, ["SHOW ACTIVITY", "SHOW CLIENTS"]);
        let empty = Table::default();
        looking.take(|_| Some(&empty));
        assert_eq!((looking.presence, looking.parts.len()), (Presence::Gone, 2));
    }

    #[test]
    fn the_id_of_a_server_is_none_of_a_client() {
        let servers = table(&["id", "state"], &[&["7", "active"]]);
        let shown = &View::Pools.tables(&[], "")[2];
        assert_eq!(shown.sql, "SHOW SERVERS");
        assert_eq!(client_id(servers.row(0), shown), None);
        assert!(matches!(Subject::of(servers.row(0), shown), Subject::Row { .. }));
    }
}
