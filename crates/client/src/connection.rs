//! A client that blocks, and says exactly what its caller wants, sensible or not.

use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::time::Duration;

use crate::message::{Message, frontend};
use crate::place::{Place, Stream};

/// A client that hears nothing for this long fails its test: nothing hangs for ever.
const PATIENCE: Duration = Duration::from_secs(60);

/// An ErrorResponse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerError {
    pub severity: String,
    pub sqlstate: String,
    pub message: String,
}

impl ServerError {
    fn read(message: &Message) -> Self {
        Self { severity: message.field(b'S'), sqlstate: message.field(b'C'), message: message.field(b'M') }
    }
}

/// Everything up to ReadyForQuery, or up to COPY asking for data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The columns' names, where they were described.
    pub names: Vec<String>,
    pub rows: Vec<Vec<Option<String>>>,
    pub tags: Vec<String>,
    pub errors: Vec<ServerError>,
    pub notices: Vec<ServerError>,
    /// What COPY TO STDOUT brought.
    pub copied: Vec<u8>,
    /// `I`, `T` or `E`.
    pub status: u8,
}

impl Answer {
    /// The only column of the only row.
    #[must_use]
    pub fn value(&self) -> Option<&str> {
        match self.rows.as_slice() {
            [row] => row.first()?.as_deref(),
            _ => None,
        }
    }

    /// The rows as `psql -At` prints them: `|` between columns, NULL empty.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let line = |row: &Vec<Option<String>>| {
            row.iter().map(|value| value.as_deref().unwrap_or_default()).collect::<Vec<_>>().join("|")
        };
        self.rows.iter().map(line).collect()
    }
}

/// The connection ended: the error that was told last, if any, and how the socket ended.
#[derive(Debug)]
pub struct Gone {
    pub error: Option<ServerError>,
    pub how: io::Error,
}

impl std::fmt::Display for Gone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.error {
            Some(error) => write!(f, "{} {} {}", error.severity, error.sqlstate, error.message),
            None => write!(f, "closed without a word ({})", self.how),
        }
    }
}

impl std::error::Error for Gone {}

impl From<io::Error> for Gone {
    fn from(how: io::Error) -> Self {
        Self { error: None, how }
    }
}

/// What a login makes of the server's demands.
pub trait Login {
    /// Takes the body of an Authentication message and appends what it asks for.
    ///
    /// # Errors
    /// Why this cannot be a login, in words.
    fn step(&mut self, body: &[u8], out: &mut Vec<u8>) -> Result<(), String>;
}

/// Logs in where nobody is asked for a password.
pub struct Trusted;

impl Login for Trusted {
    fn step(&mut self, body: &[u8], _out: &mut Vec<u8>) -> Result<(), String> {
        if body == [0; 4] { Ok(()) } else { Err("a password is asked for, and there is none".to_owned()) }
    }
}

/// A connection.
pub struct Connection {
    stream: Box<dyn Stream>,
    buffer: Vec<u8>,
    read: usize,
    pid: u32,
    key: u32,
    place: Place,
}

impl Connection {
    /// Logs in as `user` into `database`, without a password.
    ///
    /// # Errors
    /// What it was told instead.
    pub fn login(place: impl Into<Place>, user: &str, database: &str) -> Result<Self, Gone> {
        let mut client = Self::connect(place)?;
        client.send(&frontend::startup(&[("user", user), ("database", database)]))?;
        client.answer()?;
        Ok(client)
    }

    /// Only connects; the next message is the caller's.
    ///
    /// # Errors
    /// If nobody listens.
    pub fn connect(place: impl Into<Place>) -> io::Result<Self> {
        Self::open(place.into(), PATIENCE)
    }

    /// The same. `patience`: how long to wait for the connection, and for each message.
    ///
    /// # Errors
    /// If nobody listens.
    pub fn open(place: Place, patience: Duration) -> io::Result<Self> {
        Ok(Self::over(place.dial_blocking(patience)?, place))
    }

