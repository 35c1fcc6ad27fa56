//! The types that fields have where text, a number or a time would not do.
//!
//! Promises that the words of a choice stand once, beside its variants. Does not know which setting has which type.

use std::collections::BTreeSet;
use std::fmt;

macro_rules! choice {
    ($(#[$meta:meta])* $choice:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$meta])*
        #[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
        pub enum $choice { $($(#[$doc])* $variant),* }

        impl $choice {
            pub const NAMES: &[&str] = &[$($word),*];

            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $($choice::$variant => $word),* }
            }

            #[must_use]
            pub fn named(word: &str) -> Option<$choice> {
                match word { $($word => Some($choice::$variant),)* _ => None }
            }
        }
    };
}

choice! {
    /// When a server goes back to its pool.
    PoolMode {
        /// When the client leaves.
        #[default]
        Session = "session",
        /// After each transaction.
        Transaction = "transaction",
        /// After each statement; transactions of several statements are refused.
        Statement = "statement",
    }
}

choice! {
    /// What becomes of session state in transaction and statement mode.
    Fidelity {
        /// An application's session goes on, whichever server it gets.
        #[default]
        Transparent = "transparent",
        /// The same, and every transaction is looked after: whatever it left behind is found.
        Strict = "strict",
        /// As in PgBouncer: what was set on a server stays there, for whoever gets it next.
        Classic = "classic",
    }
}

choice! {
    /// The rule while two hosts of a database accept writes, and neither is known to be out of date.
    SplitBrain {
        /// Nobody writes, and all wait.
        #[default]
        Hold = "hold",
        /// The one on the later timeline is written to.
        HighestTimeline = "highest_timeline",
        /// The one that was written to before stays.
        Stay = "stay",
    }
}

choice! {
    /// What becomes of a request beyond a limit.
    Over {
        /// It waits until it is not.
        #[default]
        Delay = "delay",
        /// It is told an error that says when to come again.
        Reject = "reject",
    }
}

choice! {
    /// What lines of the log look like.
    LogFormat {
        /// As PgBouncer's.
        #[default]
        Plain = "plain",
        /// A JSON object a line.
        Json = "json",
    }
}

choice! {
    /// How clients prove who they are.
    AuthType {
        /// No password, and the user need not be known; every login uses the database's forced user.
        Any = "any",
        /// No password, but the user must be known.
        Trust = "trust",
        /// The password in clear text.
        Plain = "plain",
        /// MD5, or SCRAM where the stored secret is a SCRAM verifier.
        #[default]
        Md5 = "md5",
        /// SCRAM-SHA-256 only.
        Scram = "scram-sha-256",
        /// By the certificate of TLS.
        Cert = "cert",
        /// As the first line of `auth_hba_file` says that matches.
        Hba = "hba",
        /// By the system user on the other side of a Unix socket.
        Peer = "peer",
        /// By the password, which a directory server checks.
        Ldap = "ldap",
        /// By the password, which PAM checks.
        Pam = "pam",
        /// By a token of an identity provider.
        OAuth = "oauth",
    }
}

choice! {
    /// Whether a connection is encrypted, and how far the other side's certificate is checked; each asks for more than the
    /// one before.
    #[derive(PartialOrd, Ord)]
    SslMode {
        #[default]
        Disable = "disable",
        Allow = "allow",
        Prefer = "prefer",
        Require = "require",
        VerifyCa = "verify-ca",
        VerifyFull = "verify-full",
    }
}

choice! {
    /// How TLS with a server begins.
    SslNegotiation {
        /// By SSLRequest, which every server understands.
        #[default]
        Postgres = "postgres",
        /// At once, as PostgreSQL 17 allows.
        Direct = "direct",
    }
}

choice! {
    /// Whether SCRAM binds itself to the certificate of the server's TLS, as libpq's `channel_binding`.
    ChannelBinding {
        /// Never.
        Disable = "disable",
        /// Where the server offers it.
        #[default]
        Prefer = "prefer",
        /// Always; what cannot be bound is no login.
        Require = "require",
    }
}

choice! {
    /// When the observer asks PostgreSQL.
    ObserveWhen {
        /// While a client waits for a server, or a statement is under way, for a second; while somebody looks; and for a minute after that.
        #[default]
        Trouble = "trouble",
        /// As long as the process serves.
        Always = "always",
    }
}

choice! {
    /// The wording of the errors for a refused login and for a query that took too long.
    Words {
        #[default]
        PostgreSql = "postgresql",
        PgBouncer = "pgbouncer",
    }
}

impl Words {
    /// One of two texts for the same error.
    #[must_use]
    pub fn choose(self, postgresql: String, pgbouncer: &str) -> String {
        match self {
            Words::PostgreSql => postgresql,
            Words::PgBouncer => pgbouncer.to_owned(),
        }
    }
}

choice! {
    /// The SQLSTATE of the error for a transaction that is rolled back since its server is lost.
    LossCode {
        /// As of a serialization failure, after which frameworks run the transaction again.
        #[default]
        SerializationFailure = "40001",
        /// PostgreSQL's own, or 08006: after that, applications' pools close the connection.
        Server = "server",
    }
}

choice! {
    /// The newest version of the protocol that servers are asked for, as libpq's `max_protocol_version`.
    MaxProtocol {
        /// What all servers and everything before them understand.
        #[default]
        V3_0 = "3.0",
        /// With long cancel keys, from PostgreSQL 18 on.
        V3_2 = "3.2",
        Latest = "latest",
    }
}

impl MaxProtocol {
    /// The minor version.
    #[must_use]
    pub fn minor(self) -> u16 {
        match self {
            MaxProtocol::V3_0 => 0,
            MaxProtocol::V3_2 | MaxProtocol::Latest => 2,
        }
    }
}

/// The most server connections of a pool.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum PoolSize {
    Fixed(u32),
    /// What is found, between `auto_pool_size_min` and `auto_pool_size_max`.
    Auto,
}

impl fmt::Display for PoolSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PoolSize::Fixed(size) => write!(f, "{size}"),
            PoolSize::Auto => f.write_str("auto"),
        }
    }
}

/// The statement that checks a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckQuery(
    /// `None`: no check. An empty text is the empty query.
    pub Option<String>,
);

/// Names that are the same in upper and lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaselessNames(BTreeSet<String>);

impl CaselessNames {
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains(&name.to_ascii_lowercase())
    }

    pub fn insert(&mut self, name: &str) {
        self.0.insert(name.to_ascii_lowercase());
    }
}
