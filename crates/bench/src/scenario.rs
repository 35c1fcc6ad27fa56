//! The table of what is measured, with the thresholds that the figures are held against.
//!
//! Promises: everything that makes one scenario different from another stands in this table, and the record repeats it.

use crate::fake::Answer;
use crate::style::Style;

/// How clients prove who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    Trust,
    Md5,
    /// The auth file holds the SCRAM secret, as PostgreSQL stores it: the pooler need not derive it.
    Scram,
    /// SCRAM, but the auth file holds the password: the pooler derives the secret.
    ScramOfPassword,
}

/// How clients encrypt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tls {
    /// Each connection with a handshake of its own.
    Fresh,
    /// Each goes on with the session of an earlier one, where the contestant offers that.
    Resumed,
}

/// What is done with a contestant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `clients` in a closed loop.
    Closed,
    /// `clients` at a time log in, ask once, leave.
    Logins(Proof),
    /// `clients` log in and say nothing: memory.
    Idle,
    /// One and two workers at half of what one can do: system calls and lends. pgweir only.
    HalfLoad { pool: u32 },
    /// pgbench against a real PostgreSQL, all on every core but the pooler, which is on one.
    Pgbench { arguments: &'static str },
    /// The same with nobody but the pooler on its core: each message wakes it, where few clients are at work.
    /// System calls are counted over so many transactions.
    Few { arguments: &'static str, counted: u64 },
    /// Instructions of one client, with the same text each time and with another each time. pgweir only.
    Instructions,
}

/// A figure that a threshold is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// The other contestant's CPU time per transaction ÷ pgweir's, in the same round.
    CpuRatio { against: &'static str },
    /// pgweir's system calls per transaction.
    SystemCalls,
    /// pgweir's epoll_ctl calls per transaction.
    EpollControls,
    /// pgweir's bytes per idle client.
    ClientBytes,
    /// The other contestant's bytes per idle client ÷ pgweir's, in the same round.
    ClientBytesRatio { against: &'static str },
    /// Lends per transaction with two workers.
    Lends,
    /// Two workers' system calls per transaction ÷ one worker's, at the same load.
    SystemCallGrowth,
    /// System calls per transaction that one pgweir makes and the other does not.
    SystemCallsMore { pair: Pair },
    /// CPU time per transaction that one pgweir takes and the other does not, in ns.
    CpuMore { pair: Pair },
    /// User-space instructions per transaction under one load that the other does not take.
    InstructionsMore { case: &'static str },
}

/// The same pgweir with something more to do, and without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    pub with: &'static str,
    pub without: &'static str,
}

/// What a figure must reach, and what it should.
#[derive(Clone, Copy, Debug)]
pub struct Threshold {
    pub figure: Figure,
    pub must: f64,
    pub should: Option<f64>,
    pub at_most: bool,
}

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub name: &'static str,
    pub about: &'static str,
    pub kind: Kind,
    pub clients: usize,
    pub style: Style,
    pub answer: Answer,
    /// The pooler reaches the server over a Unix socket.
    pub unix: bool,
    /// Clients come over TLS; the servers are reached in the clear.
    pub tls: Option<Tls>,
    /// Ini lines for every contestant.
    pub settings: &'static [(&'static str, &'static str)],
    /// One more contestant: PgBouncer with these settings.
    pub tuned: Option<(&'static str, &'static [(&'static str, &'static str)])>,
    /// The direct connection runs too.
    pub direct: bool,
    /// The relay runs too: what copying alone costs.
    pub relay: bool,
    /// pgweir runs once more, under one of the names [`CLASSIC`] and [`CLASSES`].
    pub twin: Option<&'static str>,
    pub thresholds: &'static [Threshold],
}

const fn ratio(must: f64, should: f64) -> Threshold {
    Threshold { figure: Figure::CpuRatio { against: "pgbouncer" }, must, should: Some(should), at_most: false }
}

const fn at_most(figure: Figure, must: f64, should: Option<f64>) -> Threshold {
    Threshold { figure, must, should, at_most: true }
}

/// Simple queries with small answers over TCP, which most scenarios change in one place.
const PLAIN: Scenario = Scenario {
    name: "",
    about: "",
    kind: Kind::Closed,
    clients: 8,
    style: Style::Simple,
    answer: Answer::Small,
    unix: false,
    tls: None,
    settings: &[],
    tuned: None,
    direct: false,
    relay: false,
    twin: None,
    thresholds: &[],
};

/// pgweir that does for session state what PgBouncer does.
pub const CLASSIC: &str = "pgweir-classic";
pub const FIDELITY: Pair = Pair { with: "pgweir", without: CLASSIC };
/// pgweir with ten classes and as many rules, of which the last fits.
pub const CLASSES: &str = "pgweir-classes";
pub const SHARING: Pair = Pair { with: CLASSES, without: "pgweir" };
const TUNED: Option<(&str, &[(&str, &str)])> = Some(("pgbouncer-64k", &[("pkt_buf", "65536")]));
/// Logging a line for each login is a matter of taste, not of the login's cost: off for everybody.
const QUIET: &[(&str, &str)] = &[("log_connections", "0"), ("log_disconnections", "0")];

/// The settings of [`login`]: as [`QUIET`], with room for a crowd, and a queue in the kernel that holds all of it (PgBouncer's
/// default is 128 connections).
const CROWD: &[(&str, &str)] =
    &[("log_connections", "0"), ("log_disconnections", "0"), ("max_client_conn", "5000"), ("listen_backlog", "4096")];

/// What `bench logins` measures: clients that log in, ask nothing and leave.
pub const fn login(name: &'static str, about: &'static str, proof: Proof) -> Scenario {
    Scenario { name, about, kind: Kind::Logins(proof), settings: CROWD, ..PLAIN }
}

/// Everything that `make bench` measures.
pub const SCENARIOS: &[Scenario] = &[
    Scenario { name: "tcp-1", about: "1 client, simple protocol, TCP", clients: 1, direct: true, ..PLAIN },
    Scenario {
        name: "tcp-8",
        about: "8 clients, simple protocol, TCP",
        direct: true,
        relay: true,
        thresholds: &[ratio(1.05, 1.3)],
        ..PLAIN
    },
    Scenario {
        name: "tcp-64",
        about: "64 clients on 20 servers, simple protocol, TCP",
        clients: 64,
        direct: true,
        relay: true,
        thresholds: &[
            ratio(1.5, 2.0),
            at_most(Figure::SystemCalls, 4.2, None),
            at_most(Figure::EpollControls, 0.001, None),
        ],
        ..PLAIN
    },
    Scenario {
        name: "unix-8",
        about: "8 clients, simple protocol, Unix socket to the server",
        unix: true,
        relay: true,
        thresholds: &[ratio(1.35, 1.8)],
        ..PLAIN
    },
    Scenario {
        name: "unix-64",
        about: "64 clients on 20 servers, simple protocol, Unix socket to the server",
        clients: 64,
        unix: true,
        relay: true,
        thresholds: &[ratio(1.7, 2.2)],
        ..PLAIN
    },
    Scenario {
        name: "rows-8",
        about: "8 clients, results of 100 kB in 1,000 rows",
        answer: Answer::Rows,
        tuned: TUNED,
        relay: true,
        thresholds: &[ratio(4.0, 6.0)],
        ..PLAIN
    },
    Scenario {
        name: "value-8",
        about: "8 clients, results of 100 kB in one row",
        answer: Answer::Value,
        tuned: TUNED,
        thresholds: &[ratio(4.0, 6.0)],
        ..PLAIN
    },
    Scenario {
        name: "extended-64",
        about: "64 clients on 20 servers, extended protocol, unnamed statement",
        clients: 64,
        style: Style::Extended,
        relay: true,
        thresholds: &[ratio(1.3, 1.3)],
        ..PLAIN
    },
    Scenario {
        name: "prepared-64",
        about: "64 clients on 20 servers, named prepared statement",
        clients: 64,
        style: Style::Prepared,
        settings: &[("max_prepared_statements", "200")],
        thresholds: &[ratio(1.3, 1.3)],
        ..PLAIN
    },
    Scenario {
        name: "transparent",
        about: "1 client, the same text each time and another each time: instructions",
        kind: Kind::Instructions,
        clients: 1,
        style: Style::Unique,
        thresholds: &[
            at_most(Figure::InstructionsMore { case: "simple" }, INSTRUCTIONS_MAX, None),
            at_most(Figure::InstructionsMore { case: "unique" }, INSTRUCTIONS_MAX, None),
        ],
        ..PLAIN
    },
    Scenario {
        name: "transparent-64",
        about: "64 clients on 20 servers, each text another",
        clients: 64,
        style: Style::Unique,
        twin: Some(CLASSIC),
        thresholds: &[at_most(Figure::SystemCallsMore { pair: FIDELITY }, 0.01, None)],
        ..PLAIN
    },
    Scenario {
        name: "settings-same-64",
        about: "64 clients on 20 servers, all with the same two settings",
        clients: 64,
        style: Style::SameSettings,
        twin: Some(CLASSIC),
        thresholds: &[at_most(Figure::SystemCallsMore { pair: FIDELITY }, 0.01, None)],
        ..PLAIN
    },
    Scenario {
        name: "settings-64",
        about: "64 clients on 20 servers, each with two settings of its own",
        clients: 64,
        style: Style::OwnSettings,
        twin: Some(CLASSIC),
        // One small message goes before the client's.
        thresholds: &[at_most(Figure::SystemCallsMore { pair: FIDELITY }, 1.0, Some(0.01))],
        ..PLAIN
    },
    Scenario {
        name: "classes-1",
        about: "1 client, a text with tags",
        clients: 1,
        style: Style::Tagged,
        twin: Some(CLASSES),
        thresholds: SHARING_COSTS,
        ..PLAIN
    },
    Scenario {
        name: "classes-64",
        about: "64 clients on 20 servers, a text with tags",
        clients: 64,
        style: Style::Tagged,
        twin: Some(CLASSES),
        thresholds: SHARING_COSTS,
        ..PLAIN
    },
    Scenario {
        name: "login-trust",
        about: "8 at a time: connect, trust, one query, leave",
        kind: Kind::Logins(Proof::Trust),
        settings: QUIET,
        thresholds: &[ratio(1.0, 1.5)],
        ..PLAIN
    },
    Scenario {
        name: "login-md5",
        about: "8 at a time: connect, md5, one query, leave",
        kind: Kind::Logins(Proof::Md5),
        settings: QUIET,
        thresholds: &[ratio(1.0, 1.5)],
        ..PLAIN
    },
    Scenario {
        name: "login-scram",
        about: "8 at a time: connect, SCRAM-SHA-256, one query, leave",
        kind: Kind::Logins(Proof::Scram),
        settings: QUIET,
        thresholds: &[ratio(1.0, 1.5)],
        ..PLAIN
    },
    Scenario {
        name: "idle-5000",
        about: "5,000 clients that say nothing",
        kind: Kind::Idle,
        clients: 5000,
        settings: &[("max_client_conn", "6000"), ("log_connections", "0"), ("log_disconnections", "0")],
        thresholds: &[at_most(Figure::ClientBytes, 512.0, Some(256.0))],
        ..PLAIN
    },
    Scenario {
        name: "tls-64",
        about: "64 clients over TLS on 20 servers, simple protocol",
        clients: 64,
        tls: Some(Tls::Fresh),
        thresholds: &[ratio(1.2, 1.5)],
        ..PLAIN
    },
    Scenario {
        name: "tls-rows-8",
        about: "8 clients over TLS, results of 100 kB in 1,000 rows",
        answer: Answer::Rows,
        tls: Some(Tls::Fresh),
        thresholds: &[ratio(1.2, 1.5)],
        ..PLAIN
    },
    Scenario {
        name: "login-tls",
        about: "8 at a time: connect, TLS, SCRAM-SHA-256, one query, leave",
        kind: Kind::Logins(Proof::Scram),
        settings: QUIET,
        tls: Some(Tls::Fresh),
        thresholds: &[ratio(1.0, 1.2)],
        ..PLAIN
    },
    Scenario {
        name: "login-tls-resumed",
        about: "8 at a time: connect, an earlier session of TLS, SCRAM-SHA-256, one query, leave",
        kind: Kind::Logins(Proof::Scram),
        settings: QUIET,
        tls: Some(Tls::Resumed),
        thresholds: &[ratio(1.2, 1.5)],
        ..PLAIN
    },
    Scenario {
        name: "idle-tls-5000",
        about: "5,000 clients over TLS that say nothing",
        kind: Kind::Idle,
        clients: 5000,
        settings: &[("max_client_conn", "6000"), ("log_connections", "0"), ("log_disconnections", "0")],
        tls: Some(Tls::Fresh),
        thresholds: &[Threshold {
            figure: Figure::ClientBytesRatio { against: "pgbouncer" },
            must: 1.0,
            should: Some(2.0),
            at_most: false,
        }],
        ..PLAIN
    },
    Scenario {
        name: "half-load-20",
        about: "64 clients at half of one worker's speed, one and two workers, 20 servers",
        kind: Kind::HalfLoad { pool: 20 },
        clients: 64,
        thresholds: HALF_LOAD,
        ..PLAIN
    },
    Scenario {
        name: "half-load-4",
        about: "64 clients at half of one worker's speed, one and two workers, 4 servers",
        kind: Kind::HalfLoad { pool: 4 },
        clients: 64,
        ..PLAIN
    },
    Scenario {
        name: "half-load-1",
        about: "64 clients at half of one worker's speed, one and two workers, 1 server",
        kind: Kind::HalfLoad { pool: 1 },
        clients: 64,
        ..PLAIN
    },
    Scenario {
        name: "pgbench-select",
        about: "pgbench -S -M simple, real PostgreSQL, 32 clients on 20 servers",
        kind: Kind::Pgbench { arguments: "-S -M simple" },
        clients: 32,
        direct: true,
        ..PLAIN
    },
    Scenario {
        name: "pgbench-prepared",
        about: "pgbench -S -M prepared, real PostgreSQL, 32 clients on 20 servers",
        kind: Kind::Pgbench { arguments: "-S -M prepared" },
        clients: 32,
        settings: &[("max_prepared_statements", "200")],
        direct: true,
        ..PLAIN
    },
    Scenario {
        name: "few-1",
        about: "pgbench -S -M simple, 1 client",
        kind: Kind::Few { arguments: "-S -M simple", counted: 8_192 },
        clients: 1,
        direct: true,
        ..PLAIN
    },
    Scenario {
        name: "few-8",
        about: "pgbench -S -M simple, 8 clients",
        kind: Kind::Few { arguments: "-S -M simple", counted: 8_192 },
        clients: 8,
        direct: true,
        ..PLAIN
    },
    Scenario {
        name: "few-64",
        about: "pgbench -S -M simple, 64 clients on 20 servers",
        kind: Kind::Few { arguments: "-S -M simple", counted: 8_192 },
        clients: 64,
        direct: true,
        ..PLAIN
    },
    Scenario {
        name: "few-prepared-64",
        about: "pgbench -S -M prepared, 64 clients on 20 servers",
        kind: Kind::Few { arguments: "-S -M prepared", counted: 8_192 },
        clients: 64,
        settings: &[("max_prepared_statements", "200")],
        direct: true,
        ..PLAIN
    },
    Scenario {
        name: "few-tpcb-64",
        about: "pgbench TPC-B, 64 clients on 20 servers",
        kind: Kind::Few { arguments: "-M simple", counted: 1_024 },
        clients: 64,
        direct: true,
        ..PLAIN
    },
    Scenario {
        name: "pgbench-tpcb",
        about: "pgbench TPC-B, real PostgreSQL, 32 clients on 20 servers",
        kind: Kind::Pgbench { arguments: "-M simple" },
        clients: 32,
        direct: true,
        ..PLAIN
    },
];

/// 300 ns at 3 GHz and one instruction a cycle.
const INSTRUCTIONS_MAX: f64 = 900.0;

const SHARING_COSTS: &[Threshold] = &[
    at_most(Figure::CpuMore { pair: SHARING }, 300.0, None),
    at_most(Figure::SystemCallsMore { pair: SHARING }, 0.01, None),
];

const HALF_LOAD: &[Threshold] =
    &[at_most(Figure::Lends, 0.01, None), at_most(Figure::SystemCallGrowth, 1.05, Some(1.0))];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_fit_a_file_name() {
        for (index, one) in SCENARIOS.iter().enumerate() {
            assert!(one.name.chars().all(|sign| sign.is_ascii_alphanumeric() || sign == '-'), "{}", one.name);
            assert!(SCENARIOS[..index].iter().all(|other| other.name != one.name), "{} twice", one.name);
            assert!(!one.about.is_empty());
        }
    }

    #[test]
    fn what_should_be_is_no_easier_than_what_must_be() {
        for threshold in SCENARIOS.iter().flat_map(|one| one.thresholds) {
            let Some(should) = threshold.should else { continue };
            let harder = if threshold.at_most { should <= threshold.must } else { should >= threshold.must };
            assert!(harder, "{threshold:?}");
        }
    }
}
