//! Lines of `SHOW HISTORY … FORMAT JSON`. Columns that the page does not need are passed over.
//!
//! A line borrows its texts from the JSON, since a busy day has ten million lines.

use std::borrow::Cow;

use serde::Deserialize;

/// A text that is copied only if it has escapes.
#[derive(Debug, Deserialize)]
pub(crate) struct Text<'j>(#[serde(borrow)] Cow<'j, str>);

/// A line. Its kind decides which columns have a value. Tagged variants would copy all columns once more.
// tidy: its fields are the columns of one table
#[derive(Debug, Deserialize)]
pub(crate) struct Line<'j> {
    #[serde(borrow)]
    pub(crate) kind: Cow<'j, str>,
    #[serde(borrow)]
    time: Option<Text<'j>>,
    pub(crate) at: u64,
    #[serde(borrow)]
    database: Option<Text<'j>>,
    #[serde(borrow)]
    user: Option<Text<'j>>,
    #[serde(borrow)]
    class: Option<Text<'j>>,
    #[serde(borrow)]
    wait_event_type: Option<Text<'j>>,
    #[serde(borrow)]
    wait_event: Option<Text<'j>>,
    count: Option<u64>,
    #[serde(borrow)]
    tags: Option<Text<'j>>,
    #[serde(borrow)]
    query: Option<Text<'j>>,
    #[serde(borrow)]
    blocker: Option<Text<'j>>,
    waiting: Option<u64>,
    max_wait: Option<f64>,
    servers_active: Option<u64>,
    servers_idle: Option<u64>,
    xact_count: Option<u64>,
    client_id: Option<i64>,
    #[serde(borrow)]
    client_addr: Option<Text<'j>>,
    #[serde(borrow)]
    application_name: Option<Text<'j>>,
    pid: Option<i64>,
    waited: Option<f64>,
    transaction_age: Option<f64>,
    idle: Option<f64>,
    query_age: Option<f64>,
    blocked_by: Option<i64>,
    blocked_by_root: Option<i64>,
    blocking: Option<u64>,
    #[serde(borrow)]
    sentence: Option<Text<'j>>,
    #[serde(borrow)]
    root: Option<Text<'j>>,
}

/// When, by the pooler's clock.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct When {
    /// As it is shown, in its zone.
    pub(crate) time: String,
    /// Milliseconds since 1970.
    pub(crate) at: u64,
}

/// The figures of a pool.
#[derive(Debug)]
pub(crate) struct PoolLine<'l> {
    pub(crate) at: u64,
    pub(crate) time: &'l str,
    pub(crate) database: &'l str,
    pub(crate) user: &'l str,
    pub(crate) waiting: u64,
    /// Seconds.
    pub(crate) max_wait: f64,
    pub(crate) servers_active: u64,
    pub(crate) servers_idle: u64,
    /// Since the start.
    pub(crate) xact_count: u64,
}

/// A client or backend with its wait event.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(crate) struct Waits<'l> {
    pub(crate) database: &'l str,
    pub(crate) user: &'l str,
    pub(crate) class: &'l str,
    pub(crate) wait_event_type: &'l str,
    pub(crate) wait_event: &'l str,
    pub(crate) tags: Option<&'l str>,
    pub(crate) query: Option<&'l str>,
    pub(crate) blocker: Option<&'l str>,
}

/// The owned form of [`Waits`], without the blocker, for a line that is kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Waiting {
    pub(crate) database: String,
    pub(crate) user: String,
    pub(crate) class: String,
    pub(crate) wait_event_type: String,
    pub(crate) wait_event: String,
    pub(crate) tags: Option<String>,
    pub(crate) query: Option<String>,
}

/// Why clients of a pool waited then: a verdict of `SHOW WHY`.
#[derive(Clone, Debug)]
pub(crate) struct WhyLine {
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
#[derive(Clone, Debug)]
pub(crate) struct RowLine {
    pub(crate) when: When,
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
    pub(crate) blocked_by_root: Option<i64>,
    pub(crate) blocking: u64,
}

fn text<'l>(text: &'l Option<Text<'_>>) -> Option<&'l str> {
    text.as_ref().map(|Text(text)| &**text)
}

fn owned(of: &Option<Text<'_>>) -> Option<String> {
    text(of).map(str::to_owned)
}

impl Line<'_> {
    pub(crate) fn time(&self) -> &str {
        text(&self.time).unwrap_or_default()
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.unwrap_or(0)
    }

