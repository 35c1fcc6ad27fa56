//! Memory of clients that say nothing.
//!
//! Promises: user memory only (the kernel's part is the same for everyone), as the difference between nobody connected
//! and everybody connected, in a fresh process each round. Where an allocator asks the kernel for huge pages, the
//! figure moves in steps of 2 MiB, 419 bytes a client at 5,000: that memory is really used, so it is counted.

use measure::process::anonymous_bytes;
use measure::statistics::Seeded;
use serde_json::{Map, Value, json};

use crate::contestant::{Contestant, Premises};
use crate::scenario::Scenario;
use crate::setup::{self, Placement, Side};
use crate::world::{Mode, World};

/// Measures every contestant in each round, in a random order.
pub fn run(
    place: &Premises,
    world: &mut World,
    scenario: &Scenario,
    contestants: &[Contestant],
    placement: &Placement,
    rounds: usize,
    random: &mut Seeded,
) -> Result<(Vec<Value>, Map<String, Value>), String> {
    let mut result = Vec::new();
    let mut inis = Map::new();
    for _ in 0..rounds {
        let mut order: Vec<usize> = (0..contestants.len()).collect();
        random.shuffle(&mut order);
        let mut samples = Map::new();
        for &index in &order {
            let contestant = &contestants[index];
            let mut side = setup::start(place, scenario, contestant, world, &[], &placement.contestant)?;
            let sample = measure(world, &side, scenario.clients).map_err(|error| side.blame(&error))?;
            samples.insert(side.name.clone(), sample);
            if let Some(mut running) = side.running.take() {
                inis.insert(side.name, json!(running.ini));
                running.stop();
            }
        }
        let order: Vec<&str> = order.iter().map(|index| contestants[*index].name.as_str()).collect();
        result.push(json!({ "order": order, "samples": samples }));
    }
    Ok((result, inis))
}

fn measure(world: &mut World, side: &Side, clients: usize) -> Result<Value, String> {
    let pid = side.pid().ok_or("the direct connection has no process")?;
    // The first client makes the pooler open a server and warm up; it is gone before the first reading.
    world.connect(side.fleet, 1)?;
    ask_once(world, side)?;
    world.disconnect(side.fleet)?;
    let before = anonymous_bytes(pid)?;
    world.connect(side.fleet, clients)?;
    let logged_in = anonymous_bytes(pid)?;
    ask_once(world, side)?;
    let asked = anonymous_bytes(pid)?;
    world.disconnect(side.fleet)?;
    let each = |now: u64| now.saturating_sub(before) as f64 / clients as f64;
    Ok(json!({
        "clients": clients,
        "before_bytes": before,
        "logged_in_bytes": logged_in,
        "asked_bytes": asked,
        "client_bytes": each(logged_in),
        "client_bytes_after_all_asked_at_once": each(asked),
    }))
}

/// Every client of the fleet asks, and waits for its answer.
fn ask_once(world: &mut World, side: &Side) -> Result<(), String> {
    world.start(side.fleet, Mode::Closed)?;
    world.settle(side.fleet)
}
