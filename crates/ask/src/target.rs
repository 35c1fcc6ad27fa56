//! The address, the user and the database of a PostgreSQL or a console.

use std::net::IpAddr;

use client::Place;

use crate::encryption::Encryption;
use crate::login::Account;

/// The address of a PostgreSQL or a console, and the account to log in with.
#[derive(Clone, Debug)]
pub struct Target {
    /// A name, an address, or the directory of a Unix socket.
    pub host: String,
    /// Where the name leads, if that is known: it is not looked up then.
    pub address: Option<IpAddr>,
    pub port: u16,
    pub user: String,
    pub password: Option<String>,
    pub database: String,
    /// The user's SCRAM verifier from `pg_authid`. Only the benchmark looks for it, and only a superuser may read it.
    pub verifier: Option<String>,
    /// `None`: without TLS.
    pub encryption: Option<Encryption>,
}

impl Target {
    /// # Errors
    /// The host's name is not known.
    pub fn place(&self) -> Result<Place, String> {
        match self.address {
            Some(address) => Ok(Place::Tcp((address, self.port).into())),
            None => Place::of(&self.host, self.port),
        }
    }

    /// The user, the password and the database, with an application's name.
    #[must_use]
    pub fn account(&self, application: &str) -> Account {
        Account::new(&self.user, self.password.as_deref(), &self.database, application)
    }
}
