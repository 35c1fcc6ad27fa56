//! The client itself.

use std::time::Duration;

use rustls::pki_types::CertificateDer;
use ureq::config::Config as AgentConfig;
use ureq::http::Uri;
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};
use ureq::{Agent, Error};

use crate::trust::{provider, read};

/// Room in `ResolvedSocketAddrs`.
const ADDRESSES_MAX: usize = 16;

/// Whether a request may go to an `http` URL.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Encryption {
    Demanded,
    AsTheUrlSays,
}

/// The certificate that a server is shown if it asks for one, and its private key.
#[derive(Clone)]
pub struct Identity(ClientCert);

impl Identity {
    /// Reads both from files, each with the setting that names it.
    ///
    /// # Errors
    /// They cannot be used, in words for the log.
    pub fn read(certificate: (&str, &str), key: (&str, &str)) -> Result<Identity, String> {
        let (setting, name) = certificate;
        let chain = read(setting, name)?;
        if chain.is_empty() {
            return Err(format!("{setting} \"{name}\" has no certificate"));
        }
        let chain: Vec<_> = chain.iter().map(|one| Certificate::from_der(one).to_owned()).collect();
        let (setting, name) = key;
        let bytes = std::fs::read(name).map_err(|error| format!("{setting} \"{name}\": {error}"))?;
        let key = PrivateKey::from_pem(&bytes)
            .map_err(|_| format!("{setting} \"{name}\" has no private key that is not encrypted"))?;
        Ok(Identity(ClientCert::new_with_certs(&chain, key)))
    }
}

/// Asks servers, and keeps connections to them for the next request.
#[derive(Clone)]
pub struct Client {
    agent: Agent,
}

/// The answer of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    /// Its header `Date`.
    pub date: Option<String>,
    pub body: Vec<u8>,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub words: String,
    /// A later request may succeed.
    pub is_passing: bool,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let is_passing =
            matches!(error, Error::Io(_) | Error::Timeout(_) | Error::HostNotFound | Error::ConnectionFailed);
        Failure { words: error.to_string(), is_passing }
    }
}

impl Client {
    /// Servers of HTTPS must have a certificate that one of these CAs has signed. `patience` is the time limit of a whole request.
    #[must_use]
    pub fn new(
        certificates: &[CertificateDer<'static>],
        identity: Option<Identity>,
        encryption: Encryption,
        patience: Duration,
    ) -> Client {
        let roots: Vec<Certificate<'static>> =
            certificates.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect();
        let tls = TlsConfig::builder()
            .unversioned_rustls_crypto_provider(provider())
            .root_certs(RootCerts::new_with_certs(&roots))
            .client_cert(identity.map(|identity| identity.0))
            .build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .https_only(encryption == Encryption::Demanded)
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .timeout_global(Some(patience))
            .build();
        let agent = if names::IS_STATIC {
            Agent::with_parts(config, DefaultConnector::default(), OwnResolver)
        } else {
            config.new_agent()
        };
        Client { agent }
    }

    /// Asks by GET. An answer of any status is one.
    ///
    /// # Errors
    /// The server is not there, is not trusted, is too slow, speaks something else, or its answer has more than `bytes_max` bytes, in words
    /// for the log.
    pub fn get<'a>(
        &self,
        url: &str,
        headers: impl Iterator<Item = (&'a str, &'a str)>,
        bytes_max: u64,
    ) -> Result<Answer, Failure> {
        let mut request = self.agent.get(url);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let mut response = request.call()?;
        let date = response.headers().get("date").and_then(|date| date.to_str().ok()).map(str::to_owned);
        let body = response.body_mut().with_config().limit(bytes_max).read_to_vec()?;
        Ok(Answer { status: response.status().as_u16(), date, body })
    }

    /// Sends a body of JSON by POST. Returns the status of the answer.
    ///
    /// # Errors
    /// The server is not there, is not trusted, is too slow or speaks something else, in words for the log.
    pub fn post<'a>(
        &self,
        url: &str,
        headers: impl Iterator<Item = (&'a str, &'a str)>,
        body: &str,
    ) -> Result<u16, Failure> {
        let mut request = self.agent.post(url).header("Content-Type", "application/json");
        for (name, value) in headers {
            request = request.header(name, value);
        }
        Ok(request.send(body)?.status().as_u16())
    }
}

