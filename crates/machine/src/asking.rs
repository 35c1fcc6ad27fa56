//! Questions to others about who a client is: directory servers, PAM, GSSAPI, and those who have the keys of identity
//! providers. The door
//! asks, the engine hands the question on, and others answer it in their own time.
//!
//! Promises that `Debug` shows neither a password nor a token.

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use auth::Password;
use hba::{Directory, Principals, Provider};

/// Who is asked, and how.
#[derive(Clone, Debug, PartialEq)]
pub enum Outside {
    Ldap(Arc<Directory>),
    OAuth(Arc<Provider>),
    /// The modules of this service of PAM.
    Pam(Arc<str>),
    /// Kerberos, by the keys of this machine; which principals are whom is for the door to say.
    Gss(Arc<Principals>),
}

impl Outside {
    /// PostgreSQL's name of the method, in the words of a refusal.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Outside::Ldap(_) => "LDAP",
            Outside::OAuth(_) => "OAuth bearer",
            Outside::Pam(_) => "PAM",
            Outside::Gss(_) => "GSSAPI",
        }
    }
}

/// What a client has shown.
#[derive(Clone)]
pub enum Evidence {
    /// A password or a token.
    Text(Password),
    /// A message of GSSAPI's. What came before is remembered by those who are asked, for as long as the asker is there.
    Message(Vec<u8>),
}

impl Evidence {
    /// The password or the token; empty if it is none.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Evidence::Text(text) => text.as_str(),
            Evidence::Message(_) => "",
        }
    }

    /// The message; empty if it is none.
    #[must_use]
    pub fn message(&self) -> &[u8] {
        match self {
            Evidence::Text(_) => &[],
            Evidence::Message(message) => message,
        }
    }
}

/// Is this client this user?
pub struct Inquiry {
    pub outside: Outside,
    pub user: Arc<str>,
    pub database: Arc<str>,
    pub given: Evidence,
    /// The client's; `None`: it came over a Unix socket.
    pub address: Option<IpAddr>,
    /// The certificates of those who may vouch for servers that are asked; `None`: those of the system.
    pub ca_file: Option<Arc<str>>,
    /// How long an answer is waited for.
    pub within: Duration,
    /// Gone once nobody waits for the answer: then it is not asked for.
    pub asker: Weak<()>,
}

impl Inquiry {
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        self.asker.strong_count() > 0
    }
}

impl fmt::Debug for Inquiry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inquiry { outside, user, database, .. } = self;
        write!(f, "Inquiry({} about {user:?} for {database:?})", outside.as_str())
    }
}

/// What came of it. Its words are for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The client is who it says.
    Confirmed,
    /// It is somebody of this name; which users that may be is for the door to say.
    Known(String),
    /// A message of GSSAPI's was good. The client is sent this, unless it is empty; and whose ticket it is, once that is known.
    Exchanged { reply: Vec<u8>, principal: Option<String> },
    /// It is not, or nobody knows it.
    Denied(String),
    /// Nobody who knows could be asked.
    Unreachable(String),
    /// Too many questions wait already.
    Busy,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_password() {
        let directory = hba::read_directory("ldapserver=a ldapbasedn=b ldapbinddn=c ldapbindpasswd=hunter2");
        let inquiry = Inquiry {
            outside: Outside::Ldap(Arc::new(directory.expect("it is one"))),
            user: "ann".into(),
            database: "shop".into(),
            given: Evidence::Text(Password::new("hunter2")),
            address: None,
            ca_file: None,
            within: Duration::from_secs(1),
            asker: Weak::new(),
        };
        let shown = format!("{inquiry:?} {:?}", inquiry.outside);
        assert!(shown.starts_with("Inquiry(LDAP about \"ann\" for \"shop\")") && !shown.contains("hunter2"), "{shown}");
        assert!(!inquiry.is_awaited());
    }
}
