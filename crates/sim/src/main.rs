//! The simulator's command line.
//!
//! `sim --seed N [--steps M] [--workers W] [--verbose]` runs one seed; `sim --time SECONDS` runs fresh seeds until the
//! time is up; `--hashes` prints for each a hash of the pooler's output, to be compared before and after a change that
//! must not be visible; `--set NAME=VALUE`, any number of times, gives a setting a value that no seed changes;
//! `--sabotage NAME` (with debug assertions) reports how long it takes to catch a deliberate fault.

use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant, SystemTime};

use rustix::time::{ClockId, clock_gettime};
use settings::{Fidelity, PoolSize};
use sim::census::Census;
use sim::run;
use sim::wishes::Wishes;

const USAGE: &str = "usage: sim [--seed N] [--seeds COUNT] [--steps M] [--workers W] [--time SECONDS] [--calm] [--shares] [--classes] [--promises] [--hosts] [--panics] [--sizes] [--fidelity NAME] [--set NAME=VALUE] [--keep-going] [--verbose] [--hashes] [--sabotage NAME]";

#[derive(Debug, Default)]
struct Arguments {
    wishes: Wishes,
    seeded: bool,
    seeds: u64,
    time: Option<Duration>,
    verbose: bool,
    /// Prints for each seed the hash of what the world saw, and nothing that differs from run to run.
    hashes: bool,
    /// Prints each failure in one line and continues.
    keep_going: bool,
    sabotage: Option<String>,
}

/// A world that computes for longer than this is stuck: a machine loops for ever.
const STUCK: Duration = Duration::from_secs(60);

/// The time between two looks whether a world is stuck.
const GLANCE: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(words) => {
            eprintln!("{words}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    if arguments.seeded && arguments.seeds <= 1 && arguments.time.is_none() {
        return one(&arguments);
    }
    many(&arguments)
}

fn one(arguments: &Arguments) -> ExitCode {
    let outcome = run::run(&arguments.wishes, arguments.verbose, arguments.verbose);
    println!("seed {}: hash {:016x}, {} steps", arguments.wishes.seed, outcome.hash, outcome.census.world.steps);
    match outcome.failure {
        None => ExitCode::SUCCESS,
        Some(failure) => {
            print!("{}", run::report(&arguments.wishes, &failure, &run::replay(&arguments.wishes)));
            ExitCode::FAILURE
        }
    }
}

