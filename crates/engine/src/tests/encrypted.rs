//! TLS between real sockets and a machine: its bytes, its backlog, its end, and its moves between threads.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use connections::databases::{Address, Host};
use machine::{Action, Event, Mail, Place, Secure, ToWorker};
use rcgen::{CertificateParams, KeyPair};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, ServerConnection, SignatureScheme, StreamOwned};
use tls::{Acceptor, AcceptorFiles, ClientCertificates, Connector, ConnectorFiles, ServerCheck, Versions};
use units::{Kind, WorkerId};

use super::{PATIENCE, Script, Stage, ping, rest};
use crate::Keyring;

struct Own {
    certificate: rcgen::Certificate,
    key: KeyPair,
}

fn own() -> Own {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    Own { certificate: params.self_signed(&key).expect("signed"), key }
}

fn keyring(own: &Own) -> Keyring {
    let files = AcceptorFiles {
        certificate: own.certificate.pem().into_bytes(),
        key: own.key.serialize_pem().into_bytes(),
        ..AcceptorFiles::default()
    };
    let acceptor = Acceptor::new(&files, ClientCertificates::Unwanted, Versions::ALL).expect("they fit");
    let files = ConnectorFiles { ca: Some(own.certificate.pem().into_bytes()), ..ConnectorFiles::default() };
    let connector = Connector::new(&files, ServerCheck::Full, Versions::ALL).expect("they fit");
    Keyring { acceptor: Some(acceptor), connector: Some(connector) }
}

/// Trusts everybody: the other side is what is tested.
#[derive(Debug)]
struct Trusting;

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verify_tls12_signature(message, shown, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ECDSA_NISTP256_SHA256]
    }
}

type Client = StreamOwned<ClientConnection, TcpStream>;

/// A client that asks for encryption with `first`, and has begun the handshake.
fn client(mut stream: TcpStream, first: &[u8]) -> Client {
    stream.write_all(first).expect("it reads");
    stream.read_exact(&mut [0; 1]).expect("it agrees");
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("both versions")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Trusting))
        .with_no_client_auth();
    let name = "localhost".try_into().expect("a name");
    StreamOwned::new(ClientConnection::new(Arc::new(config), name).expect("configured"), stream)
}

/// The door encrypts a client whose first byte is S, notes what becomes of that, and echoes. A client that then says `move!`
/// goes on at the last worker.
fn encrypting(workers: u16) -> impl Fn(Place) -> Option<Script> + Send + Sync {
    let to = WorkerId(workers - 1);
    move |_| {
        Some(Box::new(move |actor, event| match event {
            Event::Received { conn, bytes: b"S" } => {
                let agree = super::whole(*conn, b"S");
                let how = Secure::Accept { is_direct: false, received: Vec::new() };
                vec![agree, Action::Secure { conn: *conn, how }]
            }
            Event::Received { conn, bytes: b"move!" } => {
                let mail = Mail::ToWorker(to, ToWorker::Cancel { pid: 0, secret: [0; 4].into(), ticket: None });
                vec![Action::Post { mail, carrying: Some(*conn) }]
            }
            Event::Mail(Mail::ToWorker(..)) => {
                let conn = actor.fresh(Kind::Client);
                actor.note(format!("{:?} adopts", actor.place));
                vec![Action::Adopt { conn }]
            }
            Event::Secured { outcome: Ok(facts), .. } => {
                actor.note(format!("secured {}", facts.shown()));
                Vec::new()
            }
            Event::Secured { conn, outcome: Err(why) } => {
                actor.note(format!("failed: {why}"));
                vec![Action::Close { conn: *conn, last_words: true }]
            }
            Event::Blocked { .. } => {
                actor.note("blocked");
                actor.echo(event)
            }
            Event::Hangup { why, .. } => {
                actor.note(format!("end {why:?}"));
                actor.echo(event)
            }
            _ => actor.echo(event),
        }))
    }
}

fn stage(workers: u16) -> Stage {
    let keyring = keyring(&own());
    Stage::open_with(workers, |options| options.tls = keyring, encrypting(workers))
}

#[test]
fn a_client_is_served_inside_tls_and_its_end_is_seen() {
    let stage = stage(1);
    let mut stream = client(stage.tcp(), b"S");
    ping(&mut stream, b"inside");
    assert_eq!(stage.expect("secured"), "secured TLSv1.3/TLS_AES_256_GCM_SHA384/X25519MLKEM768");
    for len in [1, 100, 16_384, 16_385, 200_000] {
        let bytes: Vec<u8> = (0..len).map(|number: u32| (number / 7) as u8).collect();
        ping(&mut stream, &bytes);
    }
    stream.conn.send_close_notify();
    stream.flush().expect("it reads");
    assert_eq!(stage.expect("end"), "end Closed");
    assert!(rest(&mut stream).is_empty());
}

#[test]
fn a_connection_that_is_cut_off_without_a_word_is_broken() {
    let stage = stage(1);
    let mut stream = client(stage.tcp(), b"S");
    ping(&mut stream, b"inside");
    drop(stream);
    assert_eq!(stage.expect("end"), "end Broken");
}

