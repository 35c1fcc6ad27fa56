//! Real clusters: started, used, stopped, killed. Each prints how long it took.

use std::fs;
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use demo::{Binaries, Cluster, Error, Options, Shutdown};

fn binaries() -> Binaries {
    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache");
    demo::find_or_install(&cache, &mut |line| println!("{line}")).expect("PostgreSQL is here or can be installed")
}

/// A directory of this test's own, open to PostgreSQL's account as a user's `--data` would be.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let dir = PathBuf::from(format!("/tmp/demo-test-{name}-{}", std::process::id()));
        fs::create_dir(&dir).expect("a fresh name");
        Self(dir)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn is_alive(pid: u32) -> bool {
    // A zombie still has its /proc entry, but no command line.
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}

/// Waits for something that another process does; the deadline is a failure, not a result.
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !is_so() {
        assert!(Instant::now() < deadline, "after two minutes still not so: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_temporary_cluster_serves_and_leaves_nothing() {
    let begun = Instant::now();
    let cluster = Cluster::start(&binaries(), Options::default()).expect("it starts");
    println!("initdb, start and readiness: {:?}", begun.elapsed());
    assert_eq!(cluster.psql("postgres", "select 1, null, 'x'; select 2").expect("it answers"), "1||x\n2");
    let settings = "select current_setting('server_encoding'), current_setting('lc_collate', true), pg_encoding_to_char(encoding), \
                    datcollate from pg_database where datname = 'template1'";
    let said = cluster.psql("postgres", settings).expect("it answers");
    assert!(said.starts_with("UTF8|") && said.ends_with("|UTF8|C"), "{said}");
    let rules =
        "select type || ' ' || auth_method from pg_hba_file_rules where 'replication' <> all(database) order by 1";
    let rules = cluster.psql("postgres", rules).expect("it answers");
    assert_eq!(rules, "host scram-sha-256\nhost scram-sha-256\nlocal trust");
    let wrong = cluster.psql("postgres", "select 1/0").expect_err("division by zero");
    assert!(matches!(&wrong, Error::Refused { sqlstate, .. } if sqlstate == "22012"), "{wrong}");
    let (pid, socket_dir) = (cluster.pid(), cluster.socket_dir().to_owned());
    let begun = Instant::now();
    cluster.stop().expect("it stops");
    println!("stop: {:?}", begun.elapsed());
    assert!(!is_alive(pid) && !socket_dir.exists());
}

#[test]
fn passwords_count_on_tcp() {
    let binaries = binaries();
    let Some(psql) = binaries.program("psql") else { panic!("psql is needed for this test") };
    let cluster = Cluster::start(&binaries, Options::default()).expect("it starts");
    let ask = |url: &str| {
        let output = Command::new(&psql).args(["-XAtc", "select 'hello'", url]).stdin(Stdio::null()).output();
        let output = output.expect("psql runs");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    assert_eq!(ask(&cluster.url("postgres")), "hello\n");
    let wrong = cluster.url("postgres").replace(cluster.password(), "wrong");
    assert!(ask(&wrong).contains("password authentication failed"), "{}", ask(&wrong));
}

#[test]
fn two_clusters_live_side_by_side() {
    let binaries = binaries();
    let [one, two] = [(); 2].map(|()| Cluster::start(&binaries, Options::default()).expect("it starts"));
    assert_ne!(one.port(), two.port());
    one.psql("postgres", "create table only_in_one ()").expect("it creates");
    let seen = two.psql("postgres", "select count(*) from pg_class where relname = 'only_in_one'").expect("it answers");
    assert_eq!(seen, "0");
    drop(one);
    assert_eq!(two.psql("postgres", "select 1").expect("the other one lives on"), "1");
}

#[test]
fn kept_data_are_there_again_with_the_new_password() {
    let binaries = binaries();
    let scratch = Scratch::new("kept");
    let options = || Options { data: Some(scratch.0.join("data")), ..Options::default() };
    let cluster = Cluster::start(&binaries, options()).expect("it starts");
    cluster.psql("postgres", "create table kept as select 42 as answer").expect("it creates");
    cluster.stop().expect("it stops");
    let again = Cluster::start(&binaries, options()).expect("it starts again");
    assert_eq!(again.psql("postgres", "select answer from kept").expect("it is there"), "42");
    // The superuser's secret is made from this start's password, not from the first one's.
    let iterations = "select split_part(rolpassword, '$', 1) from pg_authid where rolname = 'postgres'";
    assert_eq!(again.psql("postgres", iterations).expect("it answers"), "SCRAM-SHA-256");
    if let Some(psql) = binaries.program("psql") {
        let output =
            Command::new(psql).args(["-XAtc", "select 7", &again.url("postgres")]).output().expect("psql runs");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "7\n", "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_restart_keeps_port_and_data_and_changes_the_process() {
    let mut cluster = Cluster::start(&binaries(), Options::default()).expect("it starts");
    cluster.psql("postgres", "create table t as select 1 as a").expect("it creates");
    for how in [Shutdown::Fast, Shutdown::Immediate, Shutdown::Smart] {
        let (pid, port) = (cluster.pid(), cluster.port());
        let begun = Instant::now();
        cluster.restart(how).expect("it restarts");
        println!("restart {how:?}: {:?}", begun.elapsed());
        assert!(cluster.pid() != pid && cluster.port() == port);
        assert_eq!(cluster.psql("postgres", "select a from t").expect("it is there"), "1");
    }
    cluster.halt(Shutdown::Fast).expect("it stops");
    assert_eq!(cluster.pid(), 0);
    assert!(TcpStream::connect((cluster.host(), cluster.port())).is_err(), "nobody listens while it is halted");
    cluster.resume().expect("it starts");
}

#[test]
fn settings_reach_postgres() {
    let extra = vec![("work_mem".to_owned(), "7MB".to_owned()), ("max_connections".to_owned(), "33".to_owned())];
    let options = Options { max_connections: 20, extra, superuser: "ann x".to_owned(), ..Options::default() };
    let cluster = Cluster::start(&binaries(), options).expect("it starts");
    let sql = "select current_setting('work_mem'), current_setting('max_connections'), current_setting('fsync'), user";
    assert_eq!(cluster.psql("postgres", sql).expect("it answers"), "7MB|33|off|ann x");
    assert!(cluster.url("a b").contains("ann%20x:") && cluster.url("a b").ends_with("/a%20b"));
}

#[test]
fn bad_options_are_told_in_words() {
    let binaries = binaries();
    let scratch = Scratch::new("bad");
    fs::write(scratch.0.join("file"), "x").expect("writable");
    let start = |options| Cluster::start(&binaries, options).err().expect("it cannot start").to_string();
    let used = start(Options { data: Some(scratch.0.clone()), ..Options::default() });
    assert!(used.contains("not empty"), "{used}");
    let long =
        start(Options { socket_dir: Some(PathBuf::from(format!("/tmp/{}", "x".repeat(100)))), ..Options::default() });
    assert!(long.contains("107 bytes"), "{long}");
    let unknown = start(Options { extra: vec![("no_such_setting".to_owned(), "1".to_owned())], ..Options::default() });
    assert!(unknown.contains("no_such_setting"), "{unknown}");
    let holder = std::net::TcpListener::bind("127.0.0.1:0").expect("some port is free");
    let port = holder.local_addr().expect("bound").port();
    let holder_v6 = std::net::TcpListener::bind(("::1", port));
    let taken = start(Options { port: Some(port), ..Options::default() });
    if holder_v6.is_ok() {
        assert!(taken.contains("in use"), "{taken}");
    }
    let data = scratch.0.join("old");
    fs::create_dir(&data).expect("writable");
    fs::write(data.join("PG_VERSION"), "9\n").expect("writable");
    let old = start(Options { data: Some(data), ..Options::default() });
    assert!(old.contains("made by PostgreSQL 9"), "{old}");
}

/// This test runs itself once more as a child that holds a cluster, and kills it.
#[test]
fn even_kill_9_leaves_nothing_behind() {
    if std::env::var_os("DEMO_TEST_HOLD").is_some() {
        let cluster = Cluster::start(&binaries(), Options::default()).expect("it starts");
        println!("holding {} {}", cluster.pid(), cluster.socket_dir().display());
        loop {
            std::thread::park();
        }
    }
    let itself = std::env::current_exe().expect("a test has a path");
    let mut child = Command::new(itself)
        .args(["--exact", "even_kill_9_leaves_nothing_behind", "--nocapture"])
        .env("DEMO_TEST_HOLD", "1")
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .expect("it runs");
    let output = std::io::BufReader::new(child.stdout.take().expect("piped"));
    let held = std::io::BufRead::lines(output).map_while(Result::ok).find_map(|line| {
        let (pid, dir) = line.split_once("holding ")?.1.split_once(' ')?;
        Some((pid.parse::<u32>().ok()?, PathBuf::from(dir)))
    });
    let (pid, dir) = held.expect("the child says what it holds");
    assert!(is_alive(pid) && dir.exists());
    child.kill().expect("it is ours");
    child.wait().expect("it is ours");
    let begun = Instant::now();
    eventually("postgres is gone", || !is_alive(pid));
    eventually("its files are gone", || !dir.exists());
    println!("gone {:?} after kill -9", begun.elapsed());
}
