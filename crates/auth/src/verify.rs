//! A client's clear or md5 password against whatever is known of the user.
//!
//! Promises constant-time comparison, and that an empty password never matches. Does not hide how long a check takes: a
//! SCRAM verifier needs a slow hash for a clear password, the others do not.

use zeroize::Zeroizing;

use crate::md5::{self, Md5Hash};
use crate::same;
use crate::scram::{ITERATIONS_MAX, Keys};
use crate::secret::Secret;

/// Whether the password given in the clear, without its final zero byte, is the user's.
///
/// Slow for `Secret::Scram`: one PBKDF2 of the verifier's iterations; a verifier with more than
/// `ITERATIONS_MAX` of them is refused unseen.
//= pg18 auth-password
pub fn verify_plain(secret: &Secret, user: &str, given: &[u8]) -> bool {
    // PostgreSQL and PgBouncer refuse an empty password whatever is stored.
    if given.is_empty() {
        return false;
    }
    match secret {
        Secret::Plain(password) => same(password.as_str().as_bytes(), given),
        Secret::Md5(hash) => Md5Hash::of_bytes(given, user) == *hash,
        Secret::Scram(verifier) => {
            verifier.iterations <= ITERATIONS_MAX
                && Keys::derive_bytes(given, &verifier.salt, verifier.iterations).opens(verifier)
        }
    }
}

/// Whether the answer given to AuthenticationMD5Password with this salt, without its final zero byte, is the
/// user's. A SCRAM verifier cannot tell, so the answer is no.
pub fn verify_md5(secret: &Secret, user: &str, salt: [u8; 4], given: &[u8]) -> bool {
    let expected = match secret {
        Secret::Plain(password) if password.as_str().is_empty() => return false,
        Secret::Plain(password) => md5::response(&Md5Hash::of(password.as_str(), user), salt),
        Secret::Md5(hash) => md5::response(hash, salt),
        Secret::Scram(_) => return false,
    };
    // With its salt used up the answer is worth little, but it is wiped as all else that proves a password.
    let expected = Zeroizing::new(expected);
    same(expected.as_bytes(), given)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scram::Verifier;
    use crate::secret::Password;

    const USER: &str = "alice";
    const SALT: [u8; 4] = [1, 2, 3, 4];

    fn secrets(password: &str) -> [Secret; 3] {
        [
            Secret::Plain(Password::new(password)),
            Secret::Md5(Md5Hash::of(password, USER)),
            Secret::Scram(Verifier::derive(password, b"salt", 8)),
        ]
    }

    #[test]
    fn clear_password_against_every_secret() {
        for secret in &secrets("correct horse") {
            assert!(verify_plain(secret, USER, b"correct horse"));
            for wrong in ["", "correct hors", "correct horse ", "Correct horse", "\0"] {
                assert!(!verify_plain(secret, USER, wrong.as_bytes()), "{wrong:?}");
            }
        }
    }

    #[test]
    fn md5_answer_against_every_secret() {
        let [plain, hashed, scram] = secrets("correct horse");
        let right = md5::response(&Md5Hash::of("correct horse", USER), SALT);
        assert!(verify_md5(&plain, USER, SALT, right.as_bytes()));
        assert!(verify_md5(&hashed, USER, SALT, right.as_bytes()));
        assert!(!verify_md5(&scram, USER, SALT, right.as_bytes()));
        assert!(!verify_md5(&plain, "bob", SALT, right.as_bytes()));
        for secret in [&plain, &hashed] {
            assert!(!verify_md5(secret, USER, [1, 2, 3, 5], right.as_bytes()));
            assert!(!verify_md5(secret, USER, SALT, b""));
            assert!(!verify_md5(secret, USER, SALT, b"correct horse"));
            assert!(!verify_md5(secret, USER, SALT, &right.as_bytes()[..34]));
            assert!(!verify_md5(secret, USER, SALT, &right.as_bytes()[3..]));
        }
    }

    #[test]
    fn hash_of_another_user_does_not_fit() {
        let secret = Secret::Md5(Md5Hash::of("pw", "bob"));
        assert!(!verify_plain(&secret, USER, b"pw"));
        assert!(verify_plain(&secret, "bob", b"pw"));
    }

    #[test]
    fn empty_password_allows_no_login() {
        for secret in &secrets("") {
            assert!(!verify_plain(secret, USER, b""));
        }
        let [plain, ..] = secrets("");
        let answer = md5::response(&Md5Hash::of("", USER), SALT);
        assert!(!verify_md5(&plain, USER, SALT, answer.as_bytes()));
    }

    #[test]
    fn stored_hash_is_no_password() {
        let hash = postgres_protocol::password::md5(b"pw", USER);
        assert!(!verify_plain(&Secret::parse(&hash), USER, hash.as_bytes()));
        let text = Verifier::derive("pw", b"salt", 8).to_string();
        assert!(!verify_plain(&Secret::parse(&text), USER, text.as_bytes()));
    }

    #[test]
    fn bytes_that_are_no_text_are_taken_as_they_are() {
        let [plain, hashed, scram] = secrets("pw");
        for secret in [&plain, &hashed, &scram] {
            assert!(!verify_plain(secret, USER, b"\xff\xfe"));
        }
        let stored = postgres_protocol::password::md5(b"\xff\xfe", USER);
        assert!(verify_plain(&Secret::parse(&stored), USER, b"\xff\xfe"));
        let stored = postgres_protocol::password::scram_sha_256(b"\xff\xfe");
        assert!(verify_plain(&Secret::parse(&stored), USER, b"\xff\xfe"));
    }

    #[test]
    fn verifier_with_half_of_its_keys_fits_nothing() {
        let verifier = Verifier::derive("pw", b"salt", 8);
        let with = |stored_key, server_key| Verifier::of_keys(8, b"salt", stored_key, server_key);
        let spoilt = |key: &[u8; 32]| std::array::from_fn(|index| key[index] ^ u8::from(index == 31));
        let half = with(*verifier.stored_key(), spoilt(verifier.server_key()));
        assert!(!verify_plain(&Secret::Scram(half), USER, b"pw"));
        let half = with(spoilt(verifier.stored_key()), *verifier.server_key());
        assert!(!verify_plain(&Secret::Scram(half), USER, b"pw"));
        assert!(verify_plain(&Secret::Scram(verifier), USER, b"pw"));
    }

    #[test]
    fn endless_verifier_is_refused_at_once() {
        let mut verifier = Verifier::derive("pw", b"salt", 1);
        verifier.iterations = u32::MAX;
        assert!(!verify_plain(&Secret::Scram(verifier), USER, b"pw"));
    }
}
