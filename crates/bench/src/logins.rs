//! What a login costs: user-space instructions, system calls, and how long a crowd of clients waits until all are in.
//!
//! ```text
//!   a login ──► 1 and 32 at a time ──► callgrind: 2,500 logins less 500     strace: 1,000 logins
//!           ──► rounds ──► each contestant: 4,000 clients at once ─► all have ReadyForQuery ─► all leave
//! ```
//!
//! Promises: no client asks anything, so that nothing but logins is counted; a server is there before the first one that counts.
//! Does not: count the client's part, though both share the machine: wall time has it, CPU time has not.

use std::time::Duration;

use measure::machine::raise_descriptor_limit;
use measure::process::{self, pin_self};
use measure::statistics::Seeded;
use serde_json::{Map, Value, json};

use crate::callgrind::{self, Profile};
use crate::calls;
use crate::contestant::{Contestant, Premises};
use crate::instructions::{self, Count};
use crate::record::Record;
use crate::scenario::{Kind, Proof, Scenario, login};
use crate::setup::{self, Side};
use crate::world::World;

/// The ways to log in.
pub const LOGINS: [Scenario; 3] = [
    login("trust", "trust", Proof::Trust),
    login("scram", "SCRAM, the secret in the auth file", Proof::Scram),
    login("scram-of-password", "SCRAM, the password in the auth file", Proof::ScramOfPassword),
];

/// Clients that log in at a time while something is counted.
pub const AT_A_TIME: [usize; 2] = [1, 32];

/// Logins of the short and the long run under callgrind.
const LENGTHS: (usize, usize) = (500, 2_500);

/// The same where PgBouncer may derive keys at each login: that takes a second under callgrind.
const LENGTHS_DERIVED: (usize, usize) = (10, 60);

/// Logins under strace, and before it: what happens once has happened then.
const TRACED: usize = 1_000;
const WARM_UP: usize = 100;

/// Clients that come at once.
const CROWD: usize = 4_000;

/// The same where PgBouncer may derive keys at each login: some 20 ms each.
const CROWD_DERIVED: usize = 200;

/// After clients have left: the pooler has closed their connections, and is quiet.
const QUIET: Duration = Duration::from_millis(200);

/// What is to be run.
#[derive(Clone, Debug)]
pub struct LoginsPlan {
    pub logins: Vec<Scenario>,
    /// Of the crowd; 0: instructions and system calls only.
    pub rounds: usize,
    pub seed: u64,
    /// Prints the costliest functions of the first contestant.
    pub functions: bool,
}

/// Measures every way to log in and writes the record. Returns it, and whether every one could be measured.
pub fn all(
    place: &Premises,
    contestants: &[Contestant],
    plan: &LoginsPlan,
    out: Option<&std::path::Path>,
) -> Result<(Record, bool), String> {
    raise_descriptor_limit();
    pin_self(&process::cores())?;
    let description = json!({
        "seed": plan.seed,
        "rounds": plan.rounds,
        "order_words": format!("{} paired rounds in shuffled order", plan.rounds),
        "placement_words": "nobody is pinned: pooler and load share all cores",
    });
    let mut record = Record::begin(out, "logins", contestants, description)?;
    let mut whole = true;
    for login in &plan.logins {
        eprintln!("{}", login.about);
        let part = json!({ "name": login.name, "about": login.about, "kind": "login", "crowd": clients(login) });
        let measured = measure(place, contestants, plan, login);
        whole &= record
            .add_part(part, measured.map(|(counted, rounds)| [("counted", counted), ("rounds", json!(rounds))]))?;
    }
    Ok((record, whole))
}

fn measure(
    place: &Premises,
    contestants: &[Contestant],
    plan: &LoginsPlan,
    login: &Scenario,
) -> Result<(Value, Vec<Value>), String> {
    let mut counted = Map::new();
    for at_a_time in AT_A_TIME {
        let mut each = Map::new();
        for (index, contestant) in contestants.iter().enumerate() {
            let count = count(place, login, contestant, at_a_time)?;
            let calls = traced(place, login, contestant, at_a_time)?;
            let of_each = |number: u64, logins: u64| number as f64 / logins as f64;
            let instructions = of_each(count.profile.total, count.transactions);
            let calls_each = of_each(calls.values().sum(), TRACED as u64);
            eprintln!("  {at_a_time:>2} at a time  {:<16} {instructions:>8.0} {calls_each:>6.2}", contestant.name);
            if plan.functions && index == 0 {
                eprint!("{}", instructions::list(&count));
            }
            let sample = json!({
                "instructions": count.profile.total,
                "logins": count.transactions,
                "calls": calls,
                "logins_traced": TRACED,
            });
            each.insert(contestant.name.clone(), sample);
        }
        counted.insert(at_a_time.to_string(), Value::Object(each));
    }
    let rounds = if plan.rounds == 0 { Vec::new() } else { crowds(place, contestants, plan, login)? };
    Ok((Value::Object(counted), rounds))
}

