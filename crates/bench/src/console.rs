//! A question to a pooler's admin console, outside every timed slice.

use std::net::Ipv4Addr;
use std::time::Duration;

use client::{Connection, Gone, Place, Trusted, frontend};

use crate::style::USER;

/// How long the console may be silent.
const PATIENCE: Duration = Duration::from_secs(5);

/// The answer to a SHOW command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Option<String>>>,
}

impl Table {
    /// The sum of a column of whole numbers; `None` if there is no such column.
    pub fn sum(&self, column: &str) -> Option<u64> {
        let index = self.columns.iter().position(|name| name == column)?;
        let number = |row: &Vec<Option<String>>| row.get(index)?.as_deref()?.parse::<u64>().ok();
        Some(self.rows.iter().filter_map(number).sum())
    }
}

/// Asks the console at a port, as the load's user, trusted. Errors: whatever is not a table.
pub fn ask(port: u16, command: &str) -> Result<Table, String> {
    let words = |gone: Gone| format!("console: {gone}");
    let place = Place::Tcp((Ipv4Addr::LOCALHOST, port).into());
    let mut console = Connection::open(place, PATIENCE).map_err(|error| format!("console: {error}"))?;
    console.log_in(&frontend::startup(&[("user", USER), ("database", "pgbouncer")]), &mut Trusted).map_err(words)?;
    let answer = console.query(command).map_err(words)?;
    match answer.errors.first() {
        Some(error) => Err(format!("console: {}: {}", error.sqlstate, error.message)),
        None => Ok(Table { columns: answer.names, rows: answer.rows }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_summed() {
        let text = |text: &str| Some(text.to_owned());
        let columns = ["database", "lends"].map(str::to_owned).to_vec();
        let rows = vec![vec![text("a"), text("3")], vec![None, text("4")]];
        let table = Table { columns, rows };
        assert_eq!(table.sum("lends"), Some(7));
        assert_eq!(table.sum("loans"), None);
    }
}
