//! The cost of probes at rest: three hosts, each asked once a second, beside the same program that asks none.
//!
//! Both run at the same time, with a client that says nothing and one server, so that each meets the same moments of the machine.

use std::time::{Duration, Instant};

use measure::process;
use measure::statistics::Seeded;
use serde_json::{Map, Value, json};

use super::UpkeepPlan;
use super::watched::PLAIN;
use crate::contestant::{Contestant, Premises, Running};
use crate::fake::Answer;
use crate::setup::{self, Upstream};
use crate::style::{PASSWORD, Style, USER, work};
use crate::world::{Mode, World};

/// A round takes a minute.
const ROUNDS_MAX: usize = 5;
/// Both have found their primary, and linked a server.
const SETTLES: Duration = Duration::from_secs(2);
const ARMS: [(&str, &str); 2] = [("quiet", "0"), ("probed", "1")];

pub(super) fn measure(place: &Premises, pgweir: &Contestant, plan: &UpkeepPlan) -> Result<Value, String> {
    let mut random = Seeded::new(plan.seed);
    let mut rounds = Vec::new();
    for number in 0..plan.rounds.min(ROUNDS_MAX) {
        let mut order = ARMS;
        random.shuffle(&mut order);
        let room = place.room(&format!("probed-{number}"))?;
        let samples = round(&room, pgweir, order, Duration::from_secs(plan.storm_s))?;
        eprintln!("  {samples}");
        rounds.push(json!({ "order": order.map(|(arm, _)| arm), "samples": samples }));
    }
    Ok(json!(rounds))
}

/// Starts both, in this order, and lets them rest.
fn round(place: &Premises, pgweir: &Contestant, order: [(&str, &str); 2], time: Duration) -> Result<Value, String> {
    setup::write_users(place)?;
    let mut world = World::open(&place.folder)?;
    let upstream = Upstream::hosts(&mut world)?;
    let mut running = Vec::new();
    for (arm, interval) in order {
        let settings = [("host_check_interval", interval), ("log_connections", "0"), ("log_disconnections", "0")];
        let contestant = Contestant { hosts: true, ..pgweir.variant(arm, &settings) };
        let ini = |port| setup::ini(place, &PLAIN, &contestant, &upstream, port);
        let one = Running::start(place, &contestant, ini, &[], &process::cores())?;
        let fleet = world.fleet(one.port, work(USER, PASSWORD, "bench", Style::Simple, Answer::Small));
        world.connect(fleet, 1)?;
        world.start(fleet, Mode::Closed)?;
        world.settle(fleet)?;
        running.push(one);
    }
    world.run_for(SETTLES)?;
    let usages = || running.iter().map(|one| process::usage(one.pid())).collect::<Result<Vec<_>, _>>();
    let (before, began) = (usages()?, Instant::now());
    world.run_for(time)?;
    let (after, wall_ns) = (usages()?, began.elapsed().as_nanos() as u64);
    let mut samples = Map::new();
    for ((one, after), before) in running.iter().zip(after).zip(before) {
        let used = after.since(before);
        let sample =
            json!({ "cpu_ns": used.cpu_ns, "sleeps": used.voluntary, "threads": used.threads, "wall_ns": wall_ns });
        samples.insert(one.name.clone(), sample);
    }
    Ok(Value::Object(samples))
}
