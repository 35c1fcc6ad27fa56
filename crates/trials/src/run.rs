//! A whole run: PostgreSQL, tables, every test in rounds, and what is written of it.
//!
//! Promises: contestants take turns within a round, in an order that differs from round to round; what was measured is written
//! even if the run is interrupted.

use std::time::Duration;

use ask::{Monitor, Target};
use demo::Cluster;
use measure::interrupt;
use measure::machine::{load_average, machine_memory, raise_descriptor_limit};
use measure::process;
use measure::statistics::Seeded;

use crate::contestant::Program;
use crate::driver::Length;
use crate::machine;
use crate::needs;
use crate::options::Options;
use crate::page::page;
use crate::pgbench;
use crate::plan::{Trial, chosen};
use crate::progress::Progress;
use crate::record::Record;
use crate::sample::{Metric, Way, number};
use crate::slice::{Around, Ground, slice};
use crate::table;
use crate::tables::Tables;
use crate::target::{Embedded, monitor};

/// Connections beside those of the load: ours, a person's, workers.
const SPARE: u32 = 30;
/// Servers to leave to others in a database that is not ours.
const COURTESY: u64 = 5;

/// Runs it, prints the table, writes the record.
///
/// # Errors
/// In words for a person.
pub fn run(options: &Options) -> Result<(), String> {
    let mut trials = chosen(&options.only)?;
    if options.quick {
        trials = trials.into_iter().map(Trial::shortened).collect();
    }
    needs::check_files(&trials, raise_descriptor_limit())?;
    interrupt::listen(interrupt::WITH_THE_TERMINAL)?;
    let pgbouncer = Program::pgbouncer()?;
    let pgweir = Program::pgweir(&options.pgweir, &options.version)?;
    let pgbench = pgbench::find();
    let has = Has { pgbouncer: pgbouncer.is_some(), pgbench: pgbench.is_some() };
    let mut progress = Progress::new(expected(&trials, options.rounds, has));
    // First of all: millions of rows are not made for a record that cannot be written.
    let mut record = Record::begin(options.out.as_deref(), &trials)?;
    let (cluster, mut target) = server(options, &trials, &progress)?;
    let mut monitor = monitor(&target)?;
    let around = around(cluster.as_ref(), &mut monitor)?;
    progress.doing(&needs::described(
        &trials,
        options.scale,
        progress.expected(),
        &place(options, &around, &mut monitor)?,
    ));
    let mut tables = Tables::make(monitor, options.scale, &progress)?;
    target.verifier = verifier(&mut tables.monitor);
    let ground =
        Ground { target: &target, pgweir: &pgweir, pgbouncer: pgbouncer.as_ref(), pgbench: pgbench.as_ref(), around };
    record.results.facts = machine::facts(options, &ground, cluster.is_some(), &mut tables.monitor)?;
    progress.begin();
    let mut outcome = Ok(());
    for trial in &trials {
        outcome = rounds(&ground, &mut tables, trial, options.rounds, &progress, &mut record);
        if outcome.is_err() {
            break;
        }
    }
    record.results.facts.push(("load average after".to_owned(), load_average()));
    drop(tables);
    drop(cluster);
    if !record.results.samples.0.is_empty() {
        println!("{}", table::text(&record.results));
        record.finish(&table::markdown(&record.results), &page(&record.results))?;
        println!("\n{}", record.files());
    }
    outcome
}

/// The user's PostgreSQL, or one of our own.
fn server(options: &Options, trials: &[Trial], progress: &Progress) -> Result<(Option<Cluster>, Target), String> {
    if let Some(target) = &options.target {
        return Ok((None, target.clone()));
    }
    let most = trials.iter().map(Trial::connections).max().unwrap_or(0);
    let max_connections = u32::try_from(most).map_err(|_| "so many connections there cannot be")? + SPARE;
    progress.doing(&format!("starting a PostgreSQL that takes {max_connections} connections"));
    let embedded = Embedded { max_connections, fsync: options.fsync, memory_limit: options.memory_limit };
    let (cluster, target) = embedded.start(&options.cache)?;
    Ok((Some(cluster), target))
}

