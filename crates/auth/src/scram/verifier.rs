//! What a server keeps of a password: enough to check it, not enough to log in elsewhere.
//!
//! Promises PostgreSQL's text form, both ways. Does not limit the iterations of a verifier as such: checking a proof
//! costs the same for all; before deriving keys for one, check `ITERATIONS_MAX`.

use std::fmt;
use std::sync::Arc;

use zeroize::Zeroize;

use super::keys::{Keyed, Keys, keyed, mac_of};
use super::message::{decode, decode_key, encode};
use super::{Challenge, MECHANISM, SALT_LEN, SALT_LEN_MAX};
use crate::same;

/// The most iterations PostgreSQL itself can store.
const STORED_ITERATIONS_MAX: u32 = i32::MAX as u32;

/// A SCRAM-SHA-256 secret as PostgreSQL stores it in pg_authid. Copies share its salt and its keys.
#[derive(Clone)]
pub struct Verifier {
    /// Rounds of PBKDF2; at least 1.
    pub iterations: u32,
    pub salt: Arc<[u8]>,
    keys: Arc<StoredKeys>,
}

/// The two keys, and HMAC keyed with each: the four blocks of hashing that takes are not repeated at every login.
struct StoredKeys {
    stored_key: [u8; 32],
    server_key: [u8; 32],
    stored_mac: Keyed,
    server_mac: Keyed,
}

impl StoredKeys {
    fn new(stored_key: [u8; 32], server_key: [u8; 32]) -> StoredKeys {
        let (stored_mac, server_mac) = (keyed(&stored_key), keyed(&server_key));
        StoredKeys { stored_key, server_key, stored_mac, server_mac }
    }
}

impl Verifier {
    /// A verifier of known keys.
    pub fn of_keys(iterations: u32, salt: &[u8], stored_key: [u8; 32], server_key: [u8; 32]) -> Verifier {
        Verifier { iterations, salt: salt.into(), keys: Arc::new(StoredKeys::new(stored_key, server_key)) }
    }

    pub fn stored_key(&self) -> &[u8; 32] {
        &self.keys.stored_key
    }

    pub fn server_key(&self) -> &[u8; 32] {
        &self.keys.server_key
    }

    /// HMAC-SHA-256 of the parts in a row, with StoredKey.
    pub(super) fn stored_mac(&self, parts: &[&[u8]]) -> [u8; 32] {
        mac_of(self.keys.stored_mac.clone(), parts)
    }

    /// HMAC-SHA-256 of the parts in a row, with ServerKey.
    pub(super) fn server_mac(&self, parts: &[&[u8]]) -> [u8; 32] {
        mac_of(self.keys.server_mac.clone(), parts)
    }

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
        let iterations = number(iterations, STORED_ITERATIONS_MAX)?;
        let salt = salt_of(salt.as_bytes())?;
        let (stored_key, server_key) = (decode_key(stored_key.as_bytes())?, decode_key(server_key.as_bytes())?);
        Some(Verifier::of_keys(iterations, &salt, stored_key, server_key))
    }

    /// Makes the verifier of a password. Slow: see `Keys::derive`.
    pub fn derive(password: &str, salt: &[u8], iterations: u32) -> Verifier {
        let keys = Keys::derive(password, salt, iterations);
        Verifier::of_keys(iterations, salt, keys.stored_key(), keys.server_key)
    }

    /// As [`MockSeed::mock`], for a seed that is used once.
    pub fn mock(seed: &[u8; 32], user: &[u8], iterations: u32) -> Verifier {
        MockSeed::new(seed).mock(user, iterations).verifier
    }

    /// Whether a server's challenge is for this very verifier, so that keys proved against it fit there too.
    pub fn matches(&self, challenge: &Challenge) -> bool {
        self.iterations == challenge.iterations && *self.salt == *challenge.salt
    }
}

/// What verifiers of users that do not exist are derived from. The seed must be secret and live as long as the answers shall stay
/// the same.
#[derive(Clone)]
pub struct MockSeed {
    /// HMAC with the seed as its key, which is hashed once.
    mac: Keyed,
    /// Of these nobody knows a preimage, the holder of the seed included. No client is ever told anything made of them, so
    /// all users that do not exist share them.
    keys: Arc<StoredKeys>,
}

/// What stands in for the secret of a user that does not exist.
pub struct Mock {
    pub verifier: Verifier,
    /// As much the user's own as the salt is, but no client is ever told: whatever else must be drawn for the user.
    pub spare: [u8; SPARE_LEN],
}

/// What one HMAC has beyond a salt.
const SPARE_LEN: usize = 32 - SALT_LEN;

impl MockSeed {
    pub fn new(seed: &[u8; 32]) -> MockSeed {
        let mac = keyed(seed);
        let derived = |label: &[u8]| mac_of(mac.clone(), &[label]);
        let keys = StoredKeys::new(derived(b"mock stored key\0"), derived(b"mock server key\0"));
        MockSeed { keys: Arc::new(keys), mac }
    }

    /// For a user that does not exist: a salt that is the same at every attempt, derived from (seed, user), and keys
    /// nobody knows, so that a stranger cannot tell a missing user from a wrong password. `iterations` must be those of the
    /// verifiers of users who do.
    pub fn mock(&self, user: &[u8], iterations: u32) -> Mock {
        let derived = mac_of(self.mac.clone(), &[b"mock salt\0", user]);
        let (salt, spare) = derived.split_at(SALT_LEN);
        Mock {
            verifier: Verifier { iterations, salt: salt.into(), keys: Arc::clone(&self.keys) },
            spare: std::array::from_fn(|index| spare[index]),
        }
    }
}

impl fmt::Debug for Mock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mock(..)")
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
        let (stored_key, server_key) = (encode(self.stored_key()), encode(self.server_key()));
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
        let keys_are_same = same(self.stored_key(), other.stored_key()) & same(self.server_key(), other.server_key());
        keys_are_same && self.iterations == other.iterations && self.salt == other.salt
    }
}

impl Eq for Verifier {}

impl Drop for StoredKeys {
    fn drop(&mut self) {
        self.stored_key.zeroize();
        self.server_key.zeroize();
    }
}
