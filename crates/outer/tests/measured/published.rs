//! `pgweir bench`, in seconds: what it writes, and that nothing of it stays, whatever ends it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use demo::{Binaries, Cluster, Options, find_or_install, random_password};
use outer::{Slot, binary};
use rustix::process::{Pid, Signal, kill_process};

/// A directory for a report, gone with its value.
struct Out(PathBuf);

impl Out {
    fn fresh() -> Self {
        Self(std::env::temp_dir().join(format!("outer-published-{}", random_password())))
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}

impl Drop for Out {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn bench(out: &Out, arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.arg("bench").args(["--scale", "1", "--out"]).arg(&out.0).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn binaries() -> Binaries {
    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache");
    find_or_install(&cache, &mut |line| println!("{line}")).expect("PostgreSQL is here or can be had")
}

fn postgres() -> Cluster {
    outer::cluster(&binaries(), Options::default())
}

fn said(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    out + &err
}

/// The tps of each contestant, from the raw samples.
fn rates(csv: &str) -> Vec<(String, f64)> {
    let fields = |line: &str| -> Option<(String, f64)> {
        let (contestant, rest) = line.split_once(',')?.1.strip_prefix('"')?.split_once("\",")?;
        Some((contestant.to_owned(), rest.split(',').nth(1)?.parse().ok()?))
    };
    csv.lines().skip(1).map(|line| fields(line).unwrap_or_else(|| panic!("{line}"))).collect()
}

/// Whether our schema is there, and how many connections there are besides the one that asks.
fn left_behind(cluster: &Cluster) -> String {
    let sql = "SELECT (SELECT count(*) FROM pg_namespace WHERE nspname = 'pgweir_bench'), \
               (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid())";
    cluster.psql("postgres", sql).expect("it answers")
}

#[test]
#[ignore = "test-full: pgweir bench measures alone; in the gate: the tests of the crate trials, which write a table and a page of made samples"]
fn it_writes_samples_a_table_and_a_page_that_needs_nothing_else() {
    let _alone = Slot::alone();
    let out = Out::fresh();
    let output = bench(&out, &["--quick", "--only", "linux-1"]).output().expect("it starts");
    assert!(output.status.success(), "{}", said(&output));
    let rates = rates(&out.read("samples.csv"));
    println!("{rates:?}");
    for contestant in ["direct", "pgweir"] {
        assert!(rates.iter().any(|(name, tps)| name == contestant && *tps > 0.0), "{contestant}: {rates:?}");
    }
    let page = out.read("report.html");
    assert!(page.contains("</html>") && page.contains("<svg") && page.contains("Test 1: one client"));
    for other in ["<script", "<link", "src=", "http://", "https://", "@import", "url("] {
        assert!(!page.contains(other), "the page has {other}");
    }
    assert!(out.read("table.md").contains("| transactions per second |"));
    assert!(String::from_utf8_lossy(&output.stdout).contains("theirs 170"), "the document's figure stands beside ours");
}

#[test]
fn in_a_users_database_nothing_stays_and_nothing_of_others_is_touched() {
    let _alone = Slot::alone();
    let cluster = postgres();
    let url = cluster.url("postgres");
    let out = Out::fresh();
    let output = bench(&out, &["--quick", "--only", "linux-1", "--only", "linux-6", &url]).output().expect("it starts");
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("not possible: 4000 connections"), "max_connections is 100: {}", said(&output));
    outer::eventually("nothing is left behind", || left_behind(&cluster) == "0|0");

    cluster.psql("postgres", "CREATE SCHEMA pgweir_bench; CREATE TABLE pgweir_bench.mine ()").expect("made");
    let output = bench(&out, &["--quick", "--only", "linux-1", &url]).output().expect("it starts");
    assert!(!output.status.success() && said(&output).contains("is there already"), "{}", said(&output));
    let out = Out::fresh();
    let output = bench(&out, &["--quick", "--only", "linux-1", &url]).output().expect("it starts");
    assert!(!out.0.exists(), "nothing was measured");
    assert!(!output.status.success() && said(&output).contains("it is left alone"), "{}", said(&output));
    let mine = cluster.psql("postgres", "SELECT count(*) FROM pgweir_bench.mine");
    assert_eq!(mine.expect("the table is there"), "0");
}

/// Connections of the superuser, until the value goes.
struct Others(Child);

impl Others {
    /// So many, and the one that holds them.
    fn come(cluster: &Cluster, count: usize) -> Self {
        let own = format!(
            "host={} port={} user={} password={}",
            cluster.host(),
            cluster.port(),
            cluster.user(),
            cluster.password()
        );
        cluster.psql("postgres", "CREATE EXTENSION IF NOT EXISTS dblink").expect("contrib is there");
        let open = format!("SELECT count(dblink_connect('c' || i, '{own}')) FROM generate_series(1, {count}) i");
        let psql = binaries().program("psql").expect("it comes with PostgreSQL");
        let mut command = Command::new(psql);
        command.arg(cluster.url("postgres")).args(["-c", &open, "-c", "SELECT pg_sleep(600)"]);
        let others = Self(command.stdout(Stdio::null()).spawn().expect("psql is there"));
        let asleep = "SELECT count(*) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(600)'";
        let asleep = || cluster.psql("postgres", asleep).expect("it answers");
        outer::eventually("they are connected", || asleep() == "1");
        others
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_role_without_rights_leaves_room_to_others() {
    let _alone = Slot::alone();
    let cluster = postgres();
    let make = "CREATE ROLE few LOGIN PASSWORD 'few'";
    cluster.psql("postgres", make).expect("made");
    cluster.psql("postgres", "CREATE DATABASE fewdb OWNER few").expect("made");
    let _others = Others::come(&cluster, 60);
    let url = format!("postgres://few:few@{}:{}/fewdb", cluster.host(), cluster.port());
    let told = |out: &Out| {
        let output = bench(out, &["--quick", "--only", "cern-100", &url]).output().expect("it starts");
        assert!(output.status.success(), "{}", said(&output));
        said(&output)
    };
    // Of 100: 3 for superusers, 61 of the others, 1 of our own that looks on, 5 out of courtesy.
    let out = Out::fresh();
    let first = told(&out);
    assert!(first.contains("100 connections, PostgreSQL has room for 30"), "{first}");
    // It may not read PostgreSQL's verifier.
    let table = out.read("table.md");
    assert!(table.contains("logins by SCRAM directly and by md5 at the poolers"), "{table}");
    cluster.psql("postgres", "ALTER ROLE few CONNECTION LIMIT 20").expect("it may");
    let connected = "select count(*) from pg_stat_activity where usename = 'few'";
    outer::eventually("the first run's connections have ended", || {
        cluster.psql("postgres", connected).is_ok_and(|count| count == "0")
    });
    let second = told(&Out::fresh());
    assert!(second.contains("100 connections, PostgreSQL has room for 14"), "{second}");
}

/// The most connections and locks that were seen of a contestant in a round, from the raw samples.
fn seen(csv: &str, contestant: &str, round: u32) -> [f64; 2] {
    let fields = |line: &str| line.split(',').map(str::to_owned).collect::<Vec<_>>();
    let names = fields(csv.lines().next().expect("it has a first line"));
    let start = format!("linux-1,\"{contestant}\",{round},");
    let line = csv.lines().find(|line| line.starts_with(&start)).unwrap_or_else(|| panic!("{start} in {csv}"));
    let value = |name| {
        let at = names.iter().position(|known| known == name).expect("there is such a column");
        fields(line)[at].parse().unwrap_or_else(|_| panic!("{name} in {line}"))
    };
    ["server_connections_max", "locks_max"].map(value)
}

#[test]
fn whoever_comes_meanwhile_costs_no_slice_and_is_not_counted() {
    let _alone = Slot::alone();
    let cluster = postgres();
    let out = Out::fresh();
    let arguments = ["--quick", "--rounds", "3", "--only", "linux-1", &cluster.url("postgres")];
    let mut child = bench(&out, &arguments).spawn().expect("it starts");
    let mut rest = until_it_says(&mut child, "round 1 of");
    // An application with the same role and database, with a name and without.
    let _others = Others::come(&cluster, 3);
    let mut words = String::new();
    std::io::Read::read_to_string(&mut rest, &mut words).expect("it is text");
    assert!(child.wait().expect("it is ours").success(), "{words}");
    let csv = out.read("samples.csv");
    assert!(rates(&csv).iter().all(|(_, tps)| *tps > 0.0), "{csv}");
    assert_eq!(csv.matches("were there all the time").count(), 1, "{csv}");
    let [connections, locks] = seen(&csv, "direct", 3);
    assert!(connections <= 1.0 && locks < 20.0, "{csv}");
    assert!((1.0..=2.0).contains(&seen(&csv, "pgweir", 3)[0]), "{csv}");
}

/// Waits until it says something.
fn until_it_says(child: &mut Child, what: &str) -> BufReader<std::process::ChildStderr> {
    let mut lines = BufReader::new(child.stderr.take().expect("asked for"));
    let mut line = String::new();
    while !line.contains(what) {
        line.clear();
        let count = lines.read_line(&mut line).expect("it is text");
        assert!(count > 0, "it ended before it said {what}");
    }
    lines
}

#[test]
#[ignore = "test-full: pgweir bench measures alone; in the gate: bench::whole::an_interrupted_run_ends_its_contestants_and_removes_its_folder, of the other bench"]
fn ctrl_c_ends_it_in_order_and_keeps_what_was_measured() {
    let _alone = Slot::alone();
    let cluster = postgres();
    let out = Out::fresh();
    let url = cluster.url("postgres");
    let mut child =
        bench(&out, &["--quick", "--rounds", "1000", "--only", "linux-1", &url]).spawn().expect("it starts");
    let mut rest = until_it_says(&mut child, "round 2 of");
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(pid, Signal::INT).expect("it runs");
    let mut words = String::new();
    std::io::Read::read_to_string(&mut rest, &mut words).expect("it is text");
    let status = child.wait().expect("it is ours");
    assert!(!status.success() && words.contains("interrupted"), "{status}: {words}");
    // A backend notices late that its client has left.
    outer::eventually("nothing is left behind", || left_behind(&cluster) == "0|0");
    assert!(!rates(&out.read("samples.csv")).is_empty() && out.read("report.html").contains("</html>"));
}
