//! Both sides against each other, with certificates made for each test.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use crate::*;

/// A CA and what it has signed.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

pub(crate) struct Signed {
    pub(crate) certificate: Vec<u8>,
    pub(crate) key: Vec<u8>,
}

impl Authority {
    fn new(name: &str) -> Authority {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        params.key_usages = vec![rcgen::KeyUsagePurpose::KeyCertSign, rcgen::KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a key");
        Authority { issuer: CertifiedIssuer::self_signed(params, key).expect("a CA") }
    }

    fn pem(&self) -> Vec<u8> {
        self.issuer.pem().into_bytes()
    }

    fn sign(&self, common_name: &str, hosts: &[&str]) -> Signed {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let mut params = CertificateParams::new(hosts).expect("names");
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CountryName, "CH");
        params.distinguished_name.push(DnType::OrganizationName, "Weir, Inc.");
        params.distinguished_name.push(DnType::CommonName, common_name);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("signed");
        Signed { certificate: certificate.pem().into_bytes(), key: key.serialize_pem().into_bytes() }
    }
}

fn acceptor(own: &Signed, ca: Option<Vec<u8>>, certificates: ClientCertificates) -> Acceptor {
    let files = AcceptorFiles { certificate: own.certificate.clone(), key: own.key.clone(), ca, revocations: None };
    Acceptor::new(&files, certificates, Versions::ALL).expect("the files fit")
}

fn connector(ca: Option<Vec<u8>>, check: ServerCheck, own: Option<&Signed>) -> Connector {
    let certificate = own.map(|own| (own.certificate.clone(), own.key.clone()));
    let files = ConnectorFiles { ca, certificate, ..ConnectorFiles::default() };
    Connector::new(&files, check, Versions::ALL).expect("the files fit")
}

/// Two ends, and the bytes under way between them.
pub(crate) struct Pair {
    pub(crate) server: Session,
    client: Session,
    to_server: Vec<u8>,
    to_client: Vec<u8>,
    server_read: Vec<u8>,
    client_read: Vec<u8>,
}

impl Pair {
    pub(crate) fn new(acceptor: &Acceptor, connector: &Connector, host: &str) -> Pair {
        let mut out = Outgoing::default();
        let client = Session::connect(connector, host, false, &mut out).expect("a name");
        let server = Session::accept(acceptor, false).expect("configured");
        let to_server = out.as_slice().to_vec();
        let (server_read, client_read) = (Vec::new(), Vec::new());
        Pair { server, client, to_server, to_client: Vec::new(), server_read, client_read }
    }

    /// Passes bytes on, `step` of them at a time, until none are under way.
    pub(crate) fn settle(&mut self, step: usize) -> Result<(), Failure> {
        let mut out = Outgoing::default();
        let mut outcome = Ok(());
        while !self.to_server.is_empty() || !self.to_client.is_empty() {
            let count = step.min(self.to_server.len());
            let mut bytes: Vec<u8> = self.to_server.drain(..count).collect();
            outcome = outcome.and(self.server.receive(&mut bytes, &mut self.server_read, &mut out).map(drop));
            self.to_client.extend_from_slice(out.as_slice());
            out.clear();
            let count = step.min(self.to_client.len());
            let mut bytes: Vec<u8> = self.to_client.drain(..count).collect();
            outcome = outcome.and(self.client.receive(&mut bytes, &mut self.client_read, &mut out).map(drop));
            self.to_server.extend_from_slice(out.as_slice());
            out.clear();
            outcome.clone()?;
        }
        outcome
    }
}

#[test]
fn bytes_go_both_ways_however_they_are_cut() {
    let authority = Authority::new("ca");
    let acceptor = acceptor(&authority.sign("db", &["db.example"]), None, ClientCertificates::Unwanted);
    let connector = connector(Some(authority.pem()), ServerCheck::Full, None);
    for step in [1, 7, 1000, 100_000] {
        let mut pair = Pair::new(&acceptor, &connector, "db.example");
        pair.settle(step).expect("both trust each other");
        assert!(pair.server.is_open() && pair.client.is_open());
        let text: Vec<u8> = (0..50_000_u32).map(|number| number as u8).collect();
        let mut out = Outgoing::default();
        pair.client.send(&text, &mut out).expect("open");
        pair.to_server.extend_from_slice(out.as_slice());
        out.clear();
        pair.server.send(b"answer", &mut out).expect("open");
        pair.server.close(&mut out);
        pair.to_client.extend_from_slice(out.as_slice());
        pair.settle(step).expect("nothing is wrong");
        assert_eq!(pair.server_read, text);
        assert_eq!(pair.client_read, b"answer");
    }
}

