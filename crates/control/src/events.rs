//! Events that an administrator should know of, and that no table of the present state shows: refused requests, clients disconnected by a
//! deadline, deadlocks, sizes changed by `auto`, clients refused because there was no file descriptor. They are counted for `SHOW EVENTS`, and
//! logged.
//!
//! There is at most one line in a `stats_period` for each pool, class and kind of event, with the count over all
//! workers. The first refusal after a quiet period was logged at once by `pooling`, so a single one is not logged
//! again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use machine::Level;
use machine::snapshot::Snapshot;
use queueing::classes::LimitKind;
use queueing::refusals::Reason;
use units::{PoolKey, WorkerId};
use wire::{SqlState, sqlstate};

/// A kind of event. `None`: it concerns the whole process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event {
    pub pool: Option<PoolKey>,
    pub class: Option<Arc<str>>,
    /// The setting or limit that it is about.
    pub name: &'static str,
    /// The error that clients got, if any.
    pub sqlstate: Option<SqlState>,
    /// The client's session has ended, and not only its request.
    pub ends_session: bool,
}

/// How often an event has happened, and a detail of the last one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Count {
    pub count: u64,
    /// For a size: the present one.
    pub detail: String,
}

/// All events since the start.
pub type Counts = BTreeMap<Event, Count>;

/// The name of the event that a client found no file descriptor.
const DESCRIPTORS: &str = "file_descriptors";
/// The name of the event that PostgreSQL ended a statement in a deadlock.
const DEADLOCK: &str = "deadlock";
/// The name of the event that `auto` has changed a size.
const POOL_SIZE: &str = "pool_size";

/// Sums the counts of workers and listeners.
#[must_use]
pub(crate) fn counts(snapshots: &[Snapshot], turned_away: u64) -> Counts {
    let mut counts = Counts::new();
    let mut add = |event: Event, more: u64, detail: String| {
        let count = counts.entry(event).or_default();
        (count.count, count.detail) = (count.count.saturating_add(more), detail);
    };
    for refusal in snapshots.iter().flat_map(|snapshot| &snapshot.refusals) {
        let (pool, class) = (Some(refusal.key.clone()), Some(Arc::clone(&refusal.class)));
        let event = Event {
            pool,
            class,
            name: refusal.reason.name(),
            sqlstate: refusal.reason.code(),
            ends_session: refusal.reason.ends_session(),
        };
        add(event, refusal.count, String::new());
    }
    let logins = snapshots.iter().flat_map(|snapshot| &snapshot.limits).filter(|limit| limit.kind == LimitKind::Logins);
    for limit in logins.filter(|limit| limit.rejected > 0) {
        let (class, sqlstate) = (Some(Arc::clone(&limit.class)), Some(sqlstate::CONFIGURATION_LIMIT_EXCEEDED));
        add(
            Event { pool: None, class, name: LimitKind::Logins.name(), sqlstate, ends_session: false },
            limit.rejected,
            String::new(),
        );
    }
    let pools = snapshots.iter().flat_map(|snapshot| &snapshot.pools);
    for pool in pools.filter(|pool| pool.deadlocks.count > 0) {
        let sqlstate = Some(sqlstate::DEADLOCK_DETECTED);
        let event = Event { pool: Some(pool.key.clone()), class: None, name: DEADLOCK, sqlstate, ends_session: false };
        add(event, pool.deadlocks.count, String::new());
    }
    let mut sizes = BTreeMap::new();
    for pool in snapshots.iter().flat_map(|snapshot| &snapshot.pools) {
        // Each home of a pool reports its size.
        let newest = pool.sizing.as_ref().filter(|sizing| sizing.change_count > 0);
        if let Some(sizing) = newest {
            let known = sizes.entry(pool.key.clone()).or_insert(sizing);
            if sizing.change_count > known.change_count {
                *known = sizing;
            }
        }
    }
    for (key, sizing) in sizes {
        let event = Event { pool: Some(key), class: None, name: POOL_SIZE, sqlstate: None, ends_session: false };
        add(event, sizing.change_count, format!("it is {} now ({})", sizing.size, sizing.why));
    }
    if turned_away > 0 {
        let sqlstate = Some(sqlstate::TOO_MANY_CONNECTIONS);
        add(
            Event { pool: None, class: None, name: DESCRIPTORS, sqlstate, ends_session: true },
            turned_away,
            String::new(),
        );
    }
    counts
}

/// What was logged last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Announcer {
    /// By worker: if one does not answer in time, its events are logged in the next period.
    known: BTreeMap<(Option<WorkerId>, Event), u64>,
    /// The events of the last period.
    busy: Vec<Event>,
}

impl Announcer {
    /// A period has ended: returns the lines for the log.
    pub(crate) fn period_ended(
        &mut self,
        snapshots: &[Snapshot],
        turned_away: u64,
        lasted: Duration,
    ) -> Vec<(Level, String)> {
        let mut gains = Counts::new();
        for snapshot in snapshots {
            self.add_gains(snapshot.worker, counts(std::slice::from_ref(snapshot), 0), &mut gains);
        }
        self.add_gains(None, counts(&[], turned_away), &mut gains);
        let was_logged =
            |event: &Event, count: &Count| event.is_logged_at_once() && count.count == 1 && !self.busy.contains(event);
        let news = gains.iter().filter(|(event, count)| !was_logged(event, count));
        let line = |event: &Event, count: &Count| (event.level(), event.line(count.count, &count.detail, lasted));
        let lines = news.map(|(event, count)| line(event, count)).collect();
        self.busy = gains.into_keys().collect();
        lines
    }

