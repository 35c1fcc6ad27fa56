//! Slow computations that run off the event loop: password hashing. The machine asks, the engine computes elsewhere.
//!
//! SCRAM's key derivation takes a millisecond and more by design (RFC 5802), as long as a hundred transactions.

use std::fmt;

use auth::{Keys, Password, Secret, Verifier};

/// What to compute. `Debug` shows no secret, neither a stored nor a given one.
#[derive(Clone)]
pub enum Job {
    /// Does this clear-text password fit the stored secret of this user?
    CheckPlain { secret: Box<Secret>, user: String, given: Vec<u8> },
    /// A verifier for a password that is stored in the clear.
    DeriveVerifier { password: Password, salt: Vec<u8>, iterations: u32 },
    /// The keys to prove a password to a server with.
    DeriveKeys { password: Password, salt: Vec<u8>, iterations: u32 },
}

/// What came of it.
#[derive(Clone, Debug)]
pub enum Done {
    Checked(bool),
    Verifier(Box<Verifier>),
    Keys(Box<Keys>),
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Job::CheckPlain { user, .. } => write!(f, "CheckPlain({user:?}, ..)"),
            Job::DeriveVerifier { iterations, .. } => write!(f, "DeriveVerifier({iterations} iterations, ..)"),
            Job::DeriveKeys { iterations, .. } => write!(f, "DeriveKeys({iterations} iterations, ..)"),
        }
    }
}

impl Job {
    /// Does the work. Slow on purpose: never called by a machine itself.
    #[must_use]
    pub fn run(self) -> Done {
        match self {
            Job::CheckPlain { secret, user, given } => Done::Checked(auth::verify_plain(&secret, &user, &given)),
            Job::DeriveVerifier { password, salt, iterations } => {
                Done::Verifier(Box::new(Verifier::derive(password.as_str(), &salt, iterations)))
            }
            Job::DeriveKeys { password, salt, iterations } => {
                Done::Keys(Box::new(Keys::derive(password.as_str(), &salt, iterations)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_password() {
        let password = Password::new("hunter2");
        let jobs = [
            Job::CheckPlain {
                secret: Box::new(Secret::Plain(password.clone())),
                user: "ann".to_owned(),
                given: b"hunter2".to_vec(),
            },
            Job::DeriveVerifier { password: password.clone(), salt: vec![1, 2, 3], iterations: 9 },
            Job::DeriveKeys { password, salt: vec![1, 2, 3], iterations: 9 },
        ];
        let bytes = format!("{:?}", b"hunter2");
        for job in jobs {
            let shown = format!("{job:?}");
            assert!(!shown.contains("hunter2") && !shown.contains(&bytes[1..bytes.len() - 1]), "{shown}");
        }
    }
}
