//! We are the client: we prove to PostgreSQL that we know a user's keys, and it proves that it does.
//!
//! ```text
//!   start() ──▶ client-first     challenge(server-first) ──▶ salt, iterations     (the caller finds the keys)
//!   respond(keys) ──▶ client-final     verify(server-final)
//! ```
//!
//! Promises bounds on all a server can ask of us, and that `verify` succeeds only for a server that knows the
//! user's keys. Does not derive keys: that is slow, and they may come from a cache or from a client's login.

use std::fmt;

use super::keys::{Keys, hmac, xor};
use super::message::{Fields, decode_key, encode, nonce};
use super::verifier::{number, salt_of};
use super::{ClientBinding, ITERATIONS_MAX, NONCE_LEN, NONCE_LEN_MAX, SERVER_MESSAGE_LEN_MAX, ScramError};
use crate::same;

/// One login of ours at one server.
pub struct ClientExchange {
    phase: Phase,
    /// The `c=` of client-final.
    binding: String,
    is_bound: bool,
}

/// What we wait for. Each call moves it on; an error leaves it where it is, and the login is over anyway.
enum Phase {
    /// For server-first.
    Started { bare: String, nonce_len: usize },
    /// For the keys.
    Challenged { transcript: Vec<u8>, nonce: String },
    /// For server-final.
    Responded { signature: [u8; 32] },
}

/// What the server asks for: the keys of the password with this salt and this many iterations. The same for every
/// login of a user until its password changes, so it can name the keys in a cache.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Challenge {
    pub salt: Vec<u8>,
    pub iterations: u32,
}

impl ClientExchange {
    /// Begins an exchange without channel binding; as `start_in`.
    pub fn start(nonce: &[u8; NONCE_LEN]) -> (ClientExchange, Vec<u8>) {
        ClientExchange::start_in(ClientBinding::Unused, nonce)
    }

    /// Makes client-first, the data of SASLInitialResponse. `nonce` must be new and unpredictable at every call. The mechanism
    /// that goes with it is `binding`'s.
    pub fn start_in(binding: ClientBinding<'_>, nonce: &[u8; NONCE_LEN]) -> (ClientExchange, Vec<u8>) {
        // The name is empty as libpq's is: PostgreSQL takes the user from the startup packet.
        ClientExchange::start_with(binding, "", &encode(nonce))
    }

    /// As `start_in`, with a name, and the nonce as text.
    pub(super) fn start_with(binding: ClientBinding<'_>, user: &str, nonce: &str) -> (ClientExchange, Vec<u8>) {
        let bare = format!("n={user},r={nonce}");
        let client_first = format!("{}{bare}", binding.header()).into_bytes();
        let phase = Phase::Started { bare, nonce_len: nonce.len() };
        let is_bound = matches!(binding, ClientBinding::Chosen(_));
        (ClientExchange { phase, binding: binding.attribute(), is_bound }, client_first)
    }

    /// Whether a server that completes the exchange has proved that it has the certificate that we have seen.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        self.is_bound
    }

    /// Reads server-first, the data of AuthenticationSASLContinue, and tells what the server asks for.
    ///
    /// # Errors
    /// A nonce that does not extend ours or is longer than `NONCE_LEN_MAX`, an iteration count of 0 or above
    /// `ITERATIONS_MAX`, an empty or oversized salt, bad syntax, a mandatory extension.
    pub fn challenge(&mut self, server_first: &[u8]) -> Result<Challenge, ScramError> {
        let Phase::Started { bare, nonce_len } = &self.phase else {
            return Err(ScramError::OutOfOrder);
        };
        if server_first.len() > SERVER_MESSAGE_LEN_MAX {
            return Err(ScramError::TooLong);
        }
        let mut fields = Fields::of(server_first);
        let nonce = nonce(fields.value(b'r')?, NONCE_LEN_MAX)?;
        let ours = &bare[bare.len() - nonce_len..];
        // A server that adds nothing of its own could replay an old exchange.
        if !nonce.starts_with(ours) || nonce.len() == ours.len() {
            return Err(ScramError::OtherNonce);
        }
        let salt = salt_of(fields.value(b's')?).ok_or(ScramError::Salt)?;
        let iterations = iterations(fields.value(b'i')?)?;
        fields.end()?;
        self.phase =
            Phase::Challenged { transcript: [bare.as_bytes(), b",", server_first].concat(), nonce: nonce.to_owned() };
        Ok(Challenge { salt, iterations })
    }

    /// Makes client-final, the data of SASLResponse, with the keys that the challenge asked for. Wrong keys make a
    /// message that the server refuses.
    ///
    /// # Errors
    /// `OutOfOrder` unless `challenge` went before.
    pub fn respond(&mut self, keys: &Keys) -> Result<Vec<u8>, ScramError> {
        let Phase::Challenged { transcript, nonce } = &self.phase else {
            return Err(ScramError::OutOfOrder);
        };
        let without_proof = format!("c={},r={nonce}", self.binding);
        let message: [&[u8]; 3] = [transcript, b",", without_proof.as_bytes()];
        let client_signature = hmac(&keys.stored_key(), &message);
        let proof = encode(&xor(&keys.client_key, &client_signature));
        self.phase = Phase::Responded { signature: hmac(&keys.server_key, &message) };
        Ok(format!("{without_proof},p={proof}").into_bytes())
    }

    /// Reads server-final, the data of AuthenticationSASLFinal. Until this has succeeded the server is not
    /// authenticated, and an AuthenticationOk from it is worth nothing.
    ///
    /// # Errors
    /// `WrongSignature` when the server does not know the user's keys, `Refused` when it sent an error.
    pub fn verify(&self, server_final: &[u8]) -> Result<(), ScramError> {
        let Phase::Responded { signature } = &self.phase else {
            return Err(ScramError::OutOfOrder);
        };
        if server_final.len() > SERVER_MESSAGE_LEN_MAX {
            return Err(ScramError::TooLong);
        }
        if server_final.starts_with(b"e=") {
            return Err(ScramError::Refused);
        }
        let mut fields = Fields::of(server_final);
        let given = decode_key(fields.value(b'v')?).ok_or(ScramError::Malformed)?;
        fields.end()?;
        match same(&given, signature) {
            true => Ok(()),
            false => Err(ScramError::WrongSignature),
        }
    }
}

/// The iteration count, within what we are ready to compute.
fn iterations(text: &[u8]) -> Result<u32, ScramError> {
    std::str::from_utf8(text).ok().and_then(|text| number(text, ITERATIONS_MAX)).ok_or(ScramError::Iterations)
}

impl fmt::Debug for ClientExchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.phase {
            Phase::Started { .. } => "ClientExchange(started)",
            Phase::Challenged { .. } => "ClientExchange(challenged)",
            Phase::Responded { .. } => "ClientExchange(responded)",
        })
    }
}
