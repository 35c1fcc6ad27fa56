//! A connection of our own beside the load: makes tables, asks PostgreSQL about itself.
//!
//! Promises: blocks until the answer is there; rows come as text, with `|` between columns.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use client::{Connection, Gone, Place, ServerError, frontend};
use measure::login::{Account, Login};

use crate::encryption::{Channel, channels};
use crate::target::{APPLICATION, Target};

/// Making ten million rows may take a while; an answer within a load of thousands too.
const PATIENCE: Duration = Duration::from_secs(600);

/// Connections of clients, everybody's: a role without rights is not told what kind of backend another role's is, but whose it is,
/// and of which database.
const CLIENTS: &str = "SELECT pid, datid, usesysid FROM pg_stat_activity \
     WHERE datid IS NOT NULL AND usesysid IS NOT NULL AND coalesce(backend_type, 'client backend') = 'client backend'";

/// Connections that a client may still open: of the server, of the role, and of the database. The parameter of PostgreSQL 16 is not
/// there before.
//= pg18 runtime-config-connection#reserved_connections
const ROOM: &str = "SELECT greatest(0, least(\
     current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int \
     - coalesce(current_setting('reserved_connections', true)::int, 0) - (SELECT count(*) FROM clients), \
     (SELECT rolconnlimit - (SELECT count(*) FROM clients WHERE usesysid = r.oid) \
      FROM pg_roles r WHERE rolname = current_user AND rolconnlimit >= 0), \
     (SELECT datconnlimit - (SELECT count(*) FROM clients WHERE datid = d.oid) \
      FROM pg_database d WHERE datname = current_database() AND datconnlimit >= 0)))";

/// Connections of the load that began after a moment, [`Monitor::now`]'s: of our role, in our database, and by the load's name,
/// pgbench's, or none, as a pooler opens a server before it knows for whom. An application of the same role has a name of its own.
pub(crate) fn ours(since: f64) -> String {
    format!(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND usename = session_user \
         AND application_name IN ('{APPLICATION}', 'pgbench', '') AND backend_start >= to_timestamp({since:.6}) \
         AND pid <> pg_backend_pid()"
    )
}

/// One connection.
pub struct Monitor {
    connection: Connection,
    login: &'static str,
}

impl Monitor {
    /// Logs in. An answer may take ten minutes, to statements too.
    ///
    /// # Errors
    /// In the server's words, with its SQLSTATE in front.
    pub fn connect(target: &Target) -> Result<Self, String> {
        Self::connect_within(target, PATIENCE)
    }

    /// Logs in. `patience`: how long to wait for the connection, and for each answer, to statements too.
    ///
    /// # Errors
    /// In the server's words, with its SQLSTATE in front.
    pub fn connect_within(target: &Target, patience: Duration) -> Result<Self, String> {
        Self::connect_as(target, APPLICATION, patience)
    }

    /// The same, under a name of one's own: from the login on, since a console lets nobody change it afterwards.
    ///
    /// # Errors
    /// In the server's words, with its SQLSTATE in front.
    pub fn connect_as(target: &Target, name: &str, patience: Duration) -> Result<Self, String> {
        let place = target.place()?;
        let account = Arc::new(target.account_as(name));
        let channels = channels(target.encryption.as_ref(), &place);
        let mut tries = channels.iter().map(|channel| Self::by(*channel, target, &account, &place, patience));
        let first = tries.next().expect("there is always one");
        first.or_else(|why| tries.find_map(Result::ok).ok_or(why))
    }

    fn by(
        channel: Channel,
        target: &Target,
        account: &Arc<Account>,
        place: &Place,
        patience: Duration,
    ) -> Result<Self, String> {
        let words = |error| format!("cannot connect to {place}: {error}");
        let mut stream = place.dial_blocking(patience).map_err(words)?;
        if let (Channel::Encrypted, Some(encryption)) = (channel, &target.encryption) {
            stream = encryption.begin(stream, &target.host).map_err(words)?;
        }
        let mut connection = Connection::over(stream, place.clone());
        let mut login = Login::new(account);
        connection.log_in(&account.startup(), &mut login).map_err(gone)?;
        Ok(Self { connection, login: login.kind() })
    }