    fn add_gains(&mut self, worker: Option<WorkerId>, counts: Counts, gains: &mut Counts) {
        self.known.retain(|(of, event), _| *of != worker || counts.contains_key(event));
        for (event, now) in counts {
            let before = self.known.insert((worker, event.clone()), now.count).unwrap_or(0);
            // A count that has fallen belongs to a pool that was forgotten and made anew.
            let gained = now.count.checked_sub(before).unwrap_or(now.count);
            if gained == 0 {
                continue;
            }
            let is_size = event.name == POOL_SIZE;
            let gain = gains.entry(event).or_default();
            // All homes of a pool report the same changes of its size.
            gain.count = if is_size { gain.count.max(gained) } else { gain.count.saturating_add(gained) };
            gain.detail = now.detail;
        }
    }
}

impl Event {
    fn is_logged_at_once(&self) -> bool {
        self.pool.is_some() && self.class.is_some()
    }

    /// A changed size is normal work of `auto`, and idle clients are disconnected where it is set; every other event is trouble for a client.
    fn level(&self) -> Level {
        let is_normal = self.name == POOL_SIZE || self.name == Reason::ClientIdleTimeout.name();
        if is_normal { Level::Log } else { Level::Warning }
    }

    fn line(&self, count: u64, detail: &str, lasted: Duration) -> String {
        let pool = self.pool.as_ref().map_or(String::new(), |key| format!("pool {}/{}: ", key.database, key.user));
        let class = self.class.as_deref().unwrap_or_default();
        let code = self.sqlstate.map_or(String::new(), |code| format!(", {code}"));
        let (name, seconds) = (self.name, lasted.as_secs());
        let counted = |noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
        let what = match name {
            DESCRIPTORS => format!("{} turned away for want of file descriptors (53300)", counted("client")),
            POOL_SIZE => format!("{} of its size by auto, {detail}", counted("change")),
            DEADLOCK => format!("{} ended by PostgreSQL because of a deadlock (40P01)", counted("statement")),
            "logins" => format!("{} of class \"{class}\" refused ({name}{code})", counted("login")),
            _ if self.ends_session => {
                format!("{} of class \"{class}\" disconnected ({name}{code})", counted("client"))
            }
            _ => format!("{} of class \"{class}\" refused ({name}{code})", counted("request")),
        };
        format!("{pool}{what} in the last {seconds} s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use queueing::refusals::{Reason, RefusalCounts};

    const PERIOD: Duration = Duration::from_secs(60);

    fn worker(number: u16, counts: &[(&str, u64)]) -> Snapshot {
        let key = PoolKey { database: "shop".into(), user: "app".into() };
        let refusal = |&(class, count): &(&str, u64)| RefusalCounts {
            key: key.clone(),
            class: class.into(),
            reason: Reason::Limit(LimitKind::Transactions),
            count,
        };
        let refusals = counts.iter().map(refusal).collect();
        Snapshot { worker: Some(WorkerId(number)), refusals, ..Snapshot::default() }
    }

    fn line(count: &str) -> (Level, String) {
        (Level::Warning, format!("pool shop/app: {count} of class \"api\" refused (tps, 53400) in the last 60 s"))
    }

    #[test]
    fn a_period_has_one_line_for_each_class_with_how_many_there_were() {
        let mut announcer = Announcer::default();
        let mut ended = |api, web| announcer.period_ended(&[worker(0, &[("api", api), ("web", web)])], 0, PERIOD);
        // A single one was logged at once.
        assert_eq!(ended(38, 1), [line("38 requests")]);
        assert_eq!(ended(39, 1), [line("1 request")]);
        assert_eq!(ended(39, 1), []);
        assert_eq!(ended(40, 1), []);
        // The pool was forgotten, and made anew.
        assert_eq!(ended(7, 1), [line("7 requests")]);
    }

    #[test]
    fn a_worker_that_is_late_is_neither_counted_twice_nor_forgotten() {
        let mut announcer = Announcer::default();
        let mut ended = |workers: &[Snapshot]| announcer.period_ended(workers, 0, PERIOD);
        assert_eq!(ended(&[worker(0, &[("api", 10)]), worker(1, &[("api", 20)])]), [line("30 requests")]);
        assert_eq!(ended(&[worker(0, &[("api", 12)])]), [line("2 requests")]);
        assert_eq!(ended(&[worker(0, &[("api", 12)]), worker(1, &[("api", 25)])]), [line("5 requests")]);
    }

    #[test]
    fn clients_without_descriptors_are_reported_from_the_first_period() {
        let lines = Announcer::default().period_ended(&[], 1, PERIOD);
        let text = "1 client turned away for want of file descriptors (53300) in the last 60 s";
        assert_eq!(lines, [(Level::Warning, text.to_owned())]);
    }

    #[test]
    fn a_size_that_auto_changes_is_no_warning() {
        let event = |name| Event { pool: None, class: None, name, sqlstate: None, ends_session: false };
        assert_eq!(event(POOL_SIZE).level(), Level::Log);
        assert_eq!(event(DESCRIPTORS).level(), Level::Warning);
    }
}
