//! One TLS connection, of either side: received bytes become plain bytes, plain bytes become bytes to send.
//!
//! ```text
//!   receive ─► handshake ─► Facts            ─► plain bytes ─► close_notify
//!                  │ certificate not trusted, alert, garbage: Failure, and the alert to send
//! ```
//!
//! What it wants to send it appends to [`Outgoing`], in order; the caller sends all of it before anything that comes later.

use std::fmt;
use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, InsufficientSizeError, UnbufferedStatus, WriteTraffic};
use rustls::{CertificateError, CommonState, HandshakeKind, ProtocolVersion, SupportedCipherSuite};

use crate::acceptor::Acceptor;
use crate::certificate::{Names, end_point_hash};
use crate::connector::Connector;

/// No more received bytes are kept: the longest handshake message, and the records that it comes in.
const HELD_MAX: usize = 80 * 1024;

/// No more of clients that are not asked for a certificate: anybody can begin a handshake. A ClientHello has some hundred bytes, and
/// 2 kB with a post-quantum key share.
const HELD_OF_CLIENT_MAX: usize = RECORD_LEN_MAX + 512;

/// The header of a record: its type, a version, its length (RFC 8446, section 5.1).
const HEADER_LEN: usize = 5;

/// The plain bytes of a full record.
const RECORD_LEN_MAX: usize = 16 * 1024;

/// More than the bytes that a record has beside its plain ones: a header, a type, a nonce and a tag.
const RECORD_OVERHEAD_MAX: usize = 64;

/// About what the rest of a connection weighs, in bytes of memory: during the handshake, and after it. A test measures them.
const WEIGHT_OF_HANDSHAKE: usize = 5 * 1024;
const WEIGHT: usize = 4 * 1024;

/// What is known of a connection once its handshake is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// `TLSv1.3` or `TLSv1.2`.
    pub version: &'static str,
    /// As OpenSSL names it.
    pub cipher: String,
    /// The group of the key exchange, if it was a full handshake.
    pub group: Option<String>,
    /// Whether it continues an earlier session.
    pub is_resumed: bool,
    /// The names in the peer's certificate, if it has shown one.
    pub peer: Option<Names>,
    /// `tls-server-end-point` of the server's certificate.
    pub end_point: Option<Arc<[u8]>>,
}

/// Why a connection has ended, in words for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(pub String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<rustls::Error> for Failure {
    fn from(error: rustls::Error) -> Failure {
        Failure(match error {
            rustls::Error::InvalidCertificate(error) => format!("certificate verify failed: {}", words(&error)),
            rustls::Error::NoCertificatesPresented => "the peer has shown no certificate".to_owned(),
            rustls::Error::AlertReceived(alert) => format!("the peer sent the alert {alert:?}"),
            rustls::Error::InvalidMessage(_) => "these bytes are not TLS".to_owned(),
            other => other.to_string(),
        })
    }
}

/// What is wrong with a certificate.
fn words(error: &CertificateError) -> String {
    let known = match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "it has expired",
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => "it is not valid yet",
        CertificateError::Revoked => "it was revoked",
        CertificateError::UnknownRevocationStatus => "no list of the revocation lists is of the CA that has signed it",
        CertificateError::ExpiredRevocationList | CertificateError::ExpiredRevocationListContext { .. } => {
            "the revocation list has expired"
        }
        CertificateError::UnknownIssuer => "no CA of the CA file has signed it",
        CertificateError::BadSignature => "its signature is wrong",
        CertificateError::BadEncoding => "it cannot be read",
        other => return other.to_string(),
    };
    known.to_owned()
}

/// What has come of received bytes.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// The handshake is done: [`Session::facts`] are there.
    pub opened: bool,
    /// The peer has said that nothing more will come.
    pub closed: bool,
}

/// Bytes to be sent, in memory that is used again.
#[derive(Debug, Default)]
pub struct Outgoing {
    buffer: Vec<u8>,
    len: usize,
}

impl Outgoing {
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.buffer[..self.len]
    }

    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Lets `write` fill room for so many bytes; it says how many it has filled.
    fn fill<E>(&mut self, count: usize, write: impl FnOnce(&mut [u8]) -> Result<usize, E>) -> Result<(), E> {
        if self.buffer.len() < self.len + count {
            self.buffer.resize(self.len + count, 0);
        }
        self.len += write(&mut self.buffer[self.len..])?;
        Ok(())
    }
}

