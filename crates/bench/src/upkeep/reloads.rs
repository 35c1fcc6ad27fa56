//! A storm of RELOADs, half of them of a file with a mistake, under load: who is dropped, and what is left over.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use measure::process;
use serde_json::{Value, json};

use super::UpkeepPlan;
use super::site::{CLIENTS, ConfigFile, Console, Site};
use crate::contestant::{Contestant, Premises};
use crate::world::Mode;

const EVERY: Duration = Duration::from_millis(10);
const LOOKED_AT_EVERY: Duration = Duration::from_secs(1);
const DATABASES: usize = 100;

/// What was seen at one moment.
fn level(pid: u32, began: Instant, reloads: u64) -> Result<Value, String> {
    let (resident, _) = process::resident_kb(pid).ok_or("it is gone")?;
    let descriptors = process::descriptors(pid).ok_or("it is gone")?;
    let at = began.elapsed().as_millis() as u64;
    Ok(json!({ "at_ms": at, "reloads": reloads, "resident_kb": resident, "descriptors": descriptors }))
}

pub(super) fn measure(place: &Premises, pgweir: &Contestant, plan: &UpkeepPlan) -> Result<Value, String> {
    let mut site = Site::open(place, pgweir, DATABASES)?;
    site.world.connect(site.fleet, CLIENTS)?;
    let (file, pid) = (site.file(), site.running.pid());
    let mut console = Console::open(site.running.port)?;
    let stop = AtomicBool::new(false);
    site.world.start(site.fleet, Mode::Closed)?;
    // The world gives up where a client is dropped or waits in vain.
    let levels = thread::scope(|scope| {
        let stormed = scope.spawn(|| storm(&file, &mut console, pid, Duration::from_secs(plan.storm_s), &stop));
        let mut ran = Ok(());
        while !stormed.is_finished() && ran.is_ok() {
            ran = site.world.run_for(Duration::from_millis(20));
        }
        stop.store(true, Ordering::Relaxed);
        let levels = stormed.join().map_err(|_| "the storm has panicked".to_owned())?;
        ran.map_err(|error| format!("a client is dropped: {error}")).and(levels)
    })?;
    site.world.settle(site.fleet)?;
    let done = site.world.done(site.fleet);
    let latencies = super::site::parts(&site.world.take_latencies_ns(site.fleet));
    eprintln!("  {done} transactions; {}", levels.last().unwrap_or(&Value::Null));
    Ok(json!([{ "done": done, "clients": CLIENTS, "latencies": latencies, "levels": levels }]))
}

fn storm(
    file: &ConfigFile,
    console: &mut Console,
    pid: u32,
    lasts: Duration,
    stop: &AtomicBool,
) -> Result<Vec<Value>, String> {
    let (began, mut reloads, mut levels) = (Instant::now(), 0_u32, Vec::new());
    while began.elapsed() < lasts && !stop.load(Ordering::Relaxed) {
        thread::sleep((began + EVERY * reloads).saturating_duration_since(Instant::now()));
        let is_wrong = reloads % 2 == 1;
        if is_wrong {
            file.spoil()?
        } else {
            file.set_sizes(7 + reloads / 2 % 2)?
        }
        let (_, _, failed) = console.ask("RELOAD")?;
        if failed != is_wrong {
            return Err(format!("reload {reloads} is not answered as its file deserves"));
        }
        reloads += 1;
        if began.elapsed() >= LOOKED_AT_EVERY * levels.len() as u32 {
            levels.push(level(pid, began, u64::from(reloads))?);
        }
    }
    levels.push(level(pid, began, u64::from(reloads))?);
    Ok(levels)
}