    /// How it has logged in: as everybody of this role and from this machine does.
    pub(crate) fn login(&self) -> &'static str {
        self.login
    }

    /// Runs one statement; its rows.
    ///
    /// # Errors
    /// In the server's words.
    pub fn ask(&mut self, sql: &str) -> Result<Vec<String>, String> {
        let answer = self.connection.query(sql).map_err(gone)?;
        match answer.errors.first() {
            Some(error) => Err(words(error)),
            None => Ok(answer.lines()),
        }
    }

    /// The same, with its columns apart; `None` is NULL.
    ///
    /// # Errors
    /// In the server's words.
    pub fn rows(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>, String> {
        self.table(sql).map(|(_, rows)| rows)
    }

    /// Runs one statement; the names of its columns, and its rows. NULL is `None`.
    ///
    /// # Errors
    /// In the server's words.
    #[allow(clippy::type_complexity, reason = "an answer as it came; whoever asks makes something of it")]
    pub fn table(&mut self, sql: &str) -> Result<(Vec<String>, Vec<Vec<Option<String>>>), String> {
        let answer = self.connection.query(sql).map_err(gone)?;
        match answer.errors.first() {
            Some(error) => Err(words(error)),
            None => Ok((answer.names, answer.rows)),
        }
    }

    /// The first column of the first row as a number; 0 if there is none.
    pub(crate) fn number(&mut self, sql: &str) -> Result<u64, String> {
        Ok(self.ask(sql)?.first().and_then(|row| row.parse().ok()).unwrap_or(0))
    }

    /// Connections that PostgreSQL would still take from a client like this one.
    ///
    /// # Errors
    /// In the server's words.
    pub fn room(&mut self) -> Result<u64, String> {
        self.number(&format!("WITH clients AS ({CLIENTS}) {ROOM}"))
    }

    /// The time by PostgreSQL's clock, in seconds since 1970.
    pub(crate) fn now(&mut self) -> Result<f64, String> {
        let rows = self.ask("SELECT extract(epoch FROM clock_timestamp())")?;
        rows.first().and_then(|row| row.parse().ok()).ok_or_else(|| "the server does not tell the time".to_owned())
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        // Without waiting to be told what became of it.
        let _ = self.connection.write(&frontend::terminate());
    }
}

fn words(error: &ServerError) -> String {
    format!("{}: {}", error.sqlstate, error.message)
}

/// A connection that has ended, or whose server is silent.
fn gone(gone: Gone) -> String {
    match gone.error {
        Some(error) => words(&error),
        None if gone.how.kind() == ErrorKind::UnexpectedEof => "the server closed the connection".to_owned(),
        None if gone.how.kind() == ErrorKind::Other => gone.how.to_string(),
        None if gone.how.kind() == ErrorKind::BrokenPipe => format!("cannot write to the server: {}", gone.how),
        None => format!("no answer: {}", gone.how),
    }
}

/// A server that is played: keeps what it is asked, and answers what a run must know.
#[cfg(test)]
pub(crate) mod played {
    use std::io::{self, Read, Write};
    use std::path::PathBuf;
    use std::sync::{Arc, Mutex};

    use client::{Connection, Frames, Place, Stream, put};

    use super::{ErrorKind, Monitor};

    pub(crate) struct Played {
        pub(crate) asked: Arc<Mutex<Vec<String>>>,
        answers: &'static [(&'static str, &'static str)],
        to_read: Vec<u8>,
        was_interrupted: bool,
    }

    impl Played {
        /// Parts of statements, and the value that each gets.
        pub(crate) fn new(answers: &'static [(&'static str, &'static str)]) -> Self {
            Self { asked: Arc::default(), answers, to_read: Vec::new(), was_interrupted: false }
        }

        pub(crate) fn monitor(self) -> Monitor {
            let connection = Connection::over(Box::new(self), Place::Unix(PathBuf::new()));
            Monitor { connection, login: "" }
        }
    }

    impl Stream for Played {}

    impl Write for Played {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let (out, answers, asked) = (&mut self.to_read, self.answers, &self.asked);
            let queries = Frames::default().feed(bytes, |tag, body| {
                let sql = String::from_utf8_lossy(body).trim_end_matches('\0').to_owned();
                if let Some((_, value)) = answers.iter().find(|(part, _)| sql.contains(part)) {
                    let length = i32::try_from(value.len()).expect("short").to_be_bytes();
                    put(out, b'D', &[&[0, 1], &length, value.as_bytes()]);
                }
                if tag == b'Q' {
                    put(out, b'Z', &[b"I"]);
                    asked.lock().expect("nobody panics with it").push(sql);
                }
                Ok(())
            });
            queries.expect("whole messages");
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Read for Played {
        /// A signal comes before every read.
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.was_interrupted = !self.was_interrupted;
            if self.was_interrupted {
                return Err(ErrorKind::Interrupted.into());
            }
            let count = into.len().min(self.to_read.len());
            into[..count].copy_from_slice(&self.to_read[..count]);
            self.to_read.drain(..count);
            Ok(count)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_does_not_end_the_wait_for_an_answer() {
        let mut monitor = played::Played::new(&[("first", "1"), ("second", "2")]).monitor();
        assert_eq!(monitor.ask("SELECT first"), Ok(vec!["1".to_owned()]));
        assert_eq!(monitor.ask("SELECT second"), Ok(vec!["2".to_owned()]), "each question gets its own answer");
    }
}
