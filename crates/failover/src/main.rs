//! The command line: which cases, which contestants, how often, and where the record is written.

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use failover::network::Network;
use failover::record::Record;
use failover::{Case, Cluster, Contestant, Plan, Pool, Stock, play};
use measure::interrupt;

/// A client that has to wait longer than this for the new primary counts as never served again.
const SERVED_WITHIN: Duration = Duration::from_secs(15);

/// Lets a PostgreSQL cluster under Patroni fail, and shows what its clients see.
#[derive(Debug, Parser)]
struct Options {
    /// The pgweir to measure; else $PGWEIR_BIN
    #[arg(long)]
    pgweir: Option<PathBuf>,
    /// Words about that build for the record, such as its commit
    #[arg(long)]
    build: Option<String>,
    /// The PgBouncer beside it; else $PGBOUNCER
    #[arg(long)]
    pgbouncer: Option<PathBuf>,
    /// Any of pgweir, pgbouncer, direct; they take turns in this order
    #[arg(long, value_delimiter = ',', default_value = "pgweir,pgbouncer,direct")]
    contestants: Vec<String>,
    /// Any of switchover, kill9, frozen, zombie, etcd-away, restart, cut (as root), two-writable; all but cut if none is named
    #[arg(long, value_delimiter = ',')]
    cases: Vec<String>,
    /// Any of own (a connection for each client), hikari, psycopg, node: applications with a pool of their own, through a pooler only
    #[arg(long, value_delimiter = ',', default_value = "own")]
    clients_of: Vec<String>,
    /// How often each case is run with each contestant
    #[arg(long, default_value_t = 1)]
    rounds: u32,
    #[arg(long, default_value_t = 200)]
    clients: usize,
    /// The folder of the record; runs are added to those that are there
    #[arg(long, default_value = "target/failover")]
    out: PathBuf,
    /// Prints the table of the record, and runs nothing
    #[arg(long)]
    table: bool,
    /// Gives each host a network of its own, as the case cut has it
    #[arg(long)]
    namespaces: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("failover: {error}");
            ExitCode::FAILURE
        }
    }
}

/// `false`: some runs have failed.
fn run(options: &Options) -> Result<bool, String> {
    let record = Record::open(&options.out)?;
    if options.table {
        print!("{}", record.page()?);
        return Ok(true);
    }
    let named = options.cases.iter().map(|name| Case::parse(name)).collect::<Result<Vec<_>, _>>()?;
    let usual = || Case::ALL.into_iter().filter(|case| !case.needs_cables()).collect();
    let cases: Vec<Case> = if named.is_empty() { usual() } else { named };
    let contestants =
        options.contestants.iter().map(|name| contestant(name, options)).collect::<Result<Vec<_>, _>>()?;
    let pools = options.clients_of.iter().map(|name| pool(name)).collect::<Result<Vec<_>, _>>()?;
    let pairs = contestants.iter().flat_map(|contestant| pools.iter().map(move |pool| (contestant, pool)));
    let pairs: Vec<_> = pairs.filter(|(contestant, pool)| contestant.is_pooler() || pool.is_none()).collect();
    if pairs.is_empty() {
        return Err(
            "applications with pools of their own come through a pooler: --contestants pgweir,pgbouncer".to_owned()
        );
    }
    interrupt::listen(interrupt::WITH_THE_TERMINAL)?;
    let stock = Stock::find()?;
    let needs_cables = options.namespaces || cases.iter().any(|case| case.needs_cables());
    let start = || {
        let network = if needs_cables { Network::namespaces()? } else { Network::Loopback };
        eprintln!("starting etcd and three PostgreSQL {} under Patroni", stock.postgresql.version);
        Cluster::start(&stock, network)
    };
    let mut cluster = start()?;
    let mut is_whole = true;
    for case in cases {
        for turn in 0..options.rounds as usize * pairs.len() {
            let (contestant, pool) = pairs[turn % pairs.len()];
            let plan = Plan {
                case,
                contestant: contestant.clone(),
                pool: pool.clone(),
                clients: options.clients,
                patience: SERVED_WITHIN,
            };
            let began = Instant::now();
            let of = pool.iter().map(|pool| format!(", {}", pool.name)).collect::<String>();
            eprint!("{}, {}{of}: ", case.name(), plan.contestant.name);
            match play(&mut cluster, &plan) {
                Ok(played) => {
                    record.add(&played)?;
                    eprintln!("{:.0} s\n  {}", began.elapsed().as_secs_f64(), played.outcome.to_json());
                }
                Err(error) => {
                    interrupt::report(&error);
                    interrupt::check()?;
                    is_whole = false;
                    // A cluster that was left in the middle of a case is not worth repairing.
                    drop(cluster);
                    cluster = start()?;
                }
            }
        }
    }
    print!("{}", record.page()?);
    Ok(is_whole)
}

/// `None`: each client has a connection of its own.
fn pool(name: &str) -> Result<Option<Pool>, String> {
    if name == "own" { Ok(None) } else { Pool::find(name).map(Some) }
}

fn contestant(name: &str, options: &Options) -> Result<Contestant, String> {
    let program = |given: &Option<PathBuf>, variable: &str| {
        let found = given.clone().or_else(|| env::var_os(variable).map(PathBuf::from));
        found.ok_or_else(|| format!("where is {name}? --{name} or ${variable}"))
    };
    match name {
        "pgweir" => {
            let pgweir = Contestant::pgweir(&program(&options.pgweir, "PGWEIR_BIN")?)?;
            Ok(options.build.iter().fold(pgweir, |pgweir, build| pgweir.of_build(build)))
        }
        "pgbouncer" => {
            let built = Path::new(".cache/pgbouncer/pgbouncer").to_owned();
            program(&options.pgbouncer, "PGBOUNCER").or(Ok(built)).and_then(|path| Contestant::pgbouncer(&path))
        }
        "direct" => Ok(Contestant::direct()),
        _ => Err(format!("no contestant '{name}': pgweir, pgbouncer, direct")),
    }
}
