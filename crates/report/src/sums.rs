//! What the page needs of the lines, summed as they come.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::lines::{Line, RowLine, Waiting, Waits, When, WhyLine};
use crate::points::Points;

/// Rows that are kept. The page shows the worst of them. Twice as many are kept between two removals.
const ROWS_MAX: usize = 4096;

/// Different things of a kind; the rest is counted as [`REST`].
const NAMES_MAX: usize = 10_000;
pub(crate) const REST: &str = "(others)";

/// Events that are counted for one name.
const EVENTS_MAX: usize = 200;

/// SHOW HISTORY gives this class to samples of pgweir's own statements. The page counts them under one name.
const OWN_CLASS: &str = "(pgweir)";
const OWN: &str = "(statements of pgweir itself)";

/// A pool's counts of two seconds are compared if they are no further apart.
const GAP_MAX_MS: u64 = 5_000;

/// What stands above the page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heading {
    /// A console's address, or a file.
    pub source: String,
    /// As it was asked for.
    pub from: String,
    pub to: String,
    /// Who has made it.
    pub version: String,
}

/// All that was seen of a part of the history.
#[derive(Debug, Default)]
pub struct Sums {
    pub(crate) points: Points,
    pub(crate) by_event: Named,
    pub(crate) by_statement: Named,
    pub(crate) by_blocker: Named,
    pub(crate) by_pool: Named,
    pub(crate) by_tags: Named,
    pub(crate) rows: BTreeMap<RowKey, RowLine>,
    /// The least weight of the rows that were kept at the last removal.
    least: Option<(u64, u64)>,
    /// The most sessions that did one thing in one second, by the hash of that thing. A second has rows of some of them only.
    most_alike: BTreeMap<u64, u64>,
    /// Processes that others waited for.
    pub(crate) blockers: BTreeSet<i64>,
    /// By database, user, and the root.
    whys: BTreeMap<(String, String, Option<String>), Vec<WhySum>>,
    why_count: usize,
    counts: BTreeMap<(String, String), (u64, u64)>,
}

/// One client's or backend's statement.
pub(crate) type RowKey = (Option<i64>, Option<i64>, Option<String>);

/// One time in which one pool waited for one root.
#[derive(Debug)]
pub(crate) struct WhySum {
    pub(crate) from: When,
    pub(crate) to: When,
    pub(crate) worst: WhyLine,
    pub(crate) seconds: u64,
    /// Clients, times the seconds in which they waited.
    pub(crate) waited: u64,
}

/// The number of times of trouble that are kept: more than a page shows, and bounded for any file.
const WHYS_MAX: usize = 1000;

/// A time of trouble ends after this many milliseconds without trouble.
const CALM_MS: u64 = 10_000;

