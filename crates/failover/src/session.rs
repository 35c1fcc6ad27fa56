//! A connection of a client: where it may be opened, how long an answer is awaited, and how the end of a run ends the wait.

use std::cell::Cell;
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use client::{Answer, Connection, Gone, Place, Stream};
use measure::login::{Account, Login};
use rustix::net::sockopt::set_tcp_user_timeout;

/// How often a client that waits looks whether its wait is to end.
const LOOKS_EVERY: Duration = Duration::from_millis(100);
/// libpq's smallest `connect_timeout`, for each host.
const HOST_ANSWERS_WITHIN: Duration = Duration::from_secs(2);
/// As the poolers have it: a connection on which nothing is acknowledged is closed.
const TCP_USER_TIMEOUT_MS: u32 = 5000;

/// The addresses at which a client logs in.
#[derive(Clone)]
pub(crate) enum Access {
    /// A pooler, or one PostgreSQL. `patience`: the longest wait for an answer.
    One { place: SocketAddr, account: Arc<Account>, patience: Option<Duration> },
    /// The first of these that takes writes, as libpq does it with `target_session_attrs=read-write`.
    Many { places: Vec<SocketAddr>, account: Arc<Account> },
}

impl Access {
    /// The superuser of a cluster, with an error instead of a long wait.
    pub(crate) fn superuser(place: SocketAddr, password: &str) -> Self {
        let account = Arc::new(Account::new("postgres", Some(password), "postgres", "failover"));
        Self::One { place, account, patience: Some(Duration::from_secs(10)) }
    }
}

/// Why nobody could log in.
#[derive(Debug)]
pub(crate) enum Refusal {
    Gone(Gone),
    /// All hosts were tried, and none is the primary.
    NoPrimary,
}

impl Refusal {
    /// An SQLSTATE, or a word in its place.
    pub(crate) fn code(&self) -> String {
        match self {
            Self::Gone(gone) => code_of(gone),
            Self::NoPrimary => "no primary".to_owned(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone(gone) => gone.fmt(f),
            Self::NoPrimary => f.write_str("no host is the primary"),
        }
    }
}

/// The word for an answer that was not awaited to its end.
pub(crate) const SILENT: &str = "silent";

/// The SQLSTATE that a connection ended with, or how it ended.
pub(crate) fn code_of(gone: &Gone) -> String {
    match (&gone.error, gone.how.kind()) {
        (Some(error), _) => error.sqlstate.clone(),
        (None, ErrorKind::ConnectionRefused) => "refused".to_owned(),
        (None, ErrorKind::TimedOut | ErrorKind::WouldBlock) => SILENT.to_owned(),
        (None, _) => "closed".to_owned(),
    }
}

/// A client that is logged in.
pub(crate) struct Session {
    connection: Connection,
}

impl Session {
    /// `cut`: once it is true, no answer is awaited any more.
    pub(crate) fn open(access: &Access, cut: Option<&Arc<AtomicBool>>) -> Result<Self, Refusal> {
        match access {
            Access::One { place, account, patience } => {
                Self::log_in(*place, account, *patience, cut).map_err(Refusal::Gone)
            }
            Access::Many { places, account } => Self::find(places, account, cut),
        }
    }

    fn find(places: &[SocketAddr], account: &Arc<Account>, cut: Option<&Arc<AtomicBool>>) -> Result<Self, Refusal> {
        let mut last = Refusal::NoPrimary;
        for place in places {
            let found = Self::log_in(*place, account, Some(HOST_ANSWERS_WITHIN), cut).and_then(|mut session| {
                let is_primary = session.query("show transaction_read_only")?.value() == Some("off");
                session.connection.set_patience(Duration::MAX);
                Ok(is_primary.then_some(session))
            });
            match found {
                Ok(Some(session)) => return Ok(session),
                Ok(None) => {}
                Err(gone) => last = Refusal::Gone(gone),
            }
        }
        Err(last)
    }

    fn log_in(
        place: SocketAddr,
        account: &Arc<Account>,
        patience: Option<Duration>,
        cut: Option<&Arc<AtomicBool>>,
    ) -> Result<Self, Gone> {
        let stream = TcpStream::connect_timeout(&place, patience.unwrap_or(HOST_ANSWERS_WITHIN))?;
        stream.set_nodelay(true)?;
        set_tcp_user_timeout(&stream, TCP_USER_TIMEOUT_MS).map_err(io::Error::from)?;
        stream.set_read_timeout(Some(LOOKS_EVERY))?;
        let cut = cut.cloned().unwrap_or_default();
        let watched = Watched { stream, patience: Cell::new(patience.unwrap_or(Duration::MAX)), cut };
        let mut connection = Connection::over(Box::new(watched), Place::Tcp(place));
        connection.log_in(&account.startup(), &mut Login::new(account))?;
        Ok(Self { connection })
    }

    pub(crate) fn query(&mut self, sql: &str) -> Result<Answer, Gone> {
        self.connection.query(sql)
    }

    /// By the extended protocol, as drivers send what has values.
    pub(crate) fn extended(&mut self, sql: &str, values: &[&str]) -> Result<Answer, Gone> {
        self.connection.extended("", sql, values)
    }
}

/// A socket on which a wait has two ends: its patience, and the end of the run.
struct Watched {
    stream: TcpStream,
    patience: Cell<Duration>,
    cut: Arc<AtomicBool>,
}

impl Read for Watched {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let began = Instant::now();
        loop {
            match self.stream.read(buffer) {
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    if self.cut.load(Ordering::Relaxed) || began.elapsed() >= self.patience.get() {
                        return Err(ErrorKind::TimedOut.into());
                    }
                }
                other => return other,
            }
        }
    }
}

impl Write for Watched {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl Stream for Watched {
    fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.stream.shutdown(how)
    }

    fn set_patience(&self, patience: Duration) -> io::Result<()> {
        self.patience.set(patience);
        Ok(())
    }
}
