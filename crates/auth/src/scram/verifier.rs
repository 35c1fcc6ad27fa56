//! What a server keeps of a password: enough to check it, not enough to log in elsewhere.
//!
//! Promises PostgreSQL's text form, both ways. Does not limit the iterations of a verifier as such: checking a
//! proof costs the same for all; who derives keys for one looks at `ITERATIONS_MAX` first.

use std::fmt;

use zeroize::Zeroize;

use super::keys::{Keyed, Keys, keyed, mac_of};
use super::message::{decode, decode_key, encode};
use super::{Challenge, MECHANISM, SALT_LEN, SALT_LEN_MAX};
use crate::same;

/// The most iterations PostgreSQL itself can store.
const STORED_ITERATIONS_MAX: u32 = i32::MAX as u32;

/// A SCRAM-SHA-256 secret as PostgreSQL stores it in pg_authid.
#[derive(Clone)]
pub struct Verifier {
    /// Rounds of PBKDF2; at least 1.
    pub iterations: u32,
    pub salt: Vec<u8>,
    pub stored_key: [u8; 32],
    pub server_key: [u8; 32],
}

impl Verifier {
    /// Reads PostgreSQL's form, `SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>`, the last three in
    /// base64; None for all else.
    //= pg18 catalog-pg-authid
    pub fn parse(text: &str) -> Option<Verifier> {
        let (mechanism, rest) = text.split_once('$')?;
        if mechanism != MECHANISM {
            return None;
        }
        let (cost, keys) = rest.split_once('$')?;
        let (iterations, salt) = cost.split_once(':')?;
        let (stored_key, server_key) = keys.split_once(':')?;
        Some(Verifier {
            iterations: number(iterations, STORED_ITERATIONS_MAX)?,
            salt: salt_of(salt.as_bytes())?,
            stored_key: decode_key(stored_key.as_bytes())?,
            server_key: decode_key(server_key.as_bytes())?,
        })
    }

    /// Makes the verifier of a password. Slow: see `Keys::derive`.
    pub fn derive(password: &str, salt: &[u8], iterations: u32) -> Verifier {
        let keys = Keys::derive(password, salt, iterations);
        Verifier { iterations, salt: salt.to_vec(), stored_key: keys.stored_key(), server_key: keys.server_key }
    }

    /// As [`MockSeed::verifier`], for a seed that is used once.
    pub fn mock(seed: &[u8; 32], user: &[u8], iterations: u32) -> Verifier {
        MockSeed::new(seed).verifier(user, iterations)
    }

    /// Whether a server's challenge is for this very verifier, so that keys proved against it fit there too.
    pub fn matches(&self, challenge: &Challenge) -> bool {
        self.iterations == challenge.iterations && self.salt == challenge.salt
    }
}

/// What verifiers of users that do not exist are derived from. The seed must be secret and live as long as the answers shall stay
/// the same.
#[derive(Clone)]
pub struct MockSeed {
    /// HMAC with the seed as its key, which is hashed once.
    mac: Keyed,
}

impl MockSeed {
    pub fn new(seed: &[u8; 32]) -> MockSeed {
        MockSeed { mac: keyed(seed) }
    }

    /// For a user that does not exist: a salt that is the same at every attempt, derived from (seed, user), and keys
    /// nobody knows, so that a stranger cannot tell a missing user from a wrong password. `iterations` must be those of the
    /// verifiers of users who do.
    pub fn verifier(&self, user: &[u8], iterations: u32) -> Verifier {
        let derived = |label: &[u8]| mac_of(self.mac.clone(), &[label, user]);
        let salt = derived(b"mock salt\0");
        Verifier {
            iterations,
            salt: salt[..SALT_LEN].to_vec(),
            // Of these nobody knows a preimage, the holder of the seed included.
            stored_key: derived(b"mock stored key\0"),
            server_key: derived(b"mock server key\0"),
        }
    }
}

impl fmt::Debug for MockSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MockSeed(..)")
    }
}

/// A salt in base64, within its bounds.
pub(super) fn salt_of(text: &[u8]) -> Option<Vec<u8>> {
    // Base64 is a third longer than its bytes: what cannot fit is not decoded.
    if text.len() > SALT_LEN_MAX.div_ceil(3) * 4 {
        return None;
    }
    decode(text).filter(|salt| !salt.is_empty() && salt.len() <= SALT_LEN_MAX)
}

/// A number from 1 to `max` in plain digits: no sign, no space.
pub(super) fn number(text: &str, max: u32) -> Option<u32> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok().filter(|number| (1..=max).contains(number))
}

impl fmt::Display for Verifier {
    /// PostgreSQL's form. It is a secret: it goes to a file or a server, never to a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let salt = encode(&self.salt);
        let stored_key = encode(&self.stored_key);
        let server_key = encode(&self.server_key);
        write!(f, "{MECHANISM}${}:{salt}${stored_key}:{server_key}", self.iterations)
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Verifier({} iterations, ..)", self.iterations)
    }
}

impl PartialEq for Verifier {
    fn eq(&self, other: &Verifier) -> bool {
        let keys_are_same = same(&self.stored_key, &other.stored_key) & same(&self.server_key, &other.server_key);
        keys_are_same && self.iterations == other.iterations && self.salt == other.salt
    }
}

impl Eq for Verifier {}

impl Drop for Verifier {
    fn drop(&mut self) {
        self.stored_key.zeroize();
        self.server_key.zeroize();
    }
}
