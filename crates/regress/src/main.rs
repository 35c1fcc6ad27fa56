//! PostgreSQL's own regression suites, run through the pooler and counted: can an application tell the difference?
//!
//! ```text
//!   Stock ──► Place ──┬─► Cluster   fresh for every suite and path          (demo)
//!   (cache)  (/tmp)   ├─► Pooler    as the path wants it, servers open      (outer, route.rs)
//!                     └─► pg_regress ──► verdicts ──► table, record, exit status
//! ```
//!
//! Promises: the exit status is 0 only if each suite passed as many tests over each path as `expected.txt` says. Does
//! not: compare single tests; a lost CREATE fails every later test that uses its table, so only counts tell.

mod apt;
mod place;
mod record;
mod route;
mod run;
mod stock;
mod suite;
mod verdict;
mod watchdog;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Parser;

use crate::record::Record;
use crate::route::{Between, Route};
use crate::run::{Bench, Report};
use crate::suite::Suite;
use crate::verdict::{Promise, Verdict};

/// Runs PostgreSQL's own regression suites through pgweir and counts what passes.
#[derive(Parser)]
struct Wishes {
    /// serial, parallel, isolation, contrib
    #[arg(long = "suite", value_name = "NAME,NAME", value_delimiter = ',', value_parser = Suite::named, default_value = "serial")]
    suites: Vec<Suite>,
    /// direct, session, stable, transaction, rotate, poison, check, close, pgbouncer-session, pgbouncer-transaction, pgbouncer-rotate
    #[arg(long = "path", value_name = "NAME,NAME", value_delimiter = ',', value_parser = Route::named,
          default_values = ["direct", "session", "transaction", "rotate"])]
    routes: Vec<Route>,
    /// pgweir's program; otherwise the one beside this program
    #[arg(long, value_name = "PATH")]
    pgweir: Option<PathBuf>,
    /// PgBouncer's program; otherwise one is fetched
    #[arg(long, value_name = "PATH")]
    pgbouncer: Option<PathBuf>,
    /// Of serial, only these tests after test_setup, with nothing promised: for working on one of them
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Where the choice between idle servers begins
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u32,
    /// Keep the table and each test's verdict in crates/regress/results
    #[arg(long)]
    record: bool,
    /// Print the differences of failed tests
    #[arg(long)]
    diffs: bool,
    /// Leave the last run's files in /tmp
    #[arg(long)]
    keep: bool,
}

fn main() -> ExitCode {
    match all(&Wishes::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("regress: {why}");
            ExitCode::from(2)
        }
    }
}

/// Every suite over every path. True if all kept their promises.
fn all(wishes: &Wishes) -> Result<bool, String> {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR"));
    let promises = ours.join("expected.txt");
    let promises = std::fs::read_to_string(&promises).map_err(|error| format!("{}: {error}", promises.display()))?;
    let needs_pgweir = wishes.routes.iter().any(|route| route.between == Between::Pgweir);
    let beside = || Some(std::env::current_exe().ok()?.parent()?.join("pgweir"));
    let pgweir = wishes.pgweir.clone().or_else(beside).unwrap_or_default();
    if needs_pgweir && !pgweir.is_file() {
        return Err(format!("no pgweir in {}: build it, or say --pgweir PATH", pgweir.display()));
    }
    let stock = stock::Stock::get(&ours.join("../../.cache"), &mut |line| eprintln!("{line}"))?;
    let versions = format!("PostgreSQL {}", stock.version);
    println!("{versions}");
    let place = place::Place::open(&stock, wishes.keep)?;
    let needs_pgbouncer = wishes.routes.iter().any(|route| route.between == Between::Pgbouncer);
    let pgbouncer = match &wishes.pgbouncer {
        None if needs_pgbouncer => Some(fetch_pgbouncer(ours)?),
        named => named.clone(),
    };
    let bench = Bench {
        stock,
        place,
        pgweir,
        pgbouncer,
        lists: ours.join("allowed"),
        only: wishes.only.clone(),
        seed: wishes.seed,
    };
    let results = ours.join("results");
    let record = if wishes.record { Some(Record::begin(&results, &versions)?) } else { None };
    let mut reports: Vec<(Report, Option<Promise>)> = Vec::new();
    for &suite in &wishes.suites {
        for &route in &wishes.routes {
            let wanted = verdict::expected(&promises, suite.name(), route.name).filter(|_| wishes.only.is_empty());
            let report = run::run(&bench, route, suite)?;
            println!("{}", record::row(&report, wanted.as_ref()));
            show(&report, wishes.diffs);
            if !keeps_promise(&report, wanted.as_ref()) {
                explain(&report, wanted.as_ref());
            }
            reports.push((report, wanted));
            if let Some(record) = &record {
                record.write(&reports)?;
            }
        }
    }
    println!("\n{}", record::table(&reports));
    if let Some(record) = &record {
        println!("kept in {}", record.path().display());
    }
    Ok(reports.iter().all(|(report, wanted)| keeps_promise(report, wanted.as_ref())))
}

/// The script of the bench builds one, or unpacks Debian's.
fn fetch_pgbouncer(ours: &Path) -> Result<PathBuf, String> {
    let script = ours.join("../bench/fetch-pgbouncer");
    let said = apt::run(Command::new(&script).arg(ours.join("../../.cache")))?;
    Ok(said.lines().last().unwrap_or_default().into())
}

/// A pooler that complains at FATAL has broken a promise of its own.
fn keeps_promise(report: &Report, wanted: Option<&Promise>) -> bool {
    report.complaints.is_empty() && wanted.is_none_or(|wanted| wanted.is_kept(&report.outcomes))
}

/// How many lines of a failed test's difference are shown.
const LINES_SHOWN_MAX: usize = 24;

/// What a broken promise looks like from near, and what shows it again.
fn explain(report: &Report, wanted: Option<&Promise>) {
    let (suite, route) = (report.suite.name(), report.route.name);
    println!(
        "BROKEN PROMISE: {suite} over {route} passed {} of {}",
        report.count(Verdict::Passed),
        wanted.map_or(0, |wanted| wanted.passed)
    );
    report.complaints.iter().for_each(|complaint| println!("  {complaint}"));
    let failed = report.tests(Verdict::Failed);
    for (test, lines) in report.differences.iter().filter(|(test, _)| failed.contains(&test.as_str())) {
        println!("  {test}, what came first:");
        // An error tells more than the rows that are missing.
        let (found, missing): (Vec<&String>, Vec<&String>) = lines.iter().partition(|line| line.starts_with('+'));
        found.into_iter().chain(missing).take(LINES_SHOWN_MAX).for_each(|line| println!("    {line}"));
        if lines.len() > LINES_SHOWN_MAX {
            println!("    ({} lines more)", lines.len() - LINES_SHOWN_MAX);
        }
    }
    println!("  again: make test-regress ARGS=\"--suite {suite} --path {route} --diffs\"");
    if report.suite == Suite::Serial && !failed.is_empty() {
        println!("  only these: make test-regress ARGS=\"--path {route} --only {} --diffs\"", failed.join(","));
    }
}

fn show(report: &Report, diffs: bool) {
    for text in &report.cancelled {
        println!("  waited for a lock: {text}");
    }
    let shown = report.differences.iter().filter(|_| diffs);
    for (test, lines) in shown {
        println!("  {test}:\n    {}", lines.join("\n    "));
    }
}
