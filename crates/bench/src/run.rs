//! A whole run: each scenario in turn, each result into the record.

use std::path::Path;
use std::time::{Duration, Instant};

use measure::interrupt;
use measure::machine::raise_descriptor_limit;
use measure::process::{self, pin_self};
use measure::statistics::Seeded;
use serde_json::{Map, Value, json};

use crate::contestant::{Contestant, Premises};
use crate::pgbench::{self, Cluster};
use crate::plan::Plan;
use crate::record::Record;
use crate::rounds::{self, Pace};
use crate::scenario::{Kind, Proof, SCENARIOS, Scenario};
use crate::setup::{self, Placement, Side};
use crate::world::{Mode, World};
use crate::{calls, expected, half_load, idle, instructions};

/// The name under which instruction counts are asked for.
pub const INSTRUCTIONS: &str = "instructions";

/// What all scenarios of a run have in common.
struct Bench<'a> {
    place: &'a Premises,
    contestants: &'a [Contestant],
    plan: &'a Plan,
    /// Every core this program was given.
    cores: Vec<usize>,
    random: Seeded,
    cluster: Option<Cluster>,
}

/// Runs what is wanted. Returns the record, which is also written below `out`, and whether every scenario could be
/// measured; thresholds are the report's matter.
pub fn all(
    place: &Premises,
    contestants: &[Contestant],
    plan: &Plan,
    label: &str,
    out: Option<&Path>,
) -> Result<(Record, bool), String> {
    let known = |name: &String| name == INSTRUCTIONS || SCENARIOS.iter().any(|one| one.name == name);
    if let Some(unknown) = plan.wanted.iter().find(|name| !known(name)) {
        return Err(format!("no scenario '{unknown}'; `list` names them"));
    }
    // Thousands of clients need as many descriptors; contestants inherit the limit. Where it stays too low a scenario fails and says so.
    raise_descriptor_limit();
    let random = Seeded::new(plan.seed);
    let mut bench = Bench { place, contestants, plan, cores: process::cores(), random, cluster: None };
    let mut record = Record::begin(out, label, contestants, bench.description())?;
    let mut whole = true;
    let began = Instant::now();
    eprintln!("this takes about {}", words(bench.expected()?));
    for scenario in SCENARIOS.iter().filter(|one| plan.wants(one.name)) {
        eprintln!("{}: {}", scenario.name, scenario.about);
        let mut result = json!({ "name": scenario.name, "about": scenario.about, "clients": scenario.clients });
        let one_began = Instant::now();
        match bench.scenario(scenario) {
            Ok(measured) => measured.into_iter().for_each(|(key, value)| result[key] = value),
            Err(error) => {
                interrupt::report(&error);
                result["kind"] = json!(kind_name(scenario.kind));
                result["error"] = json!(error);
                whole = false;
            }
        }
        result["seconds"] = json!(one_began.elapsed().as_secs());
        record.add(result)?;
        interrupt::check()?;
    }
    bench.cluster = None;
    if plan.wants(INSTRUCTIONS) {
        let counted = bench.instructions();
        whole &= counted.as_object().is_some_and(|all| all.values().all(Value::is_object));
        record.set(INSTRUCTIONS, counted)?;
        interrupt::check()?;
    }
    eprintln!("it took {}", words(began.elapsed()));
    Ok((record, whole))
}

/// Minutes and seconds, rounded to what a person wants to know.
fn words(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 100.0 { format!("{seconds:.0} seconds") } else { format!("{:.0} minutes", seconds / 60.0) }
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Closed => "closed",
        Kind::Logins(_) => "logins",
        Kind::Idle => "idle",
        Kind::HalfLoad { .. } => "half-load",
        Kind::Pgbench { .. } => "pgbench",
        Kind::Few { .. } => "few",
        Kind::Instructions => "instructions",
    }
}

/// What stands in the record for a scenario that is about pgweir alone.
fn without_pgweir() -> Map<String, Value> {
    Map::from_iter([("notes".to_owned(), json!(["pgweir is not among the contestants"]))])
}

