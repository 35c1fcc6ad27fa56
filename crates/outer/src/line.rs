//! A client's bare connection, in the clear or inside TLS: sends bytes as they are, whole or one at a time, and tells what came back.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use crate::Authority;
use crate::patience::PATIENCE;

/// A request for TLS.
pub const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];
/// A request for encryption by GSSAPI.
pub const GSSENC_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 48];

/// How a client begins.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Manner {
    Clear,
    /// TLS behind an SSLRequest.
    Asked,
    /// TLS at once, as `sslnegotiation=direct`.
    Direct,
}

impl Manner {
    pub const ALL: [Manner; 3] = [Manner::Clear, Manner::Asked, Manner::Direct];
}

/// What came back until the other side closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Severity and code of the last error.
    pub error: Option<(String, String)>,
    /// All bytes, inside TLS if there was any.
    pub bytes: Vec<u8>,
    /// Whether it was closed; otherwise it was silent for a minute.
    pub is_closed: bool,
}

/// A configuration for TLS of clients that trust this CA, with this protocol by ALPN.
///
/// # Panics
/// If the CA's certificate is gone.
#[must_use]
pub fn trusting(authority: &Authority, protocol: Option<&str>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let root = CertificateDer::from_pem_file(authority.path("ca.crt")).expect("it is there");
    roots.add(root).expect("a certificate");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let mut config = config.expect("both versions").with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = protocol.map(|name| name.as_bytes().to_vec()).into_iter().collect();
    Arc::new(config)
}

/// One connection.
pub struct Line {
    stream: TcpStream,
    tls: Option<ClientConnection>,
    is_slow: bool,
}

impl Line {
    /// In the clear, each byte alone if it is slow.
    ///
    /// # Errors
    /// Nobody listens.
    pub fn open(address: SocketAddr, is_slow: bool) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { stream, tls: None, is_slow })
    }

    /// In this manner; the handshake goes byte by byte, too.
    ///
    /// # Errors
    /// Nobody listens, or there is no TLS.
    pub fn begin(address: SocketAddr, manner: Manner, config: &Arc<ClientConfig>, is_slow: bool) -> io::Result<Self> {
        let mut line = Self::open(address, is_slow)?;
        if manner == Manner::Asked {
            line.send(&SSL_REQUEST)?;
            let mut answer = [0];
            line.stream.read_exact(&mut answer)?;
            if answer != *b"S" {
                return Err(io::Error::other("TLS is refused"));
            }
        }
        if manner != Manner::Clear {
            line.encrypt(config)?;
        }
        Ok(line)
    }

    /// The handshake.
    ///
    /// # Errors
    /// It fails.
    pub fn encrypt(&mut self, config: &Arc<ClientConfig>) -> io::Result<()> {
        let name = ServerName::try_from("localhost").expect("a name");
        let mut tls = ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
        while tls.is_handshaking() {
            self.flush(&mut tls)?;
            if tls.is_handshaking() && tls.wants_read() {
                if tls.read_tls(&mut self.stream)? == 0 {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
                tls.process_new_packets().map_err(io::Error::other)?;
            }
        }
        self.flush(&mut tls)?;
        self.tls = Some(tls);
        Ok(())
    }

    /// A ClientHello, as it goes over the wire.
    ///
    /// # Panics
    /// Never: it is written to memory.
    #[must_use]
    pub fn hello(config: &Arc<ClientConfig>) -> Vec<u8> {
        let name = ServerName::try_from("localhost").expect("a name");
        let mut tls = ClientConnection::new(Arc::clone(config), name).expect("a sound configuration");
        let mut bytes = Vec::new();
        while tls.wants_write() {
            tls.write_tls(&mut bytes).expect("it is memory");
        }
        bytes
    }

    fn flush(&self, tls: &mut ClientConnection) -> io::Result<()> {
        let mut bytes = Vec::new();
        while tls.wants_write() {
            tls.write_tls(&mut bytes)?;
        }
        self.send_bare(&bytes)
    }

    /// Sends bytes, inside TLS if there is any.
    ///
    /// # Errors
    /// The other side is gone.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(mut tls) = self.tls.take() else { return self.send_bare(bytes) };
        let records: Vec<&[u8]> =
            if self.is_slow && bytes.len() < 1000 { bytes.chunks(1).collect() } else { vec![bytes] };
        let sent = records.into_iter().try_for_each(|record| {
            tls.writer().write_all(record)?;
            self.flush(&mut tls)
        });
        self.tls = Some(tls);
        sent
    }

    /// Sends bytes past TLS.
    ///
    /// # Errors
    /// The other side is gone.
    pub fn send_bare(&self, bytes: &[u8]) -> io::Result<()> {
        let mut stream = &self.stream;
        if self.is_slow { bytes.chunks(1).try_for_each(|byte| stream.write_all(byte)) } else { stream.write_all(bytes) }
    }

    /// Ends its half without a word of TLS.
    pub fn stop_sending(&self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// So many bytes.
    ///
    /// # Errors
    /// The other side is gone, or silent.
    pub fn hear(&mut self, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        match &mut self.tls {
            Some(tls) => rustls::Stream::new(tls, &mut self.stream).read_exact(&mut bytes)?,
            None => self.stream.read_exact(&mut bytes)?,
        }
        Ok(bytes)
    }

    /// The next message, with its header.
    ///
    /// # Errors
    /// As [`Line::hear`].
    pub fn hear_message(&mut self) -> io::Result<Vec<u8>> {
        let header = self.hear(5)?;
        let length = u32::from_be_bytes(header[1..].try_into().expect("four bytes"));
        let body = self.hear((length as usize).saturating_sub(4))?;
        Ok([header, body].concat())
    }

    /// Listens until the other side closes.
    #[must_use]
    pub fn last_words(&mut self) -> Told {
        let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
        let is_closed = loop {
            let read = match &mut self.tls {
                Some(tls) => rustls::Stream::new(tls, &mut self.stream).read(&mut chunk),
                None => self.stream.read(&mut chunk),
            };
            match read {
                Ok(0) => break true,
                Ok(count) => bytes.extend_from_slice(&chunk[..count]),
                Err(error) => break error.kind() != ErrorKind::WouldBlock,
            }
        };
        Told { error: error_in(&bytes), bytes, is_closed }
    }
}

/// Severity and code of the last error among messages.
fn error_in(mut bytes: &[u8]) -> Option<(String, String)> {
    let mut found = None;
    while let Some((&[tag, a, b, c, d], rest)) = bytes.split_first_chunk::<5>() {
        let body = rest.get(..(u32::from_be_bytes([a, b, c, d]) as usize).checked_sub(4)?)?;
        if tag == b'E' {
            let field = |code: u8| {
                let mut fields = body.split(|byte| *byte == 0);
                let value = fields.find(|field| field.first() == Some(&code)).map(|field| &field[1..]);
                String::from_utf8_lossy(value.unwrap_or_default()).into_owned()
            };
            found = Some((field(b'S'), field(b'C')));
        }
        bytes = &rest[body.len()..];
    }
    found
}
