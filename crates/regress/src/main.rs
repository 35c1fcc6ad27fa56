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

use lexopt::prelude::*;

use crate::record::Record;
use crate::route::{Between, Route};
use crate::run::{Bench, Report};
use crate::suite::Suite;
use crate::verdict::Verdict;

const HELP: &str = "\
Runs PostgreSQL's own regression suites through pgweir and counts what passes.

  regress [OPTIONS]

  --suite NAME,NAME   serial, parallel, isolation, contrib (serial)
  --path NAME,NAME    direct, session, stable, transaction, rotate, poison, check, close, pgbouncer-session,
                      pgbouncer-transaction, pgbouncer-rotate (direct, session, transaction, rotate)
  --pgweir PATH       pgweir's program; otherwise the one beside this program
  --pgbouncer PATH    PgBouncer's program; otherwise one is fetched
  --only NAME,NAME    of serial, only these tests after test_setup, with nothing promised: for working on one of them
  --seed N            where the choice between idle servers begins (0)
  --record            keep the table and each test's verdict in crates/regress/results
  --diffs             print the differences of failed tests
  --keep              leave the last run's files in /tmp
";

/// What the command line asks for.
struct Wishes {
    suites: Vec<Suite>,
    routes: Vec<Route>,
    pgweir: PathBuf,
    pgbouncer: Option<PathBuf>,
    only: Vec<String>,
    seed: u32,
    record: bool,
    diffs: bool,
    keep: bool,
}

fn main() -> ExitCode {
    let wishes = match wishes() {
        Ok(Some(wishes)) => wishes,
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(why) => {
            eprintln!("regress: {why}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match all(&wishes) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("regress: {why}");
            ExitCode::from(2)
        }
    }
}

fn wishes() -> Result<Option<Wishes>, String> {
    let beside = std::env::current_exe().ok().and_then(|path| Some(path.parent()?.join("pgweir")));
    let mut wishes = Wishes {
        suites: vec![Suite::Serial],
        routes: ["direct", "session", "transaction", "rotate"].map(Route::named).into_iter().flatten().collect(),
        pgweir: beside.unwrap_or_default(),
        pgbouncer: None,
        only: Vec::new(),
        seed: 0,
        record: false,
        diffs: false,
        keep: false,
    };
    let mut words = lexopt::Parser::from_env();
    while let Some(word) = words.next().map_err(|error| error.to_string())? {
        match word {
            Long("suite") => {
                wishes.suites = value(&mut words)?.split(',').map(Suite::named).collect::<Result<_, _>>()?
            }
            Long("path") => {
                wishes.routes = value(&mut words)?.split(',').map(Route::named).collect::<Result<_, _>>()?
            }
            Long("pgweir") => wishes.pgweir = value(&mut words)?.into(),
            Long("pgbouncer") => wishes.pgbouncer = Some(value(&mut words)?.into()),
            Long("only") => wishes.only = value(&mut words)?.split(',').map(str::to_owned).collect(),
            Long("seed") => wishes.seed = value(&mut words)?.parse().map_err(|_| "--seed wants a number".to_owned())?,
            Long("record") => wishes.record = true,
            Long("diffs") => wishes.diffs = true,
            Long("keep") => wishes.keep = true,
            Long("help") | Short('h') => return Ok(None),
            other => return Err(other.unexpected().to_string()),
        }
    }
    Ok(Some(wishes))
}

fn value(words: &mut lexopt::Parser) -> Result<String, String> {
    let value = words.value().map_err(|error| error.to_string())?;
    value.into_string().map_err(|_| "a value is not UTF-8".to_owned())
}

/// Every suite over every path. True if all kept their promises.
fn all(wishes: &Wishes) -> Result<bool, String> {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR"));
    let promises = ours.join("expected.txt");
    let promises = std::fs::read_to_string(&promises).map_err(|error| format!("{}: {error}", promises.display()))?;
    let needs_pgweir = wishes.routes.iter().any(|route| route.between == Between::Pgweir);
    if needs_pgweir && !wishes.pgweir.is_file() {
        return Err(format!("no pgweir in {}: build it, or say --pgweir PATH", wishes.pgweir.display()));
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
    let pgweir = wishes.pgweir.clone();
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
    let mut reports: Vec<(Report, Option<usize>)> = Vec::new();
    for &suite in &wishes.suites {
        for &route in &wishes.routes {
            let wanted = verdict::expected(&promises, suite.name(), route.name).filter(|_| wishes.only.is_empty());
            let report = run::run(&bench, route, suite)?;
            println!("{}", record::row(&report, wanted));
            show(&report, wishes.diffs);
            if !keeps_promise(&report, wanted) {
                explain(&report, wanted);
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
    Ok(reports.iter().all(|(report, wanted)| keeps_promise(report, *wanted)))
}

/// The script of the bench builds one, or unpacks Debian's.
fn fetch_pgbouncer(ours: &Path) -> Result<PathBuf, String> {
    let script = ours.join("../bench/fetch-pgbouncer");
    let said = apt::run(Command::new(&script).arg(ours.join("../../.cache")))?;
    Ok(said.lines().last().unwrap_or_default().into())
}

/// A pooler that complains at FATAL has broken a promise of its own.
fn keeps_promise(report: &Report, wanted: Option<usize>) -> bool {
    report.complaints.is_empty() && wanted.is_none_or(|wanted| report.count(Verdict::Passed) >= wanted)
}

/// How many lines of a failed test's difference are shown.
const LINES_SHOWN_MAX: usize = 12;

/// What a broken promise looks like from near, and what shows it again.
fn explain(report: &Report, wanted: Option<usize>) {
    let (suite, route) = (report.suite.name(), report.route.name);
    println!(
        "BROKEN PROMISE: {suite} over {route} passed {} of {}",
        report.count(Verdict::Passed),
        wanted.unwrap_or(0)
    );
    report.complaints.iter().for_each(|complaint| println!("  {complaint}"));
    let failed = report.tests(Verdict::Failed);
    for (test, lines) in report.differences.iter().filter(|(test, _)| failed.contains(&test.as_str())) {
        println!("  {test}:");
        lines.iter().take(LINES_SHOWN_MAX).for_each(|line| println!("    {line}"));
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