impl Bench<'_> {
    fn description(&self) -> Value {
        let Plan { pace, quick, seed, .. } = self.plan;
        let placement = self.placement();
        let words = format!(
            "closed loops, logins and idle clients: contestant on core {:?}, load and fake PostgreSQL on core {:?}; \
             half load: everything on cores {:?}",
            placement.contestant, placement.load, self.cores
        );
        json!({
            "quick": quick,
            "seed": seed,
            "rounds": pace.rounds,
            "slice_ms": pace.slice.as_millis() as u64,
            "warm_up_ms": pace.warm_up.as_millis() as u64,
            "core_of_contestants": placement.contestant,
            "core_of_load": placement.load,
            "placement_words": words,
        })
    }

    /// One core for everything, so that a message is a switch and not a wake across cores; or, split, one for each.
    fn placement(&self) -> Placement {
        let last = self.cores.last().copied().unwrap_or(0);
        let load = if self.plan.split { self.cores.first().copied().unwrap_or(0) } else { last };
        Placement { load: vec![load], contestant: vec![last] }
    }

    fn scenario(&mut self, scenario: &Scenario) -> Result<Map<String, Value>, String> {
        // Declared first, dropped last: everything that runs in it has ended when the room goes.
        let room = self.place.room(scenario.name)?;
        setup::write_users(&room)?;
        let mut result = match scenario.kind {
            Kind::Closed => self.load(&room, scenario, Mode::Closed)?,
            Kind::Logins(_) => self.load(&room, scenario, Mode::Storm { at_a_time: scenario.clients })?,
            Kind::Idle => self.idle(&room, scenario)?,
            Kind::HalfLoad { .. } => self.half_load(&room, scenario)?,
            Kind::Pgbench { arguments } => self.pgbench(&room, scenario, arguments, None)?,
            Kind::Few { arguments, counted } => self.pgbench(&room, scenario, arguments, Some(counted))?,
            Kind::Instructions => self.fidelity(&room)?,
        };
        result.insert("kind".to_owned(), json!(kind_name(scenario.kind)));
        Ok(result)
    }

    fn expected(&self) -> Result<Duration, String> {
        let wanted = SCENARIOS.iter().filter(|one| self.plan.wants(one.name));
        let with = |one| Ok((one, self.contestants_of(one)?));
        let scenarios: Vec<_> = wanted.map(with).collect::<Result<_, String>>()?;
        let counted = if self.plan.wants(INSTRUCTIONS) { self.contestants.len() } else { 0 };
        Ok(expected::whole(self.plan, scenarios.into_iter(), counted))
    }

    fn contestants_of(&self, scenario: &Scenario) -> Result<Vec<Contestant>, String> {
        if self.plan.bare { Ok(self.contestants.to_vec()) } else { setup::contestants(scenario, self.contestants) }
    }

    /// Closed loops and login storms.
    fn load(&mut self, room: &Premises, scenario: &Scenario, mode: Mode) -> Result<Map<String, Value>, String> {
        let placement = self.placement();
        pin_self(&placement.load)?;
        let mut world = World::open(&room.folder)?;
        let mut sides = Vec::new();
        for contestant in self.contestants_of(scenario)? {
            let side = setup::start(room, scenario, &contestant, &mut world, &[], &placement.contestant)?;
            if mode == Mode::Closed {
                world.connect(side.fleet, scenario.clients).map_err(|error| side.blame(&error))?;
            }
            sides.push(side);
        }
        let mut pace = self.plan.pace;
        if scenario.kind == Kind::Logins(Proof::Scram) {
            // The client's side of SCRAM takes milliseconds of the same core: a slice needs its time to hold enough logins.
            pace.slice *= 2;
        }
        let rounds = rounds::run(&mut world, &sides, mode, pace, &mut self.random)?;
        let (system_calls, notes) = self.count_calls(room, &mut world, &sides, mode);
        let inis = sides.iter().filter_map(|side| Some((side.name.clone(), json!(side.running.as_ref()?.ini))));
        let inis: Map<String, Value> = inis.collect();
        for side in &sides {
            world.disconnect(side.fleet)?;
        }
        let mut result = Map::new();
        result.insert("ini".to_owned(), json!(inis));
        result.insert("rounds".to_owned(), json!(rounds));
        result.insert("system_calls".to_owned(), json!(system_calls));
        result.insert("notes".to_owned(), json!(notes));
        Ok(result)
    }

    /// Counts without which the rest of the scenario still stands: a failure becomes a note.
    fn count_calls(
        &self,
        room: &Premises,
        world: &mut World,
        sides: &[Side],
        mode: Mode,
    ) -> (Map<String, Value>, Vec<String>) {
        let time = self.plan.counting();
        let mut counted = Map::new();
        let mut notes = Vec::new();
        for side in sides.iter().filter(|side| side.running.is_some() && !self.plan.bare) {
            match calls::count(room, world, side, mode, time) {
                Ok(calls) => drop(counted.insert(side.name.clone(), calls)),
                Err(error) => notes.push(format!("system calls of {} were not counted: {error}", side.name)),
            }
        }
        (counted, notes)
    }

    fn idle(&mut self, room: &Premises, scenario: &Scenario) -> Result<Map<String, Value>, String> {
        let placement = self.placement();
        pin_self(&placement.load)?;
        let mut world = World::open(&room.folder)?;
        let rounds = self.plan.idle_rounds();
        let random = &mut self.random;
        let (rounds, inis) = idle::run(room, &mut world, scenario, self.contestants, &placement, rounds, random)?;
        Ok(Map::from_iter([("rounds".to_owned(), json!(rounds)), ("ini".to_owned(), json!(inis))]))
    }

    fn half_load(&mut self, room: &Premises, scenario: &Scenario) -> Result<Map<String, Value>, String> {
        let Some(pgweir) = self.pgweir().cloned() else { return Ok(without_pgweir()) };
        pin_self(&self.cores)?;
        let placement = Placement { load: self.cores.clone(), contestant: self.cores.clone() };
        let mut world = World::open(&room.folder)?;
        let pace = Pace { rounds: self.plan.pace.rounds.min(21), ..self.plan.pace };
        half_load::run(room, &mut world, scenario, &pgweir, &placement, pace, &mut self.random)
    }

    /// Instructions with and without a look at session state.
    fn fidelity(&mut self, room: &Premises) -> Result<Map<String, Value>, String> {
        let Some(pgweir) = self.pgweir() else { return Ok(without_pgweir()) };
        pin_self(&self.cores)?;
        let counted = instructions::fidelity(room, pgweir, &self.placement())?;
        Ok(Map::from_iter([(INSTRUCTIONS.to_owned(), Value::Object(counted))]))
    }

    fn pgweir(&self) -> Option<&Contestant> {
        self.contestants.iter().find(|one| one.name == "pgweir")
    }

    /// With a count, nobody but the pooler is on its core, and its system calls are counted over so many transactions.
    fn pgbench(
        &mut self,
        room: &Premises,
        scenario: &Scenario,
        arguments: &'static str,
        counted: Option<u64>,
    ) -> Result<Map<String, Value>, String> {
        let apart = counted.is_some();
        pin_self(&self.cores)?;
        if self.cluster.is_none() {
            self.cluster = Some(Cluster::start(self.place, pgbench::TERMS)?);
        }
        let cluster = self.cluster.as_ref().ok_or("started above")?;
        let contestants = self.contestants_of(scenario)?;
        let contestant = self.placement().contestant;
        let others: Vec<usize> = self.cores.iter().copied().filter(|core| !contestant.contains(core)).collect();
        if apart && others.is_empty() {
            return Err("this machine has one core".to_owned());
        }
        let load = if apart { others } else { self.cores.clone() };
        cluster.pin(&load)?;
        let (rounds, seconds) = if apart { self.plan.few() } else { self.plan.pgbench() };
        let placement = Placement { load, contestant };
        let terms = pgbench::Run { arguments, rounds, seconds, counted: counted.filter(|_| !self.plan.bare) };
        pgbench::run(room, cluster, scenario, &contestants, &placement, terms, &mut self.random)
    }

    /// Instruction counts under each load; an error stands in the place of the counts.
    fn instructions(&self) -> Value {
        let mut result = Map::new();
        for case in instructions::CASES.iter().take_while(|_| interrupt::check().is_ok()) {
            eprintln!("{INSTRUCTIONS}: {}", case.about);
            let counted = pin_self(&self.cores)
                .and_then(|()| instructions::run(self.place, case, self.contestants, &self.placement()));
            let value = match counted {
                Ok(counted) => Value::Object(counted),
                Err(error) => {
                    eprintln!("  failed: {error}");
                    json!(error)
                }
            };
            result.insert(case.name.to_owned(), value);
        }
        Value::Object(result)
    }
}

