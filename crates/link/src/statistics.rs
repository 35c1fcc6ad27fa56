//! Statements by pool and fingerprint: how often they ran, how long, what they returned. For SHOW QUERIES.
//!
//! ```text
//!   text ──► memo ──► its row, noted there ──► the ledger's entry ──► answer ──► the row's counts
//!              └ new: public fingerprint ──► rows by pool and fingerprint
//! ```
//!
//! A text that was seen before costs no second hash: the memo that reads texts has its row. Promises a bound: at most
//! [`STATEMENTS_COUNTED_MAX`] rows, each with the beginning of its text; when they are full, those used least are added to
//! their pool's *others*, so that sums stay right. Calls whose text could not be read count there too.
//!
//! Knows no clock. Does not count statements that got no server, calls of functions by the protocol (FunctionCall), or the pooler's
//! own queries. A Query of several statements is one call, with the fingerprint of its whole text.
//!
//! [`STATEMENTS_COUNTED_MAX`]: limits::STATEMENTS_COUNTED_MAX

use std::collections::BTreeMap;

use machine::Settings;
use machine::histogram::Bucket;
use machine::snapshot::{CallCounts, QueryCounts};
use session_state::state::KnownRow;
use sql::{Key, Rules, Text, redacted};
use units::{PoolId, PoolKey, StatementRow, limits};

use crate::server::Call;

/// The key of the fingerprints that users see, and name statements by in files. It never changes.
const PUBLIC_KEY: u64 = 0x7067_7765_6972;

/// The key by which `SHOW FINGERPRINTS` and `SHOW QUERIES` name statements.
#[must_use]
pub fn public_key() -> Key {
    Key::from_seed(PUBLIC_KEY)
}

/// What stands at the end of a text of which there is more.
const MORE: &str = "…";

/// So much of a text is read for what is shown of it.
const READ_LEN_MAX: usize = 8 * 1024;

#[derive(Debug)]
struct Row {
    /// Its name; of an empty place, the name that the next tenant gets.
    name: StatementRow,
    pool: PoolId,
    fingerprint: u64,
    /// Calls, of which the table forgets an eighth each time it is full.
    recent: u64,
    counts: CallCounts,
    text: Box<[u8]>,
    tenant: u32,
}

/// One worker's.
#[derive(Debug)]
pub struct Statistics {
    is_on: bool,
    keeps_literals: bool,
    key: Key,
    rows: Vec<Row>,
    by_fingerprint: BTreeMap<(PoolId, u64), usize>,
    /// Places without a tenant.
    free: Vec<usize>,
    others: BTreeMap<PoolId, CallCounts>,
}

impl Statistics {
    pub(crate) fn new(settings: &Settings) -> Statistics {
        Statistics {
            is_on: settings.global.console.track_statements,
            keeps_literals: settings.global.observing.observe_literals,
            key: public_key(),
            rows: Vec::new(),
            by_fingerprint: BTreeMap::new(),
            free: Vec::new(),
            others: BTreeMap::new(),
        }
    }

    /// Takes up new settings.
    pub fn configure(&mut self, settings: &Settings) {
        self.is_on = settings.global.console.track_statements;
        if !self.is_on {
            for place in 0..self.rows.len() {
                self.vacate(place);
            }
            self.others.clear();
        }
        let keeps_literals = settings.global.observing.observe_literals;
        if self.keeps_literals && !keeps_literals {
            for row in &mut self.rows {
                row.text = shown(&row.text, Rules::default(), false);
            }
        }
        self.keeps_literals = keeps_literals;
    }

    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Whether texts are shown with their literals.
    pub fn keeps_literals(&self) -> bool {
        self.keeps_literals
    }

    /// The row of a text in this pool, which is noted where the text is known.
    #[inline(always)]
    pub fn row(&mut self, noted: &mut KnownRow, pool: PoolId, text: &[u8], rules: Rules) -> StatementRow {
        if !self.knows(*noted, pool) {
            *noted = KnownRow { pool, row: self.find(pool, text, rules) };
        }
        noted.row
    }

    /// Whether a note still names the row of its text in this pool.
    #[inline(always)]
    pub fn knows(&self, noted: KnownRow, pool: PoolId) -> bool {
        noted.pool == pool && self.is_current(noted.row)
    }

