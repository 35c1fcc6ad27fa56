//! How exactly limits hold: so many transactions a second, over four workers, on real sockets.
//!
//! ```text
//!   a rate, delay or reject ──► rounds ──► a fresh pooler ─► 64 clients, each asks as soon as it is told anything
//!                                             ─► the burst is used up ─► answers counted, every 100 ms
//! ```
//!
//! Promises: what is counted is answers that came back, each of a statement that the fake PostgreSQL has run; how long each count took
//! is measured and kept beside it. Does not: pin anybody, or measure what the limits cost (see `instructions`).

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use crate::client::{Style, Work};
use crate::contestant::{Contestant, Premises, Running};
use crate::fake::Answer;
use crate::process::{self, pin_self};
use crate::record::Record;
use crate::setup::{self, USER};
use crate::world::{Mode, World};
use crate::{interrupt, run};

/// Transactions a second.
pub const RATES: [u32; 3] = [1, 100, 10_000];

/// Whoever is over waits, or is told.
pub const OVERS: [&str; 2] = ["delay", "reject"];

const WORKERS: u32 = 4;

/// More than any rate needs; they live on all workers.
const CLIENTS: usize = 64;

/// Lives on four workers, as a pool of 32 and more does.
const POOL: u32 = 40;

/// How often answers are counted.
const TICK: Duration = Duration::from_millis(100);

/// Until the burst is used up, and some more.
const WARM_UP: Duration = Duration::from_secs(2);

/// What is to be run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub rates: Vec<u32>,
    pub rounds: usize,
    /// Counted in each slice, after the burst.
    pub measured: Duration,
}

/// Runs every rate and writes the record. Returns it, and whether every rate could be measured.
pub fn all(
    place: &Premises,
    pgweir: &Contestant,
    plan: &Plan,
    out: Option<&std::path::Path>,
) -> Result<(Record, bool), String> {
    run::raise_descriptor_limit();
    pin_self(&process::cores())?;
    let description = json!({
        "rounds": plan.rounds,
        "slice_ms": plan.measured.as_millis() as u64,
        "warm_up_ms": WARM_UP.as_millis() as u64,
        "order_words": format!(
            "{} rounds of delay and reject; {} s counted, every {} ms, {} s after the first question",
            plan.rounds,
            plan.measured.as_secs(),
            TICK.as_millis(),
            WARM_UP.as_secs()
        ),
        "placement_words": "nobody is pinned: pooler and load share all cores",
    });
    let mut record = Record::begin(out, "rates", std::slice::from_ref(pgweir), description)?;
    let mut whole = true;
    for &rate in &plan.rates {
        eprintln!("{rate} a second");
        let mut result =
            json!({ "name": format!("rate-{rate}"), "kind": "rates", "per_second": rate, "burst": burst(rate) });
        result["workers"] = json!(WORKERS);
        result["clients"] = json!(CLIENTS);
        match rounds(place, pgweir, plan, rate) {
            Ok(rounds) => result["rounds"] = rounds,
            Err(error) => {
                interrupt::report(&error);
                result["error"] = json!(error);
                whole = false;
            }
        }
        record.add(result)?;
        interrupt::check()?;
    }
    Ok((record, whole))
}

/// What comes while nobody asks must be kept, if all who are told no are to get what the rate brings.
fn burst(rate: u32) -> u32 {
    (rate / 10).max(1)
}

fn rounds(place: &Premises, pgweir: &Contestant, plan: &Plan, rate: u32) -> Result<Value, String> {
    let mut rounds = Vec::new();
    for _ in 0..plan.rounds {
        let mut samples = Map::new();
        for over in OVERS {
            interrupt::check()?;
            let sample = slice(place, pgweir, plan, (rate, over))?;
            let counted: u64 = sample["counts"].as_array().into_iter().flatten().filter_map(Value::as_u64).sum();
            let seconds = sample["micros"].as_u64().unwrap_or_default() as f64 / 1e6;
            eprintln!("  {over:>6}: {counted} in {seconds:.1} s, {} refused", sample["refused"]);
            samples.insert(over.to_owned(), sample);
        }
        rounds.push(json!({ "order": OVERS, "samples": samples }));
    }
    Ok(json!(rounds))
}

fn slice(place: &Premises, pgweir: &Contestant, plan: &Plan, limit: (u32, &str)) -> Result<Value, String> {
    let room = place.room("slice")?;
    setup::write_users(&room)?;
    let mut world = World::open(&room.folder)?;
    let server = world.port;
    let text = |port| ini(&room, pgweir, limit, server, port);
    let mut running = Running::start(&room, pgweir, text, &[], &process::cores())?;
    let sample = load(&mut world, &running, plan);
    let sample = sample.map_err(|error| format!("{error}\n{}", running.log()));
    running.stop();
    sample
}

fn ini(room: &Premises, pgweir: &Contestant, (rate, over): (u32, &str), server: u16, port: u16) -> String {
    let own: String = pgweir.settings.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
    let (users, burst) = (room.folder.join("users-Trust.txt"), burst(rate));
    format!(
        "[databases]\nbench = host=127.0.0.1 port={server} dbname=bench user={USER}\n\n[classes]\n\
         default = tps={rate} tps_burst={burst} over={over}\n\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
         unix_socket_dir =\nauth_type = trust\nauth_file = {}\nadmin_users = {USER}\npool_mode = transaction\n\
         default_pool_size = {POOL}\nworkers = {WORKERS}\nlog_connections = 0\nlog_disconnections = 0\n{own}",
        users.display()
    )
}

fn load(world: &mut World, running: &Running, plan: &Plan) -> Result<Value, String> {
    let work = Work::new(USER, "", "bench", Style::Simple, Answer::Small).may_be_refused();
    let fleet = world.fleet(running.port, work);
    world.connect(fleet, CLIENTS)?;
    world.start(fleet, Mode::Closed)?;
    world.run_for(WARM_UP)?;
    let (before, refused) = (world.done(fleet), world.refused(fleet));
    let (began, mut done) = (Instant::now(), before);
    let (mut counts, mut ends) = (Vec::new(), Vec::new());
    while began.elapsed() < plan.measured {
        world.run_for(TICK)?;
        let so_far = std::mem::replace(&mut done, world.done(fleet));
        counts.push(done - so_far);
        ends.push(began.elapsed().as_micros() as u64);
    }
    Ok(json!({
        "counts": counts,
        "ends_us": ends,
        "micros": ends.last().copied().unwrap_or_default(),
        "done_before": before,
        "refused": world.refused(fleet) - refused,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_what_comes_in_a_tenth_of_a_second() {
        assert_eq!(RATES.map(burst), [1, 10, 1000]);
    }
}
