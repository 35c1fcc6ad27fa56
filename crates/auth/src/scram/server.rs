//! We are the server: a client proves that it knows a password of which we hold the verifier.
//!
//! ```text
//!   start(client-first) ──▶ server-first        finish(client-final) ──▶ server-final
//! ```
//!
//! Promises that only a client that knows the password gets `ServerDone`. Does not treat missing users: the caller
//! takes `Verifier::mock` for them, and they fail as a wrong password does.

use std::fmt;

use super::keys::{stored_key, xor};
use super::message::{Fields, decode_key, encode, nonce};
use super::{CLIENT_MESSAGE_LEN_MAX, NONCE_LEN, ScramError, ServerBinding, Verifier};
use crate::same;

/// One login of one client, between its first message and its last.
pub struct ServerExchange {
    verifier: Verifier,
    /// The `c=` that the client has to end with: what it began with, and the hash that it has chosen to be bound to.
    binding: String,
    is_bound: bool,
    /// "client-first-bare,server-first", the part of AuthMessage that is known.
    transcript: Vec<u8>,
    /// The client's nonce and ours.
    nonce: String,
}

/// The client knows the password.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerDone {
    /// What AuthenticationSASLFinal carries.
    pub server_final: Vec<u8>,
    /// With it one can log in elsewhere as this user: `Keys::from_verifier` takes it over and wipes it in the end.
    pub client_key: [u8; 32],
}

impl ServerExchange {
    /// As `start_in`, where SCRAM-SHA-256-PLUS was not offered.
    ///
    /// # Errors
    /// As `start_in`.
    pub fn start(
        client_first: &[u8],
        verifier: Verifier,
        nonce: &[u8; NONCE_LEN],
    ) -> Result<(ServerExchange, Vec<u8>), ScramError> {
        ServerExchange::start_in(ServerBinding::NotOffered, client_first, verifier, nonce)
    }

    /// Reads the client's first message, the data of SASLInitialResponse, and answers with server-first.
    ///
    /// `nonce` must be new and unpredictable at every call.
    ///
    /// # Errors
    /// Words about channel binding that do not fit what was offered and chosen, an authorization identity, mandatory
    /// extensions, bad syntax, a message of more than `CLIENT_MESSAGE_LEN_MAX` bytes.
    pub fn start_in(
        binding: ServerBinding<'_>,
        client_first: &[u8],
        verifier: Verifier,
        nonce: &[u8; NONCE_LEN],
    ) -> Result<(ServerExchange, Vec<u8>), ScramError> {
        ServerExchange::start_with(binding, client_first, verifier, &encode(nonce))
    }

    /// As `start_in`, with our nonce as text.
    pub(super) fn start_with(
        binding: ServerBinding<'_>,
        client_first: &[u8],
        verifier: Verifier,
        server_nonce: &str,
    ) -> Result<(ServerExchange, Vec<u8>), ScramError> {
        let first = ClientFirst::parse(client_first, binding)?;
        let nonce = format!("{}{server_nonce}", first.nonce);
        let salt = encode(&verifier.salt);
        let server_first = format!("r={nonce},s={salt},i={}", verifier.iterations).into_bytes();
        let exchange = ServerExchange {
            verifier,
            binding: binding.attribute(first.header),
            is_bound: matches!(binding, ServerBinding::Chosen(_)),
            transcript: [first.bare, b",", &server_first].concat(),
            nonce,
        };
        Ok((exchange, server_first))
    }

    /// The salt and the iterations that were sent to the client.
    pub fn cost(&self) -> (&[u8], u32) {
        (&self.verifier.salt, self.verifier.iterations)
    }

    /// Bytes that it keeps on the heap; most of them are the client's.
    pub fn kept_len(&self) -> usize {
        let texts = self.binding.capacity() + self.transcript.capacity() + self.nonce.capacity();
        texts + self.verifier.salt.len()
    }

    /// Takes the keys of `derived`, which was made for the salt and the iterations that `start` has told the client: with
    /// other ones no proof fits.
    pub fn set_verifier(&mut self, derived: Verifier) {
        self.verifier = derived;
    }

