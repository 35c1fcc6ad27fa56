//! The error codes that we send ourselves or must recognise in what a server sends.
//!
//! Not the whole of PostgreSQL's appendix A, only the codes that the pooler uses.
//!
//= pg18 errcodes-appendix

use std::fmt;

/// Five characters, digits and capital letters; the first two are the class.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SqlState(pub [u8; 5]);

impl SqlState {
    /// `None` unless there are exactly five digits and capital letters.
    pub fn from_bytes(bytes: &[u8]) -> Option<SqlState> {
        let code: [u8; 5] = bytes.try_into().ok()?;
        let sound = code.iter().all(|b| b.is_ascii_digit() || b.is_ascii_uppercase());
        sound.then_some(SqlState(code))
    }

    /// The code as text; `XX000` if the field was filled by hand with what is no text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("XX000")
    }

    /// The first two characters, which name the kind of failure.
    pub fn class(self) -> [u8; 2] {
        [self.0[0], self.0[1]]
    }
}

impl fmt::Display for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal;)*) => {
        $($(#[$doc])* pub const $name: SqlState = SqlState(*$code);)*

        #[cfg(test)]
        const ALL: &[SqlState] = &[$($name),*];
    };
}

codes! {
    SUCCESS = b"00000";
    WARNING = b"01000";

    // Class 08: the connection.
    CONNECTION_EXCEPTION = b"08000";
    /// The client could not connect onwards.
    UNABLE_TO_CONNECT = b"08001";
    CONNECTION_DOES_NOT_EXIST = b"08003";
    /// The other side refused the connection.
    CONNECTION_REJECTED = b"08004";
    /// The connection broke, or never came to be.
    CONNECTION_FAILURE = b"08006";
    /// A connection broke, or was closed, while a commit may have been under way.
    TRANSACTION_RESOLUTION_UNKNOWN = b"08007";
    PROTOCOL_VIOLATION = b"08P01";

    FEATURE_NOT_SUPPORTED = b"0A000";
    INVALID_PARAMETER_VALUE = b"22023";
    UNTRANSLATABLE_CHARACTER = b"22P05";
    ACTIVE_TRANSACTION = b"25001";
    NO_ACTIVE_TRANSACTION = b"25P01";
    IN_FAILED_TRANSACTION = b"25P02";
    IDLE_IN_TRANSACTION_TIMEOUT = b"25P03";
    TRANSACTION_TIMEOUT = b"25P04";
    /// No prepared statement has this name.
    UNDEFINED_PSTATEMENT = b"26000";

    // Class 28: invalid authorization.
    INVALID_AUTHORIZATION = b"28000";
    INVALID_PASSWORD = b"28P01";

    /// No cursor or portal has this name.
    INVALID_CURSOR_NAME = b"34000";
    NO_SUCH_SAVEPOINT = b"3B001";
    /// No database has this name.
    INVALID_CATALOG_NAME = b"3D000";
    SERIALIZATION_FAILURE = b"40001";
    DEADLOCK_DETECTED = b"40P01";
    INSUFFICIENT_PRIVILEGE = b"42501";
    SYNTAX_ERROR = b"42601";
    UNDEFINED_OBJECT = b"42704";
    /// A cursor or portal of this name is there already.
    DUPLICATE_CURSOR = b"42P03";
    /// A prepared statement of this name is there already.
    DUPLICATE_PSTATEMENT = b"42P05";

    // Class 53: not enough of something.
    INSUFFICIENT_RESOURCES = b"53000";
    DISK_FULL = b"53100";
    OUT_OF_MEMORY = b"53200";
    TOO_MANY_CONNECTIONS = b"53300";
    CONFIGURATION_LIMIT_EXCEEDED = b"53400";

    // Class 54: too much of something.
    PROGRAM_LIMIT_EXCEEDED = b"54000";
    STATEMENT_TOO_COMPLEX = b"54001";

    OBJECT_NOT_IN_PREREQUISITE_STATE = b"55000";
    OBJECT_IN_USE = b"55006";
    CANT_CHANGE_RUNTIME_PARAM = b"55P02";
    LOCK_NOT_AVAILABLE = b"55P03";

    // Class 57: operator intervention.
    OPERATOR_INTERVENTION = b"57000";
    QUERY_CANCELED = b"57014";
    ADMIN_SHUTDOWN = b"57P01";
    CRASH_SHUTDOWN = b"57P02";
    CANNOT_CONNECT_NOW = b"57P03";
    DATABASE_DROPPED = b"57P04";
    IDLE_SESSION_TIMEOUT = b"57P05";

    SYSTEM_ERROR = b"58000";
    IO_ERROR = b"58030";
    CONFIG_FILE_ERROR = b"F0000";
    INTERNAL_ERROR = b"XX000";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_sound_and_there_once() {
        for (i, code) in ALL.iter().enumerate() {
            assert_eq!(SqlState::from_bytes(&code.0), Some(*code));
            assert!(!ALL[..i].contains(code), "{code} is there twice");
        }
    }

    #[test]
    fn text_and_class() {
        assert_eq!(PROTOCOL_VIOLATION.as_str(), "08P01");
        assert_eq!(PROTOCOL_VIOLATION.class(), *b"08");
        assert_eq!(format!("[{ADMIN_SHUTDOWN}]"), "[57P01]");
        assert_eq!(format!("[{ADMIN_SHUTDOWN:>7}]"), "[  57P01]");
        assert_eq!(SqlState([0xff; 5]).as_str(), "XX000");
    }

    #[test]
    fn from_bytes_refuses_what_is_no_code() {
        for bad in [&b""[..], b"5730", b"573000", b"57p01", b"5730 ", b"5730\0", b"5730\xff"] {
            assert_eq!(SqlState::from_bytes(bad), None, "{bad:?}");
        }
    }
}