/// Prints the instructions per transaction of each program under each load (of these names; none means all), and,
/// if they are to be `listed`, the costliest functions and source lines.
pub fn print_instructions(
    place: &Premises,
    programs: &[Contestant],
    wanted: &[String],
    rounds: usize,
    listed: bool,
) -> Result<(), String> {
    let known = |name: &String| instructions::CASES.iter().any(|case| case.name == name);
    if let Some(unknown) = wanted.iter().find(|name| !known(name)) {
        return Err(format!("no load '{unknown}' for instructions"));
    }
    let cores = process::cores();
    pin_self(&cores)?;
    let placement = Placement { load: cores.clone(), contestant: cores };
    let is_chosen = |case: &&instructions::Case| wanted.is_empty() || wanted.iter().any(|name| name == case.name);
    let chosen: Vec<_> = instructions::CASES.iter().filter(is_chosen).collect();
    let pairs = chosen.iter().flat_map(|case| programs.iter().map(move |program| (*case, program)));
    let mut counted: Vec<_> = pairs.map(|(case, program)| (case, program, Vec::new())).collect();
    for round in 0..rounds {
        for (case, program, counts) in &mut counted {
            let count = instructions::count(place, case, program, &placement)?;
            counts.push(count.each(count.profile.total));
            let line = instructions::line(case, &program.name, &counts[round..]);
            if rounds == 1 {
                println!("{line}");
            } else {
                eprintln!("  {line}");
            }
            if listed && round == 0 {
                print!("{}", instructions::list(&count));
            }
        }
    }
    if rounds > 1 {
        println!("medians of {rounds} rounds, all of them in each, and their range");
        counted
            .iter()
            .for_each(|(case, program, counts)| println!("{}", instructions::line(case, &program.name, counts)));
    }
    Ok(())
}
