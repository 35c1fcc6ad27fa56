//! `pool_size = auto` beside fixed sizes, on a real PostgreSQL whose disk counts.
//!
//! ```text
//!   a part (script, clients) ──► tables are read ──► rounds ──► a slice of each size:
//!       freshen ─► pooler starts ─► logins ─► warm-up (auto: until it has settled) ─► measured
//! ```
//!
//! Promises: every slice begins with a fresh pooler and fresh servers, its transactions are counted every half second and kept,
//! the search of auto apart from what follows it. Sizes go up in one round and down in the next, so that a machine that becomes
//! slower is slower for all. All tables lie in PostgreSQL's memory before the first slice: slices ask for the same rows in the same
//! order, so otherwise whoever comes first would read them from the disk for all who come after.
//! Does not: pin anybody. PostgreSQL, pooler and load share the machine as they do where it is small.

use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use measure::interrupt;
use measure::login::Account;
use measure::machine::raise_descriptor_limit;
use measure::process::{self, pin_self};
use measure::script::{PGBENCH, Script};
use measure::statistics::quantile;
use measure::work::{First, Question, Transaction, Work};
use serde_json::{Map, Value, json};

use crate::console;
use crate::contestant::{Contestant, Premises, Running};
use crate::pgbench::{Cluster, Terms};
use crate::record::Record;
use crate::setup;
use crate::sizing_table::AUTO;
use crate::style::{USER, asking};
use crate::world::{Mode, World};

/// Sizes that auto is held against.
pub const SIZES: [u32; 7] = [2, 4, 8, 16, 32, 64, 100];

/// Clients that a load of pgbench's has, and one whose statements wait.
pub const CLIENTS: [usize; 3] = [50, 500, 4000];
pub const CLIENTS_THAT_WAIT: [usize; 2] = [10, 60];

/// Milliseconds that a statement waits in the loads whose statements do nothing else.
pub const WAITS: [u32; 3] = [100, 500, 2000];

/// A disk that counts, tables that fit into memory, and room for the largest pool.
const TERMS: Terms = Terms {
    scale: 100,
    settings: &[
        "listen_addresses=127.0.0.1",
        "unix_socket_directories=",
        "fsync=on",
        "synchronous_commit=on",
        "shared_buffers=2GB",
        "max_connections=120",
        "max_wal_size=8GB",
    ],
};

/// Brings all accounts and their index into PostgreSQL's memory. A sequential scan would not: it recycles a few buffers where a
/// table is larger than a quarter of them (PostgreSQL's src/backend/storage/buffer/README, "Buffer Ring Replacement Strategy").
const READ_ALL: &str = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET max_parallel_workers_per_gather = 0; \
                        SELECT count(abalance) FROM pgbench_accounts WHERE aid > 0";

/// How often transactions are counted.
const TICK: Duration = Duration::from_millis(500);

/// Servers open, caches warm: before a fixed size is measured.
const WARM_UP: Duration = Duration::from_secs(2);

/// How long auto may look for its size before it is measured where it is.
const SEARCH_MAX: Duration = Duration::from_secs(15);

/// How long the connections of the last slice may take to go.
const GONE_MAX: Duration = Duration::from_secs(20);

/// The work of the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    Pgbench(Script),
    /// A statement that waits for so many milliseconds, and computes nothing.
    Wait(u32),
}

impl Load {
    const ALL: [Load; 2 + WAITS.len()] = [
        Load::Pgbench(Script::Select),
        Load::Pgbench(Script::TpcB),
        Load::Wait(WAITS[0]),
        Load::Wait(WAITS[1]),
        Load::Wait(WAITS[2]),
    ];

    /// Its name in the names of parts.
    fn key(self) -> String {
        match self {
            Load::Pgbench(Script::TpcB) => "tpcb".to_owned(),
            Load::Pgbench(Script::Select) => "select".to_owned(),
            Load::Wait(ms) => format!("wait{ms}"),
        }
    }

    fn clients(self) -> &'static [usize] {
        match self {
            Load::Pgbench(_) => &CLIENTS,
            Load::Wait(_) => &CLIENTS_THAT_WAIT,
        }
    }

    fn work(self) -> Work {
        match self {
            Load::Pgbench(script) => {
                let account = Account::new(USER, None, "bench", "bench");
                let transaction = Transaction { script, tables: PGBENCH, scale: TERMS.scale, seed: 0 };
                Work::new(account, First::Nothing, Question::Transaction(transaction))
            }
            Load::Wait(ms) => asking("bench", "bench", &format!("SELECT 1 FROM pg_sleep({ms} / 1000.0)"), 1),
        }
    }
}

