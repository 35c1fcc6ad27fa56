//! Totals and averages by database, for `SHOW STATS`.
//!
//! Totals are the sums of the workers' snapshots. Averages are over the last full `stats_period`: the caller calls
//! [`Averages::period_ended`] at its end. No clock is read here.

use std::collections::BTreeMap;
use std::sync::Arc;

use connections::databases::CONSOLE_DATABASE;

use machine::snapshot::{Snapshot, Totals};

/// Totals of each database.
pub(crate) type ByDatabase = BTreeMap<Arc<str>, Totals>;

/// Sums the pools of each database over all workers, those among them that were forgotten.
#[must_use]
pub fn by_database(snapshots: &[Snapshot]) -> ByDatabase {
    let mut sums = ByDatabase::new();
    for pool in snapshots.iter().flat_map(|snapshot| &snapshot.pools) {
        sums.entry(Arc::clone(&pool.key.database)).or_default().add(&pool.totals);
    }
    // A client of the console counts as one query and one transaction, whatever it asks, as in PgBouncer.
    let on_console: u64 = snapshots.iter().map(|snapshot| snapshot.console_logins).sum();
    if on_console > 0 {
        let console = sums.entry(CONSOLE_DATABASE.into()).or_default();
        let each = [&mut console.transactions, &mut console.queries, &mut console.logins];
        each.into_iter().for_each(|count| *count += on_console);
    }
    for (database, totals) in snapshots.iter().flat_map(|snapshot| &snapshot.past) {
        sums.entry(Arc::clone(database)).or_default().add(totals);
    }
    sums
}

/// The gains of the last full period.
#[derive(Clone, Debug, Default)]
pub struct Averages {
    at_end: ByDatabase,
    gained: ByDatabase,
    period_us: u64,
    /// Of periods at whose end not every worker answered: they count with the next one.
    missed_us: u64,
}

impl Averages {
    /// A period of that many microseconds has ended with these totals.
    pub fn period_ended(&mut self, totals: ByDatabase, period_us: u64) {
        let nothing = Totals::default();
        self.gained = totals
            .iter()
            .map(|(name, now)| (Arc::clone(name), gain(now, self.at_end.get(name).unwrap_or(&nothing))))
            .collect();
        self.at_end = totals;
        self.period_us = period_us + std::mem::take(&mut self.missed_us);
    }

    /// A period of that many microseconds has ended, and not every worker has said what it has done: sums without it would look as if all had
    /// begun anew.
    pub(crate) fn period_missed(&mut self, period_us: u64) {
        self.missed_us += period_us;
    }

    /// Averages of one database; zeros if nothing is known of it.
    #[must_use]
    pub(crate) fn of(&self, database: &str) -> Rates {
        let gained = self.gained.get(database).copied().unwrap_or_default();
        Rates::of(&gained, self.period_us)
    }

    /// Averages of all databases together.
    #[must_use]
    pub(crate) fn overall(&self) -> Rates {
        let mut sum = Totals::default();
        self.gained.values().for_each(|gained| sum.add(gained));
        Rates::of(&sum, self.period_us)
    }
}

/// The gain between two totals. A count that has fallen, because its pool was forgotten and made anew, counts from
/// zero.
fn gain(now: &Totals, before: &Totals) -> Totals {
    let gain = |now: u64, before: u64| now.checked_sub(before).unwrap_or(now);
    Totals {
        server_assignments: gain(now.server_assignments, before.server_assignments),
        transactions: gain(now.transactions, before.transactions),
        queries: gain(now.queries, before.queries),
        received: gain(now.received, before.received),
        sent: gain(now.sent, before.sent),
        transaction_us: gain(now.transaction_us, before.transaction_us),
        query_us: gain(now.query_us, before.query_us),
        wait_us: gain(now.wait_us, before.wait_us),
        client_parses: gain(now.client_parses, before.client_parses),
        server_parses: gain(now.server_parses, before.server_parses),
        binds: gain(now.binds, before.binds),
        logins: gain(now.logins, before.logins),
    }
}

