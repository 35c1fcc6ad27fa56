//! How a connection to PostgreSQL becomes encrypted before the login, as libpq does it.
//!
//! ```text
//!   opened ─► SSLRequest ─► 'S' ─► handshake ─► login       allow: first in the clear; a login that is refused is tried
//!          │             └► 'N' ─► login, or the end                again with TLS
//!          ├► handshake (sslnegotiation = direct)            prefer: first with TLS; a login that is refused is tried
//!          └► login                                                 again in the clear
//! ```
//!
//! A value that the owner of the connection asks what to do next. Promises that bytes sent before they can have been
//! encrypted end the connection (CVE-2021-23222), and that from `require` on nothing is sent in the clear. With `prefer` only the server's
//! own word leads to a login in the clear, its 'N' or a rule of its pg_hba.conf: libpq goes on in the clear after a failed handshake, too,
//! and nobody notices that a certificate has a mistake.
//!
//! //= pg18 libpq-ssl#LIBPQ-SSL-PROTECTION
//! //= pg18 protocol-flow#PROTOCOL-FLOW-SSL

use std::sync::Arc;

use settings::{SslMode, SslNegotiation, TlsSettings};
use wire::{SqlState, frontend};

use crate::Broken;
use crate::databases::{Address, Host};

/// Whether connections to this address that were opened by the old settings are encrypted as the new ones ask for. What the
/// files hold is not compared: a connection keeps the certificates that it began with.
#[must_use]
pub fn is_alike(new: &TlsSettings, old: &TlsSettings, address: &Address) -> bool {
    let ways = |settings: &TlsSettings| {
        (settings.server_tls_sslmode, settings.server_tls_sslnegotiation, settings.server_channel_binding)
    };
    matches!(address.host, Host::Unix(_))
        || ways(new) == ways(old)
            && new.server_tls_ca_file == old.server_tls_ca_file
            && new.server_tls_crl_file == old.server_tls_crl_file
            && new.server_tls_cert_file == old.server_tls_cert_file
            && new.server_tls_key_file == old.server_tls_key_file
            && new.server_tls_protocols == old.server_tls_protocols
}

/// What to do with the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Send these bytes and wait for the answer.
    Ask(Vec<u8>),
    /// Begin the handshake; `host` is whom the certificate has to name.
    Encrypt { host: String, is_direct: bool },
    /// Send the startup packet.
    LogIn,
}

/// What has been done so far.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Closed,
    Asked,
    Encrypting,
    Clear,
    Encrypted,
}

/// The encryption of one connection.
#[derive(Clone, Debug)]
pub struct Encryption {
    mode: SslMode,
    is_direct: bool,
    host: String,
    /// Whether this attempt is with TLS.
    with_tls: bool,
    /// This is the second attempt.
    is_second: bool,
    stage: Stage,
    /// What is known of it once it is on.
    facts: Option<Facts>,
}

/// What is known of an encrypted connection to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Version and cipher, as the console shows them.
    pub shown: Arc<str>,
    /// The hash of the server's certificate that SCRAM can be bound to.
    pub end_point: Option<Arc<[u8]>>,
}

impl Encryption {
    /// Of a connection that is to be opened. Unix sockets are not encrypted.
    #[must_use]
    pub fn new(settings: &TlsSettings, address: &Address) -> Encryption {
        let (mode, host) = match &address.host {
            Host::Unix(_) => (SslMode::Disable, String::new()),
            Host::Ip(ip) => (settings.server_tls_sslmode, ip.to_string()),
            Host::Name(name) => (settings.server_tls_sslmode, name.clone()),
        };
        let with_tls = !matches!(mode, SslMode::Disable | SslMode::Allow);
        // Without TLS to fall back from, a server that does not know direct TLS would only hang up.
        let is_direct = settings.server_tls_sslnegotiation == SslNegotiation::Direct && mode >= SslMode::Require;
        Encryption { mode, is_direct, host, with_tls, is_second: false, stage: Stage::Closed, facts: None }
    }

    /// As another connection to the same server was encrypted, and in no other way.
    #[must_use]
    pub fn like(other: &Encryption) -> Encryption {
        let mode = if other.is_on() { other.mode.max(SslMode::Require) } else { SslMode::Disable };
        Encryption {
            mode,
            with_tls: other.is_on(),
            is_second: true,
            stage: Stage::Closed,
            facts: None,
            ..other.clone()
        }
    }