/// Only a superuser may read it; everybody else does without.
fn verifier(monitor: &mut Monitor) -> Option<String> {
    let found = monitor.ask("SELECT rolpassword FROM pg_authid WHERE rolname = current_user").ok()?;
    found.into_iter().find(|text| text.starts_with("SCRAM-SHA-256$"))
}

/// What is there besides us.
fn around(cluster: Option<&Cluster>, monitor: &mut Monitor) -> Result<Around, String> {
    let courtesy = if cluster.is_some() { 0 } else { COURTESY };
    let room = monitor.room()?.saturating_sub(courtesy);
    let backend = u32::try_from(monitor.number("SELECT pg_backend_pid()")?).unwrap_or(0);
    // A server elsewhere may have a number that is somebody else's here.
    let is_here =
        |parent: &u32| process::name(*parent).starts_with("post") && process::name(backend).starts_with("post");
    let postmaster = match cluster {
        Some(cluster) => Some(cluster.pid()),
        None => process::parent_of(backend).filter(is_here),
    };
    Ok(Around { postmaster, room })
}

/// Where PostgreSQL is, and what there is of memory.
fn place(options: &Options, around: &Around, monitor: &mut Monitor) -> Result<needs::Place, String> {
    const BLOCKS: &str = "SELECT setting::bigint * 8192 FROM pg_settings WHERE name = 'shared_buffers'";
    let (_, available) = machine_memory();
    let memory = options.memory_limit.map_or(available, |limit| limit.min(available));
    let shared_buffers = monitor.number(BLOCKS)?;
    Ok(needs::Place { room: around.room, shared_buffers, is_here: around.postmaster.is_some(), memory })
}

/// Programs that this machine may have.
#[derive(Clone, Copy)]
struct Has {
    pgbouncer: bool,
    pgbench: bool,
}

/// All rounds of one test.
fn rounds(
    ground: &Ground<'_>,
    tables: &mut Tables,
    trial: &Trial,
    rounds: u32,
    progress: &Progress,
    record: &mut Record,
) -> Result<(), String> {
    let mut random = Seeded::new(trial.clients as u64);
    for round in 1..=rounds {
        let has = Has { pgbouncer: ground.pgbouncer.is_some(), pgbench: ground.pgbench.is_some() };
        let mut ways = ways(trial, has);
        random.shuffle(&mut ways);
        for way in ways {
            let what = format!("{}, round {round} of {rounds}: {}", trial.name, way.label());
            progress.step(&what);
            let sample = slice(ground, tables, trial, way, round)?;
            progress.finished(slice_expected(trial, way));
            let came = [Metric::Tps, Metric::LatencyMean, Metric::Connect].map(|metric| sample.values.get(&metric));
            if let [Some(tps), Some(latency), Some(connect)] = came.map(|value| value.copied()) {
                let [tps, latency, connect] = [tps, latency, connect].map(number);
                progress.doing(&format!("    {tps} tps, {latency} ms each, logins took {connect} ms"));
            }
            if !sample.note.is_empty() {
                progress.doing(&format!("    {}", sample.note));
            }
            record.add(sample)?;
        }
    }
    Ok(())
}

fn ways(trial: &Trial, has: Has) -> Vec<Way> {
    let mut ways = vec![Way::Direct];
    for (mode, _) in trial.pools() {
        ways.push(Way::Pgweir(mode));
        if has.pgbouncer {
            ways.push(Way::PgBouncer(mode));
        }
    }
    if trial.auto {
        ways.push(Way::Auto);
    }
    if trial.cross_check && has.pgbench {
        ways.push(Way::Pgbench);
    }
    ways
}

/// How long all of it takes, roughly.
fn expected(trials: &[Trial], rounds: u32, has: Has) -> Duration {
    let one = |trial| ways(trial, has).into_iter().map(|way| slice_expected(trial, way)).sum::<Duration>();
    trials.iter().map(one).sum::<Duration>() * rounds
}

fn slice_expected(trial: &Trial, way: Way) -> Duration {
    let (Length::For(work) | Length::Each(_, work)) = trial.length;
    // A direct connection is a process that is made and ends.
    let login_us = if way == Way::Direct { 4000 } else { 500 };
    work + Duration::from_secs(1) + Duration::from_micros(login_us) * u32::try_from(trial.connections()).unwrap_or(0)
}