#[test]
fn the_facts_name_both_ends() {
    let authority = Authority::new("ca");
    let acceptor =
        acceptor(&authority.sign("db", &["db.example"]), Some(authority.pem()), ClientCertificates::Optional);
    let ann = authority.sign("ann", &[]);
    let connector = connector(Some(authority.pem()), ServerCheck::Full, Some(&ann));
    let mut pair = Pair::new(&acceptor, &connector, "db.example");
    pair.settle(100).expect("both trust each other");
    let facts = pair.server.facts();
    let names = facts.peer.expect("a certificate was shown");
    assert_eq!(names.common_name.as_deref(), Some("ann"));
    assert_eq!(names.distinguished_name, "CN=ann,O=Weir\\, Inc.,C=CH");
    assert_eq!(names.issuer, "CN=ca");
    assert_eq!(facts.version, "TLSv1.3");
    assert_eq!(facts.cipher, "TLS_AES_256_GCM_SHA384");
    assert_eq!(facts.group.as_deref(), Some("X25519MLKEM768"));
    let end_point = facts.end_point.expect("ECDSA with SHA-256");
    assert_eq!(end_point.len(), 32);
    assert_eq!(pair.client.facts().end_point, Some(end_point));
}

#[test]
fn a_servers_certificate_is_checked_as_far_as_the_mode_says() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let right = acceptor(&ours.sign("db", &["db.example"]), None, ClientCertificates::Unwanted);
    let stranger = acceptor(&theirs.sign("db", &["db.example"]), None, ClientCertificates::Unwanted);
    let outcome = |acceptor: &Acceptor, check, host| {
        Pair::new(acceptor, &connector(Some(ours.pem()), check, None), host).settle(1000).map_err(|why| why.0)
    };
    for check in [ServerCheck::Nothing, ServerCheck::Ca, ServerCheck::Full] {
        assert_eq!(outcome(&right, check, "db.example"), Ok(()), "{check:?}");
    }
    assert_eq!(outcome(&right, ServerCheck::Ca, "other.example"), Ok(()));
    let error = outcome(&right, ServerCheck::Full, "other.example").expect_err("another name");
    assert!(error.starts_with("certificate verify failed: certificate not valid for name"), "{error}");
    assert_eq!(outcome(&stranger, ServerCheck::Nothing, "x.example"), Ok(()));
    for check in [ServerCheck::Ca, ServerCheck::Full] {
        let error = outcome(&stranger, check, "db.example").expect_err("another CA");
        assert!(error.starts_with("certificate verify failed: "), "{error}");
    }
}

#[test]
fn a_self_signed_certificate_in_the_ca_file_is_trusted_as_by_libpq() {
    for is_ca in [IsCa::NoCa, IsCa::ExplicitNoCa, IsCa::Ca(BasicConstraints::Unconstrained)] {
        let mut params = CertificateParams::new(vec!["db.example".to_owned()]).expect("a name");
        params.is_ca = is_ca;
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("signed").pem().into_bytes();
        let own = Signed { certificate: certificate.clone(), key: key.serialize_pem().into_bytes() };
        let acceptor = acceptor(&own, None, ClientCertificates::Unwanted);
        let outcome =
            |check, host| Pair::new(&acceptor, &connector(Some(certificate.clone()), check, None), host).settle(1000);
        assert_eq!(outcome(ServerCheck::Ca, "other.example"), Ok(()));
        assert_eq!(outcome(ServerCheck::Full, "db.example"), Ok(()));
        assert!(outcome(ServerCheck::Full, "other.example").is_err());
    }
}