    /// Speaks over a socket that is there already.
    #[must_use]
    pub fn over(stream: Box<dyn Stream>, place: Place) -> Self {
        Self { stream, buffer: Vec::new(), read: 0, pid: 0, key: 0, place }
    }

    /// Logs in with this startup packet, by whatever `login` can.
    ///
    /// # Errors
    /// What the server says against it, or what `login` does.
    pub fn log_in(&mut self, startup: &[u8], login: &mut impl Login) -> Result<(), Gone> {
        self.send(startup)?;
        let mut out = Vec::new();
        loop {
            let message = self.receive()?;
            match message.tag {
                b'R' => login.step(&message.body, &mut out).map_err(io::Error::other)?,
                // Nothing but the end may follow it.
                b'E' => {
                    let how = ErrorKind::ConnectionAborted.into();
                    return Err(Gone { error: Some(ServerError::read(&message)), how });
                }
                b'K' => self.keep_key(&message),
                b'Z' => return Ok(()),
                _ => {}
            }
            self.send(&out)?;
            out.clear();
        }
    }

    /// One statement by the simple protocol.
    ///
    /// # Errors
    /// If the connection ends before ReadyForQuery.
    pub fn query(&mut self, sql: &str) -> Result<Answer, Gone> {
        self.send(&frontend::query(sql))?;
        self.answer()
    }

    /// One statement by the extended protocol, prepared under `name` if it is not empty.
    ///
    /// # Errors
    /// As [`Connection::query`].
    pub fn extended(&mut self, name: &str, sql: &str, values: &[&str]) -> Result<Answer, Gone> {
        let parts = [frontend::parse(name, sql), frontend::bind(name, values), frontend::execute(), frontend::sync()];
        self.send(&parts.concat())?;
        self.answer()
    }

    /// Executes a statement that was prepared earlier.
    ///
    /// # Errors
    /// As [`Connection::query`].
    pub fn prepared(&mut self, name: &str, values: &[&str]) -> Result<Answer, Gone> {
        self.send(&[frontend::bind(name, values), frontend::execute(), frontend::sync()].concat())?;
        self.answer()
    }

