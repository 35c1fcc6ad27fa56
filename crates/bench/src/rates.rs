//! How exactly limits hold: so many transactions, queries or logins a second, over four workers, on real sockets.
//!
//! ```text
//!   a rate, delay or reject ──► rounds ──► a fresh pooler ─► clients, each comes again as soon as it is told anything
//!                                             ─► the burst is used up ─► answers counted, every 100 ms
//! ```
//!
//! Promises: what is counted is answers that came back, each of a statement that the fake PostgreSQL has run; how long each count took
//! is measured and kept beside it. Does not: pin anybody, or measure what the limits cost (see `instructions`).

use std::time::{Duration, Instant};

use measure::interrupt;
use measure::machine::raise_descriptor_limit;
use measure::process::{self, pin_self};
use serde_json::{Map, Value, json};

use crate::contestant::{Contestant, Premises, Running};
use crate::fake::Answer;
use crate::rates_table::OVERS;
use crate::record::Record;
use crate::setup;
use crate::style::{Style, USER, work};
use crate::world::{Mode, World};

/// What is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limited {
    Transactions,
    Queries,
    Logins,
}

impl Limited {
    pub const ALL: [Limited; 3] = [Limited::Transactions, Limited::Queries, Limited::Logins];

    /// As `[classes]` calls it.
    #[must_use]
    pub fn setting(self) -> &'static str {
        match self {
            Limited::Transactions => "tps",
            Limited::Queries => "qps",
            Limited::Logins => "logins",
        }
    }

    /// Events a second that are tried. Nobody logs in ten thousand times a second on two cores.
    #[must_use]
    pub fn rates(self) -> [u32; 3] {
        match self {
            Limited::Transactions | Limited::Queries => [1, 100, 10_000],
            Limited::Logins => [1, 100, 1000],
        }
    }
}

const WORKERS: u32 = 4;

/// More than any rate needs; they live on all workers.
const CLIENTS: usize = 64;

/// Who logs in at a time: at one login a second, the last of them has not waited for client_login_timeout.
const LOGINS_AT_ONCE: usize = 16;

/// Lives on four workers, as a pool of 32 and more does.
const POOL: u32 = 40;

/// How often answers are counted.
const TICK: Duration = Duration::from_millis(100);

/// Until the burst is used up, and some more.
const WARM_UP: Duration = Duration::from_secs(2);

/// What is to be run.
#[derive(Clone, Debug)]
pub struct RatesPlan {
    pub limited: Vec<Limited>,
    /// None: those that it is usually tried with.
    pub rates: Vec<u32>,
    pub rounds: usize,
    /// Counted in each slice, after the burst.
    pub measured: Duration,
}

/// Runs every rate and writes the record. Returns it, and whether every rate could be measured.
pub fn all(
    place: &Premises,
    pgweir: &Contestant,
    plan: &RatesPlan,
    out: Option<&std::path::Path>,
) -> Result<(Record, bool), String> {
    raise_descriptor_limit();
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
    for (limited, rate) in plan.limits() {
        let setting = limited.setting();
        eprintln!("{setting}={rate}");
        let mut part = json!({ "name": format!("{setting}-{rate}"), "kind": "rates", "limited": setting });
        part["per_second"] = json!(rate);
        part["burst"] = json!(burst(rate));
        part["workers"] = json!(WORKERS);
        part["clients"] = json!(clients(limited));
        let measured = rounds(place, pgweir, plan, (limited, rate));
        whole &= record.add_part(part, measured.map(|rounds| [("rounds", rounds)]))?;
    }
    Ok((record, whole))
}

impl RatesPlan {
    fn limits(&self) -> Vec<(Limited, u32)> {
        let rates =
            |limited: Limited| if self.rates.is_empty() { limited.rates().to_vec() } else { self.rates.clone() };
        self.limited.iter().flat_map(|limited| rates(*limited).into_iter().map(|rate| (*limited, rate))).collect()
    }
}

