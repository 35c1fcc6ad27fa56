//! The md5 method: the hash PostgreSQL stores, and the answer made of it and a salt.
//!
//! Gives the same bytes as PostgreSQL. The method is not safe: the hash suffices for a login.

use std::fmt;

use md5::{Digest, Md5};
use zeroize::Zeroize;

use crate::same;

/// What stands before the hash, both in pg_authid and in a PasswordMessage.
const PREFIX: &str = "md5";

/// md5(password, user) as 32 lower-case hexadecimal digits, without the "md5" prefix. As good as the password.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
pub struct Md5Hash([u8; 32]);

impl Md5Hash {
    /// The hash of a password for one user; the user's name is its salt.
    //= pg18 catalog-pg-authid
    pub fn of(password: &str, user: &str) -> Md5Hash {
        Md5Hash::of_bytes(password.as_bytes(), user)
    }

    /// As `of`, for a password as it came from the network, in whatever encoding.
    pub(crate) fn of_bytes(password: &[u8], user: &str) -> Md5Hash {
        Md5Hash(digits(&[password, user.as_bytes()]))
    }

    /// Reads "md5" and 32 lower-case hexadecimal digits, as stored by PostgreSQL; None for all else.
    pub(crate) fn digits(&self) -> &[u8] {
        &self.0
    }

    pub fn parse(text: &str) -> Option<Md5Hash> {
        let hash: [u8; 32] = text.strip_prefix(PREFIX)?.as_bytes().try_into().ok()?;
        let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        hash.iter().all(is_digit).then_some(Md5Hash(hash))
    }
}

/// What goes into a PasswordMessage as the answer to AuthenticationMD5Password: 35 bytes, "md5…".
//= pg18 protocol-flow#PROTOCOL-FLOW-START-UP
pub fn response(hash: &Md5Hash, salt: [u8; 4]) -> String {
    let answer = digits(&[&hash.0, &salt]);
    let mut text = String::with_capacity(PREFIX.len() + answer.len());
    text.push_str(PREFIX);
    text.extend(answer.iter().copied().map(char::from));
    text
}

/// The md5 of the parts in a row, in lower-case hexadecimal.
fn digits(parts: &[&[u8]]) -> [u8; 32] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut md5 = Md5::new();
    for part in parts {
        md5.update(part);
    }
    let mut text = [0; 32];
    for (pair, byte) in text.chunks_exact_mut(2).zip(md5.finalize()) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    text
}

impl PartialEq for Md5Hash {
    fn eq(&self, other: &Md5Hash) -> bool {
        same(&self.0, &other.0)
    }
}

impl Eq for Md5Hash {}

impl fmt::Debug for Md5Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Md5Hash(..)")
    }
}

impl Drop for Md5Hash {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use postgres_protocol::authentication::md5_hash;

    use super::*;

    #[test]
    fn agrees_with_the_oracle() {
        let users = ["", "u", "postgres", "Ünï"];
        let passwords = ["", "x", "a longer one, with spaces", "pässwörd"];
        for (user, password) in users.iter().flat_map(|u| passwords.iter().map(move |p| (*u, *p))) {
            let hash = Md5Hash::of(password, user);
            for salt in [[0; 4], [1, 2, 3, 4], [255; 4]] {
                let expected = md5_hash(user.as_bytes(), password.as_bytes(), salt);
                assert_eq!(response(&hash, salt), expected);
                assert_eq!(response(&hash, salt).len(), 35);
            }
            let stored = postgres_protocol::password::md5(password.as_bytes(), user);
            assert_eq!(Md5Hash::parse(&stored), Some(hash));
        }
    }
}
