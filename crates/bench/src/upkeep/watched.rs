//! What it costs to be watched: /metrics and SHOW CLIENTS every second, with 10,000 clients that say nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use measure::process;
use measure::statistics::Seeded;
use serde_json::{Map, Value, json};

use super::UpkeepPlan;
use super::site::{CLIENTS, Console, FRESH, Site, scrape};
use crate::contestant::{Contestant, Premises};
use crate::scenario::{Kind, SCENARIOS, Scenario};
use crate::style::{PASSWORD, Style, USER, work};
use crate::world::Mode;

const IDLE: usize = 10_000;
const SLICE: Duration = Duration::from_secs(2);
const EVERY: Duration = Duration::from_secs(1);

/// Only its ini lines are used.
pub(super) const PLAIN: Scenario = plain();

const fn plain() -> Scenario {
    let mut scenario = SCENARIOS[0];
    (scenario.kind, scenario.settings) = (Kind::Closed, &[]);
    scenario
}

pub(super) fn measure(place: &Premises, pgweir: &Contestant, plan: &UpkeepPlan) -> Result<Value, String> {
    let mut site = Site::open(place, pgweir, 0)?;
    let silent = work(USER, PASSWORD, "bench", Style::Simple, crate::fake::Answer::Small);
    let idle = site.world.fleet(site.running.port, silent);
    site.world.connect(idle, IDLE)?;
    site.world.connect(site.fleet, CLIENTS)?;
    slice(&mut site, true)?;
    let alone = alone(&mut site, plan.rounds)?;
    eprintln!("  {alone}");
    let mut random = Seeded::new(plan.seed);
    let mut rounds = Vec::new();
    for _ in 0..plan.rounds {
        let mut order = [("quiet", false), ("watched", true)];
        random.shuffle(&mut order);
        let mut samples = Map::new();
        for (arm, is_watched) in order {
            let sample = slice(&mut site, is_watched)?;
            eprintln!("  {arm:<8} {sample}");
            samples.insert(arm.to_owned(), sample);
        }
        rounds.push(json!({ "order": order.map(|(arm, _)| arm), "samples": samples }));
    }
    if let Some(round) = rounds.first_mut() {
        round["alone"] = alone;
    }
    Ok(json!(rounds))
}

/// What each answer costs where nothing else is going on.
fn alone(site: &mut Site, times: usize) -> Result<Value, String> {
    let (http, port, pid) = (site.http, site.running.port, site.running.pid());
    let mut console = Console::open(port)?;
    let (mut scrapes, mut shows, mut rests) = (Vec::new(), Vec::new(), Vec::new());
    let used = |before| Ok::<_, String>(process::usage(pid)?.since(before).cpu_ns);
    for _ in 0..times {
        let before = process::usage(pid)?;
        thread::sleep(FRESH);
        rests.push(used(before)?);
        let before = process::usage(pid)?;
        scrape(http)?;
        scrapes.push(used(before)?);
        let before = process::usage(pid)?;
        console.ask("SHOW CLIENTS")?;
        shows.push(used(before)?);
    }
    Ok(json!({ "rest_cpu_ns": rests, "scrape_cpu_ns": scrapes, "show_cpu_ns": shows }))
}

/// Traffic as fast as it goes, watched or not.
fn slice(site: &mut Site, is_watched: bool) -> Result<Value, String> {
    let (http, port, pid) = (site.http, site.running.port, site.running.pid());
    let stop = AtomicBool::new(false);
    let (before, done) = (process::usage(pid)?, site.world.done(site.fleet));
    let began = Instant::now();
    site.world.start(site.fleet, Mode::Closed)?;
    let watched = thread::scope(|scope| {
        let watcher = scope.spawn(|| if is_watched { watch(http, port, &stop) } else { Ok(Vec::new()) });
        let ran = site.world.run_for(SLICE).and_then(|()| site.world.settle(site.fleet));
        stop.store(true, Ordering::Relaxed);
        let watched = watcher.join().map_err(|_| "the watcher has panicked".to_owned())?;
        ran.and(watched)
    })?;
    let used = process::usage(pid)?.since(before);
    let done = site.world.done(site.fleet) - done;
    site.world.take_latencies_ns(site.fleet);
    let (scrapes, shows): (Vec<u64>, Vec<u64>) = watched.into_iter().unzip();
    Ok(json!({
        "done": done,
        "wall_ns": began.elapsed().as_nanos() as u64,
        "cpu_ns": used.cpu_ns,
        "cpu_ns_each": used.cpu_ns as f64 / done as f64,
        "scrapes_ns": scrapes,
        "shows_ns": shows,
    }))
}

/// Once a second, as monitoring does. How long each answer took.
fn watch(http: std::net::SocketAddr, port: u16, stop: &AtomicBool) -> Result<Vec<(u64, u64)>, String> {
    let mut console = Console::open(port)?;
    let mut taken = Vec::new();
    let mut due = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let (page, _) = scrape(http)?;
        let (table, rows, _) = console.ask("SHOW CLIENTS")?;
        if rows < IDLE {
            return Err(format!("SHOW CLIENTS has {rows} rows"));
        }
        taken.push((page.as_nanos() as u64, table.as_nanos() as u64));
        due += EVERY;
        while Instant::now() < due && !stop.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(5));
        }
    }
    Ok(taken)
}
