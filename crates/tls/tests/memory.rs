//! What a connection takes: the figures that [`tls::Session::weight`] says must hold.

use rcgen::{CertificateParams, KeyPair};
use tls::*;

fn sides() -> (Acceptor, Connector) {
    let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).expect("a key");
    let certificate = CertificateParams::new(vec!["db.example".to_owned()]).expect("a name").self_signed(&key);
    let certificate = certificate.expect("signed").pem().into_bytes();
    let files = AcceptorFiles { certificate, key: key.serialize_pem().into_bytes(), ca: None, revocations: None };
    let acceptor = Acceptor::new(&files, ClientCertificates::Unwanted, Versions::ALL).expect("they fit");
    let connector = Connector::new(&ConnectorFiles::default(), ServerCheck::Nothing, Versions::ALL);
    (acceptor, connector.expect("it needs none"))
}

/// A server's end of an open connection.
fn open(acceptor: &Acceptor, connector: &Connector) -> Box<Session> {
    let mut out = Outgoing::default();
    let mut client = Session::connect(connector, "db.example", false, &mut out).expect("a name");
    let mut server = Box::new(Session::accept(acceptor, false).expect("configured"));
    let (mut back, mut nothing) = (Outgoing::default(), Vec::new());
    for _ in 0..4 {
        server.receive(&mut out.as_slice().to_vec(), &mut nothing, &mut back).expect("fine");
        out.clear();
        client.receive(&mut back.as_slice().to_vec(), &mut nothing, &mut out).expect("fine");
        back.clear();
    }
    assert!(server.is_open());
    server
}

/// A server's end that has seen so many bytes of a client's first message.
fn begun(acceptor: &Acceptor, connector: &Connector, parts: usize) -> Box<Session> {
    let mut out = Outgoing::default();
    let _client = Session::connect(connector, "db.example", false, &mut out).expect("a name");
    let mut server = Box::new(Session::accept(acceptor, false).expect("configured"));
    let mut bytes = out.as_slice()[..out.as_slice().len() * parts / 2].to_vec();
    server.receive(&mut bytes, &mut Vec::new(), &mut Outgoing::default()).expect("fine");
    server
}

/// Bytes of memory that the process has in use.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    status.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("a number") * 4096
}

/// The library allocates in C too, so what counts is the process's memory.
#[test]
fn a_session_weighs_no_less_than_it_takes() {
    const SESSIONS: usize = 3000;
    let (acceptor, connector) = sides();
    let mut kept: Vec<Box<Session>> = Vec::with_capacity(4 * SESSIONS);
    let mut make = |what: &str, make: &dyn Fn() -> Box<Session>| {
        // What all of them share is there before they are counted.
        (0..100).for_each(|_| drop(make()));
        let before = resident();
        kept.extend((0..SESSIONS).map(|_| make()));
        let taken = (resident() - before) / SESSIONS;
        let weight = kept.last().expect("made").weight(|len| len);
        println!("{what}: {taken} bytes, {weight} counted");
        assert!(taken <= weight, "{what}: {taken} bytes are taken, {weight} counted");
        assert!(weight <= 3 * taken.max(2048), "{what}: {taken} bytes are taken, {weight} counted");
    };
    make("open", &|| open(&acceptor, &connector));
    for parts in 0..=2 {
        make(&format!("{parts} halves of ClientHello"), &|| begun(&acceptor, &connector, parts));
    }
}
