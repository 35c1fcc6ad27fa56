//! What an administrator should know of and cannot see in a table of now: refused requests, sizes that `auto` has changed,
//! clients for whom there was no file descriptor. Counted for `SHOW EVENTS`, told to the log.
//!
//! Promises at most one line a `stats_period` for each pool, class and kind of event, with how many there were, over all workers.
//! The first refusal after a quiet period has been told when it happened (`pooling`), so one alone is not told again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pooling::PoolKey;
use pooling::limiting::Kind;
use pooling::snapshot::Snapshot;

/// What has happened, and to whom. `None`: to the whole process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event {
    pub pool: Option<PoolKey>,
    pub class: Option<Arc<str>>,
    /// The setting or limit that it is about.
    pub name: &'static str,
    /// What clients were told, if they were told.
    pub sqlstate: Option<&'static str>,
}

/// How often, and in what way last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Count {
    pub count: u64,
    /// Of a size: how it stands.
    pub detail: String,
}

/// All events since the start.
pub type Counts = BTreeMap<Event, Count>;

const LIMIT_EXCEEDED: &str = "53400";
const CANCELED: &str = "57014";
const TOO_MANY_CONNECTIONS: &str = "53300";

/// The name of the event that a client found no file descriptor.
const DESCRIPTORS: &str = "file_descriptors";
/// The name of the event that `auto` has changed a size.
const POOL_SIZE: &str = "pool_size";

/// Sums what workers, and the listeners, have counted.
#[must_use]
pub fn counts(snapshots: &[Snapshot], turned_away: u64) -> Counts {
    let mut counts = Counts::new();
    let mut add = |event: Event, more: u64, detail: String| {
        let count = counts.entry(event).or_default();
        (count.count, count.detail) = (count.count.saturating_add(more), detail);
    };
    for refusal in snapshots.iter().flat_map(|snapshot| &snapshot.refusals) {
        let sqlstate = if refusal.reason.code().0 == *b"53400" { LIMIT_EXCEEDED } else { CANCELED };
        let (pool, class) = (Some(refusal.key.clone()), Some(Arc::clone(&refusal.class)));
        let event = Event { pool, class, name: refusal.reason.name(), sqlstate: Some(sqlstate) };
        add(event, refusal.count, String::new());
    }
    let logins = snapshots.iter().flat_map(|snapshot| &snapshot.limits).filter(|limit| limit.kind == Kind::Logins);
    for limit in logins.filter(|limit| limit.rejected > 0) {
        let (class, sqlstate) = (Some(Arc::clone(&limit.class)), Some(LIMIT_EXCEEDED));
        add(Event { pool: None, class, name: Kind::Logins.name(), sqlstate }, limit.rejected, String::new());
    }
    let mut sizes = BTreeMap::new();
    for pool in snapshots.iter().flat_map(|snapshot| &snapshot.pools) {
        // Each home of a pool is told of its size.
        let newest = pool.sizing.as_ref().filter(|sizing| sizing.change_count > 0);
        if let Some(sizing) = newest {
            let known = sizes.entry(pool.key.clone()).or_insert(sizing);
            if sizing.change_count > known.change_count {
                *known = sizing;
            }
        }
    }
    for (key, sizing) in sizes {
        let event = Event { pool: Some(key), class: None, name: POOL_SIZE, sqlstate: None };
        add(event, sizing.change_count, format!("it is {} now ({})", sizing.size, sizing.why));
    }
    if turned_away > 0 {
        let sqlstate = Some(TOO_MANY_CONNECTIONS);
        add(Event { pool: None, class: None, name: DESCRIPTORS, sqlstate }, turned_away, String::new());
    }
    counts
}

/// What the log was told last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Announcer {
    known: Counts,
    /// What has happened in the period before the last.
    busy: Vec<Event>,
}

impl Announcer {
    /// A period that lasted so long has ended with these counts: the lines for the log.
    pub(crate) fn period_ended(&mut self, counts: Counts, lasted: Duration) -> Vec<String> {
        let (mut lines, mut busy) = (Vec::new(), Vec::new());
        for (event, now) in &counts {
            // One that fell belongs to a pool that was forgotten and made anew.
            let before = self.known.get(event).map_or(0, |known| known.count);
            let gained = now.count.checked_sub(before).unwrap_or(now.count);
            if gained == 0 {
                continue;
            }
            let was_told = event.is_told_at_once() && gained == 1 && !self.busy.contains(event);
            if !was_told {
                lines.push(event.line(gained, &now.detail, lasted));
            }
            busy.push(event.clone());
        }
        (self.known, self.busy) = (counts, busy);
        lines
    }
}

impl Event {
    fn is_told_at_once(&self) -> bool {
        self.pool.is_some() && self.class.is_some()
    }

    fn line(&self, count: u64, detail: &str, lasted: Duration) -> String {
        let pool = self.pool.as_ref().map_or(String::new(), |key| format!("pool {}/{}: ", key.database, key.user));
        let class = self.class.as_deref().unwrap_or_default();
        let code = self.sqlstate.unwrap_or_default();
        let (name, seconds) = (self.name, lasted.as_secs());
        let counted = |noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
        let what = match name {
            DESCRIPTORS => format!("{} turned away for want of file descriptors ({code})", counted("client")),
            POOL_SIZE => format!("{} of its size by auto, {detail}", counted("change")),
            "logins" => format!("{} of class \"{class}\" refused ({name}, {code})", counted("login")),
            _ => format!("{} of class \"{class}\" refused ({name}, {code})", counted("request")),
        };
        format!("{pool}{what} in the last {seconds} s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(class: &str) -> Event {
        let key = PoolKey { database: "shop".into(), user: "app".into() };
        Event { pool: Some(key), class: Some(class.into()), name: "tps", sqlstate: Some(LIMIT_EXCEEDED) }
    }

    fn counted(counts: &[(Event, u64)]) -> Counts {
        let count = |count: u64| Count { count, detail: String::new() };
        counts.iter().map(|(event, number)| (event.clone(), count(*number))).collect()
    }

    const PERIOD: Duration = Duration::from_secs(60);

    #[test]
    fn a_period_has_one_line_for_each_class_with_how_many_there_were() {
        let mut announcer = Announcer::default();
        let line = |count| format!("pool shop/app: {count} of class \"api\" refused (tps, 53400) in the last 60 s");
        let ended = |announcer: &mut Announcer, api, web| {
            announcer.period_ended(counted(&[(event("api"), api), (event("web"), web)]), PERIOD)
        };
        // One alone was told when it happened.
        assert_eq!(ended(&mut announcer, 38, 1), [line("38 requests")]);
        assert_eq!(ended(&mut announcer, 39, 1), [line("1 request")]);
        assert_eq!(ended(&mut announcer, 39, 1), [""; 0]);
        assert_eq!(ended(&mut announcer, 40, 1), [""; 0]);
        // The pool was forgotten, and is there again.
        assert_eq!(ended(&mut announcer, 7, 1), [line("7 requests")]);
    }

    #[test]
    fn what_is_told_by_nobody_else_is_told_the_first_time_too() {
        let mut announcer = Announcer::default();
        let event = Event { pool: None, class: None, name: DESCRIPTORS, sqlstate: Some(TOO_MANY_CONNECTIONS) };
        let lines = announcer.period_ended(counted(&[(event, 1)]), PERIOD);
        assert_eq!(lines, ["1 client turned away for want of file descriptors (53300) in the last 60 s"]);
    }
}
