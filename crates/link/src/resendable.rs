//! The requests that are kept since they may be sent again to another server: values only. [`untouched`] and [`lone_reads`] decide.
//!
//! [`untouched`]: crate::untouched
//! [`lone_reads`]: crate::lone_reads

/// The last BEGIN that a server was sent for its client.
#[derive(Debug, Default)]
pub(crate) struct SentBegin {
    pub(crate) text: Vec<u8>,
    /// How many answers the server had ever owed, with that to BEGIN.
    pub(crate) owed_ever: u64,
    /// How much its client had been sent of answers before that.
    pub(crate) sent_before: u64,
}

/// A request of a session that is sent again after the loss of a server. That is the request under way, or the first that waits.
#[derive(Debug, Default)]
pub(crate) struct Retried {
    /// Its block is to begin again first: the pooler sends BEGIN, and `count` counts these.
    pub(crate) begun: Option<BegunBlock>,
    /// How often it was sent again, as far as that is limited.
    pub(crate) count: u8,
}

/// A transaction block that its client has begun, and no server.
#[derive(Debug)]
pub struct BegunBlock {
    pub(crate) text: Box<[u8]>,
    /// An ErrorResponse, for the client if the block cannot begin anywhere.
    pub(crate) error: Box<[u8]>,
}

impl BegunBlock {
    pub(crate) fn new(text: &[u8], error: Vec<u8>) -> BegunBlock {
        BegunBlock { text: text.into(), error: error.into() }
    }

    #[must_use]
    pub fn into_error(self) -> Vec<u8> {
        self.error.into()
    }
}

/// The last request of a server's client.
#[derive(Debug, Default)]
pub(crate) struct KeptRequest {
    /// Empty: there is none that may be sent again.
    pub(crate) messages: Vec<u8>,
    /// How many answers the server had ever owed, before the request and with it.
    pub(crate) owed_before: u64,
    pub(crate) owed_after: u64,
    /// How much the client had been sent of answers.
    pub(crate) sent_before: u64,
}