/// Looks up host names in a static program, where ureq's own resolver does not work ([`names::IS_STATIC`]).
#[derive(Debug)]
struct OwnResolver;

impl Resolver for OwnResolver {
    fn resolve(&self, uri: &Uri, _: &AgentConfig, _: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let host = uri.host().ok_or(Error::HostNotFound)?.trim_start_matches('[').trim_end_matches(']');
        let default = if uri.scheme_str() == Some("http") { 80 } else { 443 };
        let port = uri.port_u16().unwrap_or(default);
        let mut addresses = self.empty();
        // ureq's list has room for no more.
        names::look_up(host, port)?.into_iter().take(ADDRESSES_MAX).for_each(|address| addresses.push(address));
        if addresses.is_empty() { Err(Error::HostNotFound) } else { Ok(addresses) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
    use rustls::pki_types::PrivateKeyDer;
    use rustls::server::WebPkiClientVerifier;
    use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

    use super::*;

    fn plain() -> Client {
        Client::new(&[], None, Encryption::AsTheUrlSays, Duration::from_secs(60))
    }

    #[test]
    fn a_static_program_finds_localhost() {
        let agent = Agent::with_parts(AgentConfig::default(), DefaultConnector::default(), OwnResolver);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("somebody asks");
            std::io::Write::write_all(&mut stream, b"HTTP/1.1 204 No Content\r\n\r\n").expect("it reads");
        });
        let answer = agent.get(format!("http://localhost:{port}/keys")).call().expect("localhost is in /etc/hosts");
        assert_eq!(answer.status(), 204);
        assert!(agent.get("http://nowhere.invalid/keys").call().is_err());
    }

