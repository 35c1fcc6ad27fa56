//! What the page needs of the lines, summed as they come.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::lines::{Line, PoolLine, RowLine, SampleLine, Waiting, When, WhyLine};

/// Rows that are kept, of which the worst are shown.
const ROWS_MAX: usize = 4096;

/// Different things of a kind; the rest is counted as [`REST`].
const NAMES_MAX: usize = 10_000;
pub(crate) const REST: &str = "(others)";

/// The class of samples of pgweir's own statements in SHOW HISTORY, and the name that they have together.
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
    /// By second since 1970.
    pub(crate) seconds: BTreeMap<u64, SecondSum>,
    pub(crate) by_event: Named,
    pub(crate) by_statement: Named,
    pub(crate) by_blocker: Named,
    pub(crate) by_pool: Named,
    pub(crate) by_tags: Named,
    pub(crate) rows: BTreeMap<RowKey, RowLine>,
    /// The most that did one thing in one second: a second has rows of some of them only.
    pub(crate) most_alike: BTreeMap<Doing, u64>,
    /// Processes behind which others stood.
    pub(crate) blockers: BTreeSet<i64>,
    /// By database, user, and the root.
    /// By pool and root.
    whys: BTreeMap<(String, String, Option<String>), Vec<WhySum>>,
    why_count: usize,
    counts: BTreeMap<(String, String), (u64, u64)>,
}

/// Pool, class, event and statement.
pub(crate) type Doing = [String; 6];

/// One client's or backend's statement.
pub(crate) type RowKey = (Option<i64>, Option<i64>, Option<String>);

/// One second, over all pools.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SecondSum {
    /// By the pooler's clock and zone.
    pub(crate) time: String,
    /// Samples by class of wait event.
    pub(crate) classes: BTreeMap<String, u64>,
    pub(crate) waiting: u64,
    pub(crate) max_wait: f64,
    pub(crate) active: u64,
    pub(crate) idle: u64,
    /// Transactions since the second before. `None`: it is not known.
    pub(crate) transactions: Option<f64>,
}

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

/// Times, pools and roots that are told apart. More than a page shows, and few enough to keep whatever a file has.
const WHYS_MAX: usize = 1000;

