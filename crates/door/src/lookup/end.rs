//! Why a connection for lookups is closed.

use connections::Broken;

units::reasons! {
    /// Why a connection for lookups is closed, as the log has it. No client gets these words.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum LookupEnd {
        IdleTimeout => [] "server idle timeout";
        /// There are too many databases for lookups.
        AnotherDatabase => [] "another lookup database is used";
        DatabaseChanged => [] "database configuration changed";
        Obsolete => [] "obsolete connection";
        NamesUnknown => [] "auth_query has names that are not known";
        ConnectTimeout => [] "connect timeout";
        NotAnswered => [] "auth_query is not answered";
        /// Another host of the database is to be asked.
        WrongHost => [] "users are looked up at another host now";
        HostSilent => [] "the host does not answer";
        Crashed => [] "server conn crashed?";
        NotOpened { why: String } => [] "{why}";
        TlsFailed { why: String } => [] "TLS handshake failed: {why}";
        /// `words`: PostgreSQL's.
        LoginRefused { words: String } => [] "server login failed: {words}";
        /// PostgreSQL's own last words.
        Said { words: String } => [] "{words}";
        TooEarly => [] "bytes before the connection is open";
        LeavesTransaction => [] "auth_query leaves a transaction open";
        NoSearchPath => [] "the search_path of auth_user cannot be read";
        Broken { how: Broken } => [] "{how}";
    }
}

impl From<Broken> for LookupEnd {
    fn from(how: Broken) -> LookupEnd {
        LookupEnd::Broken { how }
    }
}

impl From<wire::Error> for LookupEnd {
    fn from(error: wire::Error) -> LookupEnd {
        Broken::from(error).into()
    }
}