    /// Checks all of the client's last message but its proof, which takes no verifier.
    ///
    /// # Errors
    /// As `finish`, but for `WrongProof`.
    pub fn check(&self, client_final: &[u8]) -> Result<(), ScramError> {
        self.read(client_final).map(|_| ())
    }

    fn read<'a>(&self, client_final: &'a [u8]) -> Result<ClientFinal<'a>, ScramError> {
        let last = ClientFinal::parse(client_final)?;
        if !same(last.binding, self.binding.as_bytes()) {
            let is_bound = self.is_bound;
            return Err(if is_bound { ScramError::OtherCertificate } else { ScramError::BindingChanged });
        }
        if !same(last.nonce, self.nonce.as_bytes()) {
            return Err(ScramError::OtherNonce);
        }
        Ok(last)
    }

    /// Reads the client's last message, the data of SASLResponse.
    ///
    /// # Errors
    /// `WrongProof` when the client does not know the password; others when it breaks the protocol, or is bound to another
    /// certificate than ours.
    pub fn finish(self, client_final: &[u8]) -> Result<ServerDone, ScramError> {
        let last = self.read(client_final)?;
        let message: [&[u8]; 3] = [&self.transcript, b",", last.without_proof];
        let signature = self.verifier.stored_mac(&message);
        let client_key = xor(&last.proof, &signature);
        if !same(&stored_key(&client_key), self.verifier.stored_key()) {
            return Err(ScramError::WrongProof);
        }
        let server_signature = encode(&self.verifier.server_mac(&message));
        Ok(ServerDone { server_final: format!("v={server_signature}").into_bytes(), client_key })
    }
}

/// client-first, taken apart: the gs2 header (`n,,`) and `n=user,r=nonce[,extensions]`.
struct ClientFirst<'a> {
    /// With its final comma.
    header: &'a [u8],
    bare: &'a [u8],
    nonce: &'a str,
}

impl<'a> ClientFirst<'a> {
    //= rfc5802#section-7
    fn parse(message: &'a [u8], binding: ServerBinding<'_>) -> Result<ClientFirst<'a>, ScramError> {
        if message.len() > CLIENT_MESSAGE_LEN_MAX {
            return Err(ScramError::TooLong);
        }
        let mut fields = Fields::of(message);
        binding.check(fields.next().ok_or(ScramError::Malformed)?)?;
        match fields.next().ok_or(ScramError::Malformed)? {
            b"" => {}
            [b'a', b'=', ..] => return Err(ScramError::AuthorizationIdentity),
            _ => return Err(ScramError::Malformed),
        }
        let bare = fields.rest().ok_or(ScramError::Malformed)?;
        let header = &message[..message.len() - bare.len()];
        // The user's name stands in the startup packet; as PostgreSQL, we do not read it here.
        fields.value(b'n')?;
        let nonce = nonce(fields.value(b'r')?, CLIENT_MESSAGE_LEN_MAX)?;
        fields.skip_extensions()?;
        Ok(ClientFirst { header, bare, nonce })
    }
}

/// client-final, taken apart: `c=binding,r=nonce[,extensions]` and `,p=proof`.
struct ClientFinal<'a> {
    without_proof: &'a [u8],
    /// In base64.
    binding: &'a [u8],
    nonce: &'a [u8],
    proof: [u8; 32],
}

impl<'a> ClientFinal<'a> {
    //= rfc5802#section-7
    fn parse(message: &'a [u8]) -> Result<ClientFinal<'a>, ScramError> {
        if message.len() > CLIENT_MESSAGE_LEN_MAX {
            return Err(ScramError::TooLong);
        }
        // The proof is the last field, and what stands before it is what it proves.
        let comma = message.iter().rposition(|&byte| byte == b',');
        let (without_proof, last) = message.split_at(comma.ok_or(ScramError::Malformed)?);
        let mut fields = Fields::of(without_proof);
        let binding = fields.value(b'c')?;
        let nonce = fields.value(b'r')?;
        fields.skip_extensions()?;
        let proof = Fields::of(&last[1..]).value(b'p')?;
        Ok(ClientFinal { without_proof, binding, nonce, proof: decode_key(proof).ok_or(ScramError::Malformed)? })
    }
}

impl fmt::Debug for ServerExchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerExchange(..)")
    }
}

impl fmt::Debug for ServerDone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerDone(..)")
    }
}
