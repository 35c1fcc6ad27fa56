//! Figures of each second of the last hour, made of what was seen.
//!
//! Promises that a second is looked at once, however many ask: what was made of it is kept, [`SECONDS_MAX`] of them, 0.4 MB and what their wait events
//! take. Does not keep what single sessions did: `activity` does.

use std::collections::VecDeque;

use activity::history::{Dimension, PoolSecond, SECONDS_MAX, Second, Span};
use activity::{At, History};
use serde::Serialize;
use serde::ser::{SerializeMap as _, SerializeSeq as _, Serializer};
use units::PoolKey;

/// The console's own pool is no traffic.
const CONSOLE: &str = "pgbouncer";

/// Classes of wait events that have an area of their own. PostgreSQL has ten, and an extension may add some.
pub(crate) const CLASSES_MAX: usize = 24;

/// The figures of a second. The first [`RATES`] are rates: per second, or per transaction. The others are counts at that moment.
pub(crate) const NAMES: [&str; 12] = [
    // In a second.
    "transactions",
    "queries",
    "bytes_in",
    "bytes_out",
    // Microseconds of waiting for a server: the average over the transactions that got one and the clients that still wait.
    "wait_us",
    // At that moment.
    "clients",
    "waiting",
    "longest_wait_ms",
    "servers_active",
    "servers_idle",
    "servers_login",
    "hosts_missing",
];

pub(crate) const RATES: usize = 5;

#[derive(Debug)]
pub(crate) struct Figures {
    pub(crate) at: At,
    /// By [`NAMES`].
    pub(crate) values: [f32; NAMES.len()],
    /// Samples, by the place of a class.
    pub(crate) classes: Vec<u32>,
}

/// The last hour.
#[derive(Debug, Default)]
pub(crate) struct Hour {
    seconds: VecDeque<Figures>,
    /// Of wait events, in the order in which they were first seen.
    classes: Vec<String>,
}

impl Hour {
    /// Takes what was seen since the last time.
    pub(crate) fn take(&mut self, history: &History) {
        let newest = history.seconds().next_back().map_or(At(0), |second| second.at);
        // A clock that was set back, or another moment of the same second: history keeps one of a second, the last.
        let is_replaced = |last: &Figures| {
            let kept = history.second(last.at).filter(|kept| kept.at.second() == last.at.second());
            last.at > newest || kept.is_some_and(|kept| kept.at != last.at)
        };
        while self.seconds.back().is_some_and(is_replaced) {
            self.seconds.pop_back();
        }
        let known = self.seconds.back().map_or(At(0), |last| last.at);
        let mut before: Option<&Second> = None;
        let from = At(known.0);
        for second in history.within(Span { from, to: newest }) {
            if second.at.second() > known.second() {
                self.push(before, second);
            }
            before = Some(second);
        }
        self.count_classes(history, Span { from: At((known.second() + 1) * 1000), to: newest });
        let oldest = newest.0.saturating_sub(SECONDS_MAX as u64 * 1000);
        while self.seconds.len() > SECONDS_MAX || self.seconds.front().is_some_and(|first| first.at.0 < oldest) {
            self.seconds.pop_front();
        }
    }

    /// The first second that is known says nothing of rates.
    fn push(&mut self, before: Option<&Second>, second: &Second) {
        let before = before.map(|before| (before.at, &*before.pools));
        let values = values(before, (second.at, &second.pools), second.hosts_missing);
        self.seconds.push_back(Figures { at: second.at, values, classes: Vec::new() });
    }

    /// Takes figures that were made elsewhere, from the oldest.
    pub(crate) fn of(seconds: Vec<Figures>, classes: Vec<String>) -> Hour {
        Hour { seconds: seconds.into(), classes }
    }

    fn count_classes(&mut self, history: &History, span: Span) {
        let (names, rows) = history.series(span, &Dimension::Class);
        let mut places = Vec::new();
        for name in names {
            let known = self.classes.iter().position(|class| *class == name);
            // Beyond the bound, the last place is all others'.
            let place = known.unwrap_or_else(|| self.classes.len().min(CLASSES_MAX - 1));
            if place == self.classes.len() {
                self.classes.push(name);
            }
            places.push(place);
        }
        let first = self.seconds.partition_point(|second| second.at.second() < span.from.second());
        for (figures, (at, counts)) in self.seconds.range_mut(first..).zip(rows) {
            debug_assert_eq!(figures.at, at, "of the same seconds");
            figures.classes = vec![0; self.classes.len()];
            for (place, count) in places.iter().zip(counts) {
                figures.classes[*place] += count;
            }
        }
    }

    /// The seconds after `since` (of 1970), as JSON: each name with a list.
    pub(crate) fn json(&self, since: u64) -> String {
        serde_json::to_string(&Shown { hour: self, since }).expect("numbers and texts are JSON")
    }
}

/// A time, and the pools at that time.
pub(crate) type PoolsThen<'p> = (At, &'p [(PoolKey, PoolSecond)]);