enum Side {
    Server(UnbufferedServerConnection),
    Client(UnbufferedClientConnection),
}

/// One connection.
pub struct Session {
    side: Side,
    /// Received bytes of an incomplete record or handshake message.
    held: Vec<u8>,
    held_max: usize,
    is_open: bool,
    /// The connection has failed, and its alert, if there is one, is written. Rustls must not see the bytes again: it would
    /// fail a second time.
    is_over: bool,
    /// The handshake began without SSLRequest, so both sides have to name the protocol.
    is_direct: bool,
    /// Of our own certificate.
    end_point: Option<Arc<[u8]>>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("is_open", &self.is_open).finish_non_exhaustive()
    }
}

impl Session {
    /// A client will begin the handshake. `is_direct`: it has not sent SSLRequest before.
    ///
    /// # Errors
    /// Rustls refuses its configuration.
    pub fn accept(acceptor: &Acceptor, is_direct: bool) -> Result<Session, Failure> {
        let connection = UnbufferedServerConnection::new(Arc::clone(&acceptor.negotiated))?;
        let end_point = acceptor.end_point.clone();
        let held_max = if acceptor.asks_for_certificate { HELD_MAX } else { HELD_OF_CLIENT_MAX };
        Ok(Session {
            side: Side::Server(connection),
            held: Vec::new(),
            held_max,
            is_open: false,
            is_over: false,
            is_direct,
            end_point,
        })
    }

