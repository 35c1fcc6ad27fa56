//! Paired rounds: in each, every contestant has one slice of the same load, in a random order.
//!
//! Promises: a slice is timed from a running load to a running load, after a warm-up; what runs between the two
//! readings is one contestant's load and nothing of the other's. Does not: drop a slice that looks odd.

use std::time::{Duration, Instant};

use measure::process::{self, Usage};
use measure::statistics::{Seeded, quantile};
use serde_json::{Map, Value, json};

use crate::setup::Side;
use crate::world::{Mode, World};

/// How long and how often.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub rounds: usize,
    pub warm_up: Duration,
    pub slice: Duration,
}

/// Runs the rounds. `mode` is the load of every slice; the clients are connected already (a storm needs none).
pub fn run(
    world: &mut World,
    sides: &[Side],
    mode: Mode,
    pace: Pace,
    random: &mut Seeded,
) -> Result<Vec<Value>, String> {
    let mut rounds = Vec::with_capacity(pace.rounds);
    for _ in 0..pace.rounds {
        let mut order: Vec<usize> = (0..sides.len()).collect();
        random.shuffle(&mut order);
        let mut samples = Map::new();
        for &index in &order {
            let side = &sides[index];
            let sample = slice(world, side, mode, pace).map_err(|error| side.blame(&error))?;
            samples.insert(side.name.clone(), sample);
        }
        let order: Vec<&str> = order.iter().map(|index| sides[*index].name.as_str()).collect();
        rounds.push(json!({ "order": order, "samples": samples }));
    }
    Ok(rounds)
}

/// One slice of one contestant.
pub fn slice(world: &mut World, side: &Side, mode: Mode, pace: Pace) -> Result<Value, String> {
    let fleet = side.fleet;
    world.start(fleet, mode)?;
    world.run_for(pace.warm_up)?;
    world.take_latencies_ns(fleet);
    let resumed = world.resumed(fleet);
    let (began, done, used) = (Instant::now(), world.done(fleet), read(side)?);
    world.run_for(pace.slice)?;
    let (wall, done, used) = (began.elapsed(), world.done(fleet) - done, read(side)?.zip(used));
    let latencies: Vec<f64> = world.take_latencies_ns(fleet).into_iter().map(f64::from).collect();
    world.settle(fleet)?;
    if matches!(mode, Mode::Storm { .. }) {
        world.disconnect(fleet)?;
    }
    if done == 0 {
        return Err("not one transaction in a slice".to_owned());
    }
    let mut sample = json!({
        "transactions": done,
        "wall_ns": wall.as_nanos() as u64,
        "tls_resumed": world.resumed(fleet) - resumed,
        "latency_p50_ns": quantile(&latencies, 0.5),
        "latency_p99_ns": quantile(&latencies, 0.99),
    });
    if let Some((after, before)) = used {
        let used = after.since(before);
        sample["cpu_ns"] = json!(used.cpu_ns);
        sample["voluntary_switches"] = json!(used.voluntary);
        sample["involuntary_switches"] = json!(used.involuntary);
    }
    Ok(sample)
}

fn read(side: &Side) -> Result<Option<Usage>, String> {
    side.pid().map(process::usage).transpose()
}