/// A load, and the number of clients that ask for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub load: Load,
    pub clients: usize,
}

impl Part {
    /// Those that are meant by `select:500`, or by `select`. Errors: it names no load, or no number.
    pub fn parse(text: &str) -> Result<Vec<Part>, String> {
        let (name, clients) = text.split_once(':').map_or((text, None), |(name, clients)| (name, Some(clients)));
        let known = || Load::ALL.map(Load::key).join(", ");
        let load = Load::ALL.into_iter().find(|load| load.key() == name);
        let load = load.ok_or_else(|| format!("'{name}' is none of {}", known()))?;
        let part = |clients| Part { load, clients };
        let Some(clients) = clients else { return Ok(load.clients().iter().copied().map(part).collect()) };
        let number = clients.parse().ok().filter(|number| *number > 0);
        number.map(|number| vec![part(number)]).ok_or(format!("'{clients}' is no number of clients"))
    }

    /// All loads with every number of clients.
    #[must_use]
    pub fn all() -> Vec<Part> {
        let of = |load: Load| load.clients().iter().map(move |&clients| Part { load, clients });
        Load::ALL.into_iter().flat_map(of).collect()
    }

    fn name(self) -> String {
        format!("sizing-{}-{}", self.load.key(), self.clients)
    }
}

/// What is to be run.
#[derive(Clone, Debug)]
pub struct SizingPlan {
    pub parts: Vec<Part>,
    pub sizes: Vec<u32>,
    pub rounds: usize,
    /// Measured in each slice, after warm-up or search.
    pub measured: Duration,
}

/// Runs every part and writes the record. Returns it, and whether every part could be measured.
pub fn all(
    place: &Premises,
    pgweir: &Contestant,
    plan: &SizingPlan,
    kept: Option<&Path>,
    out: Option<&Path>,
) -> Result<(Record, bool), String> {
    raise_descriptor_limit();
    pin_self(&process::cores())?;
    let cluster = match kept {
        Some(folder) => Cluster::keep(place, TERMS, folder)?,
        None => Cluster::start(place, TERMS)?,
    };
    let description = json!({
        "rounds": plan.rounds,
        "slice_ms": plan.measured.as_millis() as u64,
        "warm_up_ms": WARM_UP.as_millis() as u64,
        "order_words": format!(
            "{} rounds, sizes up in one and down in the next; {} s measured after {} s of warm-up, of auto after it has settled \
             or {} s",
            plan.rounds,
            plan.measured.as_secs(),
            WARM_UP.as_secs(),
            SEARCH_MAX.as_secs()
        ),
        "placement_words": "nobody is pinned: PostgreSQL, pooler and load share all cores",
    });
    let mut record = Record::begin(out, "sizing", std::slice::from_ref(pgweir), description)?;
    let mut whole = true;
    for &part in &plan.parts {
        let about = format!("{}, {} clients", part.load.key(), part.clients);
        eprintln!("{about}");
        let mut result = json!({ "name": part.name(), "about": about, "clients": part.clients, "kind": "sizing" });
        result["postgresql"] = cluster.described();
        let bench = Slices { place, cluster: &cluster, pgweir, part, measured: plan.measured };
        whole &= record.add_part(result, bench.rounds(plan).map(|rounds| [("rounds", rounds)]))?;
    }
    Ok((record, whole))
}

/// What the slices of one part have in common.
struct Slices<'a> {
    place: &'a Premises,
    cluster: &'a Cluster,
    pgweir: &'a Contestant,
    part: Part,
    measured: Duration,
}