#[test]
fn a_host_may_be_named_in_the_common_name_only() {
    let authority = Authority::new("ca");
    let outcome = |common_name, names: &[&str], host| {
        let acceptor = acceptor(&authority.sign(common_name, names), None, ClientCertificates::Unwanted);
        let connector = connector(Some(authority.pem()), ServerCheck::Full, None);
        Pair::new(&acceptor, &connector, host).settle(1000).is_ok()
    };
    assert!(outcome("db.example", &[], "db.example"));
    assert!(outcome("*.example", &[], "db.example"));
    assert!(outcome("127.0.0.1", &[], "127.0.0.1"));
    assert!(!outcome("db.example", &[], "other.example"));
    // As in libpq, an alternative name of the host's kind is the only thing that counts.
    assert!(!outcome("db.example", &["other.example"], "db.example"));
    assert!(outcome("db.example", &["127.0.0.1"], "db.example"));
    assert!(!outcome("127.0.0.1", &["127.0.0.2"], "127.0.0.1"));
}

#[test]
fn without_a_ca_file_the_systems_cas_count() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let acceptor = acceptor(&ours.sign("db", &["db.example"]), None, ClientCertificates::Unwanted);
    let outcome = |system_cas| {
        let files = ConnectorFiles { system_cas, ..ConnectorFiles::default() };
        let connector = Connector::new(&files, ServerCheck::Full, Versions::ALL).map_err(|why| why.to_string())?;
        Pair::new(&acceptor, &connector, "db.example").settle(1000).map_err(|why| why.0)
    };
    let der = |authority: &Authority| authority.issuer.der().to_vec();
    assert_eq!(outcome(vec![b"no certificate".to_vec(), der(&ours)]), Ok(()));
    outcome(vec![der(&theirs)]).expect_err("another CA has signed it");
    let error = outcome(Vec::new()).expect_err("nothing to check against");
    assert_eq!(error, "CA file: there is none, and this system has no certificates of CAs");
}

#[test]
fn a_clients_certificate_is_checked_if_there_is_one() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let (ann, eve) = (ours.sign("ann", &[]), theirs.sign("ann", &[]));
    let outcome = |certificates, own: Option<&Signed>| {
        let acceptor = acceptor(&ours.sign("db", &["db.example"]), Some(ours.pem()), certificates);
        let mut pair = Pair::new(&acceptor, &connector(None, ServerCheck::Nothing, own), "db.example");
        pair.settle(1000).map(|()| pair.server.facts().peer.is_some()).map_err(|why| why.0)
    };
    assert_eq!(outcome(ClientCertificates::Unwanted, Some(&eve)), Ok(false));
    assert_eq!(outcome(ClientCertificates::Optional, None), Ok(false));
    assert_eq!(outcome(ClientCertificates::Optional, Some(&ann)), Ok(true));
    assert!(outcome(ClientCertificates::Optional, Some(&eve)).is_err());
    assert_eq!(outcome(ClientCertificates::Required, Some(&ann)), Ok(true));
    let error = outcome(ClientCertificates::Required, None).expect_err("none is shown");
    assert_eq!(error, "the peer has shown no certificate");
}

