//! From a password to the keys of SCRAM, and what the keys prove.
//!
//! Promises to wipe keys when dropped. `Keys::derive` is the one slow thing: run it off the event loop.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use zeroize::{Zeroize, Zeroizing};

use super::Verifier;
use super::prepare::prepared;
use crate::same;

/// What a client must know to log in, and to recognise its server. As good as the password, at servers that hold
/// the verifier with the same salt and iterations; worthless elsewhere.
#[derive(Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Keys {
    pub client_key: [u8; 32],
    pub server_key: [u8; 32],
}

impl Keys {
    /// Derives the keys of a password. Slow on purpose: time grows with `iterations`, and the caller has bounded
    /// them (`ITERATIONS_MAX`). Zero iterations are taken as one.
    //= rfc5802#section-3
    pub fn derive(password: &str, salt: &[u8], iterations: u32) -> Keys {
        Keys::derive_bytes(password.as_bytes(), salt, iterations)
    }

    /// As `derive`, for a password as it came from the network, in whatever encoding.
    pub(crate) fn derive_bytes(password: &[u8], salt: &[u8], iterations: u32) -> Keys {
        let salted = salted_password(&prepared(password), salt, iterations);
        Keys { client_key: hmac(&*salted, &[b"Client Key"]), server_key: hmac(&*salted, &[b"Server Key"]) }
    }

    /// The keys for logging in at PostgreSQL without a password: the client key is what a client proved to us
    /// (`ServerDone`), the verifier is the one it proved it against.
    ///
    /// They fit only a server that holds the same verifier: see `Verifier::matches`.
    pub fn from_verifier(verifier: &Verifier, client_key: [u8; 32]) -> Keys {
        Keys { client_key, server_key: *verifier.server_key() }
    }

    /// What a server stores of these keys.
    pub fn stored_key(&self) -> [u8; 32] {
        stored_key(&self.client_key)
    }

    /// Whether these are the keys that a verifier was made of.
    pub(crate) fn opens(&self, verifier: &Verifier) -> bool {
        // Both are always compared, so that the time does not show which half differs.
        let client_is_same = same(&self.stored_key(), verifier.stored_key());
        let server_is_same = same(&self.server_key, verifier.server_key());
        client_is_same & server_is_same
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys(..)")
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.client_key.zeroize();
        self.server_key.zeroize();
    }
}

/// StoredKey of a ClientKey.
pub(super) fn stored_key(client_key: &[u8; 32]) -> [u8; 32] {
    Sha256::digest(client_key).into()
}

/// HMAC-SHA-256 of the parts in a row.
pub(super) fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    mac_of(keyed(key), parts)
}

/// HMAC-SHA-256 with a key that was hashed before: what is left are two of its four blocks, for a short message.
pub(super) fn mac_of(mut mac: Keyed, parts: &[&[u8]]) -> [u8; 32] {
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

/// A proof, or a client key out of one: the same operation both ways.
pub(super) fn xor(a: &[u8; 32], b: &[u8; 32]) -> [u8; 32] {
    std::array::from_fn(|i| a[i] ^ b[i])
}

/// HMAC-SHA-256 with its key, and nothing of a message yet.
pub(super) type Keyed = Hmac<Sha256>;

pub(super) fn keyed(key: &[u8]) -> Keyed {
    Hmac::new_from_slice(key).expect("HMAC takes keys of any length")
}

/// RFC 5802's Hi(): PBKDF2 with HMAC-SHA-256 and one block of output.
pub(super) fn salted_password(password: &[u8], salt: &[u8], iterations: u32) -> Zeroizing<[u8; 32]> {
    let mac = keyed(password);
    let mut round = mac.clone();
    round.update(salt);
    round.update(&1_u32.to_be_bytes());
    let mut last = round.finalize().into_bytes();
    let mut sum = Zeroizing::new(<[u8; 32]>::from(last));
    for _ in 1..iterations {
        let mut round = mac.clone();
        round.update(&last);
        last = round.finalize().into_bytes();
        for (to, from) in sum.iter_mut().zip(last) {
            *to ^= from;
        }
    }
    sum
}