/// By [`NAMES`]. `before`: the second before, if it is known.
pub(crate) fn values(before: Option<PoolsThen<'_>>, now: PoolsThen<'_>, hosts_missing: u16) -> [f32; NAMES.len()] {
    let (at, pools) = now;
    let mut values = [0.0; NAMES.len()];
    let grown = before.map_or([0; 5], |(_, before)| grown(before, pools));
    let lasted = before.map_or(1, |(before, _)| at.0.saturating_sub(before.0).max(1));
    for (value, by) in values.iter_mut().zip(&grown[..4]) {
        *value = float(by * 1000) / float(lasted);
    }
    let (mut waiting, mut waited_us) = (0_u64, 0_u64);
    for (key, pool) in pools.iter().filter(|(key, _)| &*key.database != CONSOLE) {
        debug_assert!(!key.database.is_empty(), "a pool has a database");
        values[5] += float(pool.clients.into());
        values[6] += float(pool.waiting.into());
        values[7] = values[7].max(float(pool.oldest_wait_ms.into()));
        values[8] += float(pool.servers_active.into());
        values[9] += float(pool.servers_idle.into());
        values[10] += float(pool.servers_login.into());
        waiting = waiting.saturating_add(pool.waiting.into());
        waited_us = waited_us.saturating_add(pool.waiting_us);
    }
    // Where all servers are stopped, no transaction ends, and the clients that wait are all that counts.
    values[4] = float(grown[4].saturating_add(waited_us)) / float(grown[0].saturating_add(waiting).max(1));
    values[11] = f32::from(hosts_missing);
    values
}

/// What counters of pools have grown by: transactions, queries, bytes from and to clients, microseconds of waiting. Both are ordered by their keys.
fn grown(before: &[(PoolKey, PoolSecond)], now: &[(PoolKey, PoolSecond)]) -> [u64; 5] {
    let counters = |pool: &PoolSecond| [pool.transactions, pool.queries, pool.received, pool.sent, pool.wait_us];
    let mut sums = [0; 5];
    let mut left = before.iter().peekable();
    for (key, pool) in now.iter().filter(|(key, _)| &*key.database != CONSOLE) {
        while left.next_if(|(other, _)| other < key).is_some() {}
        // A pool that was not there begins with nothing.
        let last = left.next_if(|(other, _)| other == key).map_or([0; 5], |(_, pool)| counters(pool));
        for ((sum, now), last) in sums.iter_mut().zip(counters(pool)).zip(last) {
            // Smaller, they are of a pool that was forgotten meanwhile and is there again.
            *sum += now.checked_sub(last).unwrap_or(now);
        }
    }
    sums
}

#[allow(clippy::cast_precision_loss, reason = "it is drawn")]
fn float(number: u64) -> f32 {
    number as f32
}

struct Shown<'h> {
    hour: &'h Hour,
    since: u64,
}

impl Shown<'_> {
    fn seconds(&self) -> impl Iterator<Item = &Figures> {
        self.hour.seconds.iter().filter(|second| second.at.second() > self.since)
    }
}

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("at", &self.seconds().map(|second| second.at.second()).collect::<Vec<_>>())?;
        for (place, name) in NAMES.iter().enumerate() {
            map.serialize_entry(name, &Line { shown: self, place })?;
        }
        map.serialize_entry("classes", &self.hour.classes)?;
        let count = |place: usize| {
            self.seconds().map(|second| second.classes.get(place).copied().unwrap_or(0)).collect::<Vec<_>>()
        };
        map.serialize_entry("samples", &(0..self.hour.classes.len()).map(count).collect::<Vec<_>>())?;
        map.end()
    }
}

struct Line<'s> {
    shown: &'s Shown<'s>,
    place: usize,
}

impl Serialize for Line<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut list = to.serialize_seq(None)?;
        for second in self.shown.seconds() {
            list.serialize_element(&rounded(second.values[self.place]))?;
        }
        list.end()
    }
}

