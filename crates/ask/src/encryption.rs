//! TLS of a connection that asks, as libpq's sslmode has it.
//!
//! //= pg18 libpq-ssl#LIBPQ-SSL-PROTECTION

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use client::{Place, Stream};
use settings::{SslMode, SslNegotiation, TlsSettings};
use tls::{Connector, Failure, Outgoing, Session};

use crate::tls_files;

/// How far encryption is insisted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// Only if the server does not let us in without (`allow`).
    IfNeeded,
    /// If the server can (`prefer`).
    IfPossible,
    /// `require` and above; what the certificate must be is the connector's.
    Always,
}

/// What a server meets.
#[derive(Clone, Debug)]
pub struct Encryption {
    pub connector: Connector,
    pub demand: Demand,
    /// TLS begins at once, without SSLRequest.
    pub is_direct: bool,
}

/// One way to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Channel {
    Clear,
    Encrypted,
}

/// The channels that are tried, one after the other.
pub(crate) fn channels(encryption: Option<&Encryption>, place: &Place) -> &'static [Channel] {
    match encryption.map(|encryption| encryption.demand) {
        None => &[Channel::Clear],
        Some(_) if matches!(place, Place::Unix(_)) => &[Channel::Clear],
        Some(Demand::IfNeeded) => &[Channel::Clear, Channel::Encrypted],
        Some(Demand::IfPossible) => &[Channel::Encrypted, Channel::Clear],
        Some(Demand::Always) => &[Channel::Encrypted],
    }
}

//= pg18 protocol-message-formats#SSLREQUEST
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

impl Encryption {
    /// As `server_tls_…` have it for servers.
    ///
    /// # Errors
    /// A file of TLS cannot be used.
    pub fn of(settings: &TlsSettings) -> Result<Option<Self>, String> {
        let demand = match settings.server_tls_sslmode {
            SslMode::Disable => return Ok(None),
            SslMode::Allow => Demand::IfNeeded,
            SslMode::Prefer => Demand::IfPossible,
            SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => Demand::Always,
        };
        let is_direct = settings.server_tls_sslnegotiation == SslNegotiation::Direct && demand == Demand::Always;
        Ok(Some(Self { connector: tls_files::connector(settings)?, demand, is_direct }))
    }

    /// Begins TLS on a connection to `host`. A server without TLS keeps the connection in the clear if that may be.
    ///
    /// # Errors
    /// The server refuses, or cannot be trusted.
    pub(crate) fn begin(&self, mut stream: Box<dyn Stream>, host: &str) -> io::Result<Box<dyn Stream>> {
        if !self.is_direct {
            stream.write_all(&SSL_REQUEST)?;
            let mut answer = [0];
            stream.read_exact(&mut answer)?;
            match answer[0] {
                b'S' => {}
                b'N' if self.demand != Demand::Always => return Ok(stream),
                b'N' => return Err(io::Error::other("server does not support SSL, but SSL was required")),
                other => {
                    return Err(io::Error::other(format!(
                        "received invalid response to SSL negotiation: {other:#04x}"
                    )));
                }
            }
        }
        let mut out = Outgoing::default();
        let session = Session::connect(&self.connector, host, self.is_direct, &mut out).map_err(failed)?;
        let mut encrypted = Encrypted { stream, session, out, plain: Vec::new(), read: 0, is_closed: false };
        encrypted.send()?;
        while !encrypted.session.is_open() {
            encrypted.receive()?;
        }
        Ok(Box::new(encrypted))
    }
}

fn failed(failure: Failure) -> io::Error {
    io::Error::other(format!("TLS: {failure}"))
}

/// A connection inside TLS.
struct Encrypted {
    stream: Box<dyn Stream>,
    session: Session,
    out: Outgoing,
    /// What was received, and how much of it was read.
    plain: Vec<u8>,
    read: usize,
    /// The server has said that nothing more will come.
    is_closed: bool,
}

impl Encrypted {
    fn send(&mut self) -> io::Result<()> {
        let sent = self.stream.write_all(self.out.as_slice());
        self.out.clear();
        sent
    }

    /// Waits for bytes.
    fn receive(&mut self) -> io::Result<()> {
        let mut bytes = [0; 16 * 1024];
        let count = self.stream.read(&mut bytes)?;
        if count == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let received = self.session.receive(&mut bytes[..count], &mut self.plain, &mut self.out);
        // An alert goes out even if it has failed.
        self.send()?;
        self.is_closed |= received.map_err(failed)?.closed;
        Ok(())
    }
}

impl Read for Encrypted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.read == self.plain.len() {
            if self.is_closed {
                return Ok(0);
            }
            self.plain.clear();
            self.read = 0;
            self.receive()?;
        }
        let count = buffer.len().min(self.plain.len() - self.read);
        buffer[..count].copy_from_slice(&self.plain[self.read..self.read + count]);
        self.read += count;
        Ok(count)
    }
}

impl Write for Encrypted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.session.send(bytes, &mut self.out).map_err(failed)?;
        self.send()?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl Stream for Encrypted {
    fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.stream.shutdown(how)
    }

    fn set_patience(&self, patience: Duration) -> io::Result<()> {
        self.stream.set_patience(patience)
    }
}
