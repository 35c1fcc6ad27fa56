//! What is run: the documents' tests as a table, with the documents' figures.
//!
//! Promises: a figure stands here as the document prints it; where a document does not say something (a pool's size, a script), the
//! comment says what we chose.

use std::time::Duration;

use measure::script::Script;

use crate::driver::Length;

/// The documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Cern,
    Percona,
    LinuxPolska,
}

impl Source {
    pub(crate) const ALL: [Source; 3] = [Source::Cern, Source::Percona, Source::LinuxPolska];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Source::Cern => "CERN",
            Source::Percona => "Percona",
            Source::LinuxPolska => "Linux Polska",
        }
    }

    /// What it is, for a reader who wants to find it.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Source::Cern => {
                "M. De Giorgi and I. Posada Trobo, \u{201c}Solving PostgreSQL connection scalability: insights from \
                 CERN\u{2019}s GitLab service\u{201d}, Swiss PGDay 2024"
            }
            Source::Percona => "Percona, \u{201c}Connection queueing in PgBouncer\u{201d}, 2021",
            Source::LinuxPolska => {
                "Linux Polska, \u{201c}PgBouncer \u{2013} light connection pooler for PostgreSQL\u{201d}, 2023"
            }
        }
    }
}

/// When a client's server goes back to the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mode {
    Transaction,
    Session,
}

impl Mode {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Mode::Transaction => "transaction",
            Mode::Session => "session",
        }
    }
}

/// What a document says of one of its columns.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Theirs {
    pub(crate) tps: Option<f64>,
    pub(crate) latency_ms: Option<f64>,
    pub(crate) connect_ms: Option<f64>,
    pub(crate) memory_mb: Option<f64>,
    pub(crate) locks: Option<f64>,
    pub(crate) connections: Option<f64>,
    /// Percona gives the load average; we count PostgreSQL's runnable processes.
    pub(crate) runnable: Option<f64>,
    pub(crate) command_ms: Option<f64>,
}

/// One test.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trial {
    pub(crate) name: &'static str,
    pub(crate) source: Source,
    pub(crate) title: &'static str,
    pub(crate) clients: usize,
    /// Connections that do nothing, beside those that work.
    pub(crate) idle: usize,
    /// Logins at a time: pgbench logs in one client a thread.
    pub(crate) threads: usize,
    pub(crate) script: Script,
    pub(crate) length: Length,
    /// Pool size in transaction mode; in session mode too, where the document has it.
    pub(crate) pool: u32,
    pub(crate) session_pool: Option<u32>,
    /// Whether pgweir runs it with a pool whose size it finds too: where the document's size is far from the best.
    pub(crate) auto: bool,
    /// Whether an unrelated command is timed meanwhile.
    pub(crate) command: bool,
    /// Whether pgbench runs it too, where there is one.
    pub(crate) cross_check: bool,
    pub(crate) theirs: Columns,
    /// What differs from the document, or what it does not say.
    pub(crate) remark: &'static str,
}

/// The document's figures, by how its clients came to PostgreSQL.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Columns {
    pub(crate) direct: Theirs,
    /// In transaction mode.
    pub(crate) pooled: Theirs,
    pub(crate) session: Theirs,
}

const NONE: Theirs = Theirs {
    tps: None,
    latency_ms: None,
    connect_ms: None,
    memory_mb: None,
    locks: None,
    connections: None,
    runnable: None,
    command_ms: None,
};

/// The document has no figures.
const SILENT: Columns = Columns { direct: NONE, pooled: NONE, session: NONE };

const fn tps(tps: f64) -> Theirs {
    Theirs { tps: Some(tps), ..NONE }
}

const fn timed(tps: f64, latency_ms: f64, connect_ms: f64) -> Theirs {
    Theirs { tps: Some(tps), latency_ms: Some(latency_ms), connect_ms: Some(connect_ms), ..NONE }
}

/// So many transactions a client, as the document has it, but no longer than this: a rate is known by then.
const AT_MOST: Duration = Duration::from_secs(12);
const FIVE_SECONDS: Length = Length::For(Duration::from_secs(5));

const BASE: Trial = Trial {
    name: "",
    source: Source::Cern,
    title: "",
    clients: 0,
    idle: 0,
    threads: 4,
    script: Script::TpcB,
    length: FIVE_SECONDS,
    pool: 20,
    session_pool: None,
    auto: false,
    command: false,
    cross_check: false,
    theirs: SILENT,
    remark: "",
};

