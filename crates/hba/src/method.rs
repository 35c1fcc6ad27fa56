//! The methods: their words in the file.
//!
//! //= pg18 auth-methods

use crate::mistake::{Wrong, quoted};

/// How a client proves who it is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Method {
    /// Not at all.
    Trust,
    /// It cannot.
    Reject,
    /// MD5, or SCRAM where the stored secret is a SCRAM verifier.
    Md5,
    Scram,
    /// The password in clear text.
    Password,
    /// A certificate of TLS.
    Cert,
    /// The system user on the other side of a Unix socket.
    Peer,
    Ldap,
    Pam,
    OAuth,
    Gss,
    /// One of PostgreSQL's that is not supported: who comes by such a line is refused, as by `reject`.
    Unsupported(&'static str),
}

impl Method {
    /// The word in the file.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        let words = METHODS.iter().find(|(_, method)| *method == self);
        words.map_or("", |(word, _)| word)
    }

    pub(crate) fn read(word: &str) -> Result<Method, Wrong> {
        named(&METHODS, word).ok_or_else(|| {
            let known = "trust, reject, md5, scram-sha-256, password, cert, peer, ldap, pam, oauth or gss";
            Wrong::new(quoted(word), known)
        })
    }
}

const METHODS: [(&str, Method); 16] = [
    ("trust", Method::Trust),
    ("reject", Method::Reject),
    ("md5", Method::Md5),
    ("scram-sha-256", Method::Scram),
    ("password", Method::Password),
    // PgBouncer's word for it.
    ("plain", Method::Password),
    ("cert", Method::Cert),
    ("peer", Method::Peer),
    ("ldap", Method::Ldap),
    ("pam", Method::Pam),
    ("oauth", Method::OAuth),
    ("gss", Method::Gss),
    ("ident", Method::Unsupported("ident")),
    ("sspi", Method::Unsupported("sspi")),
    ("radius", Method::Unsupported("radius")),
    ("bsd", Method::Unsupported("bsd")),
];

/// The value of a word in a table.
pub(crate) fn named<T: Copy>(table: &[(&str, T)], word: &str) -> Option<T> {
    table.iter().find(|(name, _)| *name == word).map(|(_, value)| *value)
}
