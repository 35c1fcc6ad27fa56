//! Lines of `SHOW HISTORY … FORMAT JSON`. Columns that are not needed here are passed over.

use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum Line {
    Pool(PoolLine),
    Sample(SampleLine),
    Row(RowLine),
    Why(WhyLine),
    /// Of a later version.
    #[serde(other)]
    Other,
}

/// When, by the pooler's clock.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub(crate) struct When {
    /// As it is shown, in its zone.
    pub(crate) time: String,
    /// Milliseconds since 1970.
    pub(crate) at: u64,
}

/// What a pool had then.
#[derive(Debug, Deserialize)]
pub(crate) struct PoolLine {
    #[serde(flatten)]
    pub(crate) when: When,
    pub(crate) database: String,
    pub(crate) user: String,
    pub(crate) waiting: u64,
    /// Seconds.
    pub(crate) max_wait: f64,
    pub(crate) servers_active: u64,
    pub(crate) servers_idle: u64,
    /// Since the start.
    pub(crate) xact_count: u64,
}

/// Who waited for what.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub(crate) struct Waiting {
    #[serde(default)]
    pub(crate) database: String,
    #[serde(default)]
    pub(crate) user: String,
    #[serde(default)]
    pub(crate) class: String,
    #[serde(default)]
    pub(crate) wait_event_type: String,
    #[serde(default)]
    pub(crate) wait_event: String,
    pub(crate) tags: Option<String>,
    pub(crate) query: Option<String>,
    pub(crate) blocker: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct SampleLine {
    #[serde(flatten)]
    pub(crate) when: When,
    #[serde(flatten)]
    pub(crate) waiting: Waiting,
    pub(crate) count: u64,
}

/// Why clients of a pool waited then: a verdict of `SHOW WHY`.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct WhyLine {
    #[serde(flatten)]
    pub(crate) when: When,
    pub(crate) database: String,
    pub(crate) user: String,
    /// Clients that waited for a server.
    pub(crate) waiting: u64,
    /// `None`: the user may not see who was in the way.
    pub(crate) sentence: Option<String>,
    pub(crate) root: Option<String>,
}

/// One with all its ids.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct RowLine {
    #[serde(flatten)]
    pub(crate) when: When,
    #[serde(flatten)]
    pub(crate) waiting: Waiting,
    pub(crate) client_id: Option<i64>,
    pub(crate) client_addr: Option<String>,
    pub(crate) application_name: Option<String>,
    pub(crate) pid: Option<i64>,
    /// Seconds, as the next three.
    pub(crate) waited: Option<f64>,
    pub(crate) transaction_age: Option<f64>,
    pub(crate) idle: Option<f64>,
    pub(crate) query_age: Option<f64>,
    pub(crate) blocked_by: Option<i64>,
    /// The end of the chain.
    #[serde(default)]
    pub(crate) blocked_by_root: Option<i64>,
    pub(crate) blocking: u64,
}
