//! TLS of a load's clients, by rustls' ordinary interface: bytes in, bytes out.
//!
//! Promises that the server's certificate is checked, as careful applications do. Does not: direct TLS, certificates of
//! clients, nor insist on being resumed: whoever measures counts how many were.

use std::io::{Read, Write};
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore};

/// Sessions that are kept for being resumed, at least one for each login under way.
const SESSIONS: usize = 1024;

/// How the clients of a load encrypt.
#[derive(Debug)]
pub struct Encryption {
    config: Arc<ClientConfig>,
    host: ServerName<'static>,
}

impl Encryption {
    /// With the certificate (DER) of whoever has signed the server's, which is for `host`. `resumes`: clients go on with sessions
    /// of those before them.
    ///
    /// # Errors
    /// It is no certificate, or no name.
    pub fn new(authority: Vec<u8>, host: &str, resumes: bool) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(authority)).map_err(|error| format!("the load's CA: {error}"))?;
        let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        config.resumption = if resumes { Resumption::in_memory_sessions(SESSIONS) } else { Resumption::disabled() };
        let host = ServerName::try_from(host.to_owned()).map_err(|error| format!("{host}: {error}"))?;
        Ok(Self { config: Arc::new(config), host })
    }

    fn connect(&self) -> Result<Box<ClientConnection>, String> {
        let connection = ClientConnection::new(Arc::clone(&self.config), self.host.clone());
        connection.map(Box::new).map_err(|error| format!("TLS: {error}"))
    }
}

/// What a client's bytes go through.
pub(crate) enum Channel {
    Clear,
    /// SSLRequest is sent.
    Asked,
    Encrypted(Box<ClientConnection>),
}

//= pg18 protocol-message-formats
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

impl Channel {
    /// Begins a connection with its startup packet, or with the wish for TLS.
    pub(crate) fn begin(encryption: Option<&Encryption>, startup: &[u8], out: &mut Vec<u8>) -> Self {
        if encryption.is_some() {
            out.extend_from_slice(&SSL_REQUEST);
            return Channel::Asked;
        }
        out.extend_from_slice(startup);
        Channel::Clear
    }

    /// The answer to SSLRequest: TLS begins, and the startup packet is sent inside it.
    ///
    /// # Errors
    /// The server does not want TLS.
    pub(crate) fn answered(
        &mut self,
        bytes: &[u8],
        by: &Encryption,
        startup: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        if bytes != b"S" {
            return Err(format!("SSLRequest was answered with {:?}", String::from_utf8_lossy(bytes)));
        }
        let mut connection = by.connect()?;
        // It goes out when the handshake is done.
        write(&mut connection, startup, out)?;
        *self = Channel::Encrypted(connection);
        Ok(())
    }

    /// Sends what the client says.
    ///
    /// # Errors
    /// TLS has failed.
    pub(crate) fn send(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        match self {
            Channel::Encrypted(connection) => write(connection, plain, out),
            Channel::Clear | Channel::Asked => {
                out.extend_from_slice(plain);
                Ok(())
            }
        }
    }

    /// Whether an earlier session was gone on with.
    pub(crate) fn is_resumed(&self) -> bool {
        matches!(self, Channel::Encrypted(connection) if connection.handshake_kind() == Some(HandshakeKind::Resumed))
    }
}

fn write(connection: &mut ClientConnection, plain: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    connection.writer().write_all(plain).map_err(|error| format!("TLS: {error}"))?;
    flush(connection, out)
}

fn flush(connection: &mut ClientConnection, out: &mut Vec<u8>) -> Result<(), String> {
    while connection.wants_write() {
        connection.write_tls(out).map_err(|error| format!("TLS: {error}"))?;
    }
    Ok(())
}