/// Whether the auth file holds less than the keys that a login is checked by.
fn is_derived(login: &Scenario) -> bool {
    login.kind == Kind::Logins(Proof::ScramOfPassword)
}

/// How many come at once.
fn clients(login: &Scenario) -> usize {
    if is_derived(login) { CROWD_DERIVED } else { CROWD }
}

/// What a long run under callgrind has more than a short one.
fn count(place: &Premises, login: &Scenario, contestant: &Contestant, at_a_time: usize) -> Result<Count, String> {
    let (few, many) = if is_derived(login) { LENGTHS_DERIVED } else { LENGTHS };
    let short = counted(place, login, contestant, at_a_time, few)?;
    let long = counted(place, login, contestant, at_a_time, many)?;
    Ok(Count { profile: long.since(&short), transactions: (many - few) as u64 })
}

fn counted(
    place: &Premises,
    login: &Scenario,
    contestant: &Contestant,
    at_a_time: usize,
    logins: usize,
) -> Result<Profile, String> {
    let room = place.room(&format!("{}-{}-{at_a_time}-{logins}", login.name, contestant.name))?;
    setup::write_users(&room)?;
    let mut world = World::open(&room.folder)?;
    let file = room.folder.join("callgrind.out");
    let mut wrapper = vec!["valgrind".to_owned(), format!("--callgrind-out-file={}", file.display())];
    wrapper.extend(callgrind::OPTIONS.map(str::to_owned));
    let mut side = setup::start(&room, login, contestant, &mut world, &wrapper, &process::cores())?;
    world.visit(side.fleet, logins, at_a_time).map_err(|error| side.blame(&error))?;
    world.run_for(QUIET)?;
    if let Some(running) = &mut side.running {
        running.stop();
    }
    let text = std::fs::read_to_string(&file).map_err(|error| format!("callgrind wrote nothing: {error}"))?;
    callgrind::read(&text)
}

/// System calls of [`TRACED`] logins.
fn traced(
    place: &Premises,
    login: &Scenario,
    contestant: &Contestant,
    at_a_time: usize,
) -> Result<std::collections::BTreeMap<String, u64>, String> {
    let room = place.room(&format!("{}-{}-{at_a_time}-traced", login.name, contestant.name))?;
    setup::write_users(&room)?;
    let mut world = World::open(&room.folder)?;
    let side = setup::start(&room, login, contestant, &mut world, &[], &process::cores())?;
    world.visit(side.fleet, WARM_UP, at_a_time).map_err(|error| side.blame(&error))?;
    world.run_for(QUIET)?;
    calls::during(&room, &side, || {
        world.visit(side.fleet, TRACED, at_a_time)?;
        world.run_for(QUIET)
    })
}

/// Every contestant's crowd in each round, in a random order.
fn crowds(
    place: &Premises,
    contestants: &[Contestant],
    plan: &LoginsPlan,
    login: &Scenario,
) -> Result<Vec<Value>, String> {
    let room = place.room(&format!("{}-crowd", login.name))?;
    setup::write_users(&room)?;
    let mut world = World::open(&room.folder)?;
    let mut random = Seeded::new(plan.seed);
    let mut sides = Vec::new();
    for contestant in contestants {
        let side = setup::start(&room, login, contestant, &mut world, &[], &process::cores())?;
        // The first crowd finds tables and descriptors short.
        crowd(&mut world, &side, clients(login))?;
        sides.push(side);
    }
    let mut rounds = Vec::new();
    for _ in 0..plan.rounds {
        let mut order: Vec<usize> = (0..sides.len()).collect();
        random.shuffle(&mut order);
        let mut samples = Map::new();
        for &index in &order {
            let sample = crowd(&mut world, &sides[index], clients(login))?;
            samples.insert(sides[index].name.clone(), sample);
        }
        let order: Vec<&str> = order.iter().map(|index| sides[*index].name.as_str()).collect();
        rounds.push(json!({ "order": order, "samples": samples }));
    }
    Ok(rounds)
}

fn crowd(world: &mut World, side: &Side, clients: usize) -> Result<Value, String> {
    let pid = side.pid().ok_or("nobody logs in at the direct connection")?;
    let before = process::usage(pid)?;
    let wall = world.crowd(side.fleet, clients).map_err(|error| side.blame(&error))?;
    let used = process::usage(pid)?.since(before);
    world.disconnect(side.fleet)?;
    world.run_for(QUIET)?;
    Ok(json!({ "wall_ns": wall.as_nanos() as u64, "cpu_ns": used.cpu_ns }))
}
