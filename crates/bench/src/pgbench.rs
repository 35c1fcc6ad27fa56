//! pgbench against a PostgreSQL of our own: the proof that the fake one does not lead astray.
//!
//! Promises: the cluster lives in the run's folder (or in one that is to be kept), listens on 127.0.0.1 only and ends with its
//! value. In these scenarios durability is off (fsync, synchronous_commit), so that the disk is not what is measured; the record says so.
//! Does not: say much about the pooler's cost where PostgreSQL uses most of the cores. The direct connection uses as
//! many server processes as clients, the poolers twenty.

use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use measure::interrupt;
use measure::machine::said;
use measure::pgbench::Report;
use measure::process::{self, Usage, pin_self};
use measure::statistics::Seeded;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Map, Value, json};

use crate::calls;
use crate::contestant::{Contestant, Premises, Running};
use crate::scenario::Scenario;
use crate::setup::{self, Placement, Upstream};
use crate::style::USER;
use client::{Connection, Gone, Place, Trusted, frontend};
use demo::{find_binaries, free_port};

/// What a cluster is like.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Rows: as many times 100,000 accounts.
    pub scale: u32,
    /// Settings that differ from PostgreSQL's defaults.
    pub settings: &'static [&'static str],
}

/// More branches than clients, so that TPC-B's branch rows are not all that is waited for.
pub const TERMS: Terms = Terms {
    scale: 20,
    settings: &[
        "listen_addresses=127.0.0.1",
        "unix_socket_directories=",
        "fsync=off",
        "synchronous_commit=off",
        "shared_buffers=512MB",
        "max_connections=120",
        "max_wal_size=4GB",
    ],
};

/// How long a statement may take: reading all accounts, a checkpoint.
const PATIENCE: Duration = Duration::from_secs(600);

/// A cluster with pgbench's tables.
#[derive(Debug)]
pub struct Cluster {
    child: Child,
    programs: ClusterPrograms,
    pub port: u16,
    pub version: String,
    pub terms: Terms,
    /// Holds the data and goes last, when the cluster has ended.
    room: Premises,
}

impl Cluster {
    /// Makes and starts a cluster, and fills the tables. Errors: no PostgreSQL, or one that does not start.
    pub fn start(run: &Premises, terms: Terms) -> Result<Cluster, String> {
        let programs = ClusterPrograms::find()?;
        let place = run.room("cluster")?;
        let folder = place.folder.join("data");
        Cluster::make(&programs, &place, &folder)?;
        let cluster = Cluster::serve(programs, place, &folder, terms)?;
        cluster.fill()?;
        Ok(cluster)
    }

    /// The same without tables.
    pub fn empty(run: &Premises, terms: Terms) -> Result<Cluster, String> {
        let programs = ClusterPrograms::find()?;
        let place = run.room("cluster")?;
        let folder = place.folder.join("data");
        Cluster::make(&programs, &place, &folder)?;
        let cluster = Cluster::serve(programs, place, &folder, terms)?;
        cluster.say("postgres", "CREATE DATABASE bench")?;
        Ok(cluster)
    }