    /// Of an open connection in the clear that another process has opened.
    #[must_use]
    pub fn in_the_clear(address: &Address) -> Encryption {
        let closed = Encryption::new(&TlsSettings::default(), address);
        Encryption { mode: SslMode::Disable, with_tls: false, is_second: true, stage: Stage::Clear, ..closed }
    }

    /// Whether this attempt is with TLS.
    #[must_use]
    pub fn begins_with_tls(&self) -> bool {
        self.with_tls
    }

    /// Whether its bytes are encrypted.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.stage == Stage::Encrypted
    }

    /// The connection is open.
    pub fn opened(&mut self) -> Next {
        if !self.with_tls {
            self.stage = Stage::Clear;
            return Next::LogIn;
        }
        if self.is_direct {
            return self.encrypt();
        }
        self.stage = Stage::Asked;
        let mut request = Vec::new();
        frontend::encode_ssl_request(&mut request);
        Next::Ask(request)
    }

    fn encrypt(&mut self) -> Next {
        self.stage = Stage::Encrypting;
        Next::Encrypt { host: self.host.clone(), is_direct: self.is_direct }
    }

    /// The server's answer to SSLRequest.
    ///
    /// # Errors
    /// It says anything but one byte, or it has no TLS and must have.
    pub fn received(&mut self, bytes: &[u8]) -> Result<Next, Broken> {
        if self.stage != Stage::Asked {
            return Err(Broken::SpokeFirst);
        }
        match bytes {
            b"S" => Ok(self.encrypt()),
            b"N" if self.mode >= SslMode::Require => Err(Broken::NoTls),
            b"N" => {
                self.stage = Stage::Clear;
                Ok(Next::LogIn)
            }
            [b'S' | b'N', ..] => Err(Broken::ClearAfterAnswer),
            // A server from before TLS, or somebody who wants to be taken for one: its words are not to be trusted.
            [b'E', ..] => Err(Broken::ErrorForAnswer),
            _ => Err(Broken::OtherAnswer),
        }
    }

    /// What is known of it, if it is on.
    #[must_use]
    pub fn facts(&self) -> Option<&Facts> {
        self.facts.as_ref()
    }

    /// The handshake is done.
    pub fn secured(&mut self, facts: Facts) -> Next {
        self.stage = Stage::Encrypted;
        self.facts = Some(facts);
        Next::LogIn
    }

    /// PostgreSQL has refused the login. If its rules may be other ones for the other way, that is tried once.
    pub fn retries_after_refusal(&mut self, code: SqlState) -> bool {
        let may_differ = code == wire::sqlstate::INVALID_AUTHORIZATION;
        let other_way = match self.mode {
            SslMode::Allow => self.stage == Stage::Clear,
            SslMode::Prefer => self.stage == Stage::Encrypted,
            _ => false,
        };
        may_differ && other_way && self.turn()
    }

    fn turn(&mut self) -> bool {
        if self.is_second {
            return false;
        }
        (self.with_tls, self.is_second, self.stage, self.facts) = (!self.with_tls, true, Stage::Closed, None);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encryption(mode: SslMode, negotiation: SslNegotiation) -> Encryption {
        let settings =
            TlsSettings { server_tls_sslmode: mode, server_tls_sslnegotiation: negotiation, ..TlsSettings::default() };
        Encryption::new(&settings, &Address { host: Host::Name("db.example".to_owned()), port: 5432 })
    }

    /// What is done with a server that gives this answer to SSLRequest.
    fn outcome(mode: SslMode, answer: &[u8]) -> String {
        let mut encryption = encryption(mode, SslNegotiation::Postgres);
        match encryption.opened() {
            Next::LogIn => "clear".to_owned(),
            Next::Encrypt { .. } => "at once".to_owned(),
            Next::Ask(request) => {
                assert_eq!(request, [0, 0, 0, 8, 4, 210, 22, 47]);
                match encryption.received(answer) {
                    Ok(Next::LogIn) => "clear after all".to_owned(),
                    Ok(Next::Encrypt { host, is_direct: false }) => format!("TLS to {host}"),
                    Ok(other) => panic!("{other:?}"),
                    Err(why) => why.to_string(),
                }
            }
        }
    }

    #[test]
    fn each_mode_takes_what_libpq_takes() {
        let required = "server does not support TLS, which is required";
        let table = [
            (SslMode::Disable, "clear", "clear"),
            (SslMode::Allow, "clear", "clear"),
            (SslMode::Prefer, "TLS to db.example", "clear after all"),
            (SslMode::Require, "TLS to db.example", required),
            (SslMode::VerifyCa, "TLS to db.example", required),
            (SslMode::VerifyFull, "TLS to db.example", required),
        ];
        for (mode, with, without) in table {
            assert_eq!((&*outcome(mode, b"S"), &*outcome(mode, b"N")), (with, without), "{mode:?}");
        }
    }

    #[test]
    fn cve_2021_23222_bytes_behind_the_answer_end_the_connection() {
        for mode in [SslMode::Prefer, SslMode::Require, SslMode::VerifyFull] {
            for answer in [&b"SR\0\0\0\x08\0\0\0\0"[..], b"SS", b"NR\0\0\0\x08\0\0\0\0"] {
                assert_eq!(outcome(mode, answer), "received unencrypted data after SSL response");
            }
            assert_eq!(outcome(mode, b"x"), "received invalid response to TLS negotiation");
            let error = b"E\0\0\0\x0cSFATAL\0\0";
            assert_eq!(outcome(mode, error), "server sent an error response during TLS negotiation");
        }
    }

    #[test]
    fn direct_tls_needs_a_mode_that_requires_it() {
        for (mode, expected) in [(SslMode::Prefer, false), (SslMode::Require, true), (SslMode::VerifyFull, true)] {
            let next = encryption(mode, SslNegotiation::Direct).opened();
            assert_eq!(matches!(next, Next::Encrypt { is_direct: true, .. }), expected, "{mode:?}");
        }
    }

    #[test]
    fn a_second_attempt_goes_the_other_way_and_there_is_no_third() {
        let refused = wire::sqlstate::INVALID_AUTHORIZATION;
        let mut prefer = encryption(SslMode::Prefer, SslNegotiation::Postgres);
        prefer.opened();
        prefer.received(b"S").expect("TLS");
        assert!(!prefer.clone().retries_after_refusal(refused), "the handshake is not done");
        prefer.secured(Facts { shown: "TLSv1.3".into(), end_point: None });
        assert!(prefer.retries_after_refusal(refused));
        assert_eq!(prefer.opened(), Next::LogIn);
        assert!(!prefer.retries_after_refusal(refused));
        let mut allow = encryption(SslMode::Allow, SslNegotiation::Postgres);
        allow.opened();
        assert!(
            !allow.clone().retries_after_refusal(wire::sqlstate::INVALID_PASSWORD),
            "the password is what is wrong"
        );
        assert!(allow.retries_after_refusal(refused));
        assert!(matches!(allow.opened(), Next::Ask(_)));
        allow.received(b"S").expect("TLS");
        assert!(!allow.retries_after_refusal(refused));
        let mut require = encryption(SslMode::Require, SslNegotiation::Postgres);
        require.opened();
        require.received(b"S").expect("TLS");
        assert!(!require.retries_after_refusal(refused));
    }

    #[test]
    fn a_second_attempt_in_the_clear_knows_no_certificate() {
        let mut prefer = encryption(SslMode::Prefer, SslNegotiation::Postgres);
        prefer.opened();
        prefer.received(b"S").expect("TLS");
        prefer.secured(Facts { shown: "TLSv1.3".into(), end_point: Some([5; 32].as_slice().into()) });
        assert!(prefer.facts().is_some() && prefer.retries_after_refusal(wire::sqlstate::INVALID_AUTHORIZATION));
        assert_eq!((prefer.opened(), prefer.facts()), (Next::LogIn, None));
    }

    #[test]
    fn a_cancel_goes_the_way_of_its_server() {
        let mut server = encryption(SslMode::Prefer, SslNegotiation::Postgres);
        assert!(matches!(server.opened(), Next::Ask(_)));
        server.received(b"S").expect("TLS");
        server.secured(Facts { shown: "TLSv1.3".into(), end_point: None });
        let mut cancel = Encryption::like(&server);
        assert!(matches!(cancel.opened(), Next::Ask(_)));
        assert!(cancel.received(b"N").is_err(), "not in the clear");
        let mut clear = encryption(SslMode::Prefer, SslNegotiation::Postgres);
        clear.opened();
        clear.received(b"N").expect("in the clear");
        assert_eq!(Encryption::like(&clear).opened(), Next::LogIn);
    }

    #[test]
    fn a_unix_socket_is_not_encrypted() {
        let settings = TlsSettings { server_tls_sslmode: SslMode::VerifyFull, ..TlsSettings::default() };
        let address = Address { host: Host::Unix("/tmp".to_owned()), port: 5432 };
        assert_eq!(Encryption::new(&settings, &address).opened(), Next::LogIn);
    }
}
