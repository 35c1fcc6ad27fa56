//! One suite over one path: a fresh PostgreSQL, a pooler with its servers open, the tests, and their verdicts.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use demo::{Cluster, Guard, Options};
use outer::{Client, Pooler};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::place::Place;
use crate::route::{Between, Route};
use crate::stock::Stock;
use crate::suite::{Part, Suite, parts};
use crate::verdict::{self, Outcome, Verdict};
use crate::watchdog;

/// A suite that takes longer than this hangs somewhere.
const PATIENCE: Duration = Duration::from_secs(1500);

/// What stays the same for all runs.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) stock: Stock,
    pub(crate) place: Place,
    pub(crate) pgweir: PathBuf,
    pub(crate) pgbouncer: Option<PathBuf>,
    /// Differences that cannot be avoided.
    pub(crate) lists: PathBuf,
    /// Of the serial suite, only these; empty: all.
    pub(crate) only: Vec<String>,
    /// `chaos_seed`
    pub(crate) seed: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) route: Route,
    pub(crate) suite: Suite,
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) wall: Duration,
    /// Lock waits that the watchdog ended.
    pub(crate) cancelled: Vec<String>,
    /// Transactions that ran on another server than their client's last one, as far as the pooler counts them.
    pub(crate) rotated: Option<u64>,
    /// What keeping sessions came to, where that is done.
    pub(crate) pinned: Option<Pinned>,
    /// What the pooler wrote at FATAL, or what kept the tests from their end.
    pub(crate) complaints: Vec<String>,
    /// The removed and added lines of failed tests.
    pub(crate) differences: Vec<(String, Vec<String>)>,
}

/// Transactions, and those that ran in sessions that kept their server from an earlier one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pinned {
    pub(crate) transactions: u64,
    pub(crate) pinned: u64,
    /// One that is pinned for several reasons counts for each.
    pub(crate) reasons: BTreeMap<String, u64>,
    /// State that was found though nothing was suspected of it.
    pub(crate) missed: u64,
}

impl Pinned {
    fn add(&mut self, other: Pinned) {
        self.transactions += other.transactions;
        self.pinned += other.pinned;
        self.missed += other.missed;
        for (reason, count) in other.reasons {
            *self.reasons.entry(reason).or_default() += count;
        }
    }
}

impl Report {
    pub(crate) fn count(&self, verdict: Verdict) -> usize {
        self.outcomes.iter().filter(|outcome| outcome.verdict == verdict).count()
    }

    pub(crate) fn tests(&self, verdict: Verdict) -> Vec<&str> {
        let those = self.outcomes.iter().filter(|outcome| outcome.verdict == verdict);
        those.map(|outcome| outcome.test.as_str()).collect()
    }
}

/// Runs a suite over a path.
///
/// # Errors
/// Whatever kept the tests from being run. A failed test is no error.
pub(crate) fn run(bench: &Bench, route: Route, suite: Suite) -> Result<Report, String> {
    let begun = Instant::now();
    let binaries = bench.stock.binaries(&bench.place.tree)?;
    let extra = [("max_prepared_transactions", "2"), ("log_lock_waits", "on"), ("log_checkpoints", "off")];
    let extra = extra.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let options = Options { max_connections: 100, extra, ..Options::default() };
    let cluster = Cluster::start(&binaries, options).map_err(|error| error.to_string())?;
    let mut report = Report {
        route,
        suite,
        outcomes: Vec::new(),
        wall: Duration::ZERO,
        cancelled: Vec::new(),
        rotated: None,
        pinned: None,
        complaints: Vec::new(),
        differences: Vec::new(),
    };
    for mut part in parts(&bench.stock, suite)? {
        if suite == Suite::Serial && !bench.only.is_empty() {
            part.arguments = ["test_setup".to_owned()].into_iter().chain(bench.only.iter().cloned()).collect();
        }
        run_part(bench, &cluster, &part, &mut report)?;
    }
    report.wall = begun.elapsed();
    cluster.stop().map_err(|error| error.to_string())?;
    Ok(report)
}