fn many(arguments: &Arguments) -> ExitCode {
    let began = Instant::now();
    let first = if arguments.seeded { arguments.wishes.seed } else { fresh_seed() };
    let mut total = Census::default();
    let mut failures = 0;
    for offset in 0.. {
        let up = match arguments.time {
            Some(time) => began.elapsed() >= time,
            None => offset >= arguments.seeds.max(1),
        };
        if up {
            break;
        }
        let wishes = Wishes { seed: first.wrapping_add(offset), ..arguments.wishes.clone() };
        let done = watch(wishes.clone());
        let outcome = run::run(&wishes, false, false);
        drop(done);
        total.add(&outcome.census);
        if arguments.hashes {
            println!("seed {}: seen {:016x}", wishes.seed, outcome.seen);
        }
        if let Some(failure) = outcome.failure {
            let after = began.elapsed().as_secs_f64();
            if let Some(name) = &arguments.sabotage {
                if !shows(&wishes, failure.invariant) {
                    continue;
                }
                println!(
                    "{name}: caught by I{} at seed {} after {after:.1} s: {}",
                    failure.invariant, wishes.seed, failure.text
                );
                return ExitCode::SUCCESS;
            }
            if arguments.keep_going {
                println!("seed {} step {}: I{}: {}", wishes.seed, failure.step, failure.invariant, failure.text);
                failures += 1;
                continue;
            }
            print!("{}", run::report(&wishes, &failure, &run::replay(&wishes)));
            return ExitCode::FAILURE;
        }
    }
    if arguments.hashes {
        return if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let good = summary(arguments, &total, began.elapsed());
    if good && failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Ends the process with a replay command if a world does not end in time. Dropping the returned sender stops the
/// watch.
fn watch(wishes: Wishes) -> Sender<()> {
    let (done, waits) = channel::<()>();
    let began = computed();
    std::thread::spawn(move || {
        while waits.recv_timeout(GLANCE) == Err(RecvTimeoutError::Timeout) {
            if computed() - began >= STUCK {
                println!("replay: {}", run::replay(&wishes));
                println!("I8: the world of seed {} is stuck: some step never ends", wishes.seed);
                std::process::exit(1);
            }
        }
    });
    done
}

/// How long this process has computed. The clock on the wall also counts the time in which it waited for a processor,
/// which on a busy machine may be most of it.
fn computed() -> Duration {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(spent.tv_sec.unsigned_abs(), spent.tv_nsec as u32)
}

/// Prints the summary. Returns false if something never happened that should.
fn summary(arguments: &Arguments, total: &Census, elapsed: Duration) -> bool {
    let seconds = elapsed.as_secs_f64();
    println!(
        "{} worlds in {seconds:.1} s: {:.1} seeds/s, {:.0} steps/s",
        total.world.worlds,
        total.world.worlds as f64 / seconds,
        total.world.steps as f64 / seconds
    );
    for chunk in total.rows().chunks(6) {
        let cells: Vec<String> = chunk.iter().map(|(name, count)| format!("{name} {count}")).collect();
        println!("  {}", cells.join(", "));
    }
    if let Some(name) = &arguments.sabotage {
        println!("{name}: NOT caught within {seconds:.1} s");
        return false;
    }
    let followed = arguments.wishes.fidelity.is_some_and(|fidelity| fidelity != Fidelity::Classic);
    let never = total.never(followed);
    let many = arguments.time.is_some_and(|time| time >= Duration::from_secs(30)) || arguments.seeds >= 500;
    if many && !never.is_empty() {
        println!("never happened: {}", never.join(", "));
        return false;
    }
    true
}

/// A new seed, from the clock.
fn fresh_seed() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since.as_secs() * 100_000
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut arguments = Arguments::default();
    while let Some(word) = words.next() {
        let mut number =
            || words.next().and_then(|text| text.parse::<u64>().ok()).ok_or(format!("{word} wants a number"));
        match word.as_str() {
            "--seed" => (arguments.wishes.seed, arguments.seeded) = (number()?, true),
            "--seeds" => arguments.seeds = number()?,
            "--steps" => arguments.wishes.steps = Some(number()?),
            "--workers" => arguments.wishes.workers = Some(number()?.clamp(1, 64) as u16),
            "--time" => arguments.time = Some(Duration::from_secs(number()?)),
            "--calm" => arguments.wishes.calm = true,
            "--shares" => arguments.wishes.shares = true,
            "--classes" => arguments.wishes.classes = true,
            "--panics" => arguments.wishes.panics = true,
            "--promises" => arguments.wishes.promises = true,
            "--hosts" => arguments.wishes.hosts = true,
            "--sizes" => arguments.wishes.sizes = Some(PoolSize::Auto),
            "--fidelity" => {
                let name = words.next().ok_or("--fidelity wants a name")?;
                let found = Fidelity::named(&name);
                arguments.wishes.fidelity = Some(found.ok_or_else(|| format!("no such fidelity: {name}"))?);
            }
            "--set" => arguments.wishes.set.add(&words.next().ok_or("--set wants a name=value")?)?,
            "--keep-going" => arguments.keep_going = true,
            "--hashes" => arguments.hashes = true,
            "--verbose" => arguments.verbose = true,
            "--sabotage" => {
                let name = words.next().ok_or("--sabotage wants a name")?;
                sabotage(&name, &mut arguments.wishes)?;
                arguments.sabotage = Some(name);
            }
            _ => return Err(format!("unknown argument: {word}")),
        }
    }
    Ok(arguments)
}

/// Whether the failed invariant is one by which the requested fault shows.
#[cfg(debug_assertions)]
fn shows(wishes: &Wishes, invariant: u8) -> bool {
    wishes.sabotage.is_some_and(|fault| sim::sabotage::shows_as(fault).contains(&invariant))
}

#[cfg(not(debug_assertions))]
fn shows(_: &Wishes, _: u8) -> bool {
    false
}

#[cfg(debug_assertions)]
fn sabotage(name: &str, wishes: &mut Wishes) -> Result<(), String> {
    let all = machine::sabotage::Sabotage::ALL;
    let found = all.into_iter().find(|fault| format!("{fault:?}") == name);
    wishes.sabotage = Some(found.ok_or_else(|| format!("no such fault; there are {all:?}"))?);
    Ok(())
}

#[cfg(not(debug_assertions))]
fn sabotage(_: &str, _: &mut Wishes) -> Result<(), String> {
    Err("built without debug assertions: cargo run -p sim".to_owned())
}
