//! What a client has proved or shown at its login, as far as it is good for logging in to PostgreSQL under its name.

use auth::{Keys, Mark, Secret};
use units::heap;

/// `Debug` shows no secret.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Proved {
    /// From its SCRAM proof: good for proving the same password to PostgreSQL.
    pub keys: Option<Keys>,
    /// The user's password or its md5 hash, where it was looked up, or shown by the client, and not read from auth_file.
    pub secret: Option<Secret>,
}

impl Proved {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_none() && self.secret.is_none()
    }

    /// What tells it from what others have proved.
    #[must_use]
    pub fn marks(&self) -> Marks {
        Marks { keys: self.keys.as_ref().map(Mark::of_keys), secret: self.secret.as_ref().map(Mark::of_secret) }
    }

    /// Bytes of memory that it takes, shared by all who have it.
    #[must_use]
    pub fn weight(&self) -> usize {
        let password = match &self.secret {
            Some(Secret::Plain(password)) => heap::taken(password.as_str().len()),
            Some(Secret::Md5(_) | Secret::Scram(_)) | None => 0,
        };
        heap::taken(size_of::<Proved>() + 16) + password
    }
}

/// The marks of what a client has proved.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    keys: Option<Mark>,
    secret: Option<Mark>,
}

impl Marks {
    /// Whether the password is another one now than when this was proved.
    #[must_use]
    pub fn contradict(&self, before: Mark) -> bool {
        [self.keys, self.secret].into_iter().flatten().any(|now| now.contradicts(before))
    }

    /// Takes what was proved later. True: the password is another one since.
    pub fn learn(&mut self, now: Marks) -> bool {
        let is_new = [self.keys, self.secret].into_iter().flatten().any(|before| now.contradict(before));
        *self = Marks { keys: now.keys.or(self.keys), secret: now.secret.or(self.secret) };
        is_new
    }
}
