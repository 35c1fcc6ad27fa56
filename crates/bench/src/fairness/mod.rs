//! `bench fairness`: who waits for whom, on a real PostgreSQL, with crowds of clients that want more than there is.
//!
//! ```text
//!   greedy   500 clients that never stop, 2 that ask now and then, 20 servers: what do the 2 see?
//!   weights  three classes, 1:2:4, that all want everything: what does each get in ten seconds?
//!   crowd    10,000 clients ask at once: how long does the last one wait, compared with the mean?
//! ```
//!
//! Promises: poolers take turns in every round, in shuffled order; every wait of those who are looked at is kept. Clients,
//! poolers and PostgreSQL share all cores, as they do where a pooler is needed.

pub mod side;
pub mod table;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use measure::interrupt;
use measure::machine::raise_descriptor_limit;
use measure::process::{self, pin_self};
use measure::statistics::{Seeded, quantile};
use serde_json::{Map, Value, json};
use side::{Arm, Crowd, FairnessSide, Sharing};

use crate::console;
use crate::contestant::{Contestant, Premises};
use crate::pgbench::{Cluster, Terms};
use crate::world::{FleetId, Mode, World};
use crate::{machine, record, setup};

/// Five milliseconds in which a server is taken and the cores are not.
const SLEEP: &str = "select pg_sleep(0.005)";
/// Less than a millisecond of a core, if one is free: twenty at a time want ten times what there is.
const WORK: &str = "select count(*) from generate_series(1, 5000)";

const fn crowd(name: &'static str, clients: usize, sql: &'static str, row_bytes: usize) -> Crowd {
    Crowd { name, clients, sql, row_bytes }
}

/// Those who never stop, and those who do.
const GREEDY: [(&str, [Crowd; 2]); 2] = [
    ("sleep", [crowd("greedy", 500, SLEEP, 0), crowd("modest", 2, SLEEP, 0)]),
    ("work", [crowd("greedy", 500, WORK, 4), crowd("modest", 2, WORK, 4)]),
];
const MODEST_THINK: Duration = Duration::from_millis(10);

/// All want everything. With transactions of one length the clients can count shares themselves.
const WEIGHTED: [(&str, [Crowd; 3]); 2] = [
    ("one length", [crowd("one", 60, SLEEP, 0), crowd("two", 60, SLEEP, 0), crowd("four", 60, SLEEP, 0)]),
    (
        "2, 20 and 6 ms",
        [
            crowd("one", 100, "select pg_sleep(0.002)", 0),
            crowd("two", 50, "select pg_sleep(0.020)", 0),
            crowd("four", 200, "select pg_sleep(0.006)", 0),
        ],
    ),
];
const WEIGHTS: [u32; 3] = [1, 2, 4];

/// They ask at once, and so often each.
const CROWD: Crowd = crowd("crowd", 10_000, "select pg_sleep(0.001)", 0);
const ASKS: u64 = 3;

/// PostgreSQL has room for all arms at once.
const TERMS: Terms =
    Terms { scale: 0, settings: &["listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=200"] };

/// What there is to run.
pub const PARTS: [&str; 3] = ["greedy", "weights", "crowd"];

/// What is to be run.
#[derive(Clone, Debug)]
pub struct FairnessPlan {
    pub rounds: usize,
    pub slice: Duration,
    pub seed: u64,
    /// Of [`PARTS`]; none means all.
    pub wanted: Vec<String>,
}

impl FairnessPlan {
    fn wants(&self, part: &str) -> bool {
        self.wanted.is_empty() || self.wanted.iter().any(|name| name == part)
    }
}

struct FairnessRun<'a> {
    place: &'a Premises,
    pgweir: &'a Contestant,
    pgbouncer: &'a Contestant,
    plan: &'a FairnessPlan,
    cluster: Cluster,
    cores: Vec<usize>,
    random: Seeded,
}

/// Measures, and keeps samples and table in a folder of their own below `out`. Returns the folder.
pub fn run(
    place: &Premises,
    (pgweir, pgbouncer): (&Contestant, &Contestant),
    plan: &FairnessPlan,
    out: &Path,
) -> Result<PathBuf, String> {
    if let Some(unknown) = plan.wanted.iter().find(|name| !PARTS.contains(&name.as_str())) {
        return Err(format!("no part '{unknown}' of fairness; there are {}", PARTS.join(", ")));
    }
    let (date, machine) = (machine::now(), machine::machine());
    let folder = out.join(record::name(&date, &machine, "fairness"));
    raise_descriptor_limit();
    let cores = process::cores();
    pin_self(&cores)?;
    let cluster = Cluster::empty(place, TERMS)?;
    let mut value = json!({
        "date": date, "tree": machine::commit(), "machine": machine, "postgresql": cluster.described(),
        "pgweir": pgweir.described(), "pgweir_settings": pgweir.settings, "pgbouncer": pgbouncer.described(),
        "rounds": plan.rounds, "slice_ms": plan.slice.as_millis() as u64, "seed": plan.seed,
    });
    let mut bench = FairnessRun { place, pgweir, pgbouncer, plan, cluster, cores, random: Seeded::new(plan.seed) };
    for name in PARTS.into_iter().filter(|name| plan.wants(name)) {
        eprintln!("{name}");
        value[name] = match name {
            "greedy" => bench.greedy()?,
            "weights" => bench.weights()?,
            _ => bench.crowd()?,
        };
        fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
        record::keep(&folder.join("samples.json.gz"), &value)?;
        let table_path = folder.join("table.md");
        fs::write(&table_path, table::table(&value))
            .map_err(|error| format!("cannot write {}: {error}", table_path.display()))?;
    }
    Ok(folder)
}

