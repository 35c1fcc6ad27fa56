//! Lanes: transactions that are known to run long leave servers to the short ones, and migrations go past the line.

use std::fs;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use outer::{Client, Stage, Wishes, eventually, frontend};

/// Four servers, eight reports, four others.
const SERVERS: u32 = 4;
const REPORTS: u32 = 8;
const OTHERS: u32 = 4;
const REPORT: &str = "select pg_sleep(0.4) /* report */";

/// Puts `section` before `[pgbouncer]`, and what follows it into it.
fn configure(stage: &Stage, section: &str, settings: &str) {
    let path = stage.pooler.dir().join("pooler.ini");
    let ini = fs::read_to_string(&path).expect("its ini file");
    let ini = ini.split("[databases]\n").nth(1).expect("it has databases");
    let ini = ini.replace("[pgbouncer]\n", &format!("{section}[pgbouncer]\n{settings}"));
    fs::write(path, format!("[databases]\n{ini}")).expect("its directory is ours");
    let mut console = Client::login(stage.pooler.address(), "postgres", "pgbouncer").expect("an administrator");
    let answer = console.query("reload").expect("an answer");
    assert!(answer.errors.is_empty(), "{answer:?}\n{}", stage.pooler.log());
}

fn ask(address: SocketAddr, sql: &str, done: &AtomicBool, waits: &Mutex<Vec<Duration>>) {
    let mut client = Client::login(address, "postgres", "postgres").unwrap_or_else(|gone| panic!("{gone}"));
    while !done.load(Ordering::Relaxed) {
        let begun = Instant::now();
        let answer = client.query(sql).unwrap_or_else(|gone| panic!("{gone}"));
        assert!(answer.errors.is_empty(), "{answer:?}");
        if done.load(Ordering::Relaxed) {
            // What waited is served still, and measured no more.
            return;
        }
        waits.lock().expect("nobody has panicked").push(begun.elapsed());
    }
}

/// The mean latency of short queries beside reports, and how many reports were done, in three seconds.
fn measure(stage: &Stage) -> (Duration, usize) {
    let address = stage.pooler.address();
    let done = AtomicBool::new(false);
    let (short, long) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..REPORTS {
            scope.spawn(|| ask(address, REPORT, &done, &long));
        }
        // Each like it has run once by then.
        thread::sleep(Duration::from_millis(900));
        for _ in 0..OTHERS {
            scope.spawn(|| ask(address, "select 1", &done, &short));
        }
        thread::sleep(Duration::from_secs(3));
        done.store(true, Ordering::Relaxed);
    });
    let short = short.into_inner().expect("nobody has panicked");
    let mean = short.iter().sum::<Duration>() / u32::try_from(short.len()).expect("few");
    (mean, long.into_inner().expect("nobody has panicked").len())
}

#[test]
#[ignore = "test-full: it compares latencies on a machine of its own; in the gate: the transcript classes/long-transactions-have-a-class-of-their-own"]
fn short_transactions_do_not_queue_behind_reports() {
    let mut stage = Stage::set(&Wishes { pool: SERVERS, workers: 1, alone: true, ..Wishes::default() });
    let (alike, reports) = measure(&stage);
    println!("one line: select 1 takes {alike:?} on average beside {reports} reports");
    let section = "[classes]\nreports = max=2\ndefault = long=reports long_after=0.2\n";
    configure(&stage, section, "");
    let (apart, reports) = measure(&stage);
    println!("a lane for long ones: {apart:?} beside {reports} reports");
    assert!(apart * 20 < alike, "{apart:?} instead of {alike:?}");
    // Two servers, 0.4 s each, for nearly four seconds; four at first, since nobody knew.
    assert!((12..=24).contains(&reports), "{reports} reports");
    let mut console = Client::login(stage.pooler.address(), "postgres", "pgbouncer").expect("an administrator");
    let lanes = console.query("show lanes").expect("an answer");
    assert_eq!(lanes.rows.len(), 1, "{lanes:?}");
    assert_eq!(lanes.rows[0].last().cloned().flatten().as_deref(), Some(REPORT));
    stage.assert_healthy();
}

/// A client that calls itself so from its first message on.
fn named(address: SocketAddr, name: &str) -> Client {
    let mut client = Client::connect(address).expect("it listens");
    let parameters = [("user", "postgres"), ("database", "postgres"), ("application_name", name)];
    client.send(&frontend::startup(&parameters)).expect("sent");
    client.answer().unwrap_or_else(|gone| panic!("{gone}"));
    client
}

#[test]
fn migrations_go_past_the_line_with_a_session_of_their_own() {
    let mut stage = Stage::set(&Wishes { pool: 1, workers: 1, ..Wishes::default() });
    let rules = stage.pooler.dir().join("classes.conf");
    fs::write(&rules, "postgres postgres rake* all migrations\n").expect("its directory is ours");
    let upstream = |line: &str| line.strip_prefix("postgres = ").map(str::to_owned);
    let ini = fs::read_to_string(stage.pooler.dir().join("pooler.ini")).expect("its ini file");
    let upstream = ini.lines().find_map(upstream).expect("where PostgreSQL is");
    let section = format!(
        "direct = {upstream} dbname=postgres pool_mode=session pool_size=1\n[classes]\nmigrations = database=direct\n"
    );
    configure(&stage, &section, &format!("class_file = {}\n", rules.display()));

    let mut holder = stage.client();
    holder.query("begin").expect("the only server");
    let mut waiter = stage.client();
    waiter.send(&frontend::query("select 'waited'")).expect("sent");
    let mut migration = named(stage.pooler.address(), "rake db:migrate");
    let database = migration.query("select current_database()").expect("at once");
    assert_eq!(database.value(), Some("postgres"), "the same database: {database:?}");
    let pid =
        |client: &mut Client| client.query("select pg_backend_pid()").expect("an answer").value().map(str::to_owned);
    let first = pid(&mut migration);
    migration.query("select pg_advisory_lock(4711)").expect("an answer");
    migration.query("set statement_timeout = '5s'").expect("an answer");
    assert_eq!(pid(&mut migration), first, "a session of its own");
    let mut console = Client::login(stage.pooler.address(), "postgres", "pgbouncer").expect("an administrator");
    let pools = console.query("show pools").expect("an answer");
    let names: Vec<_> = pools.rows.iter().filter_map(|row| row[0].clone()).collect();
    assert!(names.contains(&"direct".to_owned()) && names.contains(&"postgres".to_owned()), "{names:?}");

    holder.query("commit").expect("an answer");
    assert_eq!(waiter.answer().expect("its turn").value(), Some("waited"));
    drop(migration);
    eventually("its lock is gone with it", || stage.direct("select count(*) from pg_locks where objid = 4711") == "0");
    stage.assert_healthy();
}