    /// The same with its data in a folder that is kept: made and filled if it is not there.
    pub fn keep(run: &Premises, terms: Terms, folder: &Path) -> Result<Cluster, String> {
        let programs = ClusterPrograms::find()?;
        let place = run.room("cluster")?;
        let fresh = !folder.join("filled").exists();
        if fresh {
            fs::create_dir_all(folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
            place.give(folder)?;
            Cluster::make(&programs, &place, folder)?;
        }
        let cluster = Cluster::serve(programs, place, folder, terms)?;
        if fresh {
            cluster.fill()?;
            cluster.ask("CHECKPOINT")?;
            let mark = folder.join("filled");
            fs::write(&mark, "").map_err(|error| format!("cannot write {}: {error}", mark.display()))?;
        }
        Ok(cluster)
    }

    fn make(programs: &ClusterPrograms, place: &Premises, folder: &Path) -> Result<(), String> {
        let mut initdb = place.command(&programs.initdb, "initdb.log")?;
        initdb.args(["-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "-D"]).arg(folder);
        finish(&mut initdb, "initdb", place).map(|_| ())
    }

    /// Starts it and waits until it answers.
    fn serve(programs: ClusterPrograms, place: Premises, folder: &Path, terms: Terms) -> Result<Cluster, String> {
        let port = free_port();
        let mut postgres = place.command(&programs.postgres, "postgres.log")?;
        postgres.arg("-D").arg(folder).args(["-p", &port.to_string()]);
        for setting in terms.settings {
            postgres.args(["-c", setting]);
        }
        let child = postgres.spawn().map_err(|error| format!("cannot start PostgreSQL: {error}"))?;
        let version = said(&programs.postgres.display().to_string(), &["--version"]).unwrap_or_default();
        let cluster = Cluster { child, programs, port, version, terms, room: place };
        // A cluster that was kept may have to recover first.
        let limit = Instant::now() + Duration::from_secs(60);
        while let Err(error) = cluster.say("postgres", "SELECT 1") {
            if Instant::now() >= limit {
                return Err(error);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(cluster)
    }

    /// For the record.
    pub fn described(&self) -> Value {
        json!({ "version": self.version, "settings": self.terms.settings, "scale": self.terms.scale })
    }

    fn fill(&self) -> Result<(), String> {
        self.say("postgres", "CREATE DATABASE bench")?;
        let (place, port) = (&self.room, self.port.to_string());
        let mut pgbench = place.command(&self.programs.pgbench, "pgbench-i.log")?;
        let scale = self.terms.scale.to_string();
        pgbench.args(["-i", "-q", "-s", &scale, "-h", "127.0.0.1", "-p", &port, "-U", USER, "bench"]);
        finish(&mut pgbench, "pgbench-i", place).map(|_| ())
    }

    /// Runs a statement in the load's database; its rows as `psql -At` prints them. Errors: PostgreSQL's words.
    pub fn ask(&self, sql: &str) -> Result<String, String> {
        self.say("bench", sql)
    }

    /// `pgbench -S` through a pooler on this port, so many transactions of each client. Errors: one of them failed.
    pub fn select(&self, room: &Premises, port: u16, style: &str, clients: u64, each: u64) -> Result<(), String> {
        self.transactions(room, port, &format!("-S -M {style}"), clients, each)
    }

    /// pgbench with these arguments through a pooler on this port, so many transactions of each client. Errors: one of them failed.
    fn transactions(&self, room: &Premises, port: u16, arguments: &str, clients: u64, each: u64) -> Result<(), String> {
        let mut command = room.command(&self.programs.pgbench, "pgbench.log")?;
        command.args(arguments.split_whitespace());
        command.args(["-n", "-j", "1", "-c", &clients.to_string(), "-t", &each.to_string()]);
        command.args(["-h", "127.0.0.1", "-p", &port.to_string(), "-U", USER, "bench"]);
        let text = finish(&mut command, "pgbench", room)?;
        parse(&text).map(|_| ()).ok_or(format!("pgbench said:\n{text}"))
    }

    /// Keeps PostgreSQL, and the server processes that it starts from now on, on these cores. Errors: it has ended.
    pub fn pin(&self, cores: &[usize]) -> Result<(), String> {
        process::pin(self.child.id(), cores)
    }

    /// What each process of the cluster has used so far, those that serve clients among them.
    fn servers(&self) -> BTreeMap<u32, Usage> {
        let children = process::children(self.child.id()).into_iter();
        children.filter_map(|pid| Some((pid, process::usage(pid).ok()?))).collect()
    }

    fn say(&self, database: &str, sql: &str) -> Result<String, String> {
        let words = |gone: Gone| format!("PostgreSQL: {gone}");
        let place = Place::Tcp((Ipv4Addr::LOCALHOST, self.port).into());
        let mut connection = Connection::open(place, PATIENCE).map_err(|error| format!("PostgreSQL: {error}"))?;
        let startup = frontend::startup(&[("user", USER), ("database", database)]);
        connection.log_in(&startup, &mut Trusted).map_err(words)?;
        let answer = connection.query(sql).map_err(words)?;
        let _ = connection.write(&frontend::terminate());
        match answer.errors.first() {
            Some(error) => Err(format!("PostgreSQL: {}: {}", error.sqlstate, error.message)),
            None => Ok(answer.lines().join("\n")),
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // SIGQUIT: at once, without a checkpoint; the cluster is thrown away.
            let _ = kill_process(pid, Signal::QUIT);
        }
        let _ = self.child.wait();
    }
}

/// The programs that a cluster is made of.
#[derive(Debug)]
struct ClusterPrograms {
    initdb: PathBuf,
    postgres: PathBuf,
    pgbench: PathBuf,
}

impl ClusterPrograms {
    /// Where they are. Errors: no PostgreSQL, or one without pgbench.
    fn find() -> Result<ClusterPrograms, String> {
        let binaries = find_binaries().map_err(|error| error.to_string())?;
        let named = |name: &str| binaries.program(name).ok_or(format!("no {name} beside PostgreSQL, nor on PATH"));
        Ok(ClusterPrograms { initdb: named("initdb")?, postgres: named("postgres")?, pgbench: named("pgbench")? })
    }
}

/// Runs a command to its end and returns what it wrote. Errors: it failed; what it wrote is in the sentence.
fn finish(command: &mut Command, name: &str, place: &Premises) -> Result<String, String> {
    let status = command.status().map_err(|error| format!("cannot run {name}: {error}"))?;
    let text = std::fs::read_to_string(place.folder.join(format!("{name}.log"))).unwrap_or_default();
    if status.success() { Ok(text) } else { Err(format!("{name} failed:\n{text}")) }
}

/// How pgbench is run.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    pub arguments: &'static str,
    pub rounds: usize,
    /// Of each contestant in each round.
    pub seconds: u64,
    /// The poolers' system calls are counted over so many transactions, after the rounds.
    pub counted: Option<u64>,
}

/// Runs the rounds of one scenario; `placement` is where pgbench and the contestants run.
pub fn run(
    place: &Premises,
    cluster: &Cluster,
    scenario: &Scenario,
    contestants: &[Contestant],
    placement: &Placement,
    terms: Run,
    random: &mut Seeded,
) -> Result<Map<String, Value>, String> {
    let Run { arguments, rounds, seconds, counted } = terms;
    let upstream = Upstream { host: "127.0.0.1".to_owned(), port: cluster.port };
    let mut sides = Vec::new();
    for contestant in contestants {
        let text = |port| setup::ini(place, scenario, contestant, &upstream, port);
        let start = || Running::start(place, contestant, text, &[], &placement.contestant);
        let running = contestant.program.as_ref().map(|_| start()).transpose()?;
        sides.push((contestant.name.clone(), running));
    }
    pin_self(&placement.load)?;
    let mut result = Vec::new();
    for round in 0..=rounds {
        let mut order: Vec<usize> = (0..sides.len()).collect();
        random.shuffle(&mut order);
        let mut samples = Map::new();
        for &index in &order {
            interrupt::check()?;
            let (name, running) = &sides[index];
            // The first round warms caches and pools and is short; it is not kept.
            let time = if round == 0 { 1 } else { seconds };
            samples.insert(name.clone(), slice(place, cluster, running.as_ref(), scenario.clients, arguments, time)?);
        }
        if round > 0 {
            let order: Vec<&str> = order.iter().map(|index| sides[*index].0.as_str()).collect();
            result.push(json!({ "order": order, "samples": samples }));
        }
    }
    let mut calls = Map::new();
    for (name, running) in &sides {
        let (Some(running), Some(counted)) = (running, counted) else { continue };
        calls.insert(name.clone(), calls_of(place, cluster, running, scenario.clients as u64, arguments, counted)?);
    }
    let inis: Map<String, Value> =
        sides.iter().filter_map(|(name, running)| Some((name.clone(), json!(running.as_ref()?.ini)))).collect();
    let mut map = Map::new();
    map.insert("rounds".to_owned(), json!(result));
    map.insert("seconds_a_run".to_owned(), json!(seconds));
    if counted.is_some() {
        map.insert("system_calls".to_owned(), json!(calls));
    }
    map.insert("ini".to_owned(), json!(inis));
    map.insert("postgresql".to_owned(), cluster.described());
    Ok(map)
}

/// System calls of a pooler's transactions: what a long run makes more than one of a quarter of them, so that logins do not count.
fn calls_of(
    place: &Premises,
    cluster: &Cluster,
    running: &Running,
    clients: u64,
    arguments: &str,
    counted: u64,
) -> Result<Value, String> {
    let run = |transactions: u64| {
        let load = || cluster.transactions(place, running.port, arguments, clients, transactions / clients);
        calls::of_process(place, running.pid(), load)
    };
    let fewer = counted / 4;
    let (few, many) = (run(fewer)?, run(fewer + counted)?);
    let more = |(name, count): (&String, &u64)| {
        (name.clone(), json!(count.saturating_sub(few.get(name).copied().unwrap_or(0))))
    };
    let calls: Map<String, Value> = many.iter().map(more).collect();
    Ok(json!({ "transactions": counted, "calls": calls }))
}

/// One run of pgbench: transactions a second, mean latency, and the CPU time of the pooler and of its servers.
fn slice(
    place: &Premises,
    cluster: &Cluster,
    running: Option<&Running>,
    clients: usize,
    arguments: &str,
    seconds: u64,
) -> Result<Value, String> {
    let port = running.map_or(cluster.port, |running| running.port);
    let mut command = place.command(&cluster.programs.pgbench, "pgbench.log")?;
    command.args(arguments.split_whitespace()).args(["-n", "-j", "1", "-c", &clients.to_string()]);
    command.args(["-T", &seconds.to_string(), "-h", "127.0.0.1", "-p", &port.to_string(), "-U", USER, "bench"]);
    let before = running.map(|running| process::usage(running.pid())).transpose()?;
    let servers_before = cluster.servers();
    let text = finish(&mut command, "pgbench", place)?;
    let after = running.map(|running| process::usage(running.pid())).transpose()?;
    let (transactions, tps, latency_ms) = parse(&text).ok_or(format!("pgbench said:\n{text}"))?;
    let mut sample = json!({ "transactions": transactions, "tps": tps, "latency_ms": latency_ms });
    if let Some((after, before)) = after.zip(before) {
        let used = after.since(before);
        sample["cpu_ns"] = json!(used.cpu_ns);
        sample["voluntary_switches"] = json!(used.voluntary);
        sample["involuntary_switches"] = json!(used.involuntary);
        let servers = cluster.servers();
        let used = servers.iter().filter_map(|(pid, after)| Some(after.since(*servers_before.get(pid)?)));
        let (cpu_ns, sleeps) =
            used.fold((0, 0), |(cpu_ns, sleeps), used| (cpu_ns + used.cpu_ns, sleeps + used.voluntary));
        sample["servers_cpu_ns"] = json!(cpu_ns);
        sample["servers_sleeps"] = json!(sleeps);
    }
    Ok(sample)
}

/// Transactions, transactions a second and mean latency in ms; `None` if a transaction failed.
fn parse(text: &str) -> Option<(u64, f64, f64)> {
    let report = Report::read(text);
    if report.failed.is_some_and(|failed| failed > 0) {
        return None;
    }
    Some((report.transactions?, report.tps?, report.latency_mean_ms?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pgbench_is_read() {
        let text = "number of transactions actually processed: 1234\nnumber of failed transactions: 0 (0.000%)\n\
                    latency average = 0.812 ms\ntps = 411.5 (without initial connection time)\n";
        assert_eq!(parse(text), Some((1234, 411.5, 0.812)));
        assert_eq!(parse(&text.replace("transactions: 0", "transactions: 2")), None);
        assert_eq!(parse("nothing"), None);
    }
}