/// All tests, in the order they run.
pub(crate) const TRIALS: &[Trial] = &[
    Trial {
        name: "cern-20",
        title: "20 clients, one thread, 100 transactions each",
        clients: 20,
        threads: 1,
        length: Length::Each(100, AT_MOST),
        theirs: Columns { direct: tps(46.0), ..SILENT },
        remark: "The slides show pooled figures for 800 clients only; they do not say the pool\u{2019}s size there. Ours is 20.",
        ..BASE
    },
    Trial {
        name: "cern-100",
        title: "100 clients, four threads, 100 transactions each",
        clients: 100,
        length: Length::Each(100, AT_MOST),
        theirs: Columns { direct: tps(178.0), ..SILENT },
        remark: "CERN ran it twice: 178 tps, and 174 with the script named tpcb-like.",
        ..BASE
    },
    Trial {
        name: "cern-800",
        title: "800 clients, six threads, 100 transactions each",
        clients: 800,
        threads: 6,
        length: Length::Each(100, AT_MOST),
        auto: true,
        theirs: Columns {
            direct: Theirs { tps: Some(210.0), latency_ms: Some(3800.0), ..NONE },
            pooled: tps(3305.0),
            ..SILENT
        },
        ..BASE
    },
    Trial {
        name: "cern-idle-0",
        title: "20 clients read, nobody else is connected",
        clients: 20,
        script: Script::Select,
        remark: "The measure for the next test.",
        ..BASE
    },
    Trial {
        name: "cern-idle-5000",
        title: "20 clients read beside 5,000 idle connections",
        clients: 20,
        idle: 5000,
        script: Script::Select,
        remark: "The slides show a profile (by Andres Freund) and no rate.",
        ..BASE
    },
    Trial {
        name: "percona",
        source: Source::Percona,
        title: "20 clients read; four servers behind the queue",
        clients: 20,
        threads: 20,
        script: Script::Select,
        length: Length::For(Duration::from_secs(6)),
        pool: 4,
        command: true,
        cross_check: true,
        theirs: Columns {
            direct: Theirs { tps: Some(20308.0), runnable: Some(17.0), command_ms: Some(17768.0), ..NONE },
            pooled: Theirs { tps: Some(23486.0), runnable: Some(1.73), command_ms: Some(559.0), ..NONE },
            ..SILENT
        },
        remark: "Percona gives the machine\u{2019}s load average (17+ and 1.73) and times \u{201c}ls\u{201d} over ssh; we count PostgreSQL\u{2019}s \
                 runnable processes and time \u{201c}ls\u{201d} itself. Their load and pooler had a machine of their own; here all share the cores.",
        ..BASE
    },
    Trial {
        name: "linux-1",
        source: Source::LinuxPolska,
        title: "Test 1: one client, 5 seconds",
        clients: 1,
        theirs: Columns { direct: timed(170.0, 5.88, 15.95), pooled: timed(122.5, 8.16, 4.17), ..SILENT },
        ..BASE
    },
    Trial {
        name: "linux-2",
        source: Source::LinuxPolska,
        title: "Test 2: 10 clients, 5 seconds",
        clients: 10,
        theirs: Columns { direct: timed(246.76, 40.52, 171.12), pooled: timed(182.59, 54.76, 30.01), ..SILENT },
        ..BASE
    },
    Trial {
        name: "linux-3",
        source: Source::LinuxPolska,
        title: "Test 3: 100 clients, 5 seconds",
        clients: 100,
        cross_check: true,
        theirs: Columns { direct: timed(168.89, 592.07, 1722.09), pooled: timed(163.72, 610.78, 299.56), ..SILENT },
        ..BASE
    },
    Trial {
        name: "linux-4",
        source: Source::LinuxPolska,
        title: "Test 4: 500 clients, 5 seconds",
        clients: 500,
        theirs: Columns { direct: tps(0.0), pooled: timed(139.4, 3586.89, 1718.43), ..SILENT },
        ..BASE
    },
    Trial {
        name: "linux-5",
        source: Source::LinuxPolska,
        title: "Test 5: 500 clients, 50 transactions each",
        clients: 500,
        length: Length::Each(50, AT_MOST),
        theirs: Columns {
            direct: Theirs { memory_mb: Some(2113.0), connections: Some(500.0), ..timed(73.86, 6769.8, 8187.13) },
            pooled: Theirs { memory_mb: Some(1253.0), connections: Some(20.0), ..timed(134.17, 3726.68, 1734.29) },
            ..SILENT
        },
        remark: "Their memory is the machine\u{2019}s as pg_top shows it, load generator included.",
        ..BASE
    },
    Trial {
        name: "linux-6",
        source: Source::LinuxPolska,
        title: "Test 6: 4,000 clients write, 5 transactions each",
        clients: 4000,
        length: Length::Each(5, Duration::from_secs(20)),
        pool: 100,
        session_pool: Some(10),
        auto: true,
        theirs: Columns {
            direct: Theirs {
                memory_mb: Some(7702.0),
                locks: Some(414_000.0),
                connections: Some(4000.0),
                ..timed(11.38, 351_472.98, 68_986.58)
            },
            pooled: Theirs {
                memory_mb: Some(1511.0),
                locks: Some(1800.0),
                connections: Some(100.0),
                ..timed(38.06, 105_073.7, 15_270.04)
            },
            session: Theirs { connections: Some(10.0), ..timed(53.4, 74_908.72, 14_686.64) },
        },
        remark: "Pool of 100 in transaction mode and of 10 in session mode, as theirs.",
        ..BASE
    },
    Trial {
        name: "linux-7",
        source: Source::LinuxPolska,
        title: "Test 7: 4,000 clients read, 5 transactions each",
        clients: 4000,
        script: Script::Select,
        length: Length::Each(5, Duration::from_secs(20)),
        pool: 100,
        session_pool: Some(10),
        auto: true,
        theirs: Columns {
            direct: Theirs {
                memory_mb: Some(7724.0),
                connections: Some(4000.0),
                ..timed(92.89, 43_063.11, 118_704.05)
            },
            pooled: Theirs { memory_mb: Some(1358.0), connections: Some(100.0), ..timed(3416.25, 1170.87, 14_082.64) },
            session: Theirs { memory_mb: Some(1250.0), connections: Some(10.0), ..timed(2834.39, 1411.24, 13_324.65) },
        },
        remark: "Pool of 100 in transaction mode and of 10 in session mode.",
        ..BASE
    },
];

