//! Certificates of X.509's versions 1 and 2, which rustls does not read.
//!
//! `openssl x509 -req` makes them where it is asked for no extensions, so PostgreSQL's manual teaches people to make them. They say neither
//! that they belong to a CA nor for which hosts they are. OpenSSL accepts one at the end of a chain, and one of version 1 that has signed
//! itself as a root; so does this file. All other certificates of a chain are of version 3, and have to be those of a CA.
//!
//! //= pg18 ssl-tcp#SSL-CERTIFICATE-CREATION
//! //= rfc5280#section-6

use rustls::CertificateError;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, SubjectPublicKeyInfoDer, UnixTime};
use rustls::{DigitallySignedStruct, Error};
use x509_parser::oid_registry::{OID_PKCS1_SHA1WITHRSA, OID_SHA1_WITH_RSA};
use x509_parser::prelude::{CertificateRevocationList, FromDer as _, ParsedExtension, X509Certificate};
use x509_parser::x509::X509Version;

/// No chain has more certificates above its end. Bounds the work that a peer can ask for.
const LONGEST_CHAIN: usize = 8;

/// What a certificate is shown for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Server,
    Client,
}

/// Whether a certificate is older than version 3. False if the bytes are no certificate.
pub(crate) fn is_old(certificate: &[u8]) -> bool {
    parse(certificate).is_some_and(|certificate| certificate.version() != X509Version::V3)
}

fn parse(certificate: &[u8]) -> Option<X509Certificate<'_>> {
    X509Certificate::from_der(certificate).ok().map(|(_, certificate)| certificate)
}

/// The certificates and revocation lists that a chain is checked against.
#[derive(Clone, Debug, Default)]
pub(crate) struct Authorities {
    pub(crate) roots: Vec<CertificateDer<'static>>,
    /// If empty, revocation is not checked.
    pub(crate) lists: Vec<CertificateRevocationListDer<'static>>,
}

impl Authorities {
    /// Checks that a certificate, not one of version 3, leads to a root.
    ///
    /// # Errors
    /// It does not; it, or one above it, has expired or was revoked.
    pub(crate) fn check(
        &self,
        shown: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
        purpose: Purpose,
    ) -> Result<(), CertificateError> {
        let mut lower = parse(shown).ok_or(CertificateError::BadEncoding)?;
        for below in 0..LONGEST_CHAIN {
            check_time(&lower, now)?;
            if let Some(root) = signer(&lower, &self.roots, |root| is_root(root, below)) {
                check_time(&root, now)?;
                return self.check_revocation(&lower, &root, now);
            }
            let shown = &intermediates[..intermediates.len().min(LONGEST_CHAIN)];
            let upper =
                signer(&lower, shown, |upper| is_ca(upper, below, purpose)).ok_or(CertificateError::UnknownIssuer)?;
            self.check_revocation(&lower, &upper, now)?;
            lower = upper;
        }
        Err(CertificateError::UnknownIssuer)
    }

    /// As OpenSSL with CRL_CHECK_ALL: if there are lists, one has to be of the CA that has signed the certificate.
    fn check_revocation(
        &self,
        certificate: &X509Certificate<'_>,
        signer: &X509Certificate<'_>,
        now: UnixTime,
    ) -> Result<(), CertificateError> {
        if self.lists.is_empty() {
            return Ok(());
        }
        let lists = self.lists.iter().filter_map(|list| CertificateRevocationList::from_der(list).ok());
        let list = lists
            .map(|(_, list)| list)
            .find(|list| {
                list.issuer().as_raw() == certificate.issuer().as_raw()
                    // Lists of changes only, or of a part of the certificates, say so in a critical extension.
                    && !list.extensions().iter().any(|extension| extension.critical)
                    && list.verify_signature(signer.public_key()).is_ok()
            })
            .ok_or(CertificateError::UnknownRevocationStatus)?;
        if list.next_update().is_none_or(|next| next.timestamp() < seconds(now)) {
            return Err(CertificateError::ExpiredRevocationList);
        }
        let serial = certificate.raw_serial();
        match list.iter_revoked_certificates().any(|revoked| revoked.raw_serial() == serial) {
            true => Err(CertificateError::Revoked),
            false => Ok(()),
        }
    }
}

fn seconds(time: UnixTime) -> i64 {
    i64::try_from(time.as_secs()).unwrap_or(i64::MAX)
}