fn run_part(bench: &Bench, cluster: &Cluster, part: &Part, report: &mut Report) -> Result<(), String> {
    make_database(cluster, part)?;
    let pooler = start_pooler(bench, cluster, report)?;
    if let Some(pooler) = &pooler {
        open_servers(pooler.address(), cluster.user(), &part.database, report.route.servers)?;
    }
    let from = bench.stock.source(part.folder).join(&part.module);
    let inputs = bench.place.bring(&from, "suite")?;
    let log = bench.place.folder.join("said");
    let mut tests = start_tests(bench, cluster, pooler.as_ref(), part, report, &inputs, &log)?;
    // Should we be killed, the tests end and the folder goes.
    let place = &bench.place;
    let guard = Guard::start(&place.folder, "KILL", place.account.as_ref()).and_then(|mut guard| {
        guard.watch(tests.id())?;
        Ok(guard)
    });
    let _guard = guard.map_err(|error| error.to_string())?;
    let ended = watchdog::watch(cluster, PATIENCE, &mut report.cancelled, || tests.try_wait().ok().flatten().is_some());
    if let Err(why) = ended {
        let pid = i32::try_from(tests.id()).ok().and_then(Pid::from_raw).ok_or("a process has a number")?;
        let _ = kill_process_group(pid, Signal::KILL);
        let _ = tests.wait();
        // What came before counts, and what is missing has not passed.
        report.complaints.push(why);
    }
    collect(bench, part, &inputs, &log, report)?;
    if let Some(mut pooler) = pooler {
        if let Some(count) = rotated(&pooler, cluster.user()) {
            report.rotated = Some(report.rotated.unwrap_or(0) + count);
        }
        if let Some(pinned) = pinned(&pooler, cluster.user()) {
            report.pinned.get_or_insert_default().add(pinned);
        }
        let log = pooler.log();
        let used = verdict::servers_used(&log);
        for outcome in &mut report.outcomes {
            outcome.servers = outcome.servers.max(used.get(outcome.test.as_str()).copied());
        }
        report.complaints.extend(log.lines().filter(|line| line.contains("] FATAL ")).map(str::to_owned));
        if !pooler.is_alive() {
            report.complaints.push("the pooler ended by itself".to_owned());
        }
    }
    Ok(())
}

/// The database as `pg_regress` would make it. Directly: CREATE DATABASE is not what is tested.
fn make_database(cluster: &Cluster, part: &Part) -> Result<(), String> {
    let name = &part.database;
    let ask = |database: &str, sql: &str| cluster.psql(database, sql).map_err(|error| format!("{sql}: {error}"));
    ask("postgres", &format!("drop database if exists {name} with (force)"))?;
    ask("postgres", &format!("create database {name} template template0"))?;
    for setting in [
        "lc_messages to 'C'",
        "lc_monetary to 'C'",
        "lc_numeric to 'C'",
        "lc_time to 'C'",
        "bytea_output to 'hex'",
        "timezone_abbreviations to 'Default'",
    ] {
        ask("postgres", &format!("alter database {name} set {setting}"))?;
    }
    for extension in &part.extensions {
        ask(name, &format!("create extension if not exists \"{extension}\""))?;
    }
    Ok(())
}

fn start_pooler(bench: &Bench, cluster: &Cluster, report: &Report) -> Result<Option<Pooler>, String> {
    let route = report.route;
    let program: &Path = match route.between {
        Between::Nobody => return Ok(None),
        Between::Pgweir => &bench.pgweir,
        Between::Pgbouncer => bench.pgbouncer.as_deref().ok_or("there is no PgBouncer: name it with --pgbouncer")?,
    };
    let ini = route.ini(cluster.socket_dir(), cluster.port(), cluster.user(), report.suite.wait_s())
        + &seed(route, bench.seed);
    let users = format!("\"{}\" \"\"\n", cluster.user());
    Ok(Some(Pooler::start_program(program, &ini, &users, None, &[("PGWEIR_CHAOS", "1")])))
}

/// A line of the file for paths that choose servers by chance.
fn seed(route: Route, seed: u32) -> String {
    let chooses = route.settings.iter().any(|&(name, _)| name == "chaos_rotate" || name == "chaos_poison");
    if chooses { format!("chaos_seed = {seed}\n") } else { String::new() }
}

/// What SHOW WORKERS counts, where it does.
fn rotated(pooler: &Pooler, user: &str) -> Option<u64> {
    sum(&Client::login(pooler.address(), user, "pgbouncer").ok()?.query("show workers").ok()?, "rotated")
}

/// What SHOW FIDELITY and its reasons count, where sessions are kept.
fn pinned(pooler: &Pooler, user: &str) -> Option<Pinned> {
    let mut console = Client::login(pooler.address(), user, "pgbouncer").ok()?;
    let all = console.query("show fidelity").ok()?;
    let mut pinned = Pinned { transactions: sum(&all, "xact_count")?, ..Pinned::default() };
    pinned.pinned = sum(&all, "pinned_xact_count")?;
    pinned.missed = sum(&all, "missed_count")?;
    let reasons = console.query("show fidelity_reasons").ok()?;
    let place = |name: &str| reasons.names.iter().position(|column| column == name);
    let (reason, count) = (place("reason")?, place("pinned_xact_count")?);
    for row in &reasons.rows {
        let count = row.get(count)?.as_deref()?.parse::<u64>().ok()?;
        *pinned.reasons.entry(row.get(reason)?.clone()?).or_default() += count;
    }
    (!all.rows.is_empty()).then_some(pinned)
}

