//! pgbench's report.
//!
//! Promises: a figure that pgbench does not name is missing, not zero.

/// What pgbench says when it ends.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Report {
    pub transactions: Option<u64>,
    /// Without a line for them (before PostgreSQL 15): `None`.
    pub failed: Option<u64>,
    /// Without the time that logins took.
    pub tps: Option<f64>,
    pub latency_mean_ms: Option<f64>,
    pub connect_ms: Option<f64>,
}

impl Report {
    #[must_use]
    pub fn read(text: &str) -> Self {
        let word = |name: &str| {
            let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
            rest.split_whitespace().next()
        };
        let number = |name: &str| word(name)?.parse::<f64>().ok();
        // With a number of transactions given it is "10/10".
        let count = |name: &str| word(name)?.split('/').next()?.parse::<u64>().ok();
        Self {
            transactions: count("number of transactions actually processed: "),
            failed: count("number of failed transactions: "),
            tps: number("tps = "),
            latency_mean_ms: number("latency average = "),
            connect_ms: number("initial connection time = "),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read() {
        let text = "number of clients: 10\nnumber of transactions actually processed: 1234/1234\n\
                    number of failed transactions: 2 (0.162%)\nlatency average = 0.812 ms\n\
                    initial connection time = 20.5 ms\ntps = 411.5 (without initial connection time)\n";
        let report = Report::read(text);
        assert_eq!((report.transactions, report.failed), (Some(1234), Some(2)));
        assert_eq!((report.tps, report.latency_mean_ms, report.connect_ms), (Some(411.5), Some(0.812), Some(20.5)));
        assert_eq!(Report::read("nothing"), Report::default());
    }
}
