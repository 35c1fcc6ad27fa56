//! What tells two proofs of a user's password apart, and is no proof itself: servers remember which one they were logged in to with.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::{Keys, Secret};

/// The kinds of proofs. Two of different kinds say nothing about each other.
#[derive(Copy, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
enum Kind {
    Keys,
    Plain,
    Md5,
    Verifier,
}

/// Of one proof.
#[derive(Copy, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Mark {
    kind: Kind,
    hash: u64,
}

impl Mark {
    /// Of keys that a client's exchange has brought.
    #[must_use]
    pub fn of_keys(keys: &Keys) -> Mark {
        Mark::new(Kind::Keys, &[&keys.client_key, &keys.server_key])
    }

    #[must_use]
    pub fn of_secret(secret: &Secret) -> Mark {
        match secret {
            Secret::Plain(password) => Mark::new(Kind::Plain, &[password.as_str().as_bytes()]),
            Secret::Md5(hash) => Mark::new(Kind::Md5, &[hash.digits()]),
            Secret::Scram(verifier) => Mark::new(Kind::Verifier, &[verifier.stored_key(), verifier.server_key()]),
        }
    }

    fn new(kind: Kind, parts: &[&[u8]]) -> Mark {
        let mut hash = Sha256::new();
        parts.iter().for_each(|part| hash.update(part));
        let bytes: [u8; 32] = hash.finalize().into();
        Mark { kind, hash: u64::from_be_bytes(std::array::from_fn(|at| bytes[at])) }
    }

    /// Whether it is of another password, as far as the two can be compared.
    #[must_use]
    pub fn contradicts(self, other: Mark) -> bool {
        self.kind == other.kind && self.hash != other.hash
    }
}

/// Whoever knows a part of a password's hash can try passwords.
impl fmt::Debug for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mark(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Md5Hash, Password};

    #[test]
    fn only_proofs_of_one_kind_contradict_each_other() {
        let plain = |text: &str| Mark::of_secret(&Secret::Plain(Password::new(text)));
        let md5 = |text: &str| Mark::of_secret(&Secret::Md5(Md5Hash::of(text, "u")));
        let keys = |text: &str| Mark::of_keys(&Keys::derive(text, b"salt", 1));
        for make in [&plain as &dyn Fn(&str) -> Mark, &md5, &keys] {
            assert!(make("one").contradicts(make("other")));
            assert!(!make("one").contradicts(make("one")));
        }
        assert!(!plain("one").contradicts(md5("other")) && !md5("one").contradicts(keys("other")));
        assert_eq!(format!("{:?}", plain("one")), "Mark(..)");
    }
}