/// Of all rows.
fn sum(answer: &outer::Answer, column: &str) -> Option<u64> {
    let column = answer.names.iter().position(|name| name == column)?;
    answer.rows.iter().map(|row| row.get(column)?.as_deref()?.parse::<u64>().ok()).sum()
}

/// As many transactions at the same time as there shall be servers.
fn open_servers(address: SocketAddr, user: &str, database: &str, count: u32) -> Result<(), String> {
    let gone = |gone: outer::Gone| format!("a server cannot be opened ahead: {gone}");
    let mut clients = Vec::new();
    for _ in 0..count {
        let mut client = Client::login(address, user, database).map_err(gone)?;
        client.query("begin").map_err(gone)?;
        clients.push(client);
    }
    for client in &mut clients {
        client.query("commit").map_err(gone)?;
    }
    Ok(())
}

fn start_tests(
    bench: &Bench,
    cluster: &Cluster,
    pooler: Option<&Pooler>,
    part: &Part,
    report: &Report,
    inputs: &Path,
    log: &Path,
) -> Result<Child, String> {
    let tree = &bench.place.tree;
    let bin = bench.stock.binaries(tree)?.dir;
    let socket_dir = cluster.socket_dir().display().to_string();
    let (host, port) = pooler.map_or((socket_dir, cluster.port()), |pooler| ("127.0.0.1".to_owned(), pooler.port));
    let mut command = Command::new(bench.stock.tool(tree, part.tool));
    command.arg(format!("--inputdir={}", inputs.display())).arg(format!("--outputdir={}", inputs.display()));
    command.arg(format!("--dlpath={}", bench.place.folder.join("lib").display()));
    command.arg(format!("--bindir={}", bin.display())).arg("--use-existing");
    command.arg(format!("--dbname={}", part.database)).arg(format!("--user={}", cluster.user()));
    command.arg(format!("--host={host}")).arg(format!("--port={port}"));
    command.args(part.arguments.iter().map(|word| word.replace("{inputs}", &inputs.display().to_string())));
    let file = fs::File::create(log).map_err(|error| format!("{}: {error}", log.display()))?;
    let copy = file.try_clone().map_err(|error| error.to_string())?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    command.env_clear().env("PATH", path).current_dir(inputs);
    if pooler.is_some() && report.route.database.is_empty() {
        // The isolation tester asks whether a step waits by the pid that its client was told. Where that is not the
        // backend's, it would wait for five minutes at each such step.
        command.env("PGISOLATIONTIMEOUT", "1");
    }
    command.stdin(Stdio::null()).stdout(file).stderr(copy).process_group(0);
    if let Some(account) = &bench.place.account {
        account.apply(&mut command);
    }
    command.spawn().map_err(|error| format!("cannot run {}: {error}", part.tool))
}

/// Reads what the tests left behind.
fn collect(bench: &Bench, part: &Part, inputs: &Path, log: &Path, report: &mut Report) -> Result<(), String> {
    let said = fs::read(log).map_err(|error| format!("{}: {error}", log.display()))?;
    let said = String::from_utf8_lossy(&said);
    let mut outcomes = verdict::outcomes(&said);
    if outcomes.is_empty() {
        let last: Vec<&str> = said.lines().rev().take(5).collect();
        return Err(format!("{} ran no test: {}", part.tool, last.into_iter().rev().collect::<Vec<_>>().join(" / ")));
    }
    let diffs = inputs.join(if part.tool.starts_with("isolation") {
        "output_iso/regression.diffs"
    } else {
        "regression.diffs"
    });
    // Without a failure there is no such file.
    let text = fs::read(diffs).unwrap_or_default();
    let mut differences = verdict::differences(&String::from_utf8_lossy(&text));
    for outcome in &mut outcomes {
        let difference = differences.remove(&outcome.test);
        let allowed = verdict::is_allowed(&bench.lists, report.route.mode, &outcome.test, difference.as_ref());
        if !part.module.is_empty() {
            outcome.test = format!("{}/{}", part.module, outcome.test);
        }
        if outcome.verdict == Verdict::Failed && allowed {
            outcome.verdict = Verdict::Allowed;
        }
        if let Some(difference) = difference {
            report.differences.push((outcome.test.clone(), difference));
        }
    }
    report.outcomes.extend(outcomes);
    Ok(())
}
