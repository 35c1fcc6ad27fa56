//! The address, the user and the database of a PostgreSQL or a console.

use client::Place;

use crate::encryption::Encryption;
use crate::login::Account;

/// Where it is, and who we are there.
#[derive(Clone, Debug)]
pub struct Target {
    /// A name, an address, or the directory of a Unix socket.
    pub host: String,
    pub port: u16,
    pub user: String,
    pub password: Option<String>,
    pub database: String,
    /// The user's SCRAM verifier as PostgreSQL keeps it, where that may be read; found out by the benchmark.
    pub verifier: Option<String>,
    /// `None`: never.
    pub encryption: Option<Encryption>,
}

impl Target {
    /// # Errors
    /// The host's name is not known.
    pub fn place(&self) -> Result<Place, String> {
        Place::of(&self.host, self.port)
    }

    /// Who we are, under an application's name.
    #[must_use]
    pub fn account(&self, application: &str) -> Account {
        Account::new(&self.user, self.password.as_deref(), &self.database, application)
    }
}
