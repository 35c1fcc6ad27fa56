//! `bench`: measures pgweir beside PgBouncer and a direct connection. Wiring only; see the library.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use bench::contestant::{Contestant, Workplace};
use bench::machine::said;
use bench::rounds::Pace;
use bench::run::{self, Plan};
use bench::scenario::SCENARIOS;
use bench::{record, report};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

fn main() -> ExitCode {
    let matches = command().get_matches();
    let outcome = match matches.subcommand() {
        Some(("null", matches)) => measure(matches, true),
        Some(("report", matches)) => print_report(matches),
        None => measure(&matches, false),
        Some(_) => {
            SCENARIOS.iter().for_each(|one| println!("{:24} {}", one.name, one.about));
            println!("{:24} user-space instructions per transaction, by callgrind", run::INSTRUCTIONS);
            Ok(true)
        }
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn command() -> Command {
    let flag = |name: &'static str, help: &'static str| Arg::new(name).long(name).help(help).action(ArgAction::SetTrue);
    let text = |name: &'static str, help: &'static str| Arg::new(name).long(name).help(help);
    let count = |name: &'static str, help: &'static str| text(name, help).value_parser(value_parser!(u64));
    let common = [
        flag("quick", "Few short rounds: a look, not a record"),
        text("scenario", "Only these (comma-separated, see `list`)").value_delimiter(','),
        count("rounds", "Paired rounds of each scenario"),
        count("slice-ms", "Length of a timed slice"),
        count("seed", "Seed of the order of contestants"),
        text("placement", "Where load and contestant run: the same core, or one each").value_parser(["same", "split"]),
        text("pgbouncer", "PgBouncer's program; otherwise $PGBOUNCER, or one that is fetched into .cache"),
        text("out", "Folder of the records").default_value("bench/results"),
        flag("keep", "Keep the folder with ini files and logs"),
    ];
    let null = Command::new("null").about("PgBouncer beside itself: every interval should hold 1").args(common.clone());
    let report = Command::new("report").about("Print the table of a record").arg(Arg::new("FILE").required(true));
    let list = Command::new("list").about("Name the scenarios");
    Command::new("bench")
        .about("Measures pgweir beside PgBouncer and a direct connection")
        .args(common)
        .arg(text("pgweir", "pgweir's program; otherwise the one beside this program"))
        .arg(text("contestant", "NAME=PROGRAM[,KEY=VALUE…], instead of pgweir and PgBouncer").action(ArgAction::Append))
        .args_conflicts_with_subcommands(true)
        .subcommands([null, report, list])
}

fn print_report(matches: &ArgMatches) -> Result<bool, String> {
    let path: &String = matches.get_one("FILE").ok_or("which record?")?;
    print!("{}", report::table(&record::read(Path::new(path))?));
    Ok(true)
}

/// Runs the measurement; `false` if a scenario failed or a threshold was missed is not an error of the bench.
fn measure(matches: &ArgMatches, null: bool) -> Result<bool, String> {
    let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let quick = matches.get_flag("quick");
    let number = |name: &str, usual: u64, fast: u64| {
        matches.get_one::<u64>(name).copied().unwrap_or(if quick { fast } else { usual })
    };
    let contestants = contestants(matches, null)?;
    let slice = Duration::from_millis(number("slice-ms", 400, 120));
    let pace = Pace { rounds: number("rounds", 41, 5) as usize, warm_up: slice / 4, slice };
    let seed = number("seed", u64::from(std::process::id()), 1);
    let wanted: Vec<String> = matches.get_many::<String>("scenario").into_iter().flatten().cloned().collect();
    let plan = Plan { pace, quick, seed, split: text("placement") == Some("split"), wanted };
    let place = Workplace::open(matches.get_flag("keep"))?;
    let label = match (null, quick) {
        (true, _) => "null",
        (false, true) => "quick",
        (false, false) => "full",
    };
    run::all(&place, &contestants, &plan, label, &PathBuf::from(text("out").unwrap_or_default()))
}

fn contestants(matches: &ArgMatches, null: bool) -> Result<Vec<Contestant>, String> {
    let pgbouncer = || Contestant::parse(&format!("pgbouncer={}", pgbouncer(matches)?.display()));
    if null {
        let one = pgbouncer()?;
        let other = one.variant("pgbouncer-again", &[]);
        return Ok(vec![one, other]);
    }
    if let Some(given) = matches.get_many::<String>("contestant") {
        return given.map(|text| Contestant::parse(text)).collect();
    }
    let pgweir = match matches.get_one::<String>("pgweir") {
        Some(given) => PathBuf::from(given),
        None => std::env::current_exe().map_err(|error| error.to_string())?.with_file_name("pgweir"),
    };
    Ok(vec![Contestant::parse(&format!("pgweir={},workers=1", pgweir.display()))?, pgbouncer()?])
}

/// PgBouncer as it was named, or one fetched into `.cache`.
fn pgbouncer(matches: &ArgMatches) -> Result<PathBuf, String> {
    let named = matches.get_one::<String>("pgbouncer").map(PathBuf::from);
    if let Some(path) = named.or_else(|| std::env::var_os("PGBOUNCER").map(PathBuf::from)) {
        return Ok(path);
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("fetch-pgbouncer");
    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache");
    eprintln!("PGBOUNCER is not set: looking in .cache, fetching if need be");
    let path = said(&script.display().to_string(), &[&cache.display().to_string()]);
    path.map(PathBuf::from).ok_or(format!("no PgBouncer: run {} to see why, or set PGBOUNCER=PATH", script.display()))
}
