//! `bench`: measures pgweir beside PgBouncer and a direct connection. Wiring only; see the library.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use bench::contestant::{Contestant, Premises};
use bench::machine::commit_words;
use bench::plan::{self, Plan};
use bench::relay::{Relay, Route};
use bench::rounds::Pace;
use bench::scenario::SCENARIOS;
use bench::sizing::{self, Part};
use bench::{fairness, logins, rates, record, report, run, select, storm, upkeep, versus};
use clap::{Args, Parser, ValueEnum};
use measure::interrupt;
use measure::machine::said;

/// What stands below the options in the help.
const COMMANDS: &str = "\
Commands:
  (none)                 measure; the record and its table land in crates/bench/results
  ab BEFORE AFTER        two builds of pgweir and PgBouncer in the same rounds: prints the ratios, in about a minute and
                         a half, and keeps nothing (unless --out). BEFORE and AFTER are PROGRAM[,KEY=VALUE...].
                         The same from the tree: make ab BEFORE=PROGRAM, which builds AFTER
  instructions PROGRAM...
                         user-space instructions per transaction, counted by callgrind: one client, simple, simple with each
                         text another, and prepared, 64 clients on 20 servers, texts with tags, classes, and three hosts
                         (--scenario simple,unique,prepared,simple-64,hosts,hosts-64: only these; --rounds 5: medians, all of
                         them in each round)
  select PROGRAM...      the same of pgbench -S through a real PostgreSQL, PgBouncer beside them in turns: simple with 1 client, 8 on
                         4 servers, 64 on 20, and prepared with 8; medians of --rounds (5); PROGRAM may be PROGRAM[,KEY=VALUE...]
  fairness               who waits for whom among crowds of clients of a real PostgreSQL, some ten minutes: with --scenario
                         greedy, weights or crowd only these; --rounds (5), --slice-ms (4000)
  null                   PgBouncer beside itself: every interval should hold 1
  sizing                 pool_size = auto beside fixed sizes, on a PostgreSQL of its own with fsync on; some 90 minutes, a part
                         some 7 (--only LOAD[:CLIENTS],... where LOAD is select, tpcb, wait100, wait500 or wait2000)
  rates                  how exactly limits of 1, 100 and 10000 transactions, queries or logins (1000) a second hold with four
                         workers, delaying and rejecting; some 15 minutes (--only tps|qps|logins|RATE,...)
  logins                 what a login costs, pgweir beside PgBouncer: instructions, system calls, and 4,000 at once; some three minutes
                         (--only trust,scram,scram-of-password; --rounds 0: no timing; --functions: pgweir's costliest functions)
  storm                  latency of running traffic while 5,000 clients log in, at its pgweir and at another one, with and without
                         max_login_concurrency; some three minutes (--only scram,tls-scram)
  upkeep                 what being watched, starting, reloading and asking three hosts for their roles cost, and a minute's storm of reloads;
                         some ten minutes (--only watched,start,reload,scrape,probed,reloads; --seconds (60) of the storm, and of
                         each of up to five rounds of probed)
  report FILE            print the table of a record
  relay INI              be the relay: recv and send, nothing else (contestants' ini files name its sockets)
  list                   name the scenarios";

/// Measures pgweir beside PgBouncer and a direct connection.
#[derive(Debug, Parser)]
#[command(about, after_help = COMMANDS)]
struct Options {
    /// One of those below
    command: Option<String>,
    /// What follows the command
    operands: Vec<String>,
    /// Few short rounds: a look, not a record
    #[arg(long)]
    quick: bool,
    /// Only these
    #[arg(long = "scenario", value_name = "NAME,NAME", value_delimiter = ',')]
    scenarios: Vec<String>,
    /// Paired rounds of each scenario (41)
    #[arg(long, value_name = "N")]
    rounds: Option<u64>,
    /// Length of a timed slice (250)
    #[arg(long, value_name = "N")]
    slice_ms: Option<u64>,
    /// Seed of the order of contestants
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Load and contestant on the same core, or on one each
    #[arg(long, value_enum, default_value_t = Cores::Same)]
    placement: Cores,
    #[command(flatten)]
    programs: Programs,
    /// With the instructions, the 40 costliest functions, source files and source lines
    #[arg(long)]
    functions: bool,
    /// Parts of sizing, rates or logins
    #[arg(long, value_name = "PART,PART", value_delimiter = ',')]
    only: Vec<String>,
    /// Fixed sizes of sizing
    #[arg(long, value_name = "N,N", value_delimiter = ',')]
    sizes: Vec<u32>,
    /// Length of a slice of sizing (4) or rates (12)
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
    /// Keeps sizing's tables for the next time
    #[arg(long, value_name = "FOLDER")]
    cluster: Option<PathBuf>,
    /// Where records go (crates/bench/results)
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Keep the folder with ini files and logs
    #[arg(long)]
    keep: bool,
}

/// Which programs are measured.
#[derive(Debug, Args)]
struct Programs {
    /// pgweir's program; otherwise the one that ships, as `make shipped` has built it
    #[arg(long, value_name = "PATH")]
    pgweir: Option<PathBuf>,
    /// That one was just built from this tree: the record names the commit
    #[arg(long)]
    built: bool,
    /// PgBouncer's; otherwise $PGBOUNCER, or one that is fetched into .cache
    #[arg(long, value_name = "PATH")]
    pgbouncer: Option<PathBuf>,
    /// Instead of pgweir and PgBouncer; may be given again
    #[arg(long = "contestant", value_name = "NAME=PATH[,KEY=VALUE...]")]
    contestants: Vec<String>,
}

/// Where load and contestant run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Cores {
    Same,
    Split,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let outcome = match options.command.as_deref() {
        None => measure(&options, false),
        Some("null") => measure(&options, true),
        Some("ab") => versus(&options),
        Some("fairness") => fairness(&options),
        Some("instructions") => instructions(&options),
        Some("select") => select(&options),
        Some("sizing") => sizing(&options),
        Some("rates") => rates(&options),
        Some("logins") => logins(&options),
        Some("storm") => storm(&options),
        Some("upkeep") => upkeep(&options),
        Some("relay") => relay(&options),
        Some("report") => print_report(&options),
        Some("list") => {
            SCENARIOS.iter().for_each(|one| println!("{:24} {}", one.name, one.about));
            println!("{:24} user-space instructions per transaction, by callgrind", run::INSTRUCTIONS);
            Ok(true)
        }
        Some(other) => Err(format!("no command '{other}'; see --help")),
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

fn print_report(options: &Options) -> Result<bool, String> {
    let path = options.operands.first().ok_or("which record? bench report FILE")?;
    print!("{}", report::table(&record::read(Path::new(path))?));
    Ok(true)
}

/// Runs the measurement. `false`: a scenario could not be measured. A missed threshold stands in the table and is no failure.
fn measure(options: &Options, null: bool) -> Result<bool, String> {
    let contestants = contestants(options, null)?;
    let plan = plan(options, (plan::ROUNDS, plan::SLICE_MS));
    interrupt::listen(interrupt::USUAL)?;
    let place = Premises::open(options.keep)?;
    let label = match (null, options.quick) {
        (true, _) => "null",
        (false, true) => "quick",
        (false, false) => "full",
    };
    let out = options.out.as_deref().unwrap_or(Path::new("crates/bench/results"));
    let (record, whole) = run::all(&place, &contestants, &plan, label, Some(out))?;
    record.table_path().iter().for_each(|path| eprintln!("{}", path.display()));
    Ok(whole)
}

/// pool_size = auto beside fixed sizes.
fn sizing(options: &Options) -> Result<bool, String> {
    let parts = options.only.iter().map(|text| Part::parse(text)).collect::<Result<Vec<_>, _>>()?.concat();
    let plan = sizing::SizingPlan {
        parts: if parts.is_empty() { Part::all() } else { parts },
        sizes: if options.sizes.is_empty() { sizing::SIZES.to_vec() } else { options.sizes.clone() },
        rounds: options.rounds.unwrap_or(7) as usize,
        measured: Duration::from_secs(options.seconds.unwrap_or(4)),
    };
    interrupt::listen(interrupt::USUAL)?;
    let place = Premises::open(options.keep)?;
    let pgweir = pgweir(options, "")?;
    let out = options.out.as_deref().unwrap_or(Path::new("crates/bench/results"));
    let (record, whole) = sizing::all(&place, &pgweir, &plan, options.cluster.as_deref(), Some(out))?;
    record.table_path().iter().for_each(|path| eprintln!("{}", path.display()));
    Ok(whole)
}

/// How exactly limits hold.
fn rates(options: &Options) -> Result<bool, String> {
    let (mut limited, mut per_second) = (Vec::new(), Vec::new());
    for text in &options.only {
        match rates::Limited::ALL.into_iter().find(|limited| limited.setting() == text) {
            Some(named) => limited.push(named),
            None => per_second.push(text.parse().map_err(|_| format!("'{text}' is neither a limit nor a rate"))?),
        }
    }
    let plan = rates::RatesPlan {
        limited: if limited.is_empty() { rates::Limited::ALL.to_vec() } else { limited },
        rates: per_second,
        rounds: options.rounds.unwrap_or(3) as usize,
        measured: Duration::from_secs(options.seconds.unwrap_or(12)),
    };
    interrupt::listen(interrupt::USUAL)?;
    let place = Premises::open(options.keep)?;
    let pgweir = pgweir(options, "")?;
    let out = options.out.as_deref().unwrap_or(Path::new("crates/bench/results"));
    let (record, whole) = rates::all(&place, &pgweir, &plan, Some(out))?;
    record.table_path().iter().for_each(|path| eprintln!("{}", path.display()));
    Ok(whole)
}

/// What a login costs.
fn logins(options: &Options) -> Result<bool, String> {
    let find = |name: &String| {
        let known = logins::LOGINS.iter().find(|one| one.name == name);
        known.copied().ok_or(format!("'{name}' is no way to log in: --only trust,scram,scram-of-password"))
    };
    let wanted = options.only.iter().map(find).collect::<Result<Vec<_>, _>>()?;
    let plan = logins::LoginsPlan {
        logins: if wanted.is_empty() { logins::LOGINS.to_vec() } else { wanted },
        rounds: options.rounds.unwrap_or(if options.quick { 3 } else { 21 }) as usize,
        seed: options.seed.unwrap_or(u64::from(std::process::id())),
        functions: options.functions,
    };
    let contestants = contestants(options, false)?;
    interrupt::listen(interrupt::USUAL)?;
    let place = Premises::open(options.keep)?;
    let out = options.out.as_deref().unwrap_or(Path::new("crates/bench/results"));
    let (record, whole) = logins::all(&place, &contestants, &plan, Some(out))?;
    record.table_path().iter().for_each(|path| eprintln!("{}", path.display()));
    Ok(whole)
}

/// What a storm of logins does to running traffic.
fn storm(options: &Options) -> Result<bool, String> {
    let find = |name: &String| {
        let known = storm::STORMS.iter().find(|one| one.name == name);
        known.copied().ok_or(format!("'{name}' is no storm: --only scram,tls-scram"))
    };
    let wanted = options.only.iter().map(find).collect::<Result<Vec<_>, _>>()?;
    let plan = storm::StormPlan {
        storms: if wanted.is_empty() { storm::STORMS.to_vec() } else { wanted },
        rounds: options.rounds.unwrap_or(if options.quick { 3 } else { 11 }) as usize,
        seed: options.seed.unwrap_or(u64::from(std::process::id())),
    };
    let pgweir = pgweir(options, "")?;
    let at_once = pgweir.variant("pgweir-at-once", &[("max_login_concurrency", "0")]);
    interrupt::listen(interrupt::USUAL)?;
    let place = Premises::open(options.keep)?;
    let out = options.out.as_deref().unwrap_or(Path::new("crates/bench/results"));
    let (record, whole) = storm::all(&place, &[pgweir, at_once], &plan, Some(out))?;
    record.table_path().iter().for_each(|path| eprintln!("{}", path.display()));
    Ok(whole)
}

/// What a pooler costs besides its traffic.
fn upkeep(options: &Options) -> Result<bool, String> {
    let find = |name: &String| {
        let known = upkeep::UpkeepPart::named(name);
        known.ok_or(format!("'{name}' is no part: --only watched,start,reload,scrape,probed,reloads"))
    };
    let wanted = options.only.iter().map(find).collect::<Result<Vec<_>, _>>()?;
    let plan = upkeep::UpkeepPlan {
        parts: if wanted.is_empty() { upkeep::UpkeepPart::ALL.to_vec() } else { wanted },
        rounds: options.rounds.unwrap_or(if options.quick { 3 } else { 21 }) as usize,
        seed: options.seed.unwrap_or(u64::from(std::process::id())),
        storm_s: options.seconds.unwrap_or(if options.quick { 8 } else { 60 }),
    };
    let pgweir = pgweir(options, "")?;
    interrupt::listen(interrupt::USUAL)?;
    let place = Premises::open(options.keep)?;
    let out = options.out.as_deref().unwrap_or(Path::new("crates/bench/results"));
    let (record, whole) = upkeep::all(&place, &pgweir, &plan, Some(out))?;
    record.table_path().iter().for_each(|path| eprintln!("{}", path.display()));
    Ok(whole)
}

/// Where cargo puts what ships, seen from the folder of this program: the profile `dist`.
const SHIPPED: &str = "../dist/pgweir";

/// The one that is named, or the one that ships, with these settings (`,KEY=VALUE`).
fn pgweir(options: &Options, settings: &str) -> Result<Contestant, String> {
    let shipped = std::env::current_exe().map_err(|error| error.to_string())?.with_file_name(SHIPPED);
    let program = options.programs.pgweir.as_ref().unwrap_or(&shipped);
    let mut pgweir = Contestant::parse(&format!("pgweir={}{settings}", program.display()))?;
    pgweir.commit = if options.programs.built && options.programs.pgweir.is_none() { commit_words() } else { None };
    Ok(pgweir)
}

/// Copies bytes until it is killed.
fn relay(options: &Options) -> Result<bool, String> {
    let path = options.operands.first().ok_or("between which sockets? bench relay INI")?;
    let ini = std::fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"))?;
    let mut relay = Relay::open(Route::parse(&ini)?)?;
    loop {
        relay.poll_once(None)?;
    }
}

/// Two builds beside PgBouncer. `false`: a scenario could not be measured.
fn versus(options: &Options) -> Result<bool, String> {
    let [before, after] = &options.operands[..] else { return Err("which two? bench ab BEFORE AFTER".to_owned()) };
    let builds = versus::BUILDS.into_iter().zip([before, after]);
    let mut contestants: Vec<Contestant> =
        builds.map(|(name, text)| versus::build(name, text)).collect::<Result<_, _>>()?;
    contestants.push(Contestant::parse(&format!("pgbouncer={}", pgbouncer(options)?.display()))?);
    let mut plan = Plan { bare: true, ..plan(options, (41, 120)) };
    if plan.wanted.is_empty() {
        plan.wanted = versus::USUAL.map(str::to_owned).to_vec();
    }
    interrupt::listen(interrupt::USUAL)?;
    let place = Premises::open(options.keep)?;
    let (record, whole) = run::all(&place, &contestants, &plan, "ab", options.out.as_deref())?;
    print!("{}", versus::table(&record.value));
    Ok(whole)
}

fn fairness(options: &Options) -> Result<bool, String> {
    let pgweir = pgweir(options, "")?;
    let pgbouncer = Contestant::parse(&format!("pgbouncer={}", pgbouncer(options)?.display()))?;
    let rounds = options.rounds.unwrap_or(if options.quick { 1 } else { 5 }) as usize;
    let slice = Duration::from_millis(options.slice_ms.unwrap_or(if options.quick { 1000 } else { 4000 }));
    let seed = options.seed.unwrap_or(u64::from(std::process::id()));
    let plan = fairness::FairnessPlan { rounds, slice, seed, wanted: options.scenarios.clone() };
    interrupt::listen(interrupt::USUAL)?;
    let place = Premises::open(options.keep)?;
    let out = options.out.as_deref().unwrap_or(Path::new("crates/bench/results"));
    let folder = fairness::run(&place, (&pgweir, &pgbouncer), &plan, out)?;
    eprintln!("{}", folder.display());
    Ok(true)
}

fn instructions(options: &Options) -> Result<bool, String> {
    let programs = programs(options)?;
    interrupt::listen(interrupt::USUAL)?;
    let place = Premises::open(options.keep)?;
    let rounds = options.rounds.unwrap_or(1) as usize;
    run::print_instructions(&place, &programs, &options.scenarios, rounds, options.functions).map(|()| true)
}

fn select(options: &Options) -> Result<bool, String> {
    let mut programs = programs(options)?;
    programs.push(Contestant::parse(&format!("pgbouncer={}", pgbouncer(options)?.display()))?);
    interrupt::listen(interrupt::USUAL)?;
    let place = Premises::open(options.keep)?;
    select::print(&place, &programs, options.rounds.unwrap_or(5) as usize, options.functions).map(|()| true)
}

/// The builds of pgweir that the command names.
fn programs(options: &Options) -> Result<Vec<Contestant>, String> {
    let mut programs = Vec::new();
    for (index, text) in options.operands.iter().enumerate() {
        let path = text.split(',').next().unwrap_or_default();
        let name = Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned());
        let name = name.ok_or(format!("'{path}' names no program"))?;
        // Two programs of one name in two folders are told apart by their place in the line.
        let name = if index == 0 { name } else { format!("{name}-{}", index + 1) };
        programs.push(versus::build(&name, text)?);
    }
    if programs.is_empty() {
        return Err("of which program? bench instructions PROGRAM...".to_owned());
    }
    Ok(programs)
}

/// What was asked for; otherwise so many rounds with slices of so many ms.
fn plan(options: &Options, (rounds, slice_ms): (u64, u64)) -> Plan {
    let quick = options.quick;
    let usual = |given: Option<u64>, usual: u64, fast: u64| given.unwrap_or(if quick { fast } else { usual });
    let slice = Duration::from_millis(usual(options.slice_ms, slice_ms, 120));
    let pace = Pace { rounds: usual(options.rounds, rounds, 5) as usize, warm_up: slice / 4, slice };
    let seed = usual(options.seed, u64::from(std::process::id()), 1);
    Plan { pace, quick, seed, split: options.placement == Cores::Split, wanted: options.scenarios.clone(), bare: false }
}

fn contestants(options: &Options, null: bool) -> Result<Vec<Contestant>, String> {
    let pgbouncer = || Contestant::parse(&format!("pgbouncer={}", pgbouncer(options)?.display()));
    if null {
        let one = pgbouncer()?;
        let other = one.variant("pgbouncer-again", &[]);
        return Ok(vec![one, other]);
    }
    if !options.programs.contestants.is_empty() {
        return options.programs.contestants.iter().map(|text| Contestant::parse(text)).collect();
    }
    Ok(vec![pgweir(options, ",workers=1")?, pgbouncer()?])
}

/// PgBouncer as it was named, or one fetched into `.cache`.
fn pgbouncer(options: &Options) -> Result<PathBuf, String> {
    if let Some(path) = options.programs.pgbouncer.clone().or_else(|| std::env::var_os("PGBOUNCER").map(PathBuf::from))
    {
        return Ok(path);
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("fetch-pgbouncer");
    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache");
    eprintln!("PGBOUNCER is not set: looking in .cache, fetching if need be");
    let path = said(&script.display().to_string(), &[&cache.display().to_string()]);
    path.map(PathBuf::from).ok_or(format!("no PgBouncer: run {} to see why, or set PGBOUNCER=PATH", script.display()))
}