    pub(crate) fn blocked_by(&self) -> Option<i64> {
        self.blocked_by
    }

    pub(crate) fn pool(&self) -> PoolLine<'_> {
        PoolLine {
            at: self.at,
            time: self.time(),
            database: text(&self.database).unwrap_or_default(),
            user: text(&self.user).unwrap_or_default(),
            waiting: self.waiting.unwrap_or(0),
            max_wait: self.max_wait.unwrap_or(0.0),
            servers_active: self.servers_active.unwrap_or(0),
            servers_idle: self.servers_idle.unwrap_or(0),
            xact_count: self.xact_count.unwrap_or(0),
        }
    }

    pub(crate) fn waits(&self) -> Waits<'_> {
        Waits {
            database: text(&self.database).unwrap_or_default(),
            user: text(&self.user).unwrap_or_default(),
            class: text(&self.class).unwrap_or_default(),
            wait_event_type: text(&self.wait_event_type).unwrap_or_default(),
            wait_event: text(&self.wait_event).unwrap_or_default(),
            tags: text(&self.tags),
            query: text(&self.query),
            blocker: text(&self.blocker),
        }
    }

    /// Most in the way, then longest waiting, in milliseconds: what [`RowLine::weight`] will be.
    pub(crate) fn weight(&self) -> (u64, u64) {
        weight(self.blocking.unwrap_or(0), self.waited, self.idle)
    }

    fn when(&self) -> When {
        When { time: self.time().to_owned(), at: self.at }
    }

    pub(crate) fn why(&self) -> WhyLine {
        WhyLine {
            when: self.when(),
            database: owned(&self.database).unwrap_or_default(),
            user: owned(&self.user).unwrap_or_default(),
            waiting: self.waiting.unwrap_or(0),
            sentence: owned(&self.sentence),
            root: owned(&self.root),
        }
    }

    /// Client, process and statement.
    pub(crate) fn row_key(&self) -> (Option<i64>, Option<i64>, Option<String>) {
        (self.client_id, self.pid, owned(&self.query))
    }

    pub(crate) fn row(&self) -> RowLine {
        let waits = self.waits();
        let waiting = Waiting {
            database: waits.database.to_owned(),
            user: waits.user.to_owned(),
            class: waits.class.to_owned(),
            wait_event_type: waits.wait_event_type.to_owned(),
            wait_event: waits.wait_event.to_owned(),
            tags: owned(&self.tags),
            query: owned(&self.query),
        };
        RowLine {
            when: self.when(),
            waiting,
            client_id: self.client_id,
            client_addr: owned(&self.client_addr),
            application_name: owned(&self.application_name),
            pid: self.pid,
            waited: self.waited,
            transaction_age: self.transaction_age,
            idle: self.idle,
            query_age: self.query_age,
            blocked_by: self.blocked_by,
            blocked_by_root: self.blocked_by_root,
            blocking: self.blocking.unwrap_or(0),
        }
    }
}

fn weight(blocking: u64, waited: Option<f64>, idle: Option<f64>) -> (u64, u64) {
    let ms = |seconds: Option<f64>| seconds.map_or(0, |seconds| (seconds * 1000.0) as u64);
    (blocking, ms(waited).max(ms(idle)))
}

impl RowLine {
    /// Most in the way, then longest waiting, in milliseconds.
    pub(crate) fn weight(&self) -> (u64, u64) {
        weight(self.blocking, self.waited, self.idle)
    }
}

impl Waiting {
    pub(crate) fn waits(&self) -> Waits<'_> {
        Waits {
            database: &self.database,
            user: &self.user,
            class: &self.class,
            wait_event_type: &self.wait_event_type,
            wait_event: &self.wait_event,
            tags: self.tags.as_deref(),
            query: self.query.as_deref(),
            blocker: None,
        }
    }
}
