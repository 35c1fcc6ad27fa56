//! Why a login is refused, and why the door closes connections of its own.

pub use super::lookup::LookupEnd;
pub use super::peers::PeerFailure;
use auth::ScramError;
use auth::bearer::BearerError;
use machine::mail::Refusal;
use queueing::limiting::Exceeded;
use units::heap;
use wire::backend::ErrorResponse;
use wire::{SqlState, sqlstate};

units::reasons! {
    /// Why a login is refused. The client gets the words as a FATAL error. The log has them behind `closing because:`, and often
    /// says more behind `login refused:`. Names in them are as `shown` cuts and escapes them.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Refused {
        // The proof.
        WrongPassword { user: String } => [INVALID_PASSWORD] "password authentication failed for user \"{user}\"";
        EmptyPassword => [INVALID_PASSWORD] "empty password returned by client";
        NoSuchRole { user: String } => [INVALID_AUTHORIZATION] "role \"{user}\" does not exist";
        /// Others, a certificate or the system user did not confirm the user.
        NotConfirmed { method: &'static str, user: String } => [INVALID_AUTHORIZATION] "{method} authentication failed for user \"{user}\"";
        NoCertificate => [INVALID_AUTHORIZATION] "connection requires a valid client certificate";
        NotAllowed => [INVALID_AUTHORIZATION] "not allowed";
        WrongMechanism => [PROTOCOL_VIOLATION] "client selected an invalid SASL authentication mechanism";
        Scram { error: ScramError } => [INVALID_AUTHORIZATION, FEATURE_NOT_SUPPORTED, PROTOCOL_VIOLATION] "{error}";
        Bearer { error: BearerError } => [FEATURE_NOT_SUPPORTED, PROTOCOL_VIOLATION] "{error}";
        NoPasswordMessage => [PROTOCOL_VIOLATION] "expected a password response";
        /// `type_byte`: that of the message.
        NoGssMessage { type_byte: u8 } => [PROTOCOL_VIOLATION] "expected GSS response, got message type {type_byte}";
        PasswordTooLong => [PROTOCOL_VIOLATION] "password message is too long";
        // PgBouncer's words in place of these.
        PasswordFailed => [INVALID_PASSWORD] "password authentication failed";
        SaslFailed => [INVALID_PASSWORD] "SASL authentication failed";
        NoSuchUser => [INVALID_PASSWORD] "no such user";
        NoSuchUserTrusted => [INVALID_AUTHORIZATION] "no such user";
        TrustFailed => [INVALID_AUTHORIZATION] "\"trust\" authentication failed";
        LoginRejected => [INVALID_AUTHORIZATION] "login rejected";
        UnixLoginRejected => [INVALID_AUTHORIZATION] "unix socket login rejected";
        CertificateFailed => [INVALID_AUTHORIZATION] "certificate authentication failed";
        // Where it comes from.
        NoTls => [INVALID_AUTHORIZATION] "SSL required";
        NoHbaEntry { client: String } => [INVALID_AUTHORIZATION] "no pg_hba.conf entry for {client}";
        HbaRejects { client: String } => [INVALID_AUTHORIZATION] "pg_hba.conf rejects {client}";
        NoProxyHeader { why: &'static str } => [PROTOCOL_VIOLATION] "PROXY protocol header expected from an address in proxy_protocol_networks: {why}";
        ProxyHeader => [PROTOCOL_VIOLATION] "unexpected PROXY protocol header: its sender is not in proxy_protocol_networks, or it is the second";
        EncryptedTwice => [PROTOCOL_VIOLATION] "received a request for encryption inside an encrypted connection";
        ClearAfterRequest => [PROTOCOL_VIOLATION] "received unencrypted data after SSL request";
        // The startup packet.
        NoUserName => [INVALID_AUTHORIZATION] "no PostgreSQL user name specified in startup packet";
        NotUtf8 { what: &'static str } => [PROTOCOL_VIOLATION] "{what} is not valid UTF-8";
        Protocol { error: wire::Error } => [PROTOCOL_VIOLATION, FEATURE_NOT_SUPPORTED] "{error}";
        NotBoolean { name: &'static str } => [INVALID_PARAMETER_VALUE] "parameter \"{name}\" requires a Boolean value";
        Replication { value: String } => [INVALID_PARAMETER_VALUE] "invalid value for parameter \"replication\": \"{value}\"";
        /// A parameter of the pooler's own.
        OwnSetting { code: SqlState, words: String } => [] "{words}";
        Unsupported { place: &'static str, name: String } => [PROTOCOL_VIOLATION] "unsupported startup parameter{place}: {name}";
        Options => [PROTOCOL_VIOLATION] "unsupported options startup parameter: only '-c config=val' and '--config=val' are allowed";
        ConsoleReplication => [FEATURE_NOT_SUPPORTED] "the console cannot replicate";
        NoSuchDatabase { database: String } => [INVALID_CATALOG_NAME] "no such database: {database}";
        DatabaseDisabled { database: String } => [CANNOT_CONNECT_NOW] "database \"{database}\" is disabled";
        // The lookup of the user.
        ConfigError => [PROTOCOL_VIOLATION] "bouncer config error";
        LookupUnreachable { database: String } => [CONNECTION_FAILURE] "authentication database \"{database}\" cannot be reached";
        LookupDisabled { database: String } => [CANNOT_CONNECT_NOW] "authentication database \"{database}\" is disabled";
        TooManyLookups => [TOO_MANY_CONNECTIONS] "too many authentication databases are in use";
        TooManyAsked => [TOO_MANY_CONNECTIONS] "too many clients are being authenticated already";
        // Limits, deadlines, orders.
        LoginTimeout => [PROTOCOL_VIOLATION] "client_login_timeout";
        SuspendTimeout => [PROTOCOL_VIOLATION] "suspend_timeout";
        TooMuchMemory => [TOO_MANY_CONNECTIONS] "too much memory is used by clients that have not logged in: the oldest login is given up";
        OutOfMemory => [OUT_OF_MEMORY] "out of memory";
        MaxClientConn => [TOO_MANY_CONNECTIONS] "no more connections allowed (max_client_conn)";
        TooManyPools => [TOO_MANY_CONNECTIONS] "too many different databases and users are in use";
        MaxDbClientConnections => [TOO_MANY_CONNECTIONS] "client connections exceeded (max_db_client_connections)";
        MaxUserClientConnections => [TOO_MANY_CONNECTIONS] "client connections exceeded (max_user_client_connections)";
        LoginRate => [CONFIGURATION_LIMIT_EXCEEDED] "too many clients of your class log in at this moment";
        ShuttingDown => [CANNOT_CONNECT_NOW] "pooler is shutting down";
    }
}

impl Refused {
    /// The SQLSTATE of the client's error, by which refused logins are counted.
    #[must_use]
    pub fn code(&self) -> SqlState {
        match self {
            Refused::Scram { error } => match error {
                ScramError::Downgrade | ScramError::OtherCertificate => sqlstate::INVALID_AUTHORIZATION,
                ScramError::AuthorizationIdentity | ScramError::Extension => sqlstate::FEATURE_NOT_SUPPORTED,
                _ => sqlstate::PROTOCOL_VIOLATION,
            },
            Refused::Bearer { error: BearerError::Malformed(_) } => sqlstate::PROTOCOL_VIOLATION,
            Refused::Bearer { error: BearerError::AuthorizationIdentity } => sqlstate::FEATURE_NOT_SUPPORTED,
            Refused::Protocol { error } => error.sqlstate(),
            Refused::OwnSetting { code, .. } => *code,
            other => other.codes()[0],
        }
    }

    /// The memory of its names.
    pub(super) fn weight(&self) -> usize {
        match self {
            Refused::WrongPassword { user: name }
            | Refused::NoSuchRole { user: name }
            | Refused::NotConfirmed { user: name, .. }
            | Refused::NoHbaEntry { client: name }
            | Refused::HbaRejects { client: name }
            | Refused::Replication { value: name }
            | Refused::OwnSetting { words: name, .. }
            | Refused::Unsupported { name, .. }
            | Refused::NoSuchDatabase { database: name }
            | Refused::DatabaseDisabled { database: name }
            | Refused::LookupUnreachable { database: name }
            | Refused::LookupDisabled { database: name } => heap::taken(name.capacity()),
            _ => 0,
        }
    }
}

impl From<wire::Error> for Refused {
    fn from(error: wire::Error) -> Refused {
        Refused::Protocol { error }
    }
}

/// The words for a client of a class of which too many log in at this moment.
pub(super) fn too_often(limit: u32, retry_ms: u32, say: impl FnOnce(&ErrorResponse<'_>)) {
    let words = Exceeded { limit, remaining: 0, retry_ms: u64::from(retry_ms) };
    let (detail, hint) = (words.detail(), words.hint());
    say(&ErrorResponse {
        severity: "FATAL",
        code: Refused::LoginRate.code(),
        message: &Refused::LoginRate.to_string(),
        detail: Some(&detail),
        hint: Some(&hint),
    });
}

/// The coordinator has found no place.
impl From<Refusal> for Refused {
    fn from(why: Refusal) -> Refused {
        match why {
            Refusal::MaxClientConn => Refused::MaxClientConn,
            Refusal::TooManyPools => Refused::TooManyPools,
            Refusal::MaxDbClientConnections => Refused::MaxDbClientConnections,
            Refusal::MaxUserClientConnections => Refused::MaxUserClientConnections,
            // The door says when to come again.
            Refusal::LoginRate { .. } => Refused::LoginRate,
            Refusal::ShuttingDown => Refused::ShuttingDown,
        }
    }
}