    #[inline(always)]
    fn is_current(&self, row: StatementRow) -> bool {
        self.rows.get(row.place()).is_some_and(|there| there.name == row)
    }

    #[cold]
    #[inline(never)]
    fn find(&mut self, pool: PoolId, text: &[u8], rules: Rules) -> StatementRow {
        if !self.is_on {
            return StatementRow::NONE;
        }
        let whole = Text::new(text, rules);
        let Ok(fingerprint) = whole.fingerprint(&self.key) else { return StatementRow::NONE };
        let fingerprint = fingerprint.bits()[0];
        if let Some(&place) = self.by_fingerprint.get(&(pool, fingerprint)) {
            return self.rows[place].name;
        }
        let text = shown(text, rules, self.keeps_literals);
        let place = self.free_place();
        let row = &mut self.rows[place];
        (row.pool, row.fingerprint, row.text, row.recent) = (pool, fingerprint, text, 0);
        self.by_fingerprint.insert((pool, fingerprint), place);
        let places = self.by_fingerprint.len() + self.free.len();
        debug_assert!(places == self.rows.len(), "each place has a tenant or is free");
        self.rows[place].name
    }

    fn free_place(&mut self) -> usize {
        if let Some(place) = self.free.pop() {
            return place;
        }
        let place = self.rows.len();
        if place < limits::STATEMENTS_COUNTED_MAX {
            self.rows.push(Row {
                name: StatementRow::new(place, 0),
                pool: PoolId(0),
                fingerprint: 0,
                recent: 0,
                counts: CallCounts::default(),
                text: Box::default(),
                tenant: 0,
            });
            return place;
        }
        self.drop_least_used();
        self.free.pop().expect("some were dropped")
    }

    /// Adds those used least to the others of their pools.
    fn drop_least_used(&mut self) {
        let count = self.rows.len() / limits::STATEMENTS_DROPPED_SHARE;
        let mut used: Vec<(u64, usize)> =
            self.rows.iter().enumerate().map(|(place, row)| (row.recent, place)).collect();
        used.select_nth_unstable(count);
        for &(_, place) in &used[..count] {
            if let Some((pool, counts)) = self.vacate(place) {
                self.others.entry(pool).or_default().add(&counts);
            }
        }
        self.rows.iter_mut().for_each(|row| row.recent -= row.recent / 8);
    }

    /// Empties a place. Returns what its tenant was counted to; `None`: it had none.
    fn vacate(&mut self, place: usize) -> Option<(PoolId, CallCounts)> {
        let row = &mut self.rows[place];
        // An empty place keeps the key of its last tenant, which may live in another place by now.
        let key = (row.pool, row.fingerprint);
        if self.by_fingerprint.get(&key) != Some(&place) {
            return None;
        }
        self.by_fingerprint.remove(&key);
        row.tenant = row.tenant.wrapping_add(1);
        row.name = StatementRow::new(place, row.tenant);
        (row.text, row.recent) = (Box::default(), 0);
        self.free.push(place);
        Some((row.pool, std::mem::take(&mut row.counts)))
    }

    /// A pool is forgotten, and its statements with it.
    pub fn forget(&mut self, pool: PoolId) {
        self.others.remove(&pool);
        for place in 0..self.rows.len() {
            if self.rows[place].pool == pool {
                self.vacate(place);
            }
        }
    }

    /// A call has ended. `bucket`: of the time that it ran.
    #[inline(always)]
    pub fn count(&mut self, pool: PoolId, call: &Call, bucket: Bucket) {
        match self.rows.get_mut(call.statement.place()) {
            Some(row) if row.name == call.statement => {
                row.recent += 1;
                count(&mut row.counts, call, bucket);
            }
            _ => self.count_other(pool, call, bucket),
        }
    }

    /// Its text was not read, or its row was dropped while it ran.
    #[cold]
    #[inline(never)]
    fn count_other(&mut self, pool: PoolId, call: &Call, bucket: Bucket) {
        if self.is_on {
            count(self.others.entry(pool).or_default(), call, bucket);
        }
    }

    /// The fingerprint of a row; `None`: it was dropped.
    #[must_use]
    pub fn fingerprint(&self, row: StatementRow) -> Option<u64> {
        self.rows.get(row.place()).filter(|there| there.name == row).map(|there| there.fingerprint)
    }