#[test]
fn a_revoked_certificate_is_refused_on_both_sides() {
    let authority = Authority::new("ca");
    let (server, client) = (authority.sign("db", &["db.example"]), authority.sign("ann", &[]));
    let list = |by: &Authority, until: i32, revoked: &[&Signed]| {
        let serials = revoked.iter().map(|signed| {
            let text = String::from_utf8(signed.certificate.clone()).expect("PEM");
            let (_, pem) = x509_parser::pem::parse_x509_pem(text.as_bytes()).expect("PEM");
            pem.parse_x509().expect("a certificate").raw_serial().to_vec()
        });
        let revoked_certs = serials.map(|serial| rcgen::RevokedCertParams {
            serial_number: rcgen::SerialNumber::from_slice(&serial),
            revocation_time: rcgen::date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let params = rcgen::CertificateRevocationListParams {
            this_update: rcgen::date_time_ymd(2020, 1, 1),
            next_update: rcgen::date_time_ymd(until, 1, 1),
            crl_number: rcgen::SerialNumber::from(1_u64),
            issuing_distribution_point: None,
            revoked_certs: revoked_certs.collect(),
            key_identifier_method: rcgen::KeyIdMethod::Sha256,
        };
        params.signed_by(&by.issuer).expect("signed").pem().expect("PEM").into_bytes()
    };
    let outcome = |revocations: Vec<u8>| {
        let ca = Some(authority.pem());
        let revocations = Some(revocations);
        let certificate = (client.certificate.clone(), client.key.clone());
        let files = AcceptorFiles {
            certificate: server.certificate.clone(),
            key: server.key.clone(),
            ca: ca.clone(),
            revocations: revocations.clone(),
        };
        let acceptor = Acceptor::new(&files, ClientCertificates::Required, Versions::ALL).expect("they fit");
        let files = ConnectorFiles { ca, revocations, certificate: Some(certificate), ..ConnectorFiles::default() };
        let connector = Connector::new(&files, ServerCheck::Full, Versions::ALL).expect("they fit");
        Pair::new(&acceptor, &connector, "db.example").settle(1000).map_err(|why| why.0)
    };
    assert_eq!(outcome(list(&authority, 2090, &[])), Ok(()));
    for revoked in [&server, &client] {
        let error = outcome(list(&authority, 2090, &[revoked])).expect_err("revoked");
        assert_eq!(error, "certificate verify failed: it was revoked");
    }
    // As in OpenSSL with CRL_CHECK_ALL: what a list does not tell, or no longer, is not taken for good.
    let error = outcome(list(&authority, 2021, &[])).expect_err("old");
    assert_eq!(error, "certificate verify failed: the revocation list has expired");
    let error = outcome(list(&Authority::new("another"), 2090, &[])).expect_err("of another CA");
    assert_eq!(error, "certificate verify failed: no list of the revocation lists is of the CA that has signed it");
}

#[test]
fn direct_tls_needs_the_protocols_name() {
    let authority = Authority::new("ca");
    let acceptor = acceptor(&authority.sign("db", &["db.example"]), None, ClientCertificates::Unwanted);
    for (protocols, expected) in [(vec![ALPN.to_vec()], true), (Vec::new(), false)] {
        let mut connector = connector(None, ServerCheck::Nothing, None);
        let mut config = rustls::ClientConfig::clone(&connector.config);
        config.alpn_protocols = protocols;
        connector.config = std::sync::Arc::new(config);
        let mut pair = Pair::new(&acceptor, &connector, "db.example");
        pair.server = Session::accept(&acceptor, true).expect("configured");
        assert_eq!(pair.settle(1000).is_ok(), expected);
    }
}

#[test]
fn a_session_is_resumed_by_its_ticket() {
    let authority = Authority::new("ca");
    let own = authority.sign("db", &["db.example"]);
    let first = acceptor(&own, None, ClientCertificates::Unwanted);
    let again = acceptor(&own, None, ClientCertificates::Unwanted);
    let mut connector = connector(Some(authority.pem()), ServerCheck::Full, None);
    let mut config = rustls::ClientConfig::clone(&connector.config);
    config.resumption = rustls::client::Resumption::in_memory_sessions(8);
    connector.config = std::sync::Arc::new(config);
    let resumed = |acceptor: &Acceptor| {
        let mut pair = Pair::new(acceptor, &connector, "db.example");
        pair.settle(1000).expect("both trust each other");
        assert_eq!(pair.client.facts().end_point, pair.server.facts().end_point);
        pair.server.facts().is_resumed
    };
    assert!(!resumed(&first));
    assert!(resumed(&first));
    assert!(!resumed(&again), "its tickets are another's");
}

#[test]
fn a_message_in_parts_may_stand_between_reading_and_writing() {
    let authority = Authority::new("ca");
    let acceptor = acceptor(&authority.sign("db", &["db.example"]), None, ClientCertificates::Unwanted);
    let connector = connector(Some(authority.pem()), ServerCheck::Full, None);
    for cut in 1..60 {
        let mut pair = Pair::new(&acceptor, &connector, "db.example");
        pair.settle(1000).expect("both trust each other");
        let mut out = Outgoing::default();
        pair.client.send(b"a question of some length", &mut out).expect("open");
        let mut bytes = out.as_slice().to_vec();
        let cut = cut.min(bytes.len());
        let mut rest = bytes.split_off(cut);
        let mut read = Vec::new();
        out.clear();
        pair.server.receive(&mut bytes, &mut read, &mut out).expect("half a record");
        pair.server.send(b"answer", &mut out).expect("open");
        pair.to_client.extend_from_slice(out.as_slice());
        pair.server.receive(&mut rest, &mut read, &mut Outgoing::default()).expect("the other half");
        pair.settle(1000).expect("nothing is wrong");
        assert_eq!((&read[..], &pair.client_read[..]), (&b"a question of some length"[..], &b"answer"[..]), "{cut}");
    }
}

/// Unencrypted bytes behind a handshake were given to rustls again when the connection was closed.
#[test]
fn after_a_failure_nothing_is_read_or_written() {
    let authority = Authority::new("ca");
    let acceptor = acceptor(&authority.sign("db", &["db.example"]), None, ClientCertificates::Unwanted);
    let connector = connector(Some(authority.pem()), ServerCheck::Full, None);
    for clear in [&b"Q\0\0\0\x0dselect 1\0"[..], b"\x17\x03\x03\0\x20 a record that nobody has encrypted"] {
        let mut pair = Pair::new(&acceptor, &connector, "db.example");
        pair.settle(1000).expect("both trust each other");
        let mut out = Outgoing::default();
        pair.server.receive(&mut clear.repeat(3), &mut Vec::new(), &mut out).expect_err("it is not TLS");
        assert!(!out.as_slice().is_empty(), "the client gets an alert");
        out.clear();
        pair.server.close(&mut out);
        pair.server.receive(&mut clear.to_vec(), &mut Vec::new(), &mut out).expect_err("it has failed");
        pair.server.send(b"answer", &mut out).expect_err("it has failed");
        assert!(out.as_slice().is_empty(), "{:?}", out.as_slice());
    }
}

#[test]
fn garbage_is_a_failure_and_no_panic() {
    let authority = Authority::new("ca");
    let acceptor = acceptor(&authority.sign("db", &["db.example"]), None, ClientCertificates::Unwanted);
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0x16; 300], &[0x16, 3, 1, 0xff, 0xff, 1, 2, 3], &[0; 100]] {
        let mut server = Session::accept(&acceptor, false).expect("configured");
        let (mut plain, mut out) = (Vec::new(), Outgoing::default());
        let outcome = server.receive(&mut garbage.to_vec(), &mut plain, &mut out);
        assert!(outcome.is_err() || !server.is_open());
        assert!(plain.is_empty());
    }
}

