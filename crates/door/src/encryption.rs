//! TLS with clients: who may begin it, and who must.
//!
//! ```text
//!   SSLRequest ─► 'S' ─► Securing ─► Greeting, inside TLS          (or 'N': there is none, or the client came over a Unix socket)
//!   ClientHello, without a request (direct TLS) ─► Securing
//! ```
//!
//! Promises that no byte that came in the clear is taken for one that came inside TLS (CVE-2021-23214), and that direct
//! TLS can only be what a connection begins with. SCRAM-SHA-256-PLUS is offered for as long as the client's TLS has a
//! certificate of ours to be bound to: not over Unix sockets, not in the clear, not with Ed25519.
//!
//! //= pg18 protocol-flow#PROTOCOL-FLOW-SSL

use std::sync::Arc;

use auth::ServerBinding;
use auth::scram::{MECHANISM, MECHANISM_PLUS};
use machine::action::{Action, Actions};
use machine::observe::Peer;
use machine::{Secure, Secured, Settings};
use settings::SslMode;
use units::{ConnId, heap};

use super::{Login, Phase, Refused, startup};

/// The message that ends a connection.
const TERMINATE: [u8; 5] = [wire::frontend::tag::TERMINATE, 0, 0, 0, 4];

/// The first byte of a TLS handshake; no startup packet begins with it, since it would be too long.
const HANDSHAKE: u8 = 0x16;

/// How a client's bytes come.
#[derive(Clone, Debug, Default)]
pub(super) enum Encryption {
    /// In the clear; it has sent nothing yet.
    #[default]
    Fresh,
    /// In the clear.
    Clear,
    On(Arc<Secured>),
}

impl Encryption {
    pub(super) fn facts(&self) -> Option<&Arc<Secured>> {
        match self {
            Encryption::On(facts) => Some(facts),
            Encryption::Fresh | Encryption::Clear => None,
        }
    }

    /// The hash of our certificate that the client's exchange can be bound to.
    fn end_point(&self) -> Option<&[u8]> {
        self.facts().and_then(|facts| facts.end_point.as_deref())
    }

    /// The SASL mechanisms that the client is offered, best first.
    //= pg18 sasl-authentication#SASL-SCRAM-SHA-256
    pub(super) fn mechanisms(&self) -> &'static [&'static [u8]] {
        const BOTH: &[&[u8]] = &[MECHANISM_PLUS.as_bytes(), MECHANISM.as_bytes()];
        if self.end_point().is_some() { BOTH } else { &BOTH[1..] }
    }

    /// How the exchange by the mechanism that the client has chosen is bound; `None`: it was not offered.
    pub(super) fn binding(&self, mechanism: &[u8]) -> Option<ServerBinding<'_>> {
        match self.end_point() {
            Some(hash) if mechanism == MECHANISM_PLUS.as_bytes() => Some(ServerBinding::Chosen(hash)),
            Some(_) if mechanism == MECHANISM.as_bytes() => Some(ServerBinding::Declined),
            None if mechanism == MECHANISM.as_bytes() => Some(ServerBinding::NotOffered),
            _ => None,
        }
    }

    /// Bytes of memory that the facts take.
    pub(super) fn weight(&self) -> usize {
        self.facts().map_or(0, |facts| {
            let names = facts.certificate.as_ref().map_or(0, |names| {
                let common_name = names.common_name.as_ref().map_or(0, |name| heap::taken(name.capacity()));
                let others = [&names.distinguished_name, &names.issuer, &names.serial];
                common_name + others.into_iter().map(|name| heap::taken(name.capacity())).sum::<usize>()
            });
            heap::taken(size_of::<Secured>()) + heap::taken(facts.cipher.capacity()) + 64 + names
        })
    }
}

/// Whether a client that comes from there can use TLS.
pub(super) fn is_offered(settings: &Settings, peer: Peer) -> bool {
    settings.global.tls.client_tls_sslmode != SslMode::Disable && matches!(peer, Peer::Tcp { .. })
}

impl Login {
    /// Whether these bytes, the first it sends, begin TLS at once.
    pub(super) fn begins_directly(&self, front: &[u8]) -> bool {
        matches!(self.encryption, Encryption::Fresh) && front.first() == Some(&HANDSHAKE)
    }

    /// Begins direct TLS.
    pub(super) fn secure_directly(&mut self, conn: ConnId, actions: &mut Actions) {
        let received = std::mem::take(&mut self.inbox);
        self.phase = Phase::Securing;
        actions.push(Action::Secure { conn, how: Secure::Accept { is_direct: true, received } });
    }

    /// Answers a request for encryption: with `S` if it can have it, and the handshake follows. Returns whether it does.
    ///
    /// # Errors
    /// It is encrypted already, or has sent more in the clear. Nothing but a Terminate is a client that has ended: it gets its answer, and no error.
    pub(super) fn answer(&mut self, agrees: bool, conn: ConnId, actions: &mut Actions) -> Result<bool, Refused> {
        if self.encryption.facts().is_some() {
            return Err(Refused::EncryptedTwice);
        }
        let rest = std::mem::take(&mut self.inbox);
        if !rest.is_empty() && rest != TERMINATE {
            // Bytes sent before our answer would be read as if they had been encrypted (CVE-2021-23214).
            return Err(Refused::ClearAfterRequest);
        }
        actions.send_new(conn, |out| out.push(if agrees { b'S' } else { b'N' }));
        startup::packet(&rest, &mut self.phase)?;
        self.encryption = Encryption::Clear;
        if agrees {
            self.phase = Phase::Securing;
            actions.push(Action::Secure { conn, how: Secure::Accept { is_direct: false, received: Vec::new() } });
        }
        Ok(agrees)
    }

    /// The end of a handshake; why, if it has failed.
    pub(super) fn secured(&mut self, outcome: Result<Box<Secured>, String>) -> Result<(), String> {
        if matches!(self.phase, Phase::Securing) {
            self.encryption = Encryption::On(Arc::from(outcome?));
            self.phase = Phase::Greeting;
        }
        Ok(())
    }

    /// Whether it may log in as its bytes come.
    ///
    /// # Errors
    /// They have to be encrypted.
    pub(super) fn check_encryption(&self, settings: &Settings) -> Result<(), Refused> {
        let must = settings.global.tls.client_tls_sslmode >= SslMode::Require && is_offered(settings, self.peer);
        if must && self.encryption.facts().is_none() {
            return Err(Refused::NoTls);
        }
        Ok(())
    }
}