/// Samples by a name.
#[derive(Debug, Default)]
pub(crate) struct Named(BTreeMap<String, NamedSum>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NamedSum {
    pub(crate) samples: u64,
    /// What most of them waited for.
    pub(crate) events: BTreeMap<String, u64>,
}

impl Named {
    fn add(&mut self, name: &str, event: &str, count: u64) {
        let name = if self.0.len() < NAMES_MAX || self.0.contains_key(name) { name } else { REST };
        if !self.0.contains_key(name) {
            self.0.insert(name.to_owned(), NamedSum::default());
        }
        let sum = self.0.get_mut(name).expect("it was inserted");
        sum.samples = sum.samples.saturating_add(count);
        if let Some(known) = sum.events.get_mut(event) {
            *known = known.saturating_add(count);
        } else if sum.events.len() < EVENTS_MAX {
            sum.events.insert(event.to_owned(), count);
        }
    }

    /// The most first.
    pub(crate) fn ranked(&self) -> Vec<(&str, &NamedSum)> {
        let mut ranked: Vec<_> = self.0.iter().map(|(name, sum)| (name.as_str(), sum)).collect();
        ranked.sort_by_key(|(name, sum)| (Reverse(sum.samples), *name));
        ranked
    }

    pub(crate) fn total(&self) -> u64 {
        self.0.values().map(|sum| sum.samples).fold(0, u64::saturating_add)
    }
}

impl NamedSum {
    /// Its commonest event.
    pub(crate) fn most(&self) -> &str {
        self.events.iter().max_by_key(|(_, count)| **count).map_or("", |(event, _)| event)
    }
}

impl Sums {
    /// Adds lines of `SHOW HISTORY … FORMAT JSON`.
    ///
    /// # Errors
    /// They are none, and why.
    pub fn add(&mut self, json: &str) -> Result<(), String> {
        let lines: Vec<Line<'_>> =
            serde_json::from_str(json).map_err(|error| format!("what the console answers: {error}"))?;
        for line in &lines {
            match &*line.kind {
                "pool" => self.add_pool(line),
                "sample" => self.add_sample(line),
                "row" => self.add_row(line),
                "why" => self.add_why(line.why()),
                // A later version has it.
                _ => {}
            }
        }
        self.points.end_second();
        if self.rows.len() > ROWS_MAX {
            self.remove_rows();
        }
        Ok(())
    }

    /// How many seconds there are.
    #[must_use]
    pub fn seconds(&self) -> u64 {
        self.points.seconds()
    }

    fn add_pool(&mut self, line: &Line<'_>) {
        let pool = line.pool();
        let second = self.points.second(pool.at / 1000, pool.time);
        second.waiting = second.waiting.saturating_add(pool.waiting);
        second.max_wait = second.max_wait.max(pool.max_wait);
        second.active = second.active.saturating_add(pool.servers_active);
        second.idle = second.idle.saturating_add(pool.servers_idle);
        let key = (pool.database.to_owned(), pool.user.to_owned());
        if self.counts.len() >= NAMES_MAX && !self.counts.contains_key(&key) {
            return;
        }
        let Some((at, count)) = self.counts.insert(key, (pool.at, pool.xact_count)) else { return };
        let ms = pool.at.saturating_sub(at);
        // Fewer than before: the pooler was started anew.
        if let Some(more) = pool.xact_count.checked_sub(count).filter(|_| ms > 0 && ms <= GAP_MAX_MS) {
            second.add_rate(more as f64 * 1000.0 / ms as f64);
        }
    }

    fn add_sample(&mut self, line: &Line<'_>) {
        let (waits, count) = (line.waits(), line.count());
        let event = waits.event();
        self.points.second(line.at / 1000, line.time()).add_class(waits.wait_event_type, count);
        let doing = waits.doing();
        if self.most_alike.len() < NAMES_MAX || self.most_alike.contains_key(&doing) {
            let most = self.most_alike.entry(doing).or_default();
            *most = count.max(*most);
        }
        self.by_event.add(&event, &event, count);
        self.by_pool.add(&waits.pool(), &event, count);
        // All statements of pgweir itself are one line.
        let statement = if waits.class == OWN_CLASS { Some(OWN) } else { waits.query };
        for (named, name) in [
            (&mut self.by_statement, statement),
            (&mut self.by_blocker, waits.blocker),
            (&mut self.by_tags, waits.tags),
        ] {
            if let Some(name) = name {
                named.add(name, &event, count);
            }
        }
    }

    /// The most sessions that did the same in one second.
    pub(crate) fn most_alike(&self, waiting: &Waiting) -> u64 {
        self.most_alike.get(&waiting.waits().doing()).copied().unwrap_or(0)
    }

    /// Keeps the worst second of each time of trouble: the second in which most clients waited.
    fn add_why(&mut self, line: WhyLine) {
        let key = (line.database.clone(), line.user.clone(), line.root.clone());
        // A second in which nobody waited for a server, but for a lock, counts too.
        let waited = line.waiting.max(1);
        let goes_on = |sum: &&mut WhySum| line.when.at.saturating_sub(sum.to.at) <= CALM_MS;
        if let Some(sum) = self.whys.get_mut(&key).and_then(|times| times.last_mut()).filter(goes_on) {
            (sum.to, sum.seconds, sum.waited) = (line.when.clone(), sum.seconds + 1, sum.waited.saturating_add(waited));
            if line.waiting >= sum.worst.waiting {
                sum.worst = line;
            }
        } else if self.why_count < WHYS_MAX {
            self.why_count += 1;
            let sum = WhySum { from: line.when.clone(), to: line.when.clone(), worst: line, seconds: 1, waited };
            self.whys.entry(key).or_default().push(sum);
        }
    }

    /// The times of trouble, by the seconds that clients have waited.
    pub(crate) fn verdicts(&self) -> Vec<&WhySum> {
        let mut ranked: Vec<&WhySum> = self.whys.values().flatten().collect();
        ranked.sort_by_key(|sum| Reverse(sum.waited));
        ranked
    }

    /// Keeps the worst second of each client's statement.
    fn add_row(&mut self, line: &Line<'_>) {
        if self.blockers.len() < ROWS_MAX {
            self.blockers.extend(line.blocked_by());
        }
        if line.waits().class == OWN_CLASS {
            return;
        }
        let weight = line.weight();
        let key = line.row_key();
        if let Some(known) = self.rows.get_mut(&key) {
            if weight >= known.weight() {
                *known = line.row();
            }
            return;
        }
        if self.least.is_some_and(|least| weight <= least) {
            return;
        }
        self.rows.insert(key, line.row());
        if self.rows.len() >= 2 * ROWS_MAX {
            self.remove_rows();
        }
    }

    /// Removes the rows with the least weight.
    fn remove_rows(&mut self) {
        let mut rows: Vec<(RowKey, RowLine)> = std::mem::take(&mut self.rows).into_iter().collect();
        rows.sort_by_key(|(_, row)| Reverse(row.weight()));
        rows.truncate(ROWS_MAX);
        self.least = rows.last().map(|(_, row)| row.weight());
        self.rows = rows.into_iter().collect();
    }
}

impl Waits<'_> {
    /// The hash of pool, class, event and statement.
    fn doing(&self) -> u64 {
        let Waits { database, user, class, wait_event_type, wait_event, query, .. } = self;
        let mut hasher = DefaultHasher::new();
        [database, user, class, wait_event_type, wait_event, query.unwrap_or_default()].hash(&mut hasher);
        hasher.finish()
    }

    /// `Lock:relation`.
    pub(crate) fn event(&self) -> Cow<'_, str> {
        match self.wait_event == self.wait_event_type {
            true => Cow::Borrowed(self.wait_event),
            false => Cow::Owned(format!("{}:{}", self.wait_event_type, self.wait_event)),
        }
    }

    pub(crate) fn pool(&self) -> Cow<'_, str> {
        match self.database.is_empty() && self.user.is_empty() {
            true => Cow::Borrowed(REST),
            false => Cow::Owned(format!("{}/{}", self.database, self.user)),
        }
    }
}
