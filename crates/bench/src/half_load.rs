//! One worker and two at the same fixed rate, half of what one worker can do: what a second worker costs.
//!
//! Promises: the rate is the same for both in every slice. Under strace everything is slower, so the rate for
//! counting system calls is half of what one traced worker can do. Does not: involve PgBouncer, which has one thread.

use std::time::Duration;

use measure::statistics::Seeded;
use serde_json::{Map, Value, json};

use crate::contestant::{Contestant, Premises};
use crate::rounds::{self, Pace};
use crate::scenario::Scenario;
use crate::setup::{self, Placement, Side};
use crate::world::{Mode, World};
use crate::{calls, console};

/// Console commands and columns in which a pooler may count its lends; the first that answers is used.
const LENDS: [(&str, &str); 3] =
    [("SHOW WORKERS", "lends"), ("SHOW STATS", "total_lend_count"), ("SHOW LENDS", "lends")];

/// Measures pgweir with one and two workers.
pub fn run(
    place: &Premises,
    world: &mut World,
    scenario: &Scenario,
    pgweir: &Contestant,
    placement: &Placement,
    pace: Pace,
    random: &mut Seeded,
) -> Result<Map<String, Value>, String> {
    let mut sides = Vec::new();
    for (name, workers) in [("pgweir-1-worker", "1"), ("pgweir-2-workers", "2")] {
        let mut contestant = pgweir.variant(name, &[]);
        contestant.settings.retain(|(key, _)| key != "workers");
        contestant.settings.push(("workers".to_owned(), workers.to_owned()));
        let side = setup::start(place, scenario, &contestant, world, &[], &placement.contestant)?;
        world.connect(side.fleet, scenario.clients).map_err(|error| side.blame(&error))?;
        sides.push(side);
    }
    let fastest = rounds::slice(world, &sides[0], Mode::Closed, pace)?;
    let interval = half(&fastest)?;
    let before = lends(&sides);
    let rounds = rounds::run(world, &sides, Mode::Open { interval }, pace, random)?;
    let after = lends(&sides);
    let mut system_calls = Map::new();
    let traced = traced_interval(place, world, &sides[0])?;
    for side in &sides {
        let counted = calls::count(place, world, side, Mode::Open { interval: traced }, Duration::from_secs(1))?;
        system_calls.insert(side.name.clone(), counted);
    }
    let mut lent = Map::new();
    for ((side, before), after) in sides.iter().zip(before).zip(after) {
        let Some((before, after)) = before.zip(after) else { continue };
        let transactions = rounds.iter().filter_map(|round| round["samples"][&side.name]["transactions"].as_u64());
        // Warm-ups lend too: their share of each slice is known, and is counted in.
        let share = 1.0 + pace.warm_up.as_secs_f64() / pace.slice.as_secs_f64();
        let transactions = transactions.sum::<u64>() as f64 * share;
        lent.insert(side.name.clone(), json!({ "lends": after - before, "transactions": transactions.round() }));
    }
    let inis: Map<String, Value> =
        sides.iter().filter_map(|side| Some((side.name.clone(), json!(side.running.as_ref()?.ini)))).collect();
    for side in &sides {
        world.disconnect(side.fleet)?;
    }
    let mut result = Map::new();
    result.insert("interval_ns".to_owned(), json!(interval.as_nanos() as u64));
    result.insert("traced_interval_ns".to_owned(), json!(traced.as_nanos() as u64));
    result.insert("rounds".to_owned(), json!(rounds));
    result.insert("system_calls".to_owned(), json!(system_calls));
    result.insert("lends".to_owned(), json!(lent));
    result.insert("ini".to_owned(), json!(inis));
    Ok(result)
}

/// The interval between arrivals that makes half of a closed load's rate.
fn half(sample: &Value) -> Result<Duration, String> {
    let number = |key: &str| sample[key].as_f64().ok_or(format!("a slice without {key}"));
    Ok(Duration::from_nanos((2.0 * number("wall_ns")? / number("transactions")?) as u64))
}

fn traced_interval(place: &Premises, world: &mut World, side: &Side) -> Result<Duration, String> {
    let time = Duration::from_millis(500);
    let counted = calls::count(place, world, side, Mode::Closed, time)?;
    half(&json!({ "wall_ns": time.as_nanos() as u64, "transactions": counted["transactions"] }))
}

/// What each side's console says of lends; `None` where it says nothing.
fn lends(sides: &[Side]) -> Vec<Option<u64>> {
    let of = |side: &Side| {
        let port = side.running.as_ref()?.port;
        LENDS.iter().find_map(|(command, column)| console::ask(port, command).ok()?.sum(column))
    };
    sides.iter().map(of).collect()
}