impl Trial {
    /// Connections that the direct way needs.
    pub(crate) fn connections(&self) -> usize {
        self.clients + self.idle
    }

    /// The pools it is run with.
    pub(crate) fn pools(&self) -> Vec<(Mode, u32)> {
        let session = self.session_pool.map(|pool| (Mode::Session, pool));
        [Some((Mode::Transaction, self.pool)), session].into_iter().flatten().collect()
    }

    /// The same, much shorter: for a look, not for a record.
    pub(crate) fn shortened(self) -> Self {
        let short = Duration::from_secs(1);
        let length = match self.length {
            Length::For(_) => Length::For(short),
            Length::Each(count, _) => Length::Each(count, 2 * short),
        };
        Self { length, ..self }
    }
}

/// The tests whose name begins with one of `only`; all of them if it is empty.
///
/// # Errors
/// A name that no test begins with.
pub(crate) fn chosen(only: &[String]) -> Result<Vec<Trial>, String> {
    if let Some(unknown) = only.iter().find(|name| !TRIALS.iter().any(|trial| trial.name.starts_with(*name))) {
        let names: Vec<&str> = TRIALS.iter().map(|trial| trial.name).collect();
        return Err(format!("no test is called {unknown}; there are {}", names.join(", ")));
    }
    let is_wanted = |trial: &&Trial| only.is_empty() || only.iter().any(|name| trial.name.starts_with(name));
    Ok(TRIALS.iter().filter(is_wanted).copied().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_can_be_chosen() {
        let names: std::collections::BTreeSet<&str> = TRIALS.iter().map(|trial| trial.name).collect();
        assert_eq!(names.len(), TRIALS.len());
        let pick = |text: &str| chosen(&[text.to_owned()]).map(|trials| trials.len());
        assert_eq!(pick("linux"), Ok(7));
        assert_eq!(pick("cern-800"), Ok(1));
        assert!(pick("frob").is_err());
        assert_eq!(chosen(&[]).map(|trials| trials.len()), Ok(TRIALS.len()));
    }

    #[test]
    fn their_figures_agree_with_each_other() {
        // With closed loops, clients = tps x latency: a slip in copying a figure shows here.
        for trial in TRIALS.iter().filter(|trial| trial.source == Source::LinuxPolska) {
            for theirs in [trial.theirs.direct, trial.theirs.pooled, trial.theirs.session] {
                let (Some(tps), Some(latency_ms)) = (theirs.tps, theirs.latency_ms) else { continue };
                let clients = tps * latency_ms / 1000.0;
                let ratio = clients / trial.clients as f64;
                assert!((0.97..1.03).contains(&ratio), "{}: {tps} tps and {latency_ms} ms", trial.name);
            }
        }
    }
}
