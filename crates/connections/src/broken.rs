//! A server has broken the protocol.

/// A server has broken the protocol, and how.
#[derive(Debug, PartialEq, Eq)]
pub struct Broken(pub String);

impl From<wire::Error> for Broken {
    fn from(error: wire::Error) -> Broken {
        Broken(format!("invalid message from server: {error}"))
    }
}
