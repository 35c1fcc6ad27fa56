//! A connection to PostgreSQL that cannot be used: the server has broken the protocol, or it does not do what the settings demand.

use std::fmt;

use auth::scram::ScramError;

units::reasons! {
    /// How a server has broken the protocol, or what it does not do. The texts about channel binding are libpq's.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Broken {
        Invalid { error: wire::Error } => [CONNECTION_FAILURE, TRANSACTION_RESOLUTION_UNKNOWN] "invalid message from server: {error}";
        /// A message that nothing asked for.
        Unexpected { message: MessageType } => [CONNECTION_FAILURE, TRANSACTION_RESOLUTION_UNKNOWN] "unexpected message from server: {message}";
        TooLong => [CONNECTION_FAILURE, TRANSACTION_RESOLUTION_UNKNOWN] "message from server is too long";
        /// The header of a message to a session that has the server for its own.
        Header { error: wire::Error } => [CONNECTION_FAILURE] "{error}";
        SpokeFirst => [CONNECTION_FAILURE] "server spoke before it was asked";
        NoTls => [CONNECTION_FAILURE] "server does not support TLS, which is required";
        ClearAfterAnswer => [CONNECTION_FAILURE] "received unencrypted data after SSL response";
        ErrorForAnswer => [CONNECTION_FAILURE] "server sent an error response during TLS negotiation";
        OtherAnswer => [CONNECTION_FAILURE] "received invalid response to TLS negotiation";
        /// The pool has no secret of the kind that the server asks for.
        WrongPasswordType => [INVALID_AUTHORIZATION, CONNECTION_FAILURE] "wrong password type";
        BeforeAuthentication { message: MessageType } => [CONNECTION_FAILURE] "unexpected message before authentication: {message}";
        DuringLogin { message: MessageType } => [CONNECTION_FAILURE] "unexpected message during login: {message}";
        InTransaction => [CONNECTION_FAILURE] "server starts inside a transaction";
        AuthenticatedTwice => [CONNECTION_FAILURE] "authentication request after AuthenticationOk";
        ScramSkipped => [CONNECTION_FAILURE] "server skipped its part of the SCRAM exchange";
        SaslOutOfOrder => [CONNECTION_FAILURE] "SASL message out of order";
        Scram { error: ScramError } => [CONNECTION_FAILURE] "{error}";
        Gss => [CONNECTION_FAILURE] "server asks for GSSAPI, which the pooler cannot do";
        UnknownMethod { method: i32 } => [CONNECTION_FAILURE] "server asks for an unknown authentication method: {method}";
        HigherVersion => [CONNECTION_FAILURE] "received invalid protocol negotiation message: server requested downgrade to a higher-numbered version";
        UnknownParameter => [CONNECTION_FAILURE] "received invalid protocol negotiation message: server reported an unsupported parameter that was not requested";
        BindingWithoutTls => [CONNECTION_FAILURE] "channel binding required, but SSL not in use";
        BindingOfferedInClear => [CONNECTION_FAILURE] "server offered SCRAM-SHA-256-PLUS authentication over a non-SSL connection";
        BindingWithoutHash => [CONNECTION_FAILURE] "channel binding is required, but the server's certificate has no hash to bind to";
        BindingNotOffered => [CONNECTION_FAILURE] "channel binding is required, but server did not offer an authentication method that supports channel binding";
        NoMechanism => [CONNECTION_FAILURE] "server offers no SASL mechanism we know";
        BindingNotSupported => [CONNECTION_FAILURE] "channel binding required but not supported by server's authentication request";
        NotBound => [CONNECTION_FAILURE] "channel binding required, but server authenticated client without channel binding";
    }
}

impl From<wire::Error> for Broken {
    fn from(error: wire::Error) -> Broken {
        Broken::Invalid { error }
    }
}

impl From<ScramError> for Broken {
    fn from(error: ScramError) -> Broken {
        Broken::Scram { error }
    }
}

/// The first byte of a message. In words it is a letter, or escaped.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct MessageType(pub u8);

impl fmt::Display for MessageType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.escape_ascii().fmt(f)
    }
}