    /// All rows, for the console.
    pub fn counts<'s>(
        &'s self,
        key: impl Fn(PoolId) -> Option<PoolKey> + 's,
    ) -> impl Iterator<Item = QueryCounts> + 's {
        let (rows, places) = (&self.rows, self.by_fingerprint.values());
        let rows = places.map(move |&place| (rows[place].pool, Some(&rows[place]), &rows[place].counts));
        let others = self.others.iter().map(|(pool, counts)| (*pool, None, counts));
        rows.chain(others).filter_map(move |(pool, row, counts)| {
            Some(QueryCounts {
                key: key(pool)?,
                fingerprint: row.map(|row| row.fingerprint),
                text: row.map_or_else(String::new, |row| String::from_utf8_lossy(&row.text).into_owned()),
                counts: counts.clone(),
            })
        })
    }

    /// What is shown of a text: without its literals, unless they are to be kept.
    #[must_use]
    pub fn shown(&self, text: &[u8], rules: Option<Rules>, len_max: usize) -> String {
        let bytes = match rules {
            _ if self.keeps_literals => beginning(text, len_max),
            Some(rules) => without_literals(text, rules, len_max),
            // Nobody knows where strings begin and end in it.
            None => MORE.as_bytes().to_vec(),
        };
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

#[inline(always)]
fn count(counts: &mut CallCounts, call: &Call, bucket: Bucket) {
    counts.calls += 1;
    counts.errors += u64::from(call.failed);
    counts.rows += call.rows;
    counts.bytes += call.bytes;
    counts.run_us += call.run_us;
    counts.run_max_us = counts.run_max_us.max(call.run_us);
    counts.run.count(bucket);
    if call.queued_us > 0 {
        counts.queue_us += call.queued_us;
        counts.queue_max_us = counts.queue_max_us.max(call.queued_us);
        counts.queue.count(Bucket::of(call.queued_us));
    }
}

fn shown(text: &[u8], rules: Rules, keeps_literals: bool) -> Box<[u8]> {
    let len_max = limits::COUNTED_TEXT_LEN_MAX;
    if keeps_literals { beginning(text, len_max).into() } else { without_literals(text, rules, len_max).into() }
}

/// A text without its literals, of which no more is read than may be shown: they may be long.
fn without_literals(text: &[u8], rules: Rules, len_max: usize) -> Vec<u8> {
    let cut = &text[..text.len().min(READ_LEN_MAX)];
    let mut shown = redacted(&Text::new(cut, rules), len_max).into_bytes();
    if cut.len() < text.len() && !shown.ends_with(MORE.as_bytes()) {
        shown.extend_from_slice(MORE.as_bytes());
    }
    shown
}

/// The beginning of a text, and a mark where there is more.
fn beginning(text: &[u8], len_max: usize) -> Vec<u8> {
    if text.len() <= len_max {
        return text.to_vec();
    }
    let mut cut = String::from_utf8_lossy(&text[..len_max]).into_owned();
    // Half a character may be at its end.
    cut.truncate(cut.trim_end_matches('\u{fffd}').len());
    cut.push_str(MORE);
    cut.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(statement: StatementRow) -> Call {
        Call { statement, rows: 2, bytes: 10, queued_us: 0, run_us: 100, failed: false }
    }

    fn statistics() -> Statistics {
        Statistics::new(&Settings::default())
    }

    fn run(statistics: &mut Statistics, pool: u32, text: &str) {
        let row = statistics.row(&mut KnownRow::default(), PoolId(pool), text.as_bytes(), Rules::default());
        statistics.count(PoolId(pool), &call(row), Bucket::of(100));
    }

    fn key(pool: PoolId) -> Option<PoolKey> {
        Some(PoolKey { database: format!("d{}", pool.0).into(), user: "u".into() })
    }

    #[test]
    fn a_million_statements_stay_within_the_bound_and_none_of_their_calls_is_lost() {
        let mut statistics = statistics();
        for number in 0..1_000_000 {
            run(&mut statistics, number % 3, &format!("select c{number} from t"));
            if number % 10 == 0 {
                run(&mut statistics, 0, "select popular");
            }
            assert!(statistics.rows.len() <= limits::STATEMENTS_COUNTED_MAX);
            assert_eq!(statistics.rows.len(), statistics.by_fingerprint.len() + statistics.free.len());
        }
        let counts: Vec<QueryCounts> = statistics.counts(key).collect();
        assert!(counts.len() <= limits::STATEMENTS_COUNTED_MAX + 3);
        let sum = |of: fn(&CallCounts) -> u64| counts.iter().map(|row| of(&row.counts)).sum::<u64>();
        assert_eq!((sum(|counts| counts.calls), sum(|counts| counts.rows)), (1_100_000, 2_200_000));
        assert_eq!(sum(|counts| counts.run.total()), 1_100_000);
        let popular = counts.iter().find(|row| row.text == "select popular").expect("it is used most");
        assert_eq!(popular.counts.calls, 100_000);
        let bytes: usize = statistics.rows.iter().map(|row| size_of::<Row>() + row.text.len()).sum();
        assert!(bytes < 4 << 20, "{bytes}");
    }

    #[test]
    fn a_statement_is_known_by_its_note_until_its_row_is_dropped() {
        let mut statistics = statistics();
        let mut note = KnownRow::default();
        let one = statistics.row(&mut note, PoolId(1), b"select 1", Rules::default());
        assert_eq!(statistics.row(&mut note, PoolId(1), b"", Rules::default()), one, "nothing is read");
        let other = statistics.row(&mut note, PoolId(2), b"select 1", Rules::default());
        assert_ne!(other, one);
        assert_eq!(statistics.fingerprint(one), statistics.fingerprint(other));
        statistics.forget(PoolId(2));
        assert_eq!(statistics.fingerprint(other), None);
        statistics.count(PoolId(2), &call(other), Bucket::of(100));
        let again = statistics.row(&mut note, PoolId(2), b"select 7", Rules::default());
        assert_ne!(again, other, "another tenant of the same place");
        let counts: Vec<QueryCounts> = statistics.counts(key).collect();
        let calls: Vec<_> = counts.iter().map(|row| (row.fingerprint.is_some(), row.counts.calls)).collect();
        assert_eq!(calls, [(true, 0), (true, 0), (false, 1)], "it is counted as one of the others");
    }

    #[test]
    fn places_of_a_pool_that_comes_and_goes_are_used_again() {
        let mut statistics = statistics();
        for round in 0..1_000_u64 {
            // Each time others and in another order, so that statements get the places that others have left.
            let count = 20 + round % 2 * 30;
            for number in 0..count {
                run(&mut statistics, 1, &format!("select c{} from t", (number * 7 + round) % 50));
            }
            assert_eq!(statistics.counts(key).map(|row| row.counts.calls).sum::<u64>(), count, "round {round}");
            statistics.forget(PoolId(1));
            assert_eq!(statistics.counts(key).count(), 0);
            assert_eq!(statistics.rows.len(), statistics.by_fingerprint.len() + statistics.free.len());
        }
        assert_eq!(statistics.rows.len(), 50);
    }

    #[test]
    fn nothing_is_kept_while_it_is_off_and_no_literal_where_they_are_not_wanted() {
        let mut settings = Settings::default();
        settings.global.observing.observe_literals = true;
        let mut statistics = Statistics::new(&settings);
        run(&mut statistics, 1, "select 'secret'");
        let texts = |statistics: &Statistics| statistics.counts(key).map(|row| row.text).collect::<Vec<_>>();
        assert_eq!(texts(&statistics), ["select 'secret'"]);
        settings.global.observing.observe_literals = false;
        statistics.configure(&settings);
        assert_eq!(texts(&statistics), ["select ?"]);
        settings.global.console.track_statements = false;
        statistics.configure(&settings);
        run(&mut statistics, 1, "select 'secret'");
        assert!(texts(&statistics).is_empty());
        settings.global.console.track_statements = true;
        statistics.configure(&settings);
        run(&mut statistics, 1, "select 'other secret'");
        assert_eq!(texts(&statistics), ["select ?"]);
    }

    #[test]
    fn a_text_that_cannot_be_read_is_one_of_the_others() {
        let mut statistics = statistics();
        run(&mut statistics, 1, "select 'never ends");
        let counts: Vec<QueryCounts> = statistics.counts(key).collect();
        assert_eq!((counts.len(), counts[0].fingerprint, counts[0].counts.calls), (1, None, 1));
    }
}