fn check_time(certificate: &X509Certificate<'_>, now: UnixTime) -> Result<(), CertificateError> {
    let validity = certificate.validity();
    if seconds(now) < validity.not_before.timestamp() {
        Err(CertificateError::NotValidYet)
    } else if seconds(now) > validity.not_after.timestamp() {
        Err(CertificateError::Expired)
    } else {
        Ok(())
    }
}

/// The certificate that has signed another one, among those that `fits` takes.
fn signer<'a>(
    signed: &X509Certificate<'_>,
    certificates: &'a [CertificateDer<'_>],
    fits: impl Fn(&X509Certificate<'_>) -> bool,
) -> Option<X509Certificate<'a>> {
    // As for all other certificates: SHA-1 can be forged.
    let algorithm = &signed.signature_algorithm.algorithm;
    if [OID_PKCS1_SHA1WITHRSA, OID_SHA1_WITH_RSA].contains(algorithm)
        || signed.signature_algorithm != signed.tbs_certificate.signature
    {
        return None;
    }
    certificates.iter().filter_map(|certificate| parse(certificate)).find(|candidate| {
        candidate.subject().as_raw() == signed.issuer().as_raw()
            && fits(candidate)
            && signed.verify_signature(Some(candidate.public_key())).is_ok()
    })
}

/// A certificate of the CA file that may have signed others. One of version 1 cannot say that it is a CA's: the file does.
fn is_root(certificate: &X509Certificate<'_>, below: usize) -> bool {
    match certificate.version() {
        X509Version::V3 => may_sign(certificate, below),
        _ => certificate.subject().as_raw() == certificate.issuer().as_raw(),
    }
}

/// A certificate between the end and the root. `below`: how many others are between it and the end.
fn is_ca(certificate: &X509Certificate<'_>, below: usize, purpose: Purpose) -> bool {
    certificate.version() == X509Version::V3
        && may_sign(certificate, below)
        && certificate.extensions().iter().all(|extension| match extension.parsed_extension() {
            ParsedExtension::BasicConstraints(_) | ParsedExtension::KeyUsage(_) => true,
            ParsedExtension::ExtendedKeyUsage(usage) => {
                usage.any
                    || match purpose {
                        Purpose::Server => usage.server_auth,
                        Purpose::Client => usage.client_auth,
                    }
            }
            // Name constraints and unknown critical extensions are not supported, so such a CA is refused.
            ParsedExtension::NameConstraints(_) => false,
            _ => !extension.critical,
        })
}

//= rfc5280#section-4.2.1.9
//= rfc5280#section-4.2.1.3
fn may_sign(certificate: &X509Certificate<'_>, below: usize) -> bool {
    let usage = certificate.key_usage().ok().flatten().map(|usage| usage.value.key_cert_sign());
    match certificate.basic_constraints().ok().flatten() {
        Some(constraints) => {
            let is_near = constraints.value.path_len_constraint.is_none_or(|most| below as u64 <= u64::from(most));
            constraints.value.ca && is_near && usage.unwrap_or(true)
        }
        None => usage == Some(true),
    }
}

/// Checks that the peer has the key of its certificate, which is not one of version 3.
///
/// # Errors
/// The signature is not by that key.
pub(crate) fn verify_handshake(
    message: &[u8],
    shown: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
    version: HandshakeVersion,
) -> Result<HandshakeSignatureValid, Error> {
    let certificate = parse(shown).ok_or(Error::InvalidCertificate(CertificateError::BadEncoding))?;
    let key = certificate.public_key();
    match version {
        HandshakeVersion::Tls13 => {
            let key = SubjectPublicKeyInfoDer::from(key.raw);
            verify_tls13_signature_with_raw_key(message, &key, signed, algorithms)
        }
        // In TLS 1.2 a scheme does not say on which curve the key is.
        HandshakeVersion::Tls12 => {
            let fitting = algorithms.mapping.iter().filter(|(scheme, _)| *scheme == signed.scheme);
            let is_valid = fitting.flat_map(|(_, algorithms)| algorithms.iter()).any(|algorithm| {
                algorithm.verify_signature(&key.subject_public_key.data, message, signed.signature()).is_ok()
            });
            match is_valid {
                true => Ok(HandshakeSignatureValid::assertion()),
                false => Err(Error::InvalidCertificate(CertificateError::BadSignature)),
            }
        }
    }
}

/// The TLS version, which decides how a signature's scheme is read.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum HandshakeVersion {
    Tls12,
    Tls13,
}
