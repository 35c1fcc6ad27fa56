//! One slice: one test, one way, from an empty server to an empty server.
//!
//! ```text
//!   freshen, settle ──► pooler starts ──► logins ──► work (watched) ──► memory ──► goodbye, pooler ends
//! ```
//!
//! Promises: a failure is a note in the sample, not the end of the run, unless the run was interrupted.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use ask::Target;
use client::Place;
use measure::interrupt;
use measure::login::Account;
use measure::statistics::Range;
use measure::work::{First, Question, Transaction, Work};
use measure::{machine, process};

use crate::contestant::{AUTO_SIZE_MAX, Pooler, Program, Size};
use crate::driver::{Crowd, Length, Load, Outcome};
use crate::pgbench;
use crate::plan::{Mode, Trial};
use crate::sample::{Metric, Sample, Way};
use crate::scripts::TABLES;
use crate::tables::Tables;
use crate::target::APPLICATION;
use crate::watch::{self, Seen, Wanted};

/// What all slices of a run have in common.
pub(crate) struct Ground<'a> {
    pub(crate) target: &'a Target,
    pub(crate) pgweir: &'a Program,
    pub(crate) pgbouncer: Option<&'a Program>,
    pub(crate) pgbench: Option<&'a PathBuf>,
    pub(crate) around: Around,
}

/// What was there before us.
pub(crate) struct Around {
    /// If PostgreSQL runs on this machine.
    pub(crate) postmaster: Option<u32>,
    /// Connections that PostgreSQL still takes.
    pub(crate) room: u64,
}

type Values = BTreeMap<Metric, f64>;

/// Measures one slice.
///
/// # Errors
/// The run was interrupted.
pub(crate) fn slice(
    ground: &Ground<'_>,
    tables: &mut Tables,
    trial: &Trial,
    way: Way,
    round: u32,
) -> Result<Sample, String> {
    let (values, note) = (Values::new(), String::new());
    let mut sample = Sample { trial: trial.name, way, round, values, is_impossible: false, note };
    if matches!(way, Way::Direct | Way::Pgbench) && trial.connections() as u64 > ground.around.room {
        sample.is_impossible = true;
        sample.note = format!(
            "not possible: {} connections, PostgreSQL has room for {}",
            trial.connections(),
            ground.around.room
        );
        return Ok(sample);
    }
    match measure(ground, tables, trial, way, round) {
        Ok((values, note)) => (sample.values, sample.note) = (values, note),
        Err(why) => {
            interrupt::check()?;
            sample.note = why;
        }
    }
    Ok(sample)
}

fn measure(
    ground: &Ground<'_>,
    tables: &mut Tables,
    trial: &Trial,
    way: Way,
    round: u32,
) -> Result<(Values, String), String> {
    let stayed = tables.settle()?;
    tables.freshen()?;
    if way == Way::Pgbench {
        let program = ground.pgbench.ok_or("there is no pgbench")?;
        return Ok((pgbench::measure(program, ground.target, trial, tables.scale)?, stayed.unwrap_or_default()));
    }
    let pooler = pooler(ground, trial, way)?;
    let (place, account) = match &pooler {
        Some(pooler) => (pooler.place(), pooler.account()),
        None => (ground.target.place()?, ground.target.account(APPLICATION)),
    };
    let load = load(trial, way, place);
    let blame = |why: String| match &pooler {
        Some(pooler) => format!("{why}\n{}", pooler.complaints()),
        None => why,
    };
    let leave = load.leave;
    let mut crowd = Crowd::open(load, work(trial, account, tables.scale, round))?;
    let mut values = Values::new();
    let connect = crowd.connect().map_err(blame)?;
    values.insert(Metric::Connect, milliseconds(connect));
    if leave {
        memory(ground, pooler.as_ref(), &mut values);
    }
    let Tables { monitor, since, .. } = tables;
    let wanted = Wanted { postmaster: ground.around.postmaster, monitor, since: *since, command: trial.command };
    let before = used(ground);
    let (outcome, seen) = watch::during(wanted, || crowd.work());
    values.insert(Metric::Others, others(before, used(ground)));
    let outcome = outcome.map_err(blame)?;
    if !leave {
        memory(ground, pooler.as_ref(), &mut values);
    }
    crowd.leave();
    let note = note(trial, &outcome, stayed);
    note_outcome(outcome, &mut values);
    note_seen(&seen, &mut values);
    Ok((values, note))
}