fn clients(limited: Limited) -> usize {
    if limited == Limited::Logins { LOGINS_AT_ONCE } else { CLIENTS }
}

/// What comes while nobody asks must be kept, if all who are told no are to get what the rate brings.
fn burst(rate: u32) -> u32 {
    (rate / 10).max(1)
}

fn rounds(place: &Premises, pgweir: &Contestant, plan: &RatesPlan, limit: (Limited, u32)) -> Result<Value, String> {
    let mut rounds = Vec::new();
    for _ in 0..plan.rounds {
        let mut samples = Map::new();
        for over in OVERS {
            interrupt::check()?;
            let sample = slice(place, pgweir, plan, limit, over)?;
            let counted: u64 = sample["counts"].as_array().into_iter().flatten().filter_map(Value::as_u64).sum();
            let seconds = sample["micros"].as_u64().unwrap_or_default() as f64 / 1e6;
            eprintln!("  {over:>6}: {counted} in {seconds:.1} s, {} refused", sample["refused"]);
            samples.insert(over.to_owned(), sample);
        }
        rounds.push(json!({ "order": OVERS, "samples": samples }));
    }
    Ok(json!(rounds))
}

fn slice(
    place: &Premises,
    pgweir: &Contestant,
    plan: &RatesPlan,
    limit: (Limited, u32),
    over: &str,
) -> Result<Value, String> {
    let room = place.room("slice")?;
    setup::write_users(&room)?;
    let mut world = World::open(&room.folder)?;
    let server = world.port;
    let class = class(limit, over);
    let text = |port| ini(&room, pgweir, &class, server, port);
    let mut running = Running::start(&room, pgweir, text, &[], &process::cores())?;
    let sample = load(&mut world, &running, plan, limit.0);
    let sample = sample.map_err(|error| format!("{error}\n{}", running.log()));
    running.stop();
    sample
}

/// The class that everybody is in.
fn class((limited, rate): (Limited, u32), over: &str) -> String {
    let (setting, burst) = (limited.setting(), burst(rate));
    format!("{setting}={rate} {setting}_burst={burst} over={over}")
}

fn ini(room: &Premises, pgweir: &Contestant, class: &str, server: u16, port: u16) -> String {
    let own: String = pgweir.settings.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
    let users = room.folder.join("users-Trust.txt");
    format!(
        "[databases]\nbench = host=127.0.0.1 port={server} dbname=bench user={USER}\n\n[classes]\n\
         default = {class}\n\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
         unix_socket_dir =\nauth_type = trust\nauth_file = {}\nadmin_users = {USER}\npool_mode = transaction\n\
         default_pool_size = {POOL}\nworkers = {WORKERS}\nlog_connections = 0\nlog_disconnections = 0\n{own}",
        users.display()
    )
}

fn load(world: &mut World, running: &Running, plan: &RatesPlan, limited: Limited) -> Result<Value, String> {
    let work = work(USER, "", "bench", Style::Simple, Answer::Small).may_be_refused();
    let fleet = world.fleet(running.port, work);
    if limited == Limited::Logins {
        world.start(fleet, Mode::Storm { at_a_time: LOGINS_AT_ONCE })?;
    } else {
        world.connect(fleet, CLIENTS)?;
        world.start(fleet, Mode::Closed)?;
    }
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
        assert_eq!(Limited::Queries.rates().map(burst), [1, 10, 1000]);
    }

    #[test]
    fn each_limit_has_its_rates_unless_others_are_named() {
        let plan = |rates: &[u32]| RatesPlan {
            limited: vec![Limited::Queries, Limited::Logins],
            rates: rates.to_vec(),
            rounds: 1,
            measured: Duration::ZERO,
        };
        assert_eq!(plan(&[7]).limits(), [(Limited::Queries, 7), (Limited::Logins, 7)]);
        assert_eq!(plan(&[]).limits().len(), 6);
        assert_eq!(class((Limited::Logins, 100), "delay"), "logins=100 logins_burst=10 over=delay");
    }
}