/// After so many seconds without trouble it is another time.
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
        let sum = self.0.entry(name.to_owned()).or_default();
        sum.samples = sum.samples.saturating_add(count);
        let of_event = sum.events.entry(event.to_owned()).or_default();
        *of_event = of_event.saturating_add(count);
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
        let lines: Vec<Line> =
            serde_json::from_str(json).map_err(|error| format!("what the console answers: {error}"))?;
        for line in lines {
            match line {
                Line::Pool(line) => self.add_pool(line),
                Line::Sample(line) => self.add_sample(&line),
                Line::Row(line) => self.add_row(line),
                Line::Why(line) => self.add_why(line),
                Line::Other => {}
            }
        }
        Ok(())
    }

    /// How many seconds there are.
    #[must_use]
    pub fn seconds(&self) -> usize {
        self.seconds.len()
    }

    fn second(&mut self, at: u64, time: &str) -> &mut SecondSum {
        self.seconds.entry(at / 1000).or_insert_with(|| SecondSum { time: time.to_owned(), ..SecondSum::default() })
    }

    fn add_pool(&mut self, line: PoolLine) {
        let PoolLine { when, database, user, waiting, max_wait, servers_active, servers_idle, xact_count } = line;
        let before = self.counts.insert((database, user), (when.at, xact_count));
        let second = self.second(when.at, &when.time);
        second.waiting = second.waiting.saturating_add(waiting);
        second.max_wait = second.max_wait.max(max_wait);
        second.active = second.active.saturating_add(servers_active);
        second.idle = second.idle.saturating_add(servers_idle);
        let Some((at, count)) = before else { return };
        let ms = when.at.saturating_sub(at);
        // Fewer than before: the pooler was started anew.
        if let Some(more) = xact_count.checked_sub(count).filter(|_| ms > 0 && ms <= GAP_MAX_MS) {
            let rate = more as f64 * 1000.0 / ms as f64;
            *second.transactions.get_or_insert(0.0) += rate;
        }
    }

    fn add_sample(&mut self, line: &SampleLine) {
        let waiting = &line.waiting;
        let event = waiting.event();
        let second = self.second(line.when.at, &line.when.time);
        let class = second.classes.entry(waiting.wait_event_type.clone()).or_default();
        *class = class.saturating_add(line.count);
        let doing = waiting.doing();
        if self.most_alike.len() < NAMES_MAX || self.most_alike.contains_key(&doing) {
            let most = self.most_alike.entry(doing).or_default();
            *most = line.count.max(*most);
        }
        self.by_event.add(&event, &event, line.count);
        self.by_pool.add(&waiting.pool(), &event, line.count);
        // What pgweir itself runs is one line among the statements.
        let own = (waiting.class == OWN_CLASS).then(|| OWN.to_owned());
        let statement = if own.is_some() { &own } else { &waiting.query };
        for (named, name) in [
            (&mut self.by_statement, statement),
            (&mut self.by_blocker, &waiting.blocker),
            (&mut self.by_tags, &waiting.tags),
        ] {
            if let Some(name) = name {
                named.add(name, &event, line.count);
            }
        }
    }

    /// Keeps the worst second of each time of trouble: the second in which most clients waited.
    fn add_why(&mut self, line: WhyLine) {
        let key = (line.database.clone(), line.user.clone(), line.root.clone());
        let is_full = self.why_count >= WHYS_MAX;
        let times = self.whys.entry(key).or_default();
        let goes_on = |sum: &&mut WhySum| line.when.at.saturating_sub(sum.to.at) <= CALM_MS;
        let Some(sum) = times.last_mut().filter(goes_on) else {
            if !is_full {
                let waited = line.waiting.max(1);
                times.push(WhySum { from: line.when.clone(), to: line.when.clone(), worst: line, seconds: 1, waited });
                self.why_count += 1;
            }
            return;
        };
        sum.to = line.when.clone();
        sum.seconds += 1;
        // A second in which nobody waited for a server, but for a lock, counts too.
        sum.waited = sum.waited.saturating_add(line.waiting.max(1));
        if line.waiting >= sum.worst.waiting {
            sum.worst = line;
        }
    }

    /// The times of trouble, by the seconds that clients have waited.
    pub(crate) fn verdicts(&self) -> Vec<&WhySum> {
        let mut ranked: Vec<&WhySum> = self.whys.values().flatten().collect();
        ranked.sort_by_key(|sum| Reverse(sum.waited));
        ranked
    }

    /// Of the seconds of one statement the worst.
    fn add_row(&mut self, line: RowLine) {
        if self.blockers.len() < ROWS_MAX {
            self.blockers.extend(line.blocked_by);
        }
        if line.waiting.class == OWN_CLASS {
            return;
        }
        let key = (line.client_id, line.pid, line.waiting.query.clone());
        if let Some(known) = self.rows.get_mut(&key) {
            if line.weight() >= known.weight() {
                *known = line;
            }
            return;
        }
        if self.rows.len() >= ROWS_MAX {
            let least = self.rows.iter().min_by_key(|(_, row)| row.weight());
            let Some((least, _)) = least.filter(|(_, row)| row.weight() < line.weight()) else { return };
            let least = least.clone();
            self.rows.remove(&least);
        }
        self.rows.insert(key, line);
    }
}

impl Waiting {
    pub(crate) fn doing(&self) -> Doing {
        let Waiting { database, user, class, wait_event_type, wait_event, query, .. } = self;
        let query = query.as_deref().unwrap_or_default();
        [database, user, class, wait_event_type, wait_event, query].map(str::to_owned)
    }

    /// `Lock:relation`.
    pub(crate) fn event(&self) -> String {
        match self.wait_event == self.wait_event_type {
            true => self.wait_event.clone(),
            false => format!("{}:{}", self.wait_event_type, self.wait_event),
        }
    }

    pub(crate) fn pool(&self) -> String {
        match self.database.is_empty() && self.user.is_empty() {
            true => REST.to_owned(),
            false => format!("{}/{}", self.database, self.user),
        }
    }
}

impl RowLine {
    /// Who is most in the way, then who has waited longest: in milliseconds.
    pub(crate) fn weight(&self) -> (u64, u64) {
        let ms = |seconds: Option<f64>| seconds.map_or(0, |seconds| (seconds * 1000.0) as u64);
        (self.blocking, ms(self.waited).max(ms(self.idle)))
    }
}
