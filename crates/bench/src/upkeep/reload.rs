//! RELOAD with 1,000 databases, all of which change, and what running traffic notices of it.

use std::thread;
use std::time::Duration;

use measure::process;
use serde_json::{Value, json};

use super::UpkeepPlan;
use super::site::{CLIENTS, Console, INTERVAL, Site, parts};
use crate::contestant::{Contestant, Premises};
use crate::world::Mode;

pub(super) const DATABASES: usize = 1_000;

/// How long the traffic is looked at when nothing else happens, and after each reload.
const CALM: Duration = Duration::from_millis(500);
const AFTER: Duration = Duration::from_millis(200);

pub(super) fn measure(place: &Premises, pgweir: &Contestant, plan: &UpkeepPlan) -> Result<Value, String> {
    let mut site = Site::open(place, pgweir, DATABASES)?;
    site.world.connect(site.fleet, CLIENTS)?;
    let mut console = Console::open(site.running.port)?;
    let mut all = Vec::new();
    for arm in ["unused", "in use"] {
        if arm == "in use" {
            site.use_databases(DATABASES)?;
        }
        one(&mut site, &mut console, 8)?;
        for round in 0..plan.rounds {
            let mut sample = one(&mut site, &mut console, 7 + (round % 2) as u32)?;
            sample["arm"] = json!(arm);
            eprintln!("  {sample}");
            all.push(sample);
        }
    }
    Ok(json!(all))
}

fn one(site: &mut Site, console: &mut Console, size: u32) -> Result<Value, String> {
    site.file().set_sizes(size)?;
    site.world.start(site.fleet, Mode::Open { interval: INTERVAL })?;
    site.world.run_for(CALM)?;
    let calm = site.world.take_latencies_ns(site.fleet);
    let before = process::usage(site.running.pid())?;
    let took = thread::scope(|scope| {
        let asked = scope.spawn(|| console.ask("RELOAD"));
        while !asked.is_finished() {
            site.world.run_for(Duration::from_millis(1))?;
        }
        let (took, _, failed) = asked.join().map_err(|_| "the console's client has panicked".to_owned())??;
        if failed { Err("RELOAD is refused".to_owned()) } else { Ok(took) }
    })?;
    // Workers take the settings up after the answer.
    site.world.run_for(AFTER)?;
    let used = process::usage(site.running.pid())?.since(before);
    let stirred = site.world.take_latencies_ns(site.fleet);
    site.world.settle(site.fleet)?;
    site.world.take_latencies_ns(site.fleet);
    Ok(
        json!({ "took_ns": took.as_nanos() as u64, "cpu_ns_with_traffic": used.cpu_ns, "calm": parts(&calm), "stirred": parts(&stirred) }),
    )
}
