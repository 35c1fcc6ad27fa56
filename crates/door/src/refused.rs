//! Why a login ends, and why the door closes connections of its own.

use machine::mail::Refusal;
use queueing::limiting::Exceeded;
use wire::backend::ErrorResponse;
use wire::{SqlState, sqlstate};

pub use super::lookup::LookupEnd;
pub use super::peers::PeerFailure;

pub(super) const NO_SUCH_USER: &str = "no such user";

/// PgBouncer's words for a wrong password, and for a SCRAM exchange with one.
pub(super) const PASSWORD_FAILED: &str = "password authentication failed";
pub(super) const SASL_FAILED: &str = "SASL authentication failed";

/// Why a login ends, in words for the client and the log.
#[derive(Clone, Debug)]
pub(super) struct Refused(pub(super) SqlState, pub(super) String);

impl From<wire::Error> for Refused {
    fn from(error: wire::Error) -> Refused {
        Refused(error.sqlstate(), error.to_string())
    }
}

/// The words for a client of a class of which too many log in at this moment.
pub(super) fn too_often(limit: u32, retry_ms: u32, say: impl FnOnce(&ErrorResponse<'_>)) {
    let words = Exceeded { limit, remaining: 0, retry_ms: u64::from(retry_ms) };
    let (detail, hint) = (words.detail(), words.hint());
    say(&ErrorResponse {
        severity: "FATAL",
        code: sqlstate::CONFIGURATION_LIMIT_EXCEEDED,
        message: "too many clients of your class log in at this moment",
        detail: Some(&detail),
        hint: Some(&hint),
    });
}

/// The coordinator has found no place.
impl From<Refusal> for Refused {
    fn from(why: Refusal) -> Refused {
        let full = sqlstate::TOO_MANY_CONNECTIONS;
        let (code, text) = match why {
            Refusal::MaxClientConn => (full, "no more connections allowed (max_client_conn)"),
            Refusal::TooManyPools => (full, "too many different databases and users are in use"),
            Refusal::MaxDbClientConnections => (full, "client connections exceeded (max_db_client_connections)"),
            Refusal::MaxUserClientConnections => (full, "client connections exceeded (max_user_client_connections)"),
            // The door says when to come again.
            Refusal::LoginRate { .. } => (full, "too many clients of your class log in at this moment"),
            Refusal::ShuttingDown => (sqlstate::CANNOT_CONNECT_NOW, "pooler is shutting down"),
        };
        Refused(code, text.to_owned())
    }
}