/// Rounds to a tenth, which keeps the JSON of an hour short. A number below 1 keeps two significant digits, so that it is not shown as 0.
fn rounded(value: f32) -> f32 {
    if value == 0.0 || value.abs() >= 1.0 {
        return (value * 10.0).round() / 10.0;
    }
    let scale = 10_f32.powi(1 - value.abs().log10().floor() as i32);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use activity::{Moment, Pool};

    use super::*;

    fn moment(second: u64, transactions: u64, waiting: u32) -> Arc<Moment> {
        let key = PoolKey { database: "app".into(), user: "ann".into() };
        let pool = Pool {
            clients: 5,
            waiting,
            oldest_wait: Duration::from_millis(40),
            transactions,
            queries: 3 * transactions,
            wait_us: 50 * transactions,
            waiting_us: 40_000 * u64::from(waiting),
            waiting_by_class: [("default".into(), waiting)].into(),
            ..Pool::default()
        };
        let console = PoolKey { database: CONSOLE.into(), user: CONSOLE.into() };
        let pools = [(key, pool.clone()), (console, pool)].into();
        Arc::new(Moment { at: At(second * 1000), pools, ..Moment::default() })
    }

    fn parsed(hour: &Hour, since: u64) -> serde_json::Value {
        serde_json::from_str(&hour.json(since)).expect("JSON")
    }

    #[test]
    fn counters_become_rates_and_waits_become_areas() {
        let (mut history, mut hour) = (History::default(), Hour::default());
        for (second, transactions, waiting) in [(100, 1000, 0), (101, 1100, 7), (103, 1300, 2)] {
            history.push(moment(second, transactions, waiting));
            hour.take(&history);
            // Nothing is new.
            hour.take(&history);
        }
        let json = parsed(&hour, 0);
        assert_eq!(json["at"], serde_json::json!([100, 101, 103]));
        assert_eq!(json["transactions"], serde_json::json!([0.0, 100.0, 100.0]));
        assert_eq!(json["queries"], serde_json::json!([0.0, 300.0, 300.0]));
        // 100 transactions that had waited 50 µs each, and 7 clients that have waited 40 ms; then 200, and 2.
        assert_eq!(json["wait_us"], serde_json::json!([0.0, 2663.6, 445.5]));
        assert_eq!(json["waiting"], serde_json::json!([0.0, 7.0, 2.0]));
        assert_eq!(json["classes"], serde_json::json!(["Pool"]));
        assert!(json["samples"][0].to_string().starts_with("[0,"), "{json}");
        assert_eq!(parsed(&hour, 101)["at"], serde_json::json!([103]));
    }

    #[test]
    fn what_is_taken_at_once_is_what_is_taken_second_by_second() {
        let (mut history, mut each, mut once) = (History::default(), Hour::default(), Hour::default());
        for second in 1..200 {
            history.push(moment(second, second * second, u32::try_from(second % 7).expect("small")));
            each.take(&history);
        }
        once.take(&history);
        assert_eq!(each.json(0), once.json(0));
        history.push(moment(150, 5, 1));
        each.take(&history);
        assert_eq!(parsed(&each, 140)["at"], serde_json::json!([141, 142, 143, 144, 145, 146, 147, 148, 149, 150]));
    }

    #[test]
    fn another_moment_of_the_same_second_takes_the_place_of_the_first() {
        let (mut history, mut hour) = (History::default(), Hour::default());
        let at = |ms: u64, transactions: u64, waiting: u32| {
            let moment = moment(0, transactions, waiting);
            Arc::new(Moment { at: At(ms), ..Arc::unwrap_or_clone(moment) })
        };
        for (ms, transactions, waiting) in
            [(100_000, 0, 0), (101_100, 110, 1), (101_900, 190, 2), (101_300, 130, 3), (102_300, 230, 0)]
        {
            history.push(at(ms, transactions, waiting));
            hour.take(&history);
        }
        let json = parsed(&hour, 0);
        assert_eq!(json["at"], serde_json::json!([100, 101, 102]));
        assert_eq!(json["transactions"], serde_json::json!([0.0, 100.0, 100.0]));
        assert_eq!(json["waiting"], serde_json::json!([0.0, 3.0, 0.0]));
        let mut once = Hour::default();
        once.take(&history);
        assert_eq!(once.json(0), hour.json(0));
    }

    /// Nobody was served, and 60 clients have waited for two minutes.
    #[test]
    fn the_mean_wait_counts_clients_that_wait_still() {
        let (mut history, mut hour) = (History::default(), Hour::default());
        let key = PoolKey { database: "app".into(), user: "ann".into() };
        for second in [100, 101] {
            let pool = Pool { waiting: 60, waiting_us: 60 * 120_000_000, transactions: 7, ..Pool::default() };
            history.push(Arc::new(Moment {
                at: At(second * 1000),
                pools: [(key.clone(), pool)].into(),
                ..Moment::default()
            }));
        }
        hour.take(&history);
        assert_eq!(parsed(&hour, 0)["wait_us"], serde_json::json!([120_000_000.0, 120_000_000.0]));
    }

    #[test]
    fn a_small_number_is_not_rounded_to_nothing() {
        let table =
            [(0.0, 0.0), (0.016_666, 0.017), (0.25, 0.25), (0.000_34, 0.000_34), (12.34, 12.3), (123_456.7, 123_456.7)];
        for (value, shown) in table {
            assert!((rounded(value) - shown).abs() <= shown * 1e-5, "{value}: {}", rounded(value));
        }
    }

    #[test]
    fn it_is_an_hour_and_no_more() {
        let (mut history, mut hour) = (History::default(), Hour::default());
        for second in 0..SECONDS_MAX as u64 + 100 {
            history.push(moment(second, second, 1));
            if second % 10 == 0 {
                hour.take(&history);
            }
        }
        hour.take(&history);
        assert_eq!(hour.seconds.len(), SECONDS_MAX);
    }
}