/// What has arrived, decrypted into `plain`; the handshake's own answers go to `out`.
///
/// # Errors
/// TLS has failed.
pub(crate) fn decrypt(
    connection: &mut ClientConnection,
    mut bytes: &[u8],
    plain: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    while !bytes.is_empty() {
        connection.read_tls(&mut bytes).map_err(|error| format!("TLS: {error}"))?;
        let state = connection.process_new_packets().map_err(|error| format!("TLS: {error}"))?;
        let count = state.plaintext_bytes_to_read();
        let so_far = plain.len();
        plain.resize(so_far + count, 0);
        connection.reader().read_exact(&mut plain[so_far..]).map_err(|error| format!("TLS: {error}"))?;
    }
    flush(connection, out)
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::PrivatePkcs8KeyDer;
    use rustls::{ServerConfig, ServerConnection};

    use super::*;
    use crate::client::{Client, Progress};
    use crate::login::Account;
    use crate::work::{First, Question, Shape, Work, query};

    /// A server that lets in whoever comes, for so many bytes of a question.
    struct Server {
        connection: ServerConnection,
        is_asked: bool,
    }

    impl Server {
        fn answer(&mut self, mut bytes: &[u8]) -> Vec<u8> {
            if !std::mem::replace(&mut self.is_asked, true) {
                assert_eq!(bytes, SSL_REQUEST);
                return b"S".to_vec();
            }
            while !bytes.is_empty() {
                self.connection.read_tls(&mut bytes).expect("from memory");
                let state = self.connection.process_new_packets().expect("TLS");
                let mut plain = vec![0; state.plaintext_bytes_to_read()];
                self.connection.reader().read_exact(&mut plain).expect("it is there");
                let said: &[u8] = match plain.first() {
                    None => b"",
                    // A startup packet, a question, and the end.
                    Some(0) => b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I",
                    Some(b'Q') => b"D\0\0\0\x0b\0\x01\0\0\0\x017Z\0\0\0\x05I",
                    Some(other) => {
                        assert_eq!(*other, b'X');
                        b""
                    }
                };
                self.connection.writer().write_all(said).expect("to memory");
            }
            let mut out = Vec::new();
            while self.connection.wants_write() {
                self.connection.write_tls(&mut out).expect("to memory");
            }
            out
        }
    }

    fn work(authority: &[u8], resumes: bool) -> Work {
        let mut request = Vec::new();
        query(&mut request, "select 7");
        let question = Question::Bytes(request, Shape { rows: 1, row_bytes: 1 });
        let encryption = Encryption::new(authority.to_vec(), "localhost", resumes).expect("a certificate");
        Work::new(Account::new("u", None, "d", "a"), First::Nothing, question).encrypted(encryption)
    }

    /// Logs in, asks and leaves; whether an earlier session was gone on with.
    fn visit(work: &Arc<Work>, config: &Arc<ServerConfig>) -> Result<bool, String> {
        let connection = ServerConnection::new(Arc::clone(config)).expect("the config is whole");
        let mut server = Server { connection, is_asked: false };
        let mut out = Vec::new();
        let mut client = Client::start(work, &mut out);
        let mut seen = Vec::new();
        while !out.is_empty() {
            let answer = server.answer(&std::mem::take(&mut out));
            if answer.is_empty() {
                continue;
            }
            let progress = client.receive(&answer, &mut out)?;
            seen.extend((progress != Progress::More).then_some(progress));
            if progress == Progress::Ready {
                client.ask(&mut out)?;
            }
        }
        assert_eq!(seen, [Progress::Ready, Progress::Answered]);
        client.leave(&mut out)?;
        assert_eq!(server.answer(&out), b"");
        Ok(client.is_resumed())
    }

    #[test]
    fn a_client_logs_in_inside_tls_and_resumes_only_if_it_is_to() {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("made");
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let config = ServerConfig::builder().with_no_client_auth();
        let config = config.with_single_cert(vec![made.cert.der().clone()], key.into()).expect("it belongs to its key");
        let config = Arc::new(config);
        for resumes in [false, true] {
            let work = Arc::new(work(made.cert.der(), resumes));
            assert_eq!(visit(&work, &config), Ok(false));
            assert_eq!(visit(&work, &config), Ok(resumes));
        }
        let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("made");
        let refused = visit(&Arc::new(work(other.cert.der(), false)), &config).expect_err("another's certificate");
        assert!(refused.contains("certificate"), "{refused}");
    }
}