#[test]
fn files_that_do_not_fit_say_what_is_wrong() {
    let authority = Authority::new("ca");
    let (one, other) = (authority.sign("one", &["a.example"]), authority.sign("other", &["b.example"]));
    let problem = |certificate: &[u8], key: &[u8], ca: Option<&[u8]>| {
        let files = AcceptorFiles {
            certificate: certificate.to_vec(),
            key: key.to_vec(),
            ca: ca.map(<[u8]>::to_vec),
            revocations: None,
        };
        Acceptor::new(&files, ClientCertificates::Optional, Versions::ALL).expect_err("unusable").to_string()
    };
    assert_eq!(problem(&one.certificate, &other.key, None), "key: it does not belong to the certificate");
    assert_eq!(problem(b"", &one.key, None), "certificate: it holds no certificate in PEM");
    assert_eq!(problem(&one.certificate, b"x", None), "key: it holds no private key in PEM");
    let encrypted = b"-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    assert!(problem(&one.certificate, encrypted, None).starts_with("key: it is encrypted"));
    assert_eq!(problem(&one.certificate, &one.key, Some(b"")), "CA file: it holds no certificate in PEM");
}

/// As `openssl x509 -noout -subject -nameopt RFC2253` prints it.
#[test]
fn a_distinguished_name_is_written_as_the_manual_says() {
    let mut params = rcgen::CertificateParams::new(Vec::new()).expect("no names");
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "Größe + Co");
    params.distinguished_name.push(DnType::CommonName, " J\u{fc}rgen\n");
    let key = rcgen::KeyPair::generate().expect("a key");
    let certificate = params.self_signed(&key).expect("signed");
    let names = crate::certificate::Names::of(certificate.der()).expect("a certificate");
    assert_eq!(names.distinguished_name, "CN=\\ J\\C3\\BCrgen\\0A,O=Gr\\C3\\B6\\C3\\9Fe \\+ Co");
}
