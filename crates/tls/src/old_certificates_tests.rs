//! Both sides against each other with certificates of version 1, made by OpenSSL: `tests/version1/make`.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::tests::{Pair, Signed};
use crate::*;

macro_rules! file {
    ($name:literal) => {
        include_bytes!(concat!("../tests/version1/", $name)).as_slice()
    };
}

const ROOT: &[u8] = file!("root.crt");

fn signed(certificate: &[&[u8]], key: &[u8]) -> Signed {
    Signed { certificate: certificate.concat(), key: key.to_vec() }
}

/// A server with this certificate, and how far a client checks it.
fn outcome(own: &Signed, ca: &[u8], list: Option<&[u8]>, check: ServerCheck, versions: Versions) -> Result<(), String> {
    let files =
        AcceptorFiles { certificate: own.certificate.clone(), key: own.key.clone(), ca: None, revocations: None };
    let acceptor = Acceptor::new(&files, ClientCertificates::Unwanted, Versions::ALL).map_err(|why| why.to_string())?;
    let files =
        ConnectorFiles { ca: Some(ca.to_vec()), revocations: list.map(<[u8]>::to_vec), ..ConnectorFiles::default() };
    let connector = Connector::new(&files, check, versions).map_err(|why| why.to_string())?;
    Pair::new(&acceptor, &connector, "db.example").settle(1000).map_err(|why| why.0)
}

const TLS12: Versions = Versions { tls12: true, tls13: false };

#[test]
fn a_servers_certificate_of_version_1_is_accepted_as_by_libpq() {
    let key = file!("server.key");
    let table = [
        ("by a root", signed(&[file!("server.crt")], key), ROOT),
        ("on a curve", signed(&[file!("curve.crt")], file!("curve.key")), ROOT),
        ("below an intermediate", signed(&[file!("below.crt"), file!("intermediate.crt")], key), ROOT),
        ("signed by itself", signed(&[file!("self.crt")], key), file!("self.crt")),
    ];
    for (name, own, ca) in table {
        for check in [ServerCheck::Nothing, ServerCheck::Ca, ServerCheck::Full] {
            for versions in [Versions::ALL, TLS12] {
                assert_eq!(outcome(&own, ca, None, check, versions), Ok(()), "{name} {check:?} {versions:?}");
            }
        }
    }
}

#[test]
fn a_servers_certificate_of_version_1_is_checked() {
    let key = file!("server.key");
    let full = |own: &Signed, ca, list| outcome(own, ca, list, ServerCheck::Full, Versions::ALL);
    let of = |certificate| signed(&[certificate], key);
    let unknown = Err("certificate verify failed: no CA of the CA file has signed it".to_owned());
    assert_eq!(full(&of(file!("server.crt")), file!("self.crt"), None), unknown, "by another");
    assert_eq!(full(&of(file!("below.crt")), ROOT, None), unknown, "the intermediate is not shown");
    assert_eq!(
        full(&signed(&[file!("misused.crt"), file!("leaf3.crt")], key), ROOT, None),
        unknown,
        "by one that is no CA's"
    );
    assert_eq!(full(&of(file!("weak.crt")), ROOT, None), unknown, "by SHA-1");
    let expired = Err("certificate verify failed: it has expired".to_owned());
    assert_eq!(full(&of(file!("expired.crt")), ROOT, None), expired);
    assert_eq!(full(&of(file!("server.crt")), ROOT, Some(file!("none.crl"))), Ok(()));
    let revoked = Err("certificate verify failed: it was revoked".to_owned());
    assert_eq!(full(&of(file!("server.crt")), ROOT, Some(file!("server.crl"))), revoked);
    let both = [file!("self.crt"), ROOT].concat();
    let no_list = full(&of(file!("self.crt")), &both, Some(file!("none.crl")));
    assert_eq!(no_list, Ok(()), "one of the CA file itself");
    let below = signed(&[file!("below.crt"), file!("intermediate.crt")], key);
    let error = full(&below, ROOT, Some(file!("none.crl"))).expect_err("the intermediate has no list");
    assert_eq!(error, "certificate verify failed: no list of the revocation lists is of the CA that has signed it");
    // The name counts in verify-full only.
    let ann = signed(&[file!("client.crt")], file!("client.key"));
    assert_eq!(outcome(&ann, ROOT, None, ServerCheck::Ca, Versions::ALL), Ok(()));
    let error = full(&ann, ROOT, None).expect_err("another name");
    assert!(error.starts_with("certificate verify failed: "), "{error}");
}

