//! A client that says exactly what a test wants, sensible or not. Logs in without a password.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use crate::message::{Message, frontend};

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
}

/// The connection ended: the error that was told last, if any, and how the socket ended.
#[derive(Debug)]
pub struct Gone {
    pub told: Option<ServerError>,
    pub how: io::Error,
}

impl std::fmt::Display for Gone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.told {
            Some(error) => write!(f, "{} {} {}", error.severity, error.sqlstate, error.message),
            None => write!(f, "closed without a word ({})", self.how),
        }
    }
}

impl std::error::Error for Gone {}

impl From<io::Error> for Gone {
    fn from(how: io::Error) -> Self {
        Self { told: None, how }
    }
}

pub struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
    read: usize,
    pid: u32,
    key: u32,
    address: SocketAddr,
}

impl Client {
    /// Logs in as `user` into `database`.
    ///
    /// # Errors
    /// What it was told instead.
    pub fn login(address: SocketAddr, user: &str, database: &str) -> Result<Self, Gone> {
        let mut client = Self::connect(address)?;
        client.send(&frontend::startup(&[("user", user), ("database", database)]))?;
        client.answer()?;
        Ok(client)
    }

    /// Only connects; the next message is the caller's.
    ///
    /// # Errors
    /// If nobody listens.
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { stream, buffer: Vec::new(), read: 0, pid: 0, key: 0, address })
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
    /// As [`Client::query`].
    pub fn extended(&mut self, name: &str, sql: &str, values: &[&str]) -> Result<Answer, Gone> {
        let parts = [frontend::parse(name, sql), frontend::bind(name, values), frontend::execute(), frontend::sync()];
        self.send(&parts.concat())?;
        self.answer()
    }

    /// Executes a statement that was prepared earlier.
    ///
    /// # Errors
    /// As [`Client::query`].
    pub fn prepared(&mut self, name: &str, values: &[&str]) -> Result<Answer, Gone> {
        self.send(&[frontend::bind(name, values), frontend::execute(), frontend::sync()].concat())?;
        self.answer()
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// If the connection is gone. What was told before it went comes with it.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        match self.stream.write_all(bytes) {
            Ok(()) => Ok(()),
            Err(how) => Err(Gone { told: self.last_words(), how }),
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
                Err(how) => return Err(Gone { told: answer.errors.pop(), how }),
            };
            match message.tag {
                b'T' => answer.names = message.names(),
                b'D' => answer.rows.push(message.columns()),
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
        let mut told = None;
        while let Ok(message) = self.receive() {
            if message.tag == b'E' {
                told = Some(ServerError::read(&message));
            }
        }
        told
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
        Ok((tag, length.checked_sub(4).ok_or(io::ErrorKind::InvalidData)?))
    }

    /// Asks, on a connection of its own, that this client's query be cancelled. Returns once the pooler has taken note.
    ///
    /// # Errors
    /// If nobody listens.
    pub fn cancel(&self) -> io::Result<()> {
        cancel(self.address, self.pid, self.key)
    }

    /// What another thread needs to cancel this client's query.
    #[must_use]
    pub fn cancel_key(&self) -> (SocketAddr, u32, u32) {
        (self.address, self.pid, self.key)
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
        self.stream.set_read_timeout(Some(patience)).expect("a timeout above zero");
    }

    fn keep_key(&mut self, message: &Message) {
        let number = |at: usize| Some(u32::from_be_bytes(*message.body.get(at..)?.first_chunk()?));
        (self.pid, self.key) = (number(0).unwrap_or_default(), number(4).unwrap_or_default());
    }

    fn take_message(&mut self) -> io::Result<Option<Message>> {
        let unread = &self.buffer[self.read..];
        let Some((&[tag, a, b, c, d], rest)) = unread.split_first_chunk::<5>() else { return Ok(None) };
        let length = (u32::from_be_bytes([a, b, c, d]) as usize).checked_sub(4).ok_or(io::ErrorKind::InvalidData)?;
        let Some(body) = rest.get(..length) else { return Ok(None) };
        let body = body.to_vec();
        self.read += 5 + length;
        Ok(Some(Message { tag, body }))
    }

    fn fill(&mut self) -> io::Result<()> {
        self.buffer.drain(..self.read);
        self.read = 0;
        let mut chunk = [0; 65_536];
        match self.stream.read(&mut chunk)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                self.buffer.extend(&chunk[..count]);
                Ok(())
            }
        }
    }
}

/// Sends a CancelRequest and waits until the other side closes, which says that it has been dealt with.
pub(crate) fn cancel(address: SocketAddr, pid: u32, key: u32) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(&frontend::cancel(pid, key))?;
    let mut nothing = [0; 16];
    // A reset instead of an orderly end means the same: it is over.
    let _ = stream.read(&mut nothing);
    Ok(())
}