impl Slices<'_> {
    fn rounds(&self, plan: &SizingPlan) -> Result<Value, String> {
        // Auto stands in the middle: what it is held against lies before and behind it.
        let mut order: Vec<Option<u32>> = plan.sizes.iter().copied().map(Some).collect();
        order.insert(order.len() / 2, None);
        let mut rounds = Vec::new();
        self.cluster.ask(READ_ALL)?;
        for _ in 0..plan.rounds {
            let mut samples = Map::new();
            for &size in &order {
                interrupt::check()?;
                let sample = self.slice(size)?;
                eprintln!("  {:>6}: {}", name(size), described(&sample));
                samples.insert(name(size), sample);
            }
            let names: Vec<String> = order.iter().map(|size| name(*size)).collect();
            rounds.push(json!({ "order": names, "samples": samples }));
            order.reverse();
        }
        Ok(json!(rounds))
    }

    /// The same state for everybody: nobody connected, small tables without dead rows, nothing left to be written.
    fn freshen(&self) -> Result<(), String> {
        let count =
            "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
        let limit = Instant::now() + GONE_MAX;
        while self.cluster.ask(count)?.trim() != "0" {
            if Instant::now() > limit {
                return Err("connections of the last slice do not go".to_owned());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        if self.part.load == Load::Pgbench(Script::TpcB) {
            for sql in ["TRUNCATE pgbench_history", "VACUUM pgbench_branches", "VACUUM pgbench_tellers", "CHECKPOINT"] {
                self.cluster.ask(sql)?;
            }
        }
        Ok(())
    }

    fn slice(&self, size: Option<u32>) -> Result<Value, String> {
        self.freshen()?;
        let room = self.place.room("slice")?;
        setup::write_users(&room)?;
        let text = |port| self.ini(&room, size, port);
        let mut running = Running::start(&room, self.pgweir, text, &[], &process::cores())?;
        let sample = self.load(&room, &running, size);
        let sample = sample.map_err(|error| format!("{}: {error}\n{}", name(size), last_lines(&running.log())));
        running.stop();
        sample
    }

    fn ini(&self, room: &Premises, size: Option<u32>, port: u16) -> String {
        let size = name(size);
        let server = self.cluster.port;
        let users = room.folder.join("users-Trust.txt");
        let own: String = self.pgweir.settings.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
        format!(
            "[databases]\nbench = host=127.0.0.1 port={server} dbname=bench user={USER}\n\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = trust\nauth_file = {}\nadmin_users = {USER}\n\
             pool_mode = transaction\ndefault_pool_size = {size}\nmax_client_conn = 5000\nlog_connections = 0\n\
             log_disconnections = 0\n{own}",
            users.display()
        )
    }

    fn load(&self, room: &Premises, running: &Running, size: Option<u32>) -> Result<Value, String> {
        let Part { load, clients } = self.part;
        let mut world = World::open(&room.folder)?;
        let fleet = world.fleet(running.port, load.work());
        let began = Instant::now();
        world.connect(fleet, clients)?;
        let connected = began.elapsed();
        world.start(fleet, Mode::Closed)?;
        let (began, mut done) = (Instant::now(), 0);
        let mut tick = |world: &mut World| -> Result<f64, String> {
            let began = Instant::now();
            world.run_for(TICK)?;
            let before = std::mem::replace(&mut done, world.done(fleet));
            Ok((done - before) as f64 / began.elapsed().as_secs_f64())
        };
        let mut watch = Watch::default();
        let mut before = Vec::new();
        while !(size.is_some() || watch.settled.is_some()) && began.elapsed() < SEARCH_MAX {
            before.push(round(tick(&mut world)?));
            watch.look(running.port, began);
        }
        while size.is_some() && began.elapsed() < WARM_UP {
            before.push(round(tick(&mut world)?));
        }
        world.take_latencies_ns(fleet);
        let (measured_from, used) = (Instant::now(), process::usage(running.pid())?);
        let mut speeds = Vec::new();
        while measured_from.elapsed() < self.measured {
            speeds.push(round(tick(&mut world)?));
            if size.is_none() {
                watch.look(running.port, began);
            }
        }
        let (wall, used) = (measured_from.elapsed(), process::usage(running.pid())?.since(used));
        let latencies: Vec<f64> = world.take_latencies_ns(fleet).into_iter().map(f64::from).collect();
        let mut sample = json!({
            "tps": round(speeds.iter().sum::<f64>() / speeds.len().max(1) as f64),
            "speeds": speeds,
            "speeds_before": before,
            "tick_ms": TICK.as_millis() as u64,
            "connect_ms": connected.as_millis() as u64,
            "latency_p50_ns": quantile(&latencies, 0.5),
            "latency_p99_ns": quantile(&latencies, 0.99),
            "cpu_ns": used.cpu_ns,
            "wall_ns": wall.as_nanos() as u64,
        });
        if size.is_none() {
            watch.last_answer();
            watch.describe(&mut sample);
        }
        Ok(sample)
    }
}

/// What `SHOW SIZING` says while a load runs. It is asked beside the load, whose clients do not wait for the answer.
#[derive(Default)]
struct Watch {
    answer: Option<mpsc::Receiver<Result<console::Table, String>>>,
    asked: Duration,
    /// When it was seen to have settled first, since the load began, and where.
    settled: Option<(Duration, u32)>,
    /// Size after size: when it was asked, and what it was.
    sizes: Vec<(f64, u32)>,
    why: String,
    changes: String,
}

impl Watch {
    /// Takes the answer that has come, and asks anew.
    fn look(&mut self, port: u16, began: Instant) {
        if let Some(answer) = &self.answer {
            let Ok(answer) = answer.try_recv() else { return };
            self.note(answer);
        }
        self.asked = began.elapsed();
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || sender.send(console::ask(port, "SHOW SIZING")));
        self.answer = Some(receiver);
    }

    fn last_answer(&mut self) {
        if let Some(Ok(answer)) = self.answer.take().map(|answer| answer.recv_timeout(Duration::from_secs(5))) {
            self.note(answer);
        }
    }

    /// An answer that did not come is not noted: the console has no part in what is measured.
    fn note(&mut self, answer: Result<console::Table, String>) {
        let Ok(table) = answer else { return };
        let value = |column: &str| {
            let index = table.columns.iter().position(|name| name == column)?;
            table.rows.first()?.get(index)?.clone()
        };
        let number = |column: &str| value(column)?.parse::<u32>().ok();
        if let Some(size) = number("size") {
            self.sizes.push((round(self.asked.as_secs_f64()), size));
        }
        self.settled = self.settled.or_else(|| Some((self.asked, number("settled")?)));
        self.why = value("why").unwrap_or_default();
        self.changes = value("changes").unwrap_or_default();
    }

    fn describe(&self, sample: &mut Value) {
        sample["settled_after_s"] = json!(self.settled.map(|(after, _)| round(after.as_secs_f64())));
        sample["settled_at"] = json!(self.settled.map(|(_, size)| size));
        sample["sizes"] = json!(self.sizes);
        sample["why"] = json!(self.why);
        sample["changes"] = json!(self.changes);
    }
}