impl FairnessRun<'_> {
    fn arm(&self, name: &'static str, about: &'static str, program: &Contestant, sharing: Sharing) -> Arm {
        Arm { name, about, program: program.clone(), sharing }
    }

    /// A fresh room for one load, and all arms in it, their crowds logged in.
    fn open(&self, arms: &[Arm], crowds: &[Crowd], room: &Premises) -> Result<(World, Vec<FairnessSide>), String> {
        setup::write_users(room)?;
        let mut world = World::open(&room.folder)?;
        let start = |arm| FairnessSide::start(room, arm, crowds, self.cluster.port, &mut world, &self.cores);
        let sides = arms.iter().map(start).collect::<Result<Vec<_>, _>>()?;
        Ok((world, sides))
    }

    fn order(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        self.random.shuffle(&mut order);
        order
    }

    fn greedy(&mut self) -> Result<Value, String> {
        let one_worker = self.pgweir.variant("pgweir", &[("workers", "1")]);
        let arms = [
            self.arm("apart", "pgweir, a pool of 20 for each crowd", self.pgweir, Sharing::Apart),
            self.arm("apart-1", "the same with one worker", &one_worker, Sharing::Apart),
            self.arm(
                "classes",
                "pgweir, one pool of 20, a class for each crowd",
                self.pgweir,
                Sharing::Classes(&[1, 1]),
            ),
            self.arm("classes-1", "the same with one worker", &one_worker, Sharing::Classes(&[1, 1])),
            self.arm("one-line", "pgweir, one pool of 20, no classes", self.pgweir, Sharing::OneLine),
            self.arm("pgbouncer", "PgBouncer, one pool of 20", self.pgbouncer, Sharing::OneLine),
        ];
        let mut loads = Map::new();
        for (load, crowds) in GREEDY {
            let room = self.place.room(&format!("greedy-{load}"))?;
            let (mut world, sides) = self.open(&arms, &crowds, &room)?;
            let mut rounds = Vec::new();
            for _ in 0..self.plan.rounds {
                let mut samples = Map::new();
                let order = self.order(sides.len());
                for side in order.iter().map(|index| &sides[*index]) {
                    let sample = greedy_slice(&mut world, side, self.plan.slice).map_err(|error| side.blame(&error))?;
                    samples.insert(side.name.to_owned(), sample);
                }
                let order: Vec<&str> = order.iter().map(|index| sides[*index].name).collect();
                rounds.push(json!({ "order": order, "samples": samples }));
            }
            loads.insert(load.to_owned(), json!({ "sql": crowds[0].sql, "rounds": rounds }));
        }
        Ok(json!({ "arms": about(&arms), "loads": loads }))
    }

    fn weights(&mut self) -> Result<Value, String> {
        let arms =
            [self.arm("classes", "pgweir, one pool of 20, three classes", self.pgweir, Sharing::Classes(&WEIGHTS))];
        let mut loads = Map::new();
        for (load, crowds) in WEIGHTED {
            let room = self.place.room(&format!("weights-{}", load.replace([' ', ','], "-")))?;
            let (mut world, sides) = self.open(&arms, &crowds, &room)?;
            let mut rounds = Vec::new();
            for _ in 0..self.plan.rounds {
                let sample = weights_slice(&mut world, &sides[0]).map_err(|error| sides[0].blame(&error))?;
                rounds.push(json!({ "order": [sides[0].name], "samples": { sides[0].name: sample } }));
            }
            loads.insert(load.to_owned(), json!({ "rounds": rounds }));
        }
        Ok(json!({ "arms": about(&arms), "weights": WEIGHTS, "loads": loads }))
    }

    /// As many descriptors as there are allow one such crowd at a time.
    fn crowd(&mut self) -> Result<Value, String> {
        let arms = [
            self.arm("pgweir", "pgweir, one pool of 20", self.pgweir, Sharing::OneLine),
            self.arm("pgbouncer", "PgBouncer, one pool of 20", self.pgbouncer, Sharing::OneLine),
        ];
        let mut rounds = Vec::new();
        for round in 0..self.plan.rounds {
            let mut samples = Map::new();
            let order = self.order(arms.len());
            for arm in order.iter().map(|index| &arms[*index]) {
                let room = self.place.room(&format!("crowd-{round}-{}", arm.name))?;
                let (mut world, sides) = self.open(std::slice::from_ref(arm), &[CROWD], &room)?;
                let sample = crowd_slice(&mut world, sides[0].fleets[0]).map_err(|error| sides[0].blame(&error))?;
                samples.insert(arm.name.to_owned(), sample);
            }
            let order: Vec<&str> = order.iter().map(|index| arms[*index].name).collect();
            rounds.push(json!({ "order": order, "samples": samples }));
        }
        let clients = CROWD.clients;
        Ok(json!({ "arms": about(&arms), "clients": clients, "asks": ASKS, "sql": CROWD.sql, "rounds": rounds }))
    }
}