    /// Begins a handshake with a server. `host` is its name or address, as it was configured; a name is sent as SNI.
    ///
    /// # Errors
    /// The name cannot be one of a host.
    pub fn connect(connector: &Connector, host: &str, is_direct: bool, out: &mut Outgoing) -> Result<Session, Failure> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| Failure(format!("\"{host}\" cannot be the name of a host in a certificate")))?;
        let connection = UnbufferedClientConnection::new(Arc::clone(&connector.config), name)?;
        let side = Side::Client(connection);
        let (held, held_max) = (Vec::new(), HELD_MAX);
        let mut session = Session { side, held, held_max, is_open: false, is_over: false, is_direct, end_point: None };
        session.receive(&mut [], &mut Vec::new(), out)?;
        Ok(session)
    }

    /// Whether the handshake is done, so that plain bytes can be sent.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Bytes of memory that it takes, where a buffer of so many takes `taken`.
    #[must_use]
    pub fn weight(&self, taken: impl Fn(usize) -> usize) -> usize {
        taken(self.held.capacity()) + if self.is_open { WEIGHT } else { WEIGHT_OF_HANDSHAKE }
    }

    /// Takes received bytes, which it changes. Plain bytes are appended to `plain`, answers to `out`, even if it fails.
    ///
    /// # Errors
    /// The peer cannot be trusted, or has broken the protocol; the connection is over.
    pub fn receive(&mut self, bytes: &mut [u8], plain: &mut Vec<u8>, out: &mut Outgoing) -> Result<Received, Failure> {
        self.check()?;
        let outcome = self.take(bytes, plain, out);
        if outcome.is_err() {
            self.is_over = true;
            self.held = Vec::new();
        }
        outcome
    }

    fn take(&mut self, bytes: &mut [u8], plain: &mut Vec<u8>, out: &mut Outgoing) -> Result<Received, Failure> {
        let was_open = self.is_open;
        let outcome = if self.held.is_empty() {
            let (used, outcome) = take_in(&mut self.side, bytes, plain, out);
            self.hold(&bytes[used..]);
            outcome
        } else {
            let mut held = std::mem::take(&mut self.held);
            held.reserve_exact(bytes.len());
            held.extend_from_slice(bytes);
            let (used, outcome) = take_in(&mut self.side, &mut held, plain, out);
            if used < held.len() {
                held.drain(..used);
                self.held = held;
            }
            outcome
        };
        let closed = outcome?;
        if self.held.len() > self.held_max {
            return Err(Failure("a message of the handshake is too long".to_owned()));
        }
        self.is_open = self.is_open || !self.common().is_handshaking();
        if self.is_open && !was_open && self.is_direct && self.common().alpn_protocol() != Some(crate::ALPN) {
            return Err(Failure("direct TLS without the protocol's name (ALPN)".to_owned()));
        }
        Ok(Received { opened: self.is_open && !was_open, closed })
    }

    /// Keeps the beginning of a record, with room for all of it: memory that grows piece by piece passes through many sizes, and the
    /// allocator keeps what it leaves of each.
    fn hold(&mut self, bytes: &[u8]) {
        let announced = match *bytes {
            [_, _, _, high, low, ..] => HEADER_LEN + usize::from(u16::from_be_bytes([high, low])),
            _ => 0,
        };
        self.held.reserve_exact(announced.min(HELD_OF_CLIENT_MAX).max(bytes.len()));
        self.held.extend_from_slice(bytes);
    }

    /// Encrypts plain bytes. Only once the handshake is done.
    ///
    /// # Errors
    /// Its keys are used up, or it has failed before.
    pub fn send(&mut self, plain: &[u8], out: &mut Outgoing) -> Result<(), Failure> {
        self.check()?;
        let records = plain.len().div_ceil(RECORD_LEN_MAX);
        let room = plain.len() + records * RECORD_OVERHEAD_MAX;
        let encrypt =
            |out: &mut Outgoing, traffic: &mut dyn Traffic| out.fill(room, |room| traffic.encrypt(plain, room));
        write(&mut self.side, &mut self.held, out, encrypt)
    }

    /// Sends close_notify: nothing more will be sent. Only once the handshake is done. Does nothing after a failure.
    pub fn close(&mut self, out: &mut Outgoing) {
        if self.is_over {
            return;
        }
        let notify =
            |out: &mut Outgoing, traffic: &mut dyn Traffic| out.fill(RECORD_OVERHEAD_MAX, |room| traffic.close(room));
        // Its keys are used up: the peer will see an end without it.
        let _ = write(&mut self.side, &mut self.held, out, notify);
    }

    fn check(&self) -> Result<(), Failure> {
        if self.is_over { Err(Failure("the connection has failed before".to_owned())) } else { Ok(()) }
    }

    /// What is known once the handshake is done.
    #[must_use]
    pub fn facts(&self) -> Facts {
        let common = self.common();
        let shown = common.peer_certificates().and_then(|chain| chain.first());
        let end_point = match &self.side {
            Side::Server(_) => self.end_point.clone(),
            Side::Client(_) => shown.and_then(|shown| end_point_hash(shown)).map(Arc::from),
        };
        Facts {
            version: match common.protocol_version() {
                Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
                _ => "TLSv1.3",
            },
            cipher: common.negotiated_cipher_suite().map(openssl_name).unwrap_or_default(),
            group: common.negotiated_key_exchange_group().map(|group| format!("{:?}", group.name())),
            is_resumed: common.handshake_kind() == Some(HandshakeKind::Resumed),
            peer: shown.and_then(|shown| Names::of(shown)),
            end_point,
        }
    }

    fn common(&self) -> &CommonState {
        match &self.side {
            Side::Server(connection) => connection,
            Side::Client(connection) => connection,
        }
    }
}

/// The name that OpenSSL, and so PostgreSQL, has for it.
fn openssl_name(suite: SupportedCipherSuite) -> String {
    let name = format!("{:?}", suite.suite());
    if let Some(rest) = name.strip_prefix("TLS13_") {
        return format!("TLS_{rest}");
    }
    let name = name.strip_prefix("TLS_").unwrap_or(&name).replace("_WITH_", "_");
    let name = name.replace("AES_128", "AES128").replace("AES_256", "AES256").replace('_', "-");
    name.strip_suffix("-SHA256").filter(|name| name.ends_with("POLY1305")).map_or(name.clone(), str::to_owned)
}

/// What can be done with a connection whose handshake is done.
trait Traffic {
    fn encrypt(&mut self, plain: &[u8], room: &mut [u8]) -> Result<usize, Failure>;
    fn close(&mut self, room: &mut [u8]) -> Result<usize, Failure>;
}

impl<D> Traffic for WriteTraffic<'_, D> {
    fn encrypt(&mut self, plain: &[u8], room: &mut [u8]) -> Result<usize, Failure> {
        WriteTraffic::encrypt(self, plain, room).map_err(|error| Failure(error.to_string()))
    }

    fn close(&mut self, room: &mut [u8]) -> Result<usize, Failure> {
        self.queue_close_notify(room).map_err(|error| Failure(error.to_string()))
    }
}

