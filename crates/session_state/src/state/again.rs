//! How a setting is set again on another server.

use sql::quoted_setting;

/// What follows a setting's name in SET to give it its default.
pub(super) const DEFAULT: &[u8] = b" TO DEFAULT";

/// How a setting is set again.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Again {
    /// By SET SESSION and this, as its client wrote it.
    Clause(Box<[u8]>),
    /// To this value as the server shows it, in UTF-8.
    Value(Box<[u8]>),
}

impl Again {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Again::Clause(bytes) | Again::Value(bytes) => bytes,
        }
    }
}

/// How a setting with a dot that the session has reset is made so on another server. It has the value there that ALTER ROLE or an extension gives it, or else
/// it is empty and not unknown, as where it was set.
pub(super) fn by_default(name: &[u8]) -> Again {
    match quoted_setting(name) {
        Some(quoted) => Again::Clause([&quoted[..], DEFAULT].concat().into()),
        None => Again::Value(Box::default()),
    }
}
