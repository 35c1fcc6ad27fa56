//! /metrics and SHOW POOLS with 1,000 pools in use, and what running traffic notices of it.

use std::thread;
use std::time::Duration;

use measure::process;
use serde_json::{Value, json};

use super::UpkeepPlan;
use super::reload::DATABASES;
use super::site::{CLIENTS, Console, FRESH, INTERVAL, Site, parts, scrape};
use crate::contestant::{Contestant, Premises};
use crate::world::Mode;

pub(super) fn measure(place: &Premises, pgweir: &Contestant, plan: &UpkeepPlan) -> Result<Value, String> {
    let mut site = Site::open(place, pgweir, DATABASES)?;
    site.world.connect(site.fleet, CLIENTS)?;
    site.use_databases(DATABASES)?;
    let mut console = Console::open(site.running.port)?;
    one(&mut site, &mut console)?;
    let mut all = Vec::new();
    for _ in 0..plan.rounds {
        let sample = one(&mut site, &mut console)?;
        eprintln!("  {sample}");
        all.push(sample);
    }
    Ok(json!(all))
}

fn one(site: &mut Site, console: &mut Console) -> Result<Value, String> {
    let http = site.http;
    // Nothing else is going on.
    thread::sleep(FRESH);
    let before = process::usage(site.running.pid())?;
    let (alone, bytes) = scrape(http)?;
    let used = process::usage(site.running.pid())?.since(before);
    site.world.start(site.fleet, Mode::Open { interval: INTERVAL })?;
    site.world.run_for(FRESH)?;
    let calm = site.world.take_latencies_ns(site.fleet);
    let (page, table) = thread::scope(|scope| {
        let asked = scope.spawn(|| Ok::<_, String>((scrape(http)?.0, console.ask("SHOW POOLS")?.0)));
        while !asked.is_finished() {
            site.world.run_for(Duration::from_millis(1))?;
        }
        asked.join().map_err(|_| "whoever watches has panicked".to_owned())?
    })?;
    let stirred = site.world.take_latencies_ns(site.fleet);
    site.world.settle(site.fleet)?;
    site.world.take_latencies_ns(site.fleet);
    Ok(json!({
        "alone_ns": alone.as_nanos() as u64,
        "cpu_ns": used.cpu_ns,
        "bytes": bytes,
        "page_ns": page.as_nanos() as u64,
        "pools_ns": table.as_nanos() as u64,
        "calm": parts(&calm),
        "stirred": parts(&stirred),
    }))
}
