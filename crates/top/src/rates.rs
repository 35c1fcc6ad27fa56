//! How much passes in a second, from counts since the start that are read now and again.
//!
//! Until two looks have been taken, the averages that the console has itself count.

use std::collections::VecDeque;
use std::time::Duration;

use crate::rows::Table;

/// As many as a wide terminal has columns.
const KEPT_MAX: usize = 240;

/// In a second.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub(crate) struct Rate {
    pub transactions: f64,
    pub queries: f64,
    pub received: f64,
    pub sent: f64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Rates {
    last: Option<(Duration, Rate)>,
    kept: VecDeque<Rate>,
    average: Rate,
}

impl Rates {
    /// Takes an answer to `SHOW TOTALS`. `now`: since the program began.
    pub(crate) fn take(&mut self, totals: &Table, now: Duration) {
        let of = |prefix: &str| {
            let value = |name: &str| {
                let name = format!("{prefix}_{name}");
                let row = totals.rows().find(|row| row.get("name") == Some(&name));
                row.and_then(|row| row.number("value")).unwrap_or(0.0)
            };
            Rate {
                transactions: value("xact_count"),
                queries: value("query_count"),
                received: value("client_bytes"),
                sent: value("server_bytes"),
            }
        };
        let counts = of("total");
        self.average = of("avg");
        if let Some((at, before)) = self.last {
            let seconds = now.saturating_sub(at).as_secs_f64();
            // Counts of another process, which has taken this one's place, are smaller.
            if seconds > 0.0 && counts.transactions >= before.transactions {
                self.keep(counts.since(before, seconds));
            }
        }
        self.last = Some((now, counts));
    }

    fn keep(&mut self, rate: Rate) {
        if self.kept.len() == KEPT_MAX {
            self.kept.pop_front();
        }
        self.kept.push_back(rate);
    }

    #[must_use]
    pub(crate) fn now(&self) -> Rate {
        self.kept.back().copied().unwrap_or(self.average)
    }

    /// Transactions a second at the last looks, the oldest first.
    #[must_use]
    pub(crate) fn transactions(&self) -> Vec<f64> {
        self.kept.iter().map(|rate| rate.transactions).collect()
    }
}

impl Rate {
    fn since(self, before: Rate, seconds: f64) -> Rate {
        let rate = |now: f64, before: f64| (now - before).max(0.0) / seconds;
        Rate {
            transactions: rate(self.transactions, before.transactions),
            queries: rate(self.queries, before.queries),
            received: rate(self.received, before.received),
            sent: rate(self.sent, before.sent),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::table;

    fn totals(xacts: &str) -> Table {
        table(&["name", "value"], &[&["total_xact_count", xacts], &["avg_xact_count", "7"]])
    }

    #[test]
    fn the_average_counts_until_there_are_two_looks() {
        let mut rates = Rates::default();
        rates.take(&totals("100"), Duration::from_secs(1));
        assert_eq!(rates.now().transactions, 7.0);
        rates.take(&totals("150"), Duration::from_secs(3));
        assert_eq!(rates.now().transactions, 25.0);
        // Another process.
        rates.take(&totals("10"), Duration::from_secs(4));
        assert_eq!(rates.transactions(), [25.0]);
        rates.take(&totals("20"), Duration::from_secs(5));
        assert_eq!(rates.transactions(), [25.0, 10.0]);
    }
}
