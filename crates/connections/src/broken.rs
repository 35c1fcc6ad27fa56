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
        WrongPasswordType => [INVALID_AUTHORIZATION] "wrong password type";
        BeforeAuthentication { message: MessageType } => [] "unexpected message before authentication: {message}";
        DuringLogin { message: MessageType } => [] "unexpected message during login: {message}";
        InTransaction => [] "server starts inside a transaction";
        AuthenticatedTwice => [] "authentication request after AuthenticationOk";
        ScramSkipped => [] "server skipped its part of the SCRAM exchange";
        SaslOutOfOrder => [] "SASL message out of order";
        Scram { error: ScramError } => [] "{error}";
        Gss => [] "server asks for GSSAPI, which the pooler cannot do";
        UnknownMethod { method: i32 } => [] "server asks for an unknown authentication method: {method}";
        HigherVersion => [] "received invalid protocol negotiation message: server requested downgrade to a higher-numbered version";
        UnknownParameter => [] "received invalid protocol negotiation message: server reported an unsupported parameter that was not requested";
        BindingWithoutTls => [] "channel binding required, but SSL not in use";
        BindingOfferedInClear => [] "server offered SCRAM-SHA-256-PLUS authentication over a non-SSL connection";
        BindingWithoutHash => [] "channel binding is required, but the server's certificate has no hash to bind to";
        BindingNotOffered => [] "channel binding is required, but server did not offer an authentication method that supports channel binding";
        NoMechanism => [] "server offers no SASL mechanism we know";
        BindingNotSupported => [] "channel binding required but not supported by server's authentication request";
        NotBound => [] "channel binding required, but server authenticated client without channel binding";
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
