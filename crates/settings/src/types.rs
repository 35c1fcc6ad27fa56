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
    /// How clients prove who they are.
    AuthType {
        /// No password, but the user must be known.
        Trust = "trust",
        /// No password, and the user need not be known; every login uses the database's forced user.
        Any = "any",
        /// The password in clear text.
        Plain = "plain",
        /// MD5, or SCRAM where the stored secret is a SCRAM verifier.
        #[default]
        Md5 = "md5",
        /// SCRAM-SHA-256 only.
        Scram = "scram-sha-256",
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