    /// The result of a request with a body to a server that gives this answer.
    fn outcome(answer: &'static [u8]) -> Result<u16, bool> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("somebody sends");
            let mut request = Vec::new();
            while !request.ends_with(b"{\"a\":1}") {
                let mut piece = [0; 100];
                let count = std::io::Read::read(&mut stream, &mut piece).expect("it sends");
                request.extend_from_slice(&piece[..count]);
            }
            let head = String::from_utf8_lossy(&request).to_lowercase();
            assert!(
                head.starts_with("post /v1/traces http/1.1\r\n") && head.contains("\r\nx-key: secret\r\n"),
                "{head}"
            );
            std::io::Write::write_all(&mut stream, answer).expect("it reads");
        });
        let client = plain();
        let url = format!("http://127.0.0.1:{port}/v1/traces");
        client.post(&url, [("X-Key", "secret")].into_iter(), "{\"a\":1}").map_err(|error| error.is_passing)
    }

    #[test]
    fn a_body_is_sent_and_the_status_comes_back() {
        assert_eq!(outcome(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"), Ok(200));
        assert_eq!(outcome(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"), Ok(503));
        assert_eq!(
            outcome(b"HTTP/1.1 307 Elsewhere\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"),
            Ok(307)
        );
        outcome(b"ICY 200 OK\r\n\r\n").expect_err("that is not HTTP");
    }

    fn authority(name: &str) -> CertifiedIssuer<'static, KeyPair> {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("a CA")
    }

    /// A server on localhost that answers everybody with status 200. `trusts`: the server must have a certificate of this CA.
    fn encrypted_server(
        own: &CertifiedIssuer<'static, KeyPair>,
        trusts: Option<&CertifiedIssuer<'static, KeyPair>>,
    ) -> u16 {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
        let certificate = params.signed_by(&key, own).expect("signed").der().clone();
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
        let builder = builder.expect("versions");
        let builder = match trusts {
            None => builder.with_no_client_auth(),
            Some(ca) => {
                let mut roots = RootCertStore::empty();
                roots.add(ca.der().clone()).expect("a CA");
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider()).build();
                builder.with_client_cert_verifier(verifier.expect("a CA"))
            }
        };
        let config = Arc::new(builder.with_single_cert(vec![certificate], key).expect("they fit"));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let connection = ServerConnection::new(Arc::clone(&config)).expect("a connection");
                let mut stream = StreamOwned::new(connection, stream);
                if std::io::Read::read(&mut stream, &mut [0; 4096]).is_ok_and(|count| count > 0) {
                    let answer = b"HTTP/1.1 200 OK\r\nDate: noon\r\nContent-Length: 2\r\n\r\n{}";
                    std::io::Write::write_all(&mut stream, answer).expect("it reads");
                }
            }
        });
        port
    }

    #[test]
    fn a_body_goes_by_tls_to_whom_a_ca_has_signed_only() {
        let (ours, theirs) = (authority("ours"), authority("theirs"));
        let url = format!("https://localhost:{}/v1/traces", encrypted_server(&ours, None));
        let outcome = |ca: &CertifiedIssuer<'_, KeyPair>| {
            let certificates = [ca.der().clone()];
            let client = Client::new(&certificates, None, Encryption::AsTheUrlSays, Duration::from_secs(60));
            client.post(&url, std::iter::empty(), "{}")
        };
        assert_eq!(outcome(&ours), Ok(200));
        let refused = outcome(&theirs).expect_err("another CA has signed it");
        assert!(refused.words.contains("certificate"), "{refused:?}");
    }

    #[test]
    fn a_server_that_asks_for_a_certificate_is_shown_one() {
        let ours = authority("ours");
        let url = format!("https://localhost:{}/cluster", encrypted_server(&ours, Some(&ours)));
        let path = |name: &str| std::env::temp_dir().join(format!("http-client-{}-{name}", std::process::id()));
        let (certificate_file, key_file) = (path("crt").display().to_string(), path("key").display().to_string());
        let key = KeyPair::generate().expect("a key");
        let certificate = CertificateParams::new(Vec::new()).expect("no names").signed_by(&key, &ours).expect("signed");
        std::fs::write(&certificate_file, certificate.pem()).expect("a temporary file");
        std::fs::write(&key_file, key.serialize_pem()).expect("a temporary file");
        let read = |certificate: &str, key: &str| Identity::read(("the_cert_file", certificate), ("the_key_file", key));
        let identity = read(&certificate_file, &key_file).expect("both are there");
        let get = |identity: Option<Identity>| {
            let certificates = [ours.der().clone()];
            let client = Client::new(&certificates, identity, Encryption::Demanded, Duration::from_secs(60));
            client.get(&url, std::iter::empty(), 2)
        };
        let expected = Answer { status: 200, date: Some("noon".to_owned()), body: b"{}".to_vec() };
        assert_eq!(get(Some(identity)), Ok(expected));
        get(None).expect_err("it shows none");
        let why = |certificate: &str, key: &str| read(certificate, key).err().expect("it cannot be used");
        assert_eq!(why(&key_file, &key_file), format!("the_cert_file \"{key_file}\" has no certificate"));
        let expected = format!("the_key_file \"{certificate_file}\" has no private key that is not encrypted");
        assert_eq!(why(&certificate_file, &certificate_file), expected);
        assert!(why(&certificate_file, "/nonexistent/key").starts_with("the_key_file \"/nonexistent/key\": "));
        for file in [certificate_file, key_file] {
            std::fs::remove_file(file).expect("it is ours");
        }
    }

    #[test]
    fn an_answer_that_is_too_long_is_none() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("somebody asks");
            std::io::Write::write_all(&mut stream, b"HTTP/1.0 200 OK\r\n\r\nabc").expect("it reads");
        });
        plain().get(&format!("http://localhost:{port}/"), std::iter::empty(), 2).expect_err("two bytes are allowed");
    }

    #[test]
    fn a_server_that_is_gone_may_come_back() {
        let client = plain();
        let error = client.post("http://127.0.0.1:1/", std::iter::empty(), "").expect_err("nobody listens there");
        assert!(error.is_passing, "{error:?}");
    }
}