type Use<'u> = &'u mut dyn FnMut(&mut Outgoing, &mut dyn Traffic) -> Result<(), Failure>;

/// Lets `using` write. Rustls remembers places in what it was given and has not used, so it gets `held` again.
fn write(
    side: &mut Side,
    held: &mut Vec<u8>,
    out: &mut Outgoing,
    mut using: impl FnMut(&mut Outgoing, &mut dyn Traffic) -> Result<(), Failure>,
) -> Result<(), Failure> {
    // Whatever is held is incomplete, so nothing plain comes out of it.
    let mut plain = Vec::new();
    loop {
        let (discard, next) = match side {
            Side::Server(connection) => {
                advance(connection.process_tls_records(held), &mut plain, out, Some(&mut using))
            }
            Side::Client(connection) => {
                advance(connection.process_tls_records(held), &mut plain, out, Some(&mut using))
            }
        };
        held.drain(..discard);
        match next? {
            Next::Again | Next::PeerClosed => {}
            Next::Wait => return Ok(()),
            Next::Closed => return Err(Failure("the connection is closed".to_owned())),
        }
    }
}

/// Processes received bytes as far as they are complete. Returns how many were used, and whether the peer has closed.
fn take_in(
    side: &mut Side,
    bytes: &mut [u8],
    plain: &mut Vec<u8>,
    out: &mut Outgoing,
) -> (usize, Result<bool, Failure>) {
    let (mut used, mut closed) = (0, false);
    loop {
        let rest = &mut bytes[used..];
        let (discard, next) = match side {
            Side::Server(connection) => advance(connection.process_tls_records(rest), plain, out, None),
            Side::Client(connection) => advance(connection.process_tls_records(rest), plain, out, None),
        };
        used += discard;
        match next {
            Ok(Next::Again) => {}
            Ok(Next::PeerClosed) => closed = true,
            Ok(Next::Wait | Next::Closed) => return (used, Ok(closed)),
            Err(failure) => {
                alert(side, &mut bytes[used..], out);
                return (used, Err(failure));
            }
        }
    }
}

/// Appends the alert that tells the peer of a failure, if there is one. Rustls gives it out before it reads on.
fn alert(side: &mut Side, rest: &mut [u8], out: &mut Outgoing) {
    let mut plain = Vec::new();
    let _ = match side {
        Side::Server(connection) => advance(connection.process_tls_records(rest), &mut plain, out, None),
        Side::Client(connection) => advance(connection.process_tls_records(rest), &mut plain, out, None),
    };
}

/// What to do after a step of rustls.
enum Next {
    Again,
    PeerClosed,
    /// More bytes are needed.
    Wait,
    Closed,
}

/// Does what one step of rustls asks for. Returns how many bytes of the input are done with.
fn advance<D>(
    status: UnbufferedStatus<'_, '_, D>,
    plain: &mut Vec<u8>,
    out: &mut Outgoing,
    using: Option<Use<'_>>,
) -> (usize, Result<Next, Failure>) {
    let UnbufferedStatus { mut discard, state } = status;
    let state = match state {
        Ok(state) => state,
        Err(error) => return (discard, Err(error.into())),
    };
    let next = match state {
        ConnectionState::ReadTraffic(mut traffic) => {
            let mut outcome = Ok(Next::Again);
            while let Some(record) = traffic.next_record() {
                match record {
                    Ok(record) => {
                        discard += record.discard;
                        plain.extend_from_slice(record.payload);
                    }
                    Err(error) => outcome = Err(error.into()),
                }
            }
            outcome
        }
        ConnectionState::EncodeTlsData(mut data) => {
            let needed = match data.encode(&mut []) {
                Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) => required_size,
                _ => 0,
            };
            out.fill(needed, |room| data.encode(room)).map(|()| Next::Again).map_err(|error| Failure(error.to_string()))
        }
        ConnectionState::TransmitTlsData(data) => {
            data.done();
            Ok(Next::Again)
        }
        ConnectionState::PeerClosed => Ok(Next::PeerClosed),
        ConnectionState::Closed => Ok(Next::Closed),
        ConnectionState::WriteTraffic(mut traffic) => match using {
            Some(using) => using(out, &mut traffic).map(|()| Next::Wait),
            None => Ok(Next::Wait),
        },
        // Early data is not enabled; whatever else a later version adds waits for more bytes.
        _ => Ok(Next::Wait),
    };
    (discard, next)
}
