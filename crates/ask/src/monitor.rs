//! One connection that asks a statement and waits for its answer.
//!
//! Promises: blocks until the answer is there; rows come as text, with `|` between columns.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use client::{Connection, Gone, Place, ServerError, frontend};

use crate::encryption::{Channel, channels};
use crate::login::{Account, Login};
use crate::target::Target;

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

/// The condition of a server that has not answered the question.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Is {
    /// Nothing has come within the patience.
    Silent,
    /// The server has answered something else: an error, or a demand that we cannot meet.
    Answering,
    /// There is no connection, or it has ended.
    Failed,
    /// Its name has no address.
    Unresolved,
}

impl Is {
    fn of(kind: ErrorKind) -> Is {
        match kind {
            ErrorKind::TimedOut | ErrorKind::WouldBlock => Is::Silent,
            // An error of TLS or of a login, which the server has answered.
            ErrorKind::Other => Is::Answering,
            _ => Is::Failed,
        }
    }
}

/// Why there is no answer.
#[derive(Clone, Debug)]
pub struct Trouble {
    pub is: Is,
    /// The SQLSTATE of PostgreSQL's error, if it sent one.
    pub sqlstate: Option<String>,
    pub words: String,
}

impl Trouble {
    fn of(error: &ServerError) -> Trouble {
        Trouble { is: Is::Answering, sqlstate: Some(error.sqlstate.clone()), words: words(error) }
    }
}

impl From<Gone> for Trouble {
    fn from(gone_with: Gone) -> Trouble {
        let (is, sqlstate) = match &gone_with.error {
            Some(error) => (Is::Answering, Some(error.sqlstate.clone())),
            None => (Is::of(gone_with.how.kind()), None),
        };
        Trouble { is, sqlstate, words: gone(gone_with) }
    }
}

/// One connection.
pub struct Monitor {
    connection: Connection,
    login: &'static str,
}

impl Monitor {
    /// Logs in under an application's name, from the login on: a console lets nobody change it afterwards. `patience`: how long to
    /// wait for the connection, and for each answer, to statements too.
    ///
    /// # Errors
    /// In the server's words, with its SQLSTATE in front.
    pub fn connect(target: &Target, name: &str, patience: Duration) -> Result<Self, String> {
        Self::try_connect(target, name, patience).map_err(|trouble| trouble.words)
    }

    /// The same; the error has what is known of the server.
    ///
    /// # Errors
    /// As [`Monitor::connect`].
    pub fn try_connect(target: &Target, name: &str, patience: Duration) -> Result<Self, Trouble> {
        let unknown = |words| Trouble { is: Is::Unresolved, sqlstate: None, words };
        let place = target.place().map_err(unknown)?;
        let account = Arc::new(target.account(name));
        let channels = channels(target.encryption.as_ref(), &place);
        let mut tries = channels.iter().map(|channel| Self::by(*channel, target, &account, &place, patience));
        let first = tries.next().expect("there is always one");
        match first {
            // It would be silent on the other channel, too.
            Err(why) if why.is != Is::Silent => tries.find_map(Result::ok).ok_or(why),
            first => first,
        }
    }

    /// Over a connection that has logged in.
    #[must_use]
    pub fn over(connection: Connection) -> Self {
        Self { connection, login: "" }
    }

    fn by(
        channel: Channel,
        target: &Target,
        account: &Arc<Account>,
        place: &Place,
        patience: Duration,
    ) -> Result<Self, Trouble> {
        let words = |error: io::Error| Trouble {
            is: Is::of(error.kind()),
            sqlstate: None,
            words: format!("cannot connect to {place}: {error}"),
        };
        let mut stream = place.dial_blocking(patience).map_err(words)?;
        if let (Channel::Encrypted, Some(encryption)) = (channel, &target.encryption) {
            stream = encryption.begin(stream, &target.host).map_err(words)?;
        }
        let mut connection = Connection::over(stream, place.clone());
        let mut login = Login::new(account);
        connection.log_in(&account.startup(), &mut login).map_err(|gone| {
            let trouble = Trouble::from(gone);
            // The server lives, and a service that it asks about us may be slow.
            let is = if trouble.is == Is::Silent && login.is_answered() { Is::Answering } else { trouble.is };
            Trouble { is, ..trouble }
        })?;
        Ok(Self { connection, login: login.kind() })
    }

    /// How it has logged in: as everybody of this role and from this machine does.
    #[must_use]
    pub fn login(&self) -> &'static str {
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

    /// The first row of one statement's answer; the error has what is known of the server.
    ///
    /// # Errors
    /// As [`Monitor::rows`].
    pub fn try_row(&mut self, sql: &str) -> Result<Vec<Option<String>>, Trouble> {
        let answer = self.connection.query(sql).map_err(Trouble::from)?;
        match answer.errors.first() {
            Some(error) => Err(Trouble::of(error)),
            None => Ok(answer.rows.into_iter().next().unwrap_or_default()),
        }
    }

    /// How long to wait for each answer from now on.
    pub fn set_patience(&self, patience: Duration) {
        self.connection.set_patience(patience);
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
    ///
    /// # Errors
    /// In the server's words.
    pub fn number(&mut self, sql: &str) -> Result<u64, String> {
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
    ///
    /// # Errors
    /// In the server's words, or there is no time in them.
    pub fn now(&mut self) -> Result<f64, String> {
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
