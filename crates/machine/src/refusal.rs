//! Why a login gets no home. What its client is told of it, the door knows.

/// Why a login gets no home.
#[derive(Copy, Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Refusal {
    MaxClientConn,
    /// More databases and users are in use than there may be pools.
    TooManyPools,
    MaxDbClientConnections,
    MaxUserClientConnections,
    /// More log in a second than the class may: when to try again.
    LoginRate {
        limit: u32,
        retry_ms: u32,
    },
    ShuttingDown,
}