fn about(arms: &[Arm]) -> Value {
    arms.iter().map(|arm| json!([arm.name, arm.about])).collect()
}

/// Waits since the last call, in microseconds.
fn waits_us(world: &mut World, fleet: FleetId) -> Result<Vec<f64>, String> {
    let waits = world.take_latencies_ns(fleet);
    if waits.contains(&u32::MAX) {
        return Err("a wait was longer than can be measured".to_owned());
    }
    Ok(waits.into_iter().map(|ns| f64::from(ns / 1000)).collect())
}

fn greedy_slice(world: &mut World, side: &FairnessSide, slice: Duration) -> Result<Value, String> {
    let [greedy, modest] = side.fleets[..] else { return Err("two crowds were to log in".to_owned()) };
    world.start(greedy, Mode::Closed)?;
    world.start(modest, Mode::Thinking { mean: MODEST_THINK })?;
    world.run_for(slice / 5)?;
    for fleet in [greedy, modest] {
        world.take_latencies_ns(fleet);
    }
    let began = Instant::now();
    world.run_for(slice)?;
    let wall = began.elapsed();
    let (greedy_us, modest_us) = (waits_us(world, greedy)?, waits_us(world, modest)?);
    world.settle(modest)?;
    world.settle(greedy)?;
    interrupt::check()?;
    Ok(json!({
        "wall_us": wall.as_micros() as u64,
        "modest_us": modest_us.iter().map(|us| *us as u64).collect::<Vec<_>>(),
        "greedy": greedy_us.len(),
        "greedy_p50_us": quantile(&greedy_us, 0.5),
        "greedy_p99_us": quantile(&greedy_us, 0.99),
    }))
}

/// Ten seconds, as the figure says.
const SHARED_FOR: Duration = Duration::from_secs(10);

fn weights_slice(world: &mut World, side: &FairnessSide) -> Result<Value, String> {
    for fleet in &side.fleets {
        world.start(*fleet, Mode::Closed)?;
    }
    world.run_for(Duration::from_secs(1))?;
    let done = |world: &World| side.fleets.iter().map(|fleet| world.done(*fleet)).collect::<Vec<u64>>();
    let (done_before, before) = (done(world), server_seconds(side.running.port)?);
    world.run_for(SHARED_FOR)?;
    let (done_after, after) = (done(world), server_seconds(side.running.port)?);
    for fleet in &side.fleets {
        world.settle(*fleet)?;
    }
    let transactions: Vec<u64> = done_after.iter().zip(done_before).map(|(after, before)| after - before).collect();
    let seconds: Vec<f64> = after.iter().zip(before).map(|(after, before)| after - before).collect();
    Ok(json!({ "transactions": transactions, "server_seconds": seconds }))
}

/// What the classes have had so far, without `default`, which nobody is in.
fn server_seconds(port: u16) -> Result<Vec<f64>, String> {
    let table = console::ask(port, "SHOW CLASSES")?;
    let column = table.columns.iter().position(|name| name == "server_seconds").ok_or("no column server_seconds")?;
    let number = |row: &Vec<Option<String>>| row[column].as_deref().and_then(|text| text.parse().ok());
    let all: Option<Vec<f64>> = table.rows.iter().skip(1).map(number).collect();
    all.ok_or("classes are not counted".to_owned())
}

/// All ask at once; who is answered asks again, until all together have asked so often.
fn crowd_slice(world: &mut World, fleet: FleetId) -> Result<Value, String> {
    world.start(fleet, Mode::Closed)?;
    let clients = CROWD.clients as u64;
    let limit = Instant::now() + Duration::from_secs(60);
    while world.done(fleet) < clients * (ASKS - 1) {
        world.run_for(Duration::from_millis(5))?;
        if Instant::now() >= limit {
            return Err("the crowd was not served in a minute".to_owned());
        }
    }
    world.settle(fleet)?;
    let waits = waits_us(world, fleet)?;
    world.disconnect(fleet)?;
    Ok(json!({ "waits_us": waits.into_iter().map(|us| us as u64).collect::<Vec<_>>() }))
}
