//! Why a cancel request does not reach its peer.

use connections::Broken;

units::reasons! {
    /// Why a cancel request does not reach its peer, as the log has it.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum PeerFailure {
        TooManyWait => [] "too many wait";
        Removed => [] "it was removed from the settings";
        CancelWaitTimeout => [] "cancel_wait_timeout";
        /// The request was sent, and the peer has not closed the connection.
        Silent => [] "cancel_wait_timeout: it does not answer";
        Answers => [] "it answers";
        Closed => [] "it has closed the connection";
        NotOpened { why: String } => [] "{why}";
        TlsFailed { why: String } => [] "TLS handshake failed: {why}";
        Broken { how: Broken } => [] "{how}";
    }
}

impl From<Broken> for PeerFailure {
    fn from(how: Broken) -> PeerFailure {
        PeerFailure::Broken { how }
    }
}