#[test]
fn bytes_for_a_slow_reader_wait_and_come_in_order() {
    let stage = stage(1);
    let mut stream = client(stage.tcp(), b"S");
    ping(&mut stream, b"inside");
    // More than the kernel takes on both ways.
    let bytes: Vec<u8> = (0..40_000_000_u32).map(|number| (number / 251) as u8).collect();
    let mut sent = 0;
    stream.sock.set_nonblocking(true).expect("a socket");
    // Written until its reader waits for us, and then a little of everything.
    let mut back = Vec::new();
    let mut part = vec![0; 10_000];
    let mut has_blocked = false;
    while back.len() < bytes.len() {
        let written = stream.write(&bytes[sent..bytes.len().min(sent + 60_000)]);
        sent += written.as_ref().unwrap_or(&0);
        if !has_blocked {
            assert!(sent < bytes.len(), "all was written, and its reader waits for nobody");
            // A moment for its reader, if that is only slow.
            has_blocked = written.is_err() && stage.has_noted("blocked", Duration::from_millis(1));
            continue;
        }
        match stream.read(&mut part) {
            Ok(count) => back.extend_from_slice(&part[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert!(back == bytes, "not the same");
}

#[test]
fn an_encrypted_client_moves_between_threads() {
    for workers in [1, 3] {
        let stage = stage(workers);
        let mut stream = client(stage.tcp(), b"S");
        ping(&mut stream, b"at the door");
        stream.write_all(b"move!").expect("it reads");
        assert_eq!(stage.expect("Worker"), format!("{:?} adopts", Place::Worker(WorkerId(workers - 1))));
        for _ in 0..100 {
            ping(&mut stream, b"served at home");
        }
    }
}

#[test]
fn a_client_that_does_not_speak_tls_is_told_so_and_closed() {
    let stage = stage(1);
    let mut stream = stage.tcp();
    stream.write_all(b"S").expect("it reads");
    stream.read_exact(&mut [0; 1]).expect("it agrees");
    stream.write_all(b"\x00\x00\x00\x08 in the clear").expect("it reads");
    assert_eq!(stage.expect("failed"), "failed: these bytes are not TLS");
    let alert = rest(&mut stream);
    assert_eq!(alert.first(), Some(&21), "a TLS alert: {alert:?}");
}

#[test]
fn without_a_certificate_no_client_is_encrypted() {
    let stage = Stage::open(1, encrypting(1));
    let mut stream = stage.tcp();
    stream.write_all(b"S").expect("it reads");
    assert_eq!(stage.expect("failed"), "failed: there is no certificate");
    stage.engine().handle().set_tls(keyring(&own()));
    let mut stream = client(stage.tcp(), b"S");
    ping(&mut stream, b"inside");
}

/// The worker connects, encrypts at once, and sends what it has received back.
fn connecting(address: Address, host: &'static str) -> impl Fn(Place) -> Option<Script> + Send + Sync {
    let address = Arc::new(address);
    move |place| {
        let address = Arc::clone(&address);
        matches!(place, Place::Worker(_)).then(|| -> Script {
            Box::new(move |actor, event| match event {
                Event::Mail(Mail::ToWorker(_, ToWorker::Cancel { .. })) => {
                    let conn = actor.fresh(Kind::Server);
                    vec![Action::Open { conn, address: Arc::clone(&address) }]
                }
                Event::Opened { conn, .. } => {
                    let how = Secure::Connect { host: host.to_owned(), is_direct: false };
                    vec![Action::Secure { conn: *conn, how }]
                }
                Event::Secured { outcome: Ok(facts), .. } => {
                    let binding = facts.end_point.as_ref().map_or(0, |hash| hash.len());
                    actor.note(format!("secured, bound by {binding} bytes"));
                    Vec::new()
                }
                Event::Secured { conn, outcome: Err(why) } => {
                    actor.note(format!("failed: {why}"));
                    vec![Action::Close { conn: *conn, last_words: false }]
                }
                _ => actor.echo(event),
            })
        })
    }
}

#[test]
fn a_server_is_reached_inside_tls_if_it_is_the_right_one() {
    let own = own();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let key = PrivateKeyDer::try_from(own.key.serialize_der()).expect("a key");
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("both versions")
        .with_no_client_auth()
        .with_single_cert(vec![own.certificate.der().clone()], key)
        .expect("they fit");
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let port = listener.local_addr().expect("bound").port();
    for (host, expected) in [
        ("localhost", "secured, bound by 32 bytes"),
        ("elsewhere.example", "failed: certificate verify failed: certificate not valid for name"),
    ] {
        let address = Address { host: Host::Ip([127, 0, 0, 1].into()), port };
        let keyring = keyring(&own);
        let stage = Stage::open_with(1, |options| options.tls = keyring, connecting(address, host));
        stage
            .engine()
            .handle()
            .post(Mail::ToWorker(WorkerId(0), ToWorker::Cancel { pid: 0, secret: [0; 4].into(), ticket: None }));
        let (stream, _) = listener.accept().expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time");
        let connection = ServerConnection::new(Arc::clone(&config)).expect("configured");
        let mut stream = StreamOwned::new(connection, stream);
        if host == "localhost" {
            ping(&mut stream, b"hello from the server");
        } else {
            assert!(stream.read(&mut [0; 1]).is_err(), "it is refused");
        }
        let note = stage.expect("");
        assert!(note.starts_with(expected), "{note}");
    }
}