/// Averages: counts and bytes a second; times in microseconds for each transaction, query, or server assignment.
//= pgbouncer usage.md#show-stats
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    pub server_assignments: u64,
    pub transactions: u64,
    pub queries: u64,
    pub received: u64,
    pub sent: u64,
    pub transaction_us: u64,
    pub query_us: u64,
    pub wait_us: u64,
    pub client_parses: u64,
    pub server_parses: u64,
    pub binds: u64,
}

impl Rates {
    fn of(gained: &Totals, period_us: u64) -> Rates {
        let a_second = |count: u64| ratio(u128::from(count) * 1_000_000, period_us);
        let each = |time_us: u64, count: u64| ratio(u128::from(time_us), count);
        Rates {
            server_assignments: a_second(gained.server_assignments),
            transactions: a_second(gained.transactions),
            queries: a_second(gained.queries),
            received: a_second(gained.received),
            sent: a_second(gained.sent),
            transaction_us: each(gained.transaction_us, gained.transactions),
            query_us: each(gained.query_us, gained.queries),
            wait_us: each(gained.wait_us, gained.server_assignments),
            client_parses: a_second(gained.client_parses),
            server_parses: a_second(gained.server_parses),
            binds: a_second(gained.binds),
        }
    }

    /// The line that goes to the log at the end of each period.
    #[must_use]
    pub(crate) fn log_line(&self) -> String {
        format!(
            "stats: {} xacts/s, {} queries/s, {} client parses/s, {} server parses/s, {} binds/s, in {} B/s, \
             out {} B/s, xact {} us, query {} us, wait {} us",
            self.transactions,
            self.queries,
            self.client_parses,
            self.server_parses,
            self.binds,
            self.received,
            self.sent,
            self.transaction_us,
            self.query_us,
            self.wait_us,
        )
    }
}

/// Rounded down; 0 if the divisor is 0.
fn ratio(sum: u128, parts: u64) -> u64 {
    let quotient = sum.checked_div(u128::from(parts)).unwrap_or(0);
    u64::try_from(quotient).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(transactions: u64, transaction_us: u64, sent: u64) -> ByDatabase {
        let totals = Totals { transactions, transaction_us, sent, ..Totals::default() };
        ByDatabase::from([(Arc::from("app"), totals)])
    }

    #[test]
    fn a_period_without_all_workers_counts_with_the_next() {
        let mut averages = Averages::default();
        averages.period_ended(totals(100, 0, 0), 1_000_000);
        averages.period_missed(1_000_000);
        averages.period_ended(totals(300, 0, 0), 1_000_000);
        assert_eq!(averages.of("app").transactions, 100);
        averages.period_ended(totals(400, 0, 0), 1_000_000);
        assert_eq!(averages.of("app").transactions, 100);
    }

    #[test]
    fn before_a_period_has_ended_averages_are_zero() {
        assert_eq!(Averages::default().of("app"), Rates::default());
        assert_eq!(Averages::default().overall(), Rates::default());
    }

    #[test]
    fn counts_are_a_second_and_times_are_each() {
        let mut averages = Averages::default();
        averages.period_ended(totals(10, 1000, 0), 60_000_000);
        averages.period_ended(totals(130, 13_000, 6_000_000), 60_000_000);
        let rates = averages.of("app");
        assert_eq!((rates.transactions, rates.transaction_us, rates.sent), (2, 100, 100_000));
        assert_eq!(averages.overall(), rates);
        assert_eq!(averages.of("other"), Rates::default());
    }

    #[test]
    fn a_pool_that_was_forgotten_counts_from_zero_again() {
        let mut averages = Averages::default();
        averages.period_ended(totals(1000, 0, 0), 1_000_000);
        averages.period_ended(totals(7, 0, 0), 1_000_000);
        assert_eq!(averages.of("app").transactions, 7);
    }

    #[test]
    fn the_log_line_has_pgbouncers_words() {
        let rates = Rates { transactions: 1, queries: 2, received: 3, sent: 4, wait_us: 5, ..Rates::default() };
        assert_eq!(
            rates.log_line(),
            "stats: 1 xacts/s, 2 queries/s, 0 client parses/s, 0 server parses/s, 0 binds/s, in 3 B/s, out 4 B/s, \
             xact 0 us, query 0 us, wait 5 us"
        );
    }
}
