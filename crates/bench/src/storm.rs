//! What a storm of logins does to those who are logged in: the latency of running traffic while 5,000 clients come at once.
//!
//! ```text
//!   same    traffic ──► pooler ◄── storm            what the storm costs in all
//!   apart   traffic ──► pooler     another one ◄── storm     what of it any process on this machine would cost
//! ```
//!
//! The storm has a thread of its own, so that its clients' hashing and TLS do not stand in the traffic's way in one loop. Promises:
//! both arms in every round, in shuffled order, with a calm before each; questions come at a fixed pace, so that a stall
//! counts for all who would have asked meanwhile.
//! Does not: give anybody cores of its own.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use measure::machine::raise_descriptor_limit;
use measure::process::{self, pin_self};
use measure::statistics::{Seeded, quantile};
use serde_json::{Map, Value, json};

use crate::contestant::{Contestant, Premises};
use crate::record::Record;
use crate::scenario::{Kind, Proof, Scenario, Tls, login};
use crate::setup::{self, Side};
use crate::world::{Mode, World};

/// Clients that come at once.
pub const CROWD: usize = 5_000;

/// Those who are logged in, and how often one of them asks.
const CLIENTS: usize = 64;
const INTERVAL: Duration = Duration::from_micros(500);

/// How long the traffic runs before a storm.
const CALM: Duration = Duration::from_millis(1_000);

/// After clients have left.
const QUIET: Duration = Duration::from_millis(300);

/// How a storm logs in.
pub const STORMS: [Scenario; 2] = [
    crowded(login("scram", "SCRAM, the secret in the auth file", Proof::Scram), None),
    crowded(login("tls-scram", "TLS 1.3 and SCRAM, the secret in the auth file", Proof::Scram), Some(Tls::Fresh)),
];

const fn crowded(mut scenario: Scenario, tls: Option<Tls>) -> Scenario {
    scenario.tls = tls;
    scenario.settings = &[
        ("log_connections", "0"),
        ("log_disconnections", "0"),
        ("max_client_conn", "12000"),
        ("listen_backlog", "8192"),
    ];
    scenario
}

/// What is to be run.
#[derive(Clone, Debug)]
pub struct StormPlan {
    pub storms: Vec<Scenario>,
    pub rounds: usize,
    pub seed: u64,
}

/// Measures every storm with every contestant and writes the record. Returns it, and whether every one could be measured.
pub fn all(
    place: &Premises,
    contestants: &[Contestant],
    plan: &StormPlan,
    out: Option<&Path>,
) -> Result<(Record, bool), String> {
    raise_descriptor_limit();
    pin_self(&process::cores())?;
    let description = json!({
        "seed": plan.seed,
        "rounds": plan.rounds,
        "order_words": format!("{} rounds, both arms in each, in shuffled order", plan.rounds),
        "placement_words": "nobody is pinned: poolers, traffic and storm share all cores",
    });
    let mut record = Record::begin(out, "storm", contestants, description)?;
    let mut whole = true;
    for storm in &plan.storms {
        for contestant in contestants {
            eprintln!("{}, {}", storm.about, contestant.name);
            let part = json!({
                "name": storm.name, "about": storm.about, "kind": "storm", "crowd": CROWD, "contestant": contestant.name,
            });
            let measured = measure(place, contestant, plan, storm);
            whole &= record.add_part(part, measured.map(|rounds| [("rounds", json!(rounds))]))?;
        }
    }
    Ok((record, whole))
}

fn measure(
    place: &Premises,
    contestant: &Contestant,
    plan: &StormPlan,
    storm: &Scenario,
) -> Result<Vec<Value>, String> {
    debug_assert!(matches!(storm.kind, Kind::Logins(_)));
    let room = place.room(&format!("storm-{}-{}", storm.name, contestant.name))?;
    setup::write_users(&room)?;
    let mut world = World::open(&room.folder)?;
    let cores = process::cores();
    let busy = setup::start(&room, storm, contestant, &mut world, &[], &cores)?;
    let apart = contestant.variant(&format!("{}-apart", contestant.name), &[]);
    let apart = setup::start(&room, storm, &apart, &mut world, &[], &cores)?;
    world.connect(busy.fleet, CLIENTS).map_err(|error| busy.blame(&error))?;
    // The first storm finds tables and descriptors short.
    for side in [&busy, &apart] {
        one(&room.folder, &mut world, &busy, side, storm)?;
    }
    let mut random = Seeded::new(plan.seed);
    let mut rounds = Vec::new();
    for _ in 0..plan.rounds {
        let mut order = [("same", &busy), ("apart", &apart)];
        random.shuffle(&mut order);
        let mut samples = Map::new();
        for (arm, side) in order {
            let sample = one(&room.folder, &mut world, &busy, side, storm)?;
            eprintln!("  {arm:<6} {sample}");
            samples.insert(arm.to_owned(), sample);
        }
        rounds.push(json!({ "order": order.map(|(arm, _)| arm), "samples": samples }));
    }
    Ok(rounds)
}

/// Traffic through `busy`, first alone and then while a crowd logs in at `target`.
fn one(folder: &Path, world: &mut World, busy: &Side, target: &Side, storm: &Scenario) -> Result<Value, String> {
    let failed = |error: String| target.blame(&busy.blame(&error));
    world.start(busy.fleet, Mode::Open { interval: INTERVAL })?;
    world.run_for(CALM).map_err(failed)?;
    let calm = world.take_latencies_ns(busy.fleet);
    let is_in = AtomicBool::new(false);
    let (stormy, wall) = std::thread::scope(|scope| {
        let crowd = scope.spawn(|| crowd(folder, target, storm, &is_in));
        while !is_in.load(Ordering::Acquire) && !crowd.is_finished() {
            world.run_for(Duration::from_millis(5)).map_err(failed)?;
        }
        let stormy = world.take_latencies_ns(busy.fleet);
        world.settle(busy.fleet)?;
        let wall = crowd.join().map_err(|_| "the storm's thread has panicked".to_owned())??;
        Ok::<_, String>((stormy, wall))
    })?;
    world.run_for(QUIET)?;
    // Those of the settling belong to nobody.
    world.take_latencies_ns(busy.fleet);
    Ok(json!({
        "calm_p99_ns": part(&calm, 0.99),
        "p50_ns": part(&stormy, 0.5),
        "p99_ns": part(&stormy, 0.99),
        "most_ns": part(&stormy, 1.0),
        "asked": stormy.len(),
        "wall_ns": wall.as_nanos() as u64,
    }))
}

/// All clients of the storm log in, and leave when the last one is in. How long it took until then.
fn crowd(folder: &Path, target: &Side, storm: &Scenario, is_in: &AtomicBool) -> Result<Duration, String> {
    let mut world = World::open(folder)?;
    let fleet = target.another_fleet(&mut world, storm)?;
    let wall = world.crowd(fleet, CROWD)?;
    is_in.store(true, Ordering::Release);
    world.disconnect(fleet)?;
    world.run_for(QUIET)?;
    Ok(wall)
}

fn part(latencies_ns: &[u32], part: f64) -> Option<f64> {
    let all: Vec<f64> = latencies_ns.iter().copied().map(f64::from).collect();
    quantile(&all, part)
}
