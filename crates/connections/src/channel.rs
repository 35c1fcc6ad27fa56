//! Whether a login to PostgreSQL is bound to the certificate of its TLS, as libpq's `channel_binding` decides it.
//!
//! ```text
//!                  the server offers SCRAM-SHA-256-PLUS      it does not
//!   inside TLS     -PLUS                                     SCRAM-SHA-256, and says that it could have been bound
//!   in the clear   no login: who offers it is not sane       SCRAM-SHA-256
//! ```
//!
//! Promises that with `require` no login counts that is not bound. The texts are libpq's. Two things differ from libpq: with
//! `disable` an offer in the clear is no error; and where the server's certificate has no hash to bind to (Ed25519), `prefer`
//! logs in without.
//!
//! //= pg18 libpq-connect#LIBPQ-CONNECT-CHANNEL-BINDING
//! //= rfc5802#section-6

use auth::ClientBinding;
use auth::scram::{MECHANISM, MECHANISM_PLUS};
use settings::{ChannelBinding, TlsSettings};
use wire::backend::Mechanisms;

use crate::Broken;
use crate::databases::Database;
use crate::encryption::Facts;

/// The channel of one login.
#[derive(Copy, Clone, Debug, Default)]
pub struct Channel<'a> {
    pub wanted: ChannelBinding,
    /// What is known of its TLS; `None`: it is in the clear.
    pub facts: Option<&'a Facts>,
}

impl<'a> Channel<'a> {
    /// Of a connection to this database.
    #[must_use]
    pub fn of(database: &Database, settings: &TlsSettings, facts: Option<&'a Facts>) -> Channel<'a> {
        let own = database.settings.channel_binding;
        Channel { wanted: own.unwrap_or(settings.server_channel_binding), facts }
    }

    /// Chooses among the mechanisms that the server offers.
    ///
    /// # Errors
    /// There is none to choose, or none that is bound where that is required.
    pub(crate) fn choose(self, offered: Mechanisms<'_>) -> Result<(&'static str, ClientBinding<'a>), Broken> {
        let is_offered = offered.offers(MECHANISM_PLUS.as_bytes());
        let is_required = self.wanted == ChannelBinding::Require;
        let may_bind = self.wanted != ChannelBinding::Disable;
        let hash = self.facts.and_then(|facts| facts.end_point.as_deref()).filter(|_| may_bind);
        match hash {
            None if self.facts.is_none() && is_required => Err(Broken::BindingWithoutTls),
            None if self.facts.is_none() && is_offered && may_bind => Err(Broken::BindingOfferedInClear),
            Some(hash) if is_offered => Ok((MECHANISM_PLUS, ClientBinding::Chosen(hash))),
            None if is_required && is_offered => Err(Broken::BindingWithoutHash),
            _ if is_required => Err(Broken::BindingNotOffered),
            _ if !offered.offers(MECHANISM.as_bytes()) => Err(Broken::NoMechanism),
            Some(_) => Ok((MECHANISM, ClientBinding::NotOffered)),
            None => Ok((MECHANISM, ClientBinding::Unused)),
        }
    }

    /// Whether the server may ask for a password in another way than by SCRAM.
    ///
    /// # Errors
    /// It may not.
    pub(crate) fn allow_unbound(self) -> Result<(), Broken> {
        match self.wanted {
            ChannelBinding::Require => Err(Broken::BindingNotSupported),
            ChannelBinding::Disable | ChannelBinding::Prefer => Ok(()),
        }
    }

    /// Whether the server may let us in after an exchange that was bound, or not.
    ///
    /// # Errors
    /// It may not.
    pub(crate) fn accept(self, is_bound: bool) -> Result<(), Broken> {
        match self.wanted {
            ChannelBinding::Require if !is_bound => Err(Broken::NotBound),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use ChannelBinding::{Disable, Prefer, Require};
    use wire::HEADER_LEN;
    use wire::backend::{Authentication, encode_sasl};

    use super::*;

    /// What is chosen of these mechanisms.
    fn chosen(wanted: ChannelBinding, facts: Option<&Facts>, offered: &[&[u8]]) -> String {
        let mut message = Vec::new();
        encode_sasl(&mut message, offered);
        let Ok(Authentication::Sasl { mechanisms }) = Authentication::decode(&message[HEADER_LEN..]) else {
            panic!("it is AuthenticationSASL")
        };
        match (Channel { wanted, facts }).choose(mechanisms) {
            Ok((MECHANISM_PLUS, ClientBinding::Chosen(hash))) => format!("plus {}", hash.len()),
            Ok((MECHANISM, ClientBinding::NotOffered)) => "y".to_owned(),
            Ok((MECHANISM, ClientBinding::Unused)) => "n".to_owned(),
            Ok(other) => panic!("{other:?}"),
            Err(why) => why.to_string(),
        }
    }

    #[test]
    fn as_libpq_chooses() {
        let with = Facts { shown: "TLSv1.3".into(), end_point: Some([5; 48].as_slice().into()) };
        let without = Facts { end_point: None, ..with.clone() };
        let plain: &[&[u8]] = &[b"SCRAM-SHA-256"];
        let both: &[&[u8]] = &[b"SCRAM-SHA-256-PLUS", b"SCRAM-SHA-256"];
        let turned: &[&[u8]] = &[b"SCRAM-SHA-256", b"SCRAM-SHA-256-PLUS"];
        let only: &[&[u8]] = &[b"SCRAM-SHA-256-PLUS"];
        let others: &[&[u8]] = &[b"OAUTHBEARER"];
        let no_ssl = "channel binding required, but SSL not in use";
        let not_sane = "server offered SCRAM-SHA-256-PLUS authentication over a non-SSL connection";
        let no_offer = "channel binding is required, but server did not offer an authentication method that supports \
                        channel binding";
        let no_hash = "channel binding is required, but the server's certificate has no hash to bind to";
        let unknown = "server offers no SASL mechanism we know";
        let (on, no_hash_on, off) = (Some(&with), Some(&without), None);
        let table = [
            (on, both, ["n", "plus 48", "plus 48"]),
            (on, turned, ["n", "plus 48", "plus 48"]),
            (on, only, [unknown, "plus 48", "plus 48"]),
            (on, plain, ["n", "y", no_offer]),
            (on, others, [unknown, unknown, no_offer]),
            (no_hash_on, both, ["n", "n", no_hash]),
            (no_hash_on, plain, ["n", "n", no_offer]),
            (no_hash_on, only, [unknown, unknown, no_hash]),
            (off, plain, ["n", "n", no_ssl]),
            (off, both, ["n", not_sane, no_ssl]),
            (off, only, [unknown, not_sane, no_ssl]),
            (off, others, [unknown, unknown, no_ssl]),
        ];
        for (facts, offered, expected) in table {
            let told = [Disable, Prefer, Require].map(|wanted| chosen(wanted, facts, offered));
            assert_eq!(told, expected, "{facts:?} {offered:?}");
        }
    }

    #[test]
    fn require_takes_nothing_but_a_bound_login() {
        let channel = |wanted| Channel { wanted, facts: None };
        for wanted in [Disable, Prefer] {
            assert_eq!((channel(wanted).allow_unbound(), channel(wanted).accept(false)), (Ok(()), Ok(())));
        }
        assert!(channel(Require).allow_unbound().is_err() && channel(Require).accept(false).is_err());
        assert_eq!(channel(Require).accept(true), Ok(()));
    }
}