fn name(size: Option<u32>) -> String {
    size.map_or(AUTO.to_owned(), |size| size.to_string())
}

fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// A slice in a line, for who watches.
fn described(sample: &Value) -> String {
    let mut line = format!("{:8.0} a second", sample["tps"].as_f64().unwrap_or(0.0));
    if let Some(size) = sample["settled_at"].as_u64() {
        let sizes = sample["sizes"].as_array().and_then(|sizes| sizes.last()?.get(1)?.as_u64()).unwrap_or(size);
        line += &format!(", settled at {size} after {} s, {sizes} in the end", sample["settled_after_s"]);
    }
    line
}

fn last_lines(log: &str) -> String {
    let mut lines: Vec<&str> = log.lines().rev().take(5).collect();
    lines.reverse();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_named_by_load_and_clients() {
        let one = Part { load: Load::Pgbench(Script::Select), clients: 500 };
        assert_eq!(Part::parse("select:500"), Ok(vec![one]));
        assert_eq!(Part::parse("tpcb").map(|all| all.len()), Ok(3));
        assert_eq!(Part::parse("wait500:60"), Ok(vec![Part { load: Load::Wait(500), clients: 60 }]));
        assert_eq!(Part::all().len(), 12);
        assert!(Part::parse("select:0").is_err() && Part::parse("insert:5").is_err());
        assert_eq!(one.name(), "sizing-select-500");
    }

    #[test]
    fn the_first_size_it_settles_at_is_noted() {
        let mut watch = Watch::default();
        let columns = ["size", "settled", "why", "changes"].map(str::to_owned).to_vec();
        let row = |size: &str, settled: Option<&str>| {
            let rows = vec![vec![Some(size.to_owned()), settled.map(str::to_owned), Some("so".to_owned()), None]];
            Ok(console::Table { columns: columns.clone(), rows })
        };
        watch.note(row("8", None));
        assert_eq!(watch.settled, None);
        watch.asked = Duration::from_secs(3);
        watch.note(row("11", Some("11")));
        watch.note(row("16", Some("16")));
        watch.note(Err("no answer".to_owned()));
        assert_eq!(watch.settled, Some((Duration::from_secs(3), 11)));
        assert_eq!(watch.sizes.len(), 3);
    }
}
