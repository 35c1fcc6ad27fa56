//! What is known about a user's password: the password, its md5 hash, or a SCRAM verifier.
//!
//! Promises that `Debug` shows the kind only and that passwords are wiped when dropped. Does not know the
//! syntax of auth_file, only of the secret in it.

use std::fmt;

use zeroize::Zeroizing;

use crate::md5::Md5Hash;
use crate::same;
use crate::scram::Verifier;

/// What auth_file or a lookup holds for a user.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum Secret {
    Plain(Password),
    Md5(Md5Hash),
    Scram(Verifier),
}

impl Secret {
    /// Reads a secret, distinguishing the kinds as PgBouncer and PostgreSQL do; never fails, since whatever is neither
    /// a hash nor a verifier is a password.
    //= pgbouncer config.md#authentication-file-format
    //= pg18 catalog-pg-authid
    pub fn parse(text: &str) -> Secret {
        if let Some(hash) = Md5Hash::parse(text) {
            return Secret::Md5(hash);
        }
        match Verifier::parse(text) {
            Some(verifier) => Secret::Scram(verifier),
            None => Secret::Plain(Password::new(text)),
        }
    }
}

/// A password in the clear, wiped when dropped. An empty one never matches: see `verify`.
#[derive(Clone)]
pub struct Password(Zeroizing<String>);

impl Password {
    /// Takes the text over. What the caller keeps a copy of is the caller's to wipe.
    pub fn new(text: impl Into<String>) -> Password {
        Password(Zeroizing::new(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl PartialEq for Password {
    fn eq(&self, other: &Password) -> bool {
        same(self.0.as_bytes(), other.0.as_bytes())
    }
}

impl Eq for Password {}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRAM: &str = "SCRAM-SHA-256$4096:AAECAwQFBgcICQoLDA0ODw==$\
        AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

    #[test]
    fn kinds_are_distinguished() {
        let kind = |text: &str| match Secret::parse(text) {
            Secret::Plain(password) => {
                assert_eq!(password.as_str(), text);
                "plain"
            }
            Secret::Md5(_) => "md5",
            Secret::Scram(_) => "scram",
        };
        let table = [
            ("", "plain"),
            ("secret", "plain"),
            ("md5", "plain"),
            ("md50123456789abcdef0123456789abcdef", "md5"),
            // PostgreSQL and PgBouncer know lower-case digits only.
            ("md50123456789ABCDEF0123456789ABCDEF", "plain"),
            ("MD50123456789abcdef0123456789abcdef", "plain"),
            ("md50123456789abcdef0123456789abcde", "plain"),
            ("md50123456789abcdef0123456789abcdef0", "plain"),
            ("md50123456789abcdef0123456789abcdeg", "plain"),
            (SCRAM, "scram"),
            (&SCRAM[..SCRAM.len() - 1], "plain"),
            ("SCRAM-SHA-256", "plain"),
            ("SCRAM-SHA-256$4096:AAEC$x:y", "plain"),
        ];
        for (text, expected) in table {
            assert_eq!(kind(text), expected, "{text:?}");
        }
    }

    #[test]
    fn debug_shows_no_secret() {
        for text in ["hunter2", "md50123456789abcdef0123456789abcdef", SCRAM] {
            let shown = format!("{:?}", Secret::parse(text));
            assert!(!shown.contains("hunter2"), "{shown}");
            assert!(!shown.contains("0123456789"), "{shown}");
            assert!(!shown.contains("AAEC"), "{shown}");
            // A key as a list of numbers would be a key too.
            assert!(!shown.contains("1, 2, 3"), "{shown}");
        }
    }

    #[test]
    fn equality_is_by_content() {
        assert_eq!(Secret::parse("a"), Secret::parse("a"));
        assert_ne!(Secret::parse("a"), Secret::parse("b"));
        assert_ne!(Secret::parse("a"), Secret::parse("aa"));
        assert_eq!(Secret::parse(SCRAM), Secret::parse(SCRAM));
        assert_ne!(Secret::parse(SCRAM), Secret::parse(&SCRAM.replace("4096", "4095")));
    }
}
