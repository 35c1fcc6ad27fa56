//! Why a session ends.

use connections::Barred;
use queueing::refusals::Reason;
use wire::{SqlState, sqlstate};

use crate::request_refusal::RequestRefusal;
use crate::server::CloseReason;

units::reasons! {
    /// Why a session ends. The client gets the words as a FATAL error, unless it has left or has had its last message; the log has them
    /// behind `closing because:`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum EndReason {
        // The client has left.
        ClientClosed => [] "client close request";
        ClientEof => [] "client unexpected eof";
        /// The console has answered Terminate.
        ConsoleClosed => [] "console closed";
        // The client has sent what it may not send.
        Protocol { error: wire::Error } => [PROTOCOL_VIOLATION, FEATURE_NOT_SUPPORTED] "{error}";
        /// `type_byte`: that of the message.
        MessageType { type_byte: u8 } => [PROTOCOL_VIOLATION] "invalid frontend message type {type_byte}";
        MessageLength => [PROTOCOL_VIOLATION] "invalid message length";
        ParseNameTooLong => [PROTOCOL_VIOLATION] "name in Parse message is too long";
        BindNamesTooLong => [PROTOCOL_VIOLATION] "names in Bind message are too long";
        ConsoleCommandTooLong => [PROTOCOL_VIOLATION] "console command is too long";
        Barred { what: Barred } => [PROGRAM_LIMIT_EXCEEDED, PROTOCOL_VIOLATION] "{what}";
        // A deadline.
        QueryWaitTimeout => [PROTOCOL_VIOLATION] "query_wait_timeout";
        /// The same, for a limit of its class.
        LimitWaitTimeout => [PROTOCOL_VIOLATION] "query_wait_timeout";
        QueryWaitTimeoutPinned => [PROTOCOL_VIOLATION] "query_wait_timeout: as many clients of this pool as max_pinned allows keep a server";
        /// `query_timeout`, while the client waits.
        QueuedTooLong => [PROTOCOL_VIOLATION] "query_timeout";
        QueuedTooLongPinned => [PROTOCOL_VIOLATION] "query_timeout: as many clients of this pool as max_pinned allows keep a server";
        /// `query_timeout`, while its query runs.
        RanTooLong => [PROTOCOL_VIOLATION, TRANSACTION_RESOLUTION_UNKNOWN] "query timeout";
        ClientIdleTimeout => [PROTOCOL_VIOLATION] "client_idle_timeout";
        IdleTransactionTimeout => [PROTOCOL_VIOLATION] "idle transaction timeout";
        TransactionTimeout => [PROTOCOL_VIOLATION, TRANSACTION_RESOLUTION_UNKNOWN] "transaction timeout";
        /// The client has a server, and has neither read nor sent anything for as long as that may last.
        Stalled => [PROTOCOL_VIOLATION, TRANSACTION_RESOLUTION_UNKNOWN] "client stalled";
        /// `failover_wait`. `why`: of the last attempt.
        NoHost { why: String } => [CANNOT_CONNECT_NOW] "no server can be opened: {why}";
        // Orders.
        Killed => [ADMIN_SHUTDOWN] "admin forced disconnect";
        ShuttingDown => [ADMIN_SHUTDOWN] "server shutting down";
        /// A reload has removed it while the client logged in.
        NoSuchDatabase => [INVALID_CATALOG_NAME] "no such database";
        // Bounds and faults.
        OutOfMemory => [OUT_OF_MEMORY] "out of memory";
        HalfMessages => [OUT_OF_MEMORY] "too much memory is used by incomplete messages, of all clients together";
        NotificationUnreadable => [UNTRANSLATABLE_CHARACTER] "a notification is not in the session's client_encoding";
        NotificationsUnread => [PROGRAM_LIMIT_EXCEEDED] "too many notifications that the client has not read";
        Fault => [CRASH_SHUTDOWN] "terminating connection because of a fault in the pooler";
        // Its server, or the pool's.
        ListenerLost { why: CloseReason } => [ADMIN_SHUTDOWN] "the connection that listened for this session was lost: {why}";
        /// The same; the words were kept until the end of the transaction.
        NotificationsMissed { words: String } => [ADMIN_SHUTDOWN] "{words}";
        Server { why: CloseReason } => [] "{why}";
        /// PostgreSQL's own error, or words in its place. Its SQLSTATE is PostgreSQL's.
        Said { words: String } => [] "{words}";
        /// Its request was refused, and it cannot go on.
        Request { why: RequestRefusal } => [] "{why}";
    }
}

impl EndReason {
    /// The SQLSTATE of the client's error, where nothing says otherwise.
    #[must_use]
    pub fn code(&self) -> SqlState {
        let first = match self {
            EndReason::Protocol { error } => Some(error.sqlstate()),
            EndReason::Barred { what } => Some(what.code()),
            EndReason::Server { why } => why.client_codes().first().copied(),
            EndReason::Request { why } => Some(why.code()),
            other => other.codes().first().copied(),
        };
        first.unwrap_or(sqlstate::PROTOCOL_VIOLATION)
    }

    /// Whether a client may get the reason with this SQLSTATE, as the manual has it.
    #[must_use]
    pub fn may_have(&self, code: SqlState) -> bool {
        let codes = match self {
            EndReason::Server { why } => why.client_codes(),
            EndReason::Request { why } => why.codes(),
            other => other.codes(),
        };
        codes.is_empty() || codes.contains(&code)
    }

    /// By which name the end is counted, if it is.
    #[must_use]
    pub fn counted_as(&self) -> Option<Reason> {
        match self {
            EndReason::QueryWaitTimeout => Some(Reason::QueryWaitTimeout),
            EndReason::LimitWaitTimeout => Some(Reason::LimitWaitTimeout),
            EndReason::QueryWaitTimeoutPinned => Some(Reason::MaxPinned),
            EndReason::QueuedTooLong | EndReason::QueuedTooLongPinned => Some(Reason::QueuedTooLong),
            EndReason::RanTooLong => Some(Reason::RanTooLong),
            EndReason::ClientIdleTimeout => Some(Reason::ClientIdleTimeout),
            EndReason::IdleTransactionTimeout => Some(Reason::IdleTransactionTimeout),
            EndReason::TransactionTimeout => Some(Reason::TransactionTimeout),
            EndReason::Stalled => Some(Reason::ClientStalled),
            EndReason::NoHost { .. } => Some(Reason::FailoverWait),
            _ => None,
        }
    }
}

impl From<CloseReason> for EndReason {
    fn from(why: CloseReason) -> EndReason {
        EndReason::Server { why }
    }
}

impl From<wire::Error> for EndReason {
    fn from(error: wire::Error) -> EndReason {
        EndReason::Protocol { error }
    }
}

impl From<Barred> for EndReason {
    fn from(what: Barred) -> EndReason {
        EndReason::Barred { what }
    }
}
