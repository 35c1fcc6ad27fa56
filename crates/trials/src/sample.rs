//! One measured slice, as numbers with names; and what several of them mean.

use std::collections::BTreeMap;

use measure::statistics::Range;

use crate::plan::{Mode, Theirs, Trial};

/// Who is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    Direct,
    Pgweir(Mode),
    /// pgweir in transaction mode, with a pool whose size it finds.
    Auto,
    PgBouncer(Mode),
    /// PostgreSQL directly, with pgbench in the place of our driver.
    Pgbench,
}

impl Way {
    pub(crate) fn label(self) -> &'static str {
        match self {
            Way::Direct => "direct",
            Way::Pgweir(Mode::Transaction) => "pgweir",
            Way::Pgweir(Mode::Session) => "pgweir, session",
            Way::Auto => "pgweir, auto",
            Way::PgBouncer(Mode::Transaction) => "PgBouncer",
            Way::Pgbench => "pgbench, direct",
            Way::PgBouncer(Mode::Session) => "PgBouncer, session",
        }
    }
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Metric {
    Tps,
    LatencyMean,
    LatencyP99,
    Connect,
    ServerMemory,
    PoolerMemory,
    Locks,
    Connections,
    Runnable,
    Command,
    /// Cores that programs used which have nothing to do with the test.
    Others,
}

impl Metric {
    pub(crate) const ALL: [Metric; 11] = [
        Metric::Tps,
        Metric::LatencyMean,
        Metric::LatencyP99,
        Metric::Connect,
        Metric::ServerMemory,
        Metric::PoolerMemory,
        Metric::Locks,
        Metric::Connections,
        Metric::Runnable,
        Metric::Command,
        Metric::Others,
    ];

    /// In a record, unit last.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Metric::Tps => "tps",
            Metric::LatencyMean => "latency_mean_ms",
            Metric::LatencyP99 => "latency_p99_ms",
            Metric::Connect => "connect_ms",
            Metric::ServerMemory => "server_memory_mb",
            Metric::PoolerMemory => "pooler_memory_mb",
            Metric::Locks => "locks_max",
            Metric::Connections => "server_connections_max",
            Metric::Runnable => "runnable_mean",
            Metric::Command => "command_ms",
            Metric::Others => "other_programs_cores",
        }
    }

    /// For people.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Metric::Tps => "transactions per second",
            Metric::LatencyMean => "latency, mean (ms)",
            Metric::LatencyP99 => "latency, 99 % (ms)",
            Metric::Connect => "initial connection time (ms)",
            Metric::ServerMemory => "memory of PostgreSQL (MB)",
            Metric::PoolerMemory => "memory of the pooler (MB)",
            Metric::Locks => "locks held, most",
            Metric::Connections => "server connections, most",
            Metric::Runnable => "runnable PostgreSQL processes, mean",
            Metric::Command => "an unrelated command, median (ms)",
            Metric::Others => "cores used by other programs",
        }
    }

    /// The document's figure of the same kind.
    pub(crate) fn of(self, theirs: &Theirs) -> Option<f64> {
        match self {
            Metric::Tps => theirs.tps,
            Metric::LatencyMean => theirs.latency_ms,
            Metric::Connect => theirs.connect_ms,
            Metric::ServerMemory => theirs.memory_mb,
            Metric::Locks => theirs.locks,
            Metric::Connections => theirs.connections,
            Metric::Runnable => theirs.runnable,
            Metric::Command => theirs.command_ms,
            Metric::LatencyP99 | Metric::PoolerMemory | Metric::Others => None,
        }
    }
}

/// One slice: one test, one way, one round.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) trial: &'static str,
    pub(crate) way: Way,
    pub(crate) round: u32,
    pub(crate) values: BTreeMap<Metric, f64>,
    /// PostgreSQL has not as many connections as this way needs: nobody tried.
    pub(crate) is_impossible: bool,
    /// Why there are no values, or what is to be said of them.
    pub(crate) note: String,
}

/// All slices of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples(pub Vec<Sample>);

