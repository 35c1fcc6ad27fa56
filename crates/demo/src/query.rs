//! One statement over PostgreSQL's own Unix socket, where it trusts us.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use client::{Connection, Gone, Place, Trusted, frontend};

use crate::error::Error;

/// Who asks, and where.
pub(crate) struct Line {
    pub(crate) socket: PathBuf,
    pub(crate) user: String,
    pub(crate) database: String,
    /// The longest silence to bear.
    pub(crate) patience: Duration,
}

/// The path of the socket that PostgreSQL makes in `dir`.
pub(crate) fn socket_path(dir: &Path, port: u16) -> PathBuf {
    dir.join(format!(".s.PGSQL.{port}"))
}

impl Line {
    /// Runs `sql` (several statements are fine) and returns its rows as `psql -At` would print them: `|` between columns, a
    /// line a row, NULL empty, no line break at the end.
    pub(crate) fn ask(&self, sql: &str) -> Result<String, Error> {
        let unreachable = Error::system(format!("connect to {}", self.socket.display()));
        let mut connection = Connection::open(Place::Unix(self.socket.clone()), self.patience).map_err(unreachable)?;
        let startup = frontend::startup(&[("user", &self.user), ("database", &self.database)]);
        connection.log_in(&startup, &mut Trusted).map_err(refused)?;
        let answer = connection.query(&sql.replace('\0', "")).map_err(refused)?;
        // Terminate lets PostgreSQL end the session without a line in its log; if it is gone already, so much the better.
        let _ = connection.send(&frontend::terminate());
        let lines = answer.lines().join("\n");
        match answer.errors.into_iter().next() {
            Some(error) => Err(Error::Refused { sqlstate: error.sqlstate, message: error.message }),
            None => Ok(lines),
        }
    }
}

/// What PostgreSQL said before it closed the connection, or how that ended.
fn refused(gone: Gone) -> Error {
    match gone.error {
        Some(error) => Error::Refused { sqlstate: error.sqlstate, message: error.message },
        None if gone.how.kind() == io::ErrorKind::UnexpectedEof => {
            Error::system("talk to PostgreSQL")(io::Error::new(gone.how.kind(), "it closed the connection"))
        }
        None => Error::system("talk to PostgreSQL")(gone.how),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use client::ServerError;

    #[test]
    fn errors_keep_their_sqlstate() {
        let [severity, sqlstate, message] = ["FATAL", "57P03", "the database system is starting up"].map(str::to_owned);
        let how = io::ErrorKind::ConnectionAborted.into();
        let gone = Gone { error: Some(ServerError { severity, sqlstate, message }), how };
        assert_eq!(refused(gone).to_string(), "PostgreSQL says 57P03: the database system is starting up");
    }
}