    /// Writes bytes as they are, whatever the other side has said meanwhile.
    ///
    /// # Errors
    /// If the connection is gone.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// If the connection is gone. What was told before it went comes with it.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        match self.stream.write_all(bytes) {
            Ok(()) => Ok(()),
            Err(how) => Err(Gone { error: self.last_words(), how }),
        }
    }

    /// Collects messages up to ReadyForQuery.
    ///
    /// # Errors
    /// If the connection ends before that.
    pub fn answer(&mut self) -> Result<Answer, Gone> {
        let mut answer = Answer::default();
        loop {
            let message = match self.receive() {
                Ok(message) => message,
                Err(how) => return Err(Gone { error: answer.errors.pop(), how }),
            };
            match message.tag {
                b'T' => answer.names = message.names().map_err(|how| Gone { error: None, how })?,
                b'D' => answer.rows.push(message.columns().map_err(|how| Gone { error: None, how })?),
                b'C' => answer.tags.push(message.body.iter().map(|&b| char::from(b)).filter(|&c| c != '\0').collect()),
                b'E' => answer.errors.push(ServerError::read(&message)),
                b'N' => answer.notices.push(ServerError::read(&message)),
                b'K' => self.keep_key(&message),
                b'd' => answer.copied.extend(message.body),
                b'G' | b'W' => return Ok(answer),
                b'Z' => {
                    answer.status = message.body.first().copied().unwrap_or_default();
                    return Ok(answer);
                }
                _ => {}
            }
        }
    }

    /// The next message.
    ///
    /// # Errors
    /// If the connection ends, or nothing comes for a minute.
    pub fn receive(&mut self) -> io::Result<Message> {
        loop {
            if let Some(message) = self.take_message()? {
                return Ok(message);
            }
            self.fill()?;
        }
    }

    /// Reads whatever is left until the other side closes; the error it told on the way.
    pub fn last_words(&mut self) -> Option<ServerError> {
        let mut error = None;
        while let Ok(message) = self.receive() {
            if message.tag == b'E' {
                error = Some(ServerError::read(&message));
            }
        }
        error
    }

    /// Discards the next `count` bytes without looking at them.
    ///
    /// # Errors
    /// If the connection ends before that.
    pub fn discard(&mut self, mut count: usize) -> io::Result<()> {
        while count > 0 {
            if self.read == self.buffer.len() {
                self.fill()?;
            }
            let taken = count.min(self.buffer.len() - self.read);
            self.read += taken;
            count -= taken;
        }
        Ok(())
    }

    /// The header of the next message: its type and the length of what follows.
    ///
    /// # Errors
    /// If the connection ends before that.
    pub fn header(&mut self) -> io::Result<(u8, usize)> {
        while self.buffer.len() - self.read < 5 {
            self.fill()?;
        }
        let [tag, a, b, c, d] = self.buffer[self.read..self.read + 5].try_into().expect("five bytes are there");
        self.read += 5;
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        Ok((tag, length.checked_sub(4).ok_or(ErrorKind::InvalidData)?))
    }

    /// The next `count` bytes.
    ///
    /// # Errors
    /// If the connection ends before that.
    pub fn take(&mut self, count: usize) -> io::Result<Vec<u8>> {
        while self.buffer.len() - self.read < count {
            self.fill()?;
        }
        self.read += count;
        Ok(self.buffer[self.read - count..self.read].to_vec())
    }

    /// Asks, on a connection of its own, that this client's query be cancelled. Returns once the pooler has taken note.
    ///
    /// # Errors
    /// If nobody listens.
    pub fn cancel(&self) -> io::Result<()> {
        cancel(&self.place, self.pid, self.key)
    }

    /// The process id and the secret that cancel this client's query.
    #[must_use]
    pub fn cancel_key(&self) -> (u32, u32) {
        (self.pid, self.key)
    }

    /// Vanishes: with an RST if the other side has sent something that was not read.
    pub fn vanish(self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// The other side is told that nothing more comes, but can still be heard.
    pub fn stop_sending(&self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    pub fn set_patience(&self, patience: Duration) {
        self.stream.set_patience(patience).expect("a timeout above zero");
    }

    fn keep_key(&mut self, message: &Message) {
        let number = |at: usize| Some(u32::from_be_bytes(*message.body.get(at..)?.first_chunk()?));
        (self.pid, self.key) = (number(0).unwrap_or_default(), number(4).unwrap_or_default());
    }

    fn take_message(&mut self) -> io::Result<Option<Message>> {
        let unread = &self.buffer[self.read..];
        let Some((&[tag, a, b, c, d], rest)) = unread.split_first_chunk::<5>() else { return Ok(None) };
        let length = (u32::from_be_bytes([a, b, c, d]) as usize).checked_sub(4).ok_or(ErrorKind::InvalidData)?;
        let Some(body) = rest.get(..length) else { return Ok(None) };
        let body = body.to_vec();
        self.read += 5 + length;
        Ok(Some(Message { tag, body }))
    }

    fn fill(&mut self) -> io::Result<()> {
        self.buffer.drain(..self.read);
        self.read = 0;
        let mut chunk = [0; 65_536];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    self.buffer.extend(&chunk[..count]);
                    return Ok(());
                }
                // A signal: an answer that is left unread would be taken for the next one.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Sends a CancelRequest and waits until the other side closes, which says that it has been dealt with.
fn cancel(place: &Place, pid: u32, key: u32) -> io::Result<()> {
    let mut stream = place.dial_blocking(PATIENCE)?;
    stream.write_all(&frontend::cancel(pid, key))?;
    let mut nothing = [0; 16];
    // A reset instead of an orderly end means the same: it is over.
    let _ = stream.read(&mut nothing);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_columns_with_bars_and_null_is_empty() {
        let text = |text: &str| Some(text.to_owned());
        let answer = Answer { rows: vec![vec![text("a"), None, text("bc")], vec![text("d")]], ..Answer::default() };
        assert_eq!(answer.lines(), ["a||bc", "d"]);
    }
}