/// A run: what a reader must know of it, what was run, and what came of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Results {
    pub(crate) facts: Vec<(String, String)>,
    pub(crate) trials: Vec<Trial>,
    pub(crate) samples: Samples,
}

impl Samples {
    /// A figure of one way over all rounds.
    pub(crate) fn figure(&self, trial: &str, way: Way, metric: Metric) -> Option<Range> {
        let ours = self.0.iter().filter(|sample| sample.trial == trial && sample.way == way);
        Range::of(ours.filter_map(|sample| sample.values.get(&metric).copied()).collect())
    }

    /// One way divided by another, round by round.
    pub(crate) fn ratio(&self, trial: &str, of: Way, by: Way, metric: Metric) -> Option<Range> {
        let value = |way, round| {
            let mut all = self.0.iter();
            let one = all.find(|sample| sample.trial == trial && sample.way == way && sample.round == round)?;
            one.values.get(&metric).copied()
        };
        let rounds = self.0.iter().map(|sample| sample.round).max().unwrap_or(0);
        Range::of((1..=rounds).filter_map(|round| Some(value(of, round)? / value(by, round)?)).collect())
    }

    /// Cores that other programs used, over all samples.
    pub(crate) fn others(&self) -> Option<Range> {
        Range::of(self.0.iter().filter_map(|sample| sample.values.get(&Metric::Others).copied()).collect())
    }

    /// Whether a way was not to be had in any round.
    pub(crate) fn is_impossible(&self, trial: &str, way: Way) -> bool {
        let mut ours = self.0.iter().filter(|one| one.trial == trial && one.way == way).peekable();
        ours.peek().is_some() && ours.all(|one| one.is_impossible)
    }

    /// The ways of a test, in order, those without values too.
    pub(crate) fn ways(&self, trial: &str) -> Vec<Way> {
        let mut ways: Vec<Way> = self.0.iter().filter(|one| one.trial == trial).map(|one| one.way).collect();
        ways.sort_unstable();
        ways.dedup();
        ways
    }

    /// What was noted of a way, each thing once.
    pub(crate) fn notes(&self, trial: &str, way: Way) -> Vec<&str> {
        let ours = self.0.iter().filter(|one| one.trial == trial && one.way == way && !one.note.is_empty());
        let mut notes: Vec<&str> = ours.map(|one| one.note.as_str()).collect();
        notes.sort_unstable();
        notes.dedup();
        notes
    }
}

/// A number as a person reads it: three digits that mean something, and commas.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    if size >= 100.0 {
        return grouped(value.round());
    }
    let digits = if size >= 10.0 { 1 } else { 2 };
    let text = format!("{value:.digits$}");
    text.strip_suffix(".0").or_else(|| text.strip_suffix(".00")).map_or(text.clone(), str::to_owned)
}

fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 { format!("-{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        let table = [
            (0.0, "0"),
            (1.234, "1.23"),
            (46.0, "46"),
            (46.04, "46"),
            (123.4, "123"),
            (3305.0, "3,305"),
            (414e3, "414,000"),
        ];
        for (value, text) in table {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn a_ratio_is_taken_within_a_round() {
        let sample = |way, round, tps| Sample {
            trial: "t",
            way,
            round,
            values: BTreeMap::from([(Metric::Tps, tps)]),
            is_impossible: false,
            note: String::new(),
        };
        let pgweir = Way::Pgweir(Mode::Transaction);
        let samples = Samples(vec![
            sample(Way::Direct, 1, 10.0),
            sample(pgweir, 1, 20.0),
            sample(Way::Direct, 2, 100.0),
            sample(pgweir, 2, 300.0),
            sample(pgweir, 3, 1.0),
        ]);
        let ratio = samples.ratio("t", pgweir, Way::Direct, Metric::Tps).expect("two rounds");
        assert_eq!((ratio.low, ratio.median, ratio.high), (2.0, 2.5, 3.0));
        assert_eq!(samples.figure("t", Way::PgBouncer(Mode::Session), Metric::Tps), None);
        assert_eq!(samples.ways("t"), [Way::Direct, pgweir]);
    }
}