#[test]
fn a_certificate_of_version_1_has_a_key_that_belongs_to_it() {
    let other = signed(&[file!("server.crt")], file!("client.key"));
    let error = outcome(&other, ROOT, None, ServerCheck::Nothing, Versions::ALL);
    assert_eq!(error, Err("key: it does not belong to the certificate".to_owned()));
}

#[test]
fn a_clients_certificate_of_version_1_is_checked() {
    let logs_in = |certificate: &[u8], key: &[u8], ca: &[u8], versions| {
        let server = signed(&[file!("server.crt")], file!("server.key"));
        let files = AcceptorFiles {
            certificate: server.certificate,
            key: server.key,
            ca: Some(ca.to_vec()),
            revocations: None,
        };
        let acceptor = Acceptor::new(&files, ClientCertificates::Required, Versions::ALL).expect("the files fit");
        let own = Some((certificate.to_vec(), key.to_vec()));
        let files = ConnectorFiles { certificate: own, ..ConnectorFiles::default() };
        let connector = Connector::new(&files, ServerCheck::Nothing, versions).expect("the files fit");
        let mut pair = Pair::new(&acceptor, &connector, "db.example");
        pair.settle(1000).map_err(|why| why.0)?;
        Ok::<_, String>(pair.server.facts().peer.and_then(|names| names.common_name))
    };
    let key = file!("client.key");
    for versions in [Versions::ALL, TLS12] {
        assert_eq!(logs_in(file!("client.crt"), key, ROOT, versions), Ok(Some("ann".to_owned())));
        assert_eq!(logs_in(file!("by_self.crt"), key, file!("self.crt"), versions), Ok(Some("ann".to_owned())));
        logs_in(file!("by_self.crt"), key, ROOT, versions).expect_err("another CA has signed it");
        logs_in(file!("expired.crt"), file!("server.key"), ROOT, versions).expect_err("it has expired");
    }
}

#[test]
fn a_directory_servers_certificate_of_version_1_is_accepted_and_checked() {
    let root = CertificateDer::from_pem_slice(ROOT).expect("PEM").to_vec();
    let outcome = |own: Signed, cas: &[Vec<u8>]| {
        let files = AcceptorFiles { certificate: own.certificate, key: own.key, ca: None, revocations: None };
        let acceptor = Acceptor::new(&files, ClientCertificates::Unwanted, Versions::ALL).expect("it has its key");
        let config = trusting(cas.to_vec()).map_err(|why| why.to_string())?;
        Pair::new(&acceptor, &Connector { config: config.into() }, "db.example").settle(1000).map_err(|why| why.0)
    };
    let cas = [root];
    assert_eq!(outcome(signed(&[file!("server.crt")], file!("server.key")), &cas), Ok(()));
    let error = outcome(signed(&[file!("client.crt")], file!("client.key")), &cas).expect_err("another name");
    assert!(error.starts_with("certificate verify failed: "), "{error}");
    let error = outcome(signed(&[file!("self.crt")], file!("server.key")), &cas).expect_err("another CA");
    assert!(error.starts_with("certificate verify failed: "), "{error}");
    assert!(outcome(signed(&[file!("server.crt")], file!("server.key")), &[]).is_err(), "no CA");
}