fn pooler(ground: &Ground<'_>, trial: &Trial, way: Way) -> Result<Option<Pooler>, String> {
    let (program, mode) = match way {
        Way::Direct | Way::Pgbench => return Ok(None),
        Way::Pgweir(mode) => (ground.pgweir, mode),
        Way::Auto => (ground.pgweir, Mode::Transaction),
        Way::PgBouncer(mode) => (ground.pgbouncer.ok_or("there is no PgBouncer")?, mode),
    };
    let room = ground.around.room;
    let size = match (way, mode) {
        (Way::Auto, _) => Size::Found { most: u32::try_from(room).unwrap_or(u32::MAX).min(AUTO_SIZE_MAX) },
        (_, Mode::Transaction) => Size::Fixed(trial.pool),
        (_, Mode::Session) => Size::Fixed(trial.session_pool.unwrap_or(trial.pool)),
    };
    if let Size::Fixed(size) = size
        && u64::from(size) > room
    {
        return Err(format!("not possible: a pool of {size}, PostgreSQL has room for {room}"));
    }
    Pooler::start(program, ground.target, mode, size).map(Some)
}

fn load(trial: &Trial, way: Way, place: Place) -> Load {
    Load {
        place,
        clients: trial.clients,
        idle: trial.idle,
        logins_at_once: trial.threads,
        length: trial.length,
        leave: matches!(way, Way::Pgweir(Mode::Session) | Way::PgBouncer(Mode::Session)),
    }
}

fn work(trial: &Trial, account: Account, scale: u32, round: u32) -> Work {
    // The same rows for every way of a round.
    let seed = u64::from(round);
    let transaction = Transaction { script: trial.script, tables: TABLES, scale, seed };
    Work::new(account, First::Nothing, Question::Transaction(transaction))
}

/// The time now, and the processor time that the machine and the test have used. The pooler is a child of ours; PostgreSQL's own
/// processes are its children, whoever has started it.
fn used(ground: &Ground<'_>) -> (Instant, f64, f64) {
    let families = [Some(std::process::id()), ground.around.postmaster];
    let ours = families.into_iter().flatten().map(process::cpu_of_family).sum();
    (Instant::now(), machine::machine_cpu(), ours)
}

/// Cores that others used between two of these.
fn others(before: (Instant, f64, f64), after: (Instant, f64, f64)) -> f64 {
    let time = (after.0 - before.0).as_secs_f64().max(1e-3);
    (((after.1 - before.1) - (after.2 - before.2)) / time).max(0.0)
}

fn memory(ground: &Ground<'_>, pooler: Option<&Pooler>, values: &mut Values) {
    let megabytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let server = ground.around.postmaster.and_then(process::memory_of_family);
    values.extend(server.map(|bytes| (Metric::ServerMemory, megabytes(bytes))));
    let pooler = pooler.and_then(|pooler| process::memory(pooler.pid()));
    values.extend(pooler.map(|bytes| (Metric::PoolerMemory, megabytes(bytes))));
}

fn note(trial: &Trial, outcome: &Outcome, stayed: Option<String>) -> String {
    let mut notes = Vec::from_iter(stayed);
    if let (true, Length::Each(count, time)) = (outcome.cut, trial.length) {
        notes.push(format!("ended after {} s, before all had done {count}", time.as_secs()));
    }
    if outcome.unserved > 0 {
        notes.push(format!(
            "{} of {} clients were still waiting at the end; the rate is of the others",
            outcome.unserved, trial.clients
        ));
    }
    notes.join("; ")
}

fn note_outcome(mut outcome: Outcome, values: &mut Values) {
    values.insert(Metric::Tps, outcome.done as f64 / outcome.elapsed.as_secs_f64().max(1e-6));
    let latencies = &mut outcome.latencies_us;
    if latencies.is_empty() {
        return;
    }
    latencies.sort_unstable();
    let sum: u64 = latencies.iter().map(|one| u64::from(*one)).sum();
    values.insert(Metric::LatencyMean, sum as f64 / latencies.len() as f64 / 1000.0);
    let last = latencies[(latencies.len() * 99 / 100).min(latencies.len() - 1)];
    values.insert(Metric::LatencyP99, f64::from(last) / 1000.0);
}

fn note_seen(seen: &Seen, values: &mut Values) {
    if !seen.runnable.is_empty() {
        let sum: usize = seen.runnable.iter().sum();
        values.insert(Metric::Runnable, sum as f64 / seen.runnable.len() as f64);
    }
    let most = |numbers: &[u64]| numbers.iter().max().map(|most| *most as f64);
    values.extend(most(&seen.locks).map(|most| (Metric::Locks, most)));
    values.extend(most(&seen.connections).map(|most| (Metric::Connections, most)));
    let commands = Range::of(seen.commands.iter().copied().map(milliseconds).collect());
    values.extend(commands.map(|figure| (Metric::Command, figure.median)));
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
