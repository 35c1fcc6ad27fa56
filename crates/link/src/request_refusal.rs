//! Why a request is refused that no server has seen.

use std::sync::Arc;

use queueing::refusals::Reason;
use wire::SqlState;

units::reasons! {
    /// Why a request is refused. The client gets the words as an ERROR, and its session goes on; where it cannot, as FATAL.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum RequestRefusal {
        /// In PostgreSQL's words.
        UserRequest => [QUERY_CANCELED] "canceling statement due to user request";
        /// `pgweir.deadline_ms`. Worded like PostgreSQL's own timeouts.
        Deadline => [QUERY_CANCELED] "canceling statement due to deadline";
        DeadlinePinned => [QUERY_CANCELED] "canceling statement due to deadline: as many clients of this pool as max_pinned allows keep a server";
        QueryTimeout => [QUERY_CANCELED] "canceling statement due to query_timeout";
        QueryTimeoutPinned => [QUERY_CANCELED] "canceling statement due to query_timeout: as many clients of this pool as max_pinned allows keep a server";
        /// `failover_wait`. `why`: of the last attempt.
        NoHost { why: String } => [CANNOT_CONNECT_NOW] "no server can be opened: {why}";
        /// `max_waiting` of its class.
        MaxWaiting { class: Arc<str> } => [CONFIGURATION_LIMIT_EXCEEDED] "too many clients of class \"{class}\" wait";
        /// `words`: the limiter's, which name the limit.
        Limit { reason: Reason, words: String } => [CONFIGURATION_LIMIT_EXCEEDED] "{words}";
        /// `failover_sqlstate`.
        LostBlock => [SERIALIZATION_FAILURE] "the server of this transaction was lost, and the transaction is rolled back";
        /// Until the client ends a block whose server was lost. In PostgreSQL's words, as the next three.
        AbortedBlock => [IN_FAILED_TRANSACTION] "current transaction is aborted, commands ignored until end of transaction block";
        NoSavepoint { name: String } => [NO_SUCH_SAVEPOINT] "savepoint \"{name}\" does not exist";
        NoStatement { name: String } => [UNDEFINED_PSTATEMENT] "prepared statement \"{name}\" does not exist";
        NoPortal { name: String } => [INVALID_CURSOR_NAME] "portal \"{name}\" does not exist";
        /// There is no server on which another transaction could begin.
        NoChain => [IN_FAILED_TRANSACTION] "the server of this transaction was lost, and no other can be chained to it: use ROLLBACK";
    }
}

impl RequestRefusal {
    #[must_use]
    pub fn code(&self) -> SqlState {
        self.codes()[0]
    }

    /// The name under which the refusal is counted. A client's own cancel is not, nor what follows from the loss of a server.
    #[must_use]
    pub fn counted_as(&self) -> Option<Reason> {
        match self {
            RequestRefusal::UserRequest
            | RequestRefusal::LostBlock
            | RequestRefusal::AbortedBlock
            | RequestRefusal::NoSavepoint { .. }
            | RequestRefusal::NoStatement { .. }
            | RequestRefusal::NoPortal { .. }
            | RequestRefusal::NoChain => None,
            RequestRefusal::Deadline | RequestRefusal::DeadlinePinned => Some(Reason::Deadline),
            RequestRefusal::QueryTimeout | RequestRefusal::QueryTimeoutPinned => Some(Reason::QueryTimeout),
            RequestRefusal::NoHost { .. } => Some(Reason::FailoverWait),
            RequestRefusal::MaxWaiting { .. } => Some(Reason::MaxWaiting),
            RequestRefusal::Limit { reason, .. } => Some(*reason),
        }
    }

    /// The same, where the session waits because of `max_pinned`.
    #[must_use]
    pub fn pinned(self) -> RequestRefusal {
        match self {
            RequestRefusal::Deadline => RequestRefusal::DeadlinePinned,
            RequestRefusal::QueryTimeout => RequestRefusal::QueryTimeoutPinned,
            other => other,
        }
    }
}
