//! Why a connection to PostgreSQL is closed.

use connections::{Barred, Broken};
use session_state::state::Pins;
use wire::SqlState;

use super::Chore;

units::reasons! {
    /// Why a server is closed. The log has the words behind `closing because:`. The client whose server it is gets them as its error, where
    /// it has to end with the server.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum CloseReason {
        // Rules and orders.
        IdleTimeout => [] "server idle timeout";
        LifetimeOver => [] "server lifetime over";
        MaxUses => [] "server max uses";
        /// The pool has become smaller.
        Surplus => [] "too many servers in the pool";
        /// It was in use when another pool became entitled to it.
        Yielded => [] "another pool's turn";
        Evicted => [] "evicted";
        /// A client wants to drop the database, or to use it as a template.
        Vacated => [] "its database is to be empty";
        Paused => [] "pause mode";
        /// Its host has other addresses now.
        AddressLeft => [ADMIN_SHUTDOWN] "obsolete connection";
        /// Its database has another entry now, or is to be connected to anew.
        DatabaseChanged => [ADMIN_SHUTDOWN] "database configuration changed";
        TlsChanged => [ADMIN_SHUTDOWN] "database configuration changed: TLS settings";
        DatabaseRemoved => [ADMIN_SHUTDOWN] "database removed";
        PasswordChanged => [ADMIN_SHUTDOWN] "password has changed";
        NamesAreOff => [ADMIN_SHUTDOWN] "server_application_name was turned off";
        /// SUSPEND: its socket does not take what was sent to it.
        SuspendTimeout => [PROTOCOL_VIOLATION] "suspend_timeout";
        TakenOver => [] "another process has taken over";
        ChaosClose => [] "chaos_close";
        // Its client.
        ClientGone => [] "client disconnect";
        ClientGoneInMessage => [] "client disconnect in the middle of a message";
        /// It may be committing, or has several statements to run.
        ClientGoneUnfinished => [] "client disconnect with unfinished statements";
        ClientGoneUnclean => [] "client disconnect with state that cannot be cleared";
        HalfMessage => [] "half a message";
        TransactionBlock => [PROTOCOL_VIOLATION] "transaction blocks not allowed in statement pooling mode";
        SyncLost => [PROTOCOL_VIOLATION] "terminating connection because protocol synchronization was lost";
        CopyInDoubt => [] "copy protocol left in doubt";
        /// It does not take another `temp_buffers` any more.
        LocalBuffers => [] "temp_buffers cannot be set here any more";
        /// A client has given a statement the pooler's name for another.
        StatementNameTaken => [] "a prepared statement has the pooler's name";
        /// It may have run a function that nothing was known of.
        UnknownSideEffects => [] "an object defined without pgweir may have left state that cannot be reset";
        QueryTimeout => [QUERY_CANCELED, PROTOCOL_VIOLATION, TRANSACTION_RESOLUTION_UNKNOWN] "query timeout";
        /// A cancel that was sent may hit at any time.
        CancelWaitTimeout => [ADMIN_SHUTDOWN] "cancel_wait_timeout";
        // The pooler's own queries.
        ChoreTimeout { chore: Chore } => [] "{chore}";
        ChoreFailed { chore: Chore, error: String } => [] "{chore} failed: {error}";
        ChoreInTransaction { chore: Chore } => [] "{chore} left a transaction open";
        ListenTimeout => [] "listen";
        ListenFailed { error: String } => [] "listen failed: {error}";
        NobodyListens => [] "nobody listens";
        // The server.
        NotOpened { why: String } => [CONNECTION_FAILURE] "{why}";
        ConnectTimeout => [CONNECTION_FAILURE] "connect timeout";
        TlsFailed { why: String } => [CONNECTION_FAILURE] "TLS handshake failed: {why}";
        CrashedInLogin => [CONNECTION_FAILURE] "server conn crashed during login";
        /// Its host is not what `target_session_attrs` wants.
        /// `is_host`: other pools would find the same.
        WrongRole { found: &'static str, is_host: bool, wanted: &'static str } => [CONNECTION_FAILURE] "{found}, and target_session_attrs is {wanted}";
        /// Another host is the primary now.
        PrimaryElsewhere => [CONNECTION_FAILURE, TRANSACTION_RESOLUTION_UNKNOWN] "another host is the primary now";
        OtherSystem => [CONNECTION_FAILURE, TRANSACTION_RESOLUTION_UNKNOWN] "the host belongs to another database system";
        /// Several hosts accept writes.
        TwoPrimaries => [CONNECTION_FAILURE] "two hosts accept writes";
        /// It owes an answer, and its host has answered no probe for `host_timeout`.
        HostSilent => [CONNECTION_FAILURE, TRANSACTION_RESOLUTION_UNKNOWN] "the host does not answer";
        /// PostgreSQL has refused the login, and another try may succeed. The line before it has PostgreSQL's words.
        LoginFailed => [] "login failed";
        Crashed => [CONNECTION_FAILURE, TRANSACTION_RESOLUTION_UNKNOWN] "server conn crashed?";
        ShuttingDown => [] "server is shutting down";
        ErrorWhileIdle => [] "server sent an error while idle";
        /// PostgreSQL's own last words.
        Said { words: String } => [] "{words}";
        Broken { how: Broken } => [] "{how}";
        Barred { what: Barred } => [PROGRAM_LIMIT_EXCEEDED] "{what}";
        /// A session has lost state with it.
        LostWith { why: Box<CloseReason>, pins: Pins } => [] "{why} (lost with it: {pins})";
    }
}

impl CloseReason {
    /// The SQLSTATEs with which the client whose server it was may get the reason. Empty: no client does, or the SQLSTATE is PostgreSQL's.
    #[must_use]
    pub(crate) fn client_codes(&self) -> &'static [SqlState] {
        match self {
            CloseReason::LostWith { why, .. } => why.client_codes(),
            CloseReason::Broken { how } => how.codes(),
            other => other.codes(),
        }
    }

    /// Whether nothing may begin at its host any more.
    #[must_use]
    pub fn is_fenced(&self) -> bool {
        matches!(self, CloseReason::TwoPrimaries | CloseReason::PrimaryElsewhere | CloseReason::OtherSystem)
    }

    /// The reason, with the state that its session has lost with the server.
    #[must_use]
    pub fn with(self, pins: Pins) -> CloseReason {
        if pins.is_empty() { self } else { CloseReason::LostWith { why: Box::new(self), pins } }
    }
}

impl From<Broken> for CloseReason {
    fn from(how: Broken) -> CloseReason {
        CloseReason::Broken { how }
    }
}
