//! Drivers with their defaults, in twelve sessions that keep state on purpose.
//!
//! Each program runs twice: straight against PostgreSQL, which proves that its checks are right, and through the pooler in
//! transaction mode, where three servers take turns and a session gets another one whenever one is idle. What it checks is
//! told by the program: `python/*.py`, `pgx/*.go`, `pgjdbc/*.java`; pgbench has scripts, `pgbench/*.sql`.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use outer::{Checks, Client, Pgbench, Pooler, Program, Stage, Wishes, eventually};

/// What is right is right without a pooler.
fn directly(program: &Program) {
    let stage = Stage::set(&Wishes::default());
    match program.run(&stage.cluster.url("postgres"), Checks::All) {
        Ok(said) => println!("{said}"),
        Err(wrote) => panic!("straight against PostgreSQL: {wrote}"),
    }
}

fn pooled(program: &Program) {
    let mut stage = rotating();
    match program.run(&stage.url(), Checks::All) {
        Ok(said) => println!("{said}"),
        Err(wrote) => panic!("through the pooler: {wrote}"),
    }
    finish(&mut stage);
}

/// Three servers that take turns.
fn rotating() -> Stage {
    let settings = [("min_pool_size", "3"), ("chaos_rotate", "1"), ("query_wait_timeout", "300")];
    let settings = settings.map(|(name, value)| (name, value.to_owned())).to_vec();
    Stage::set(&Wishes { pool: 3, settings, ..Wishes::default() })
}

fn finish(stage: &mut Stage) {
    rotated(&stage.pooler);
    assert!(stage.backends() <= 3, "{} backends for a pool of 3", stage.backends());
    stage.assert_healthy();
}

/// That sessions got around, or the checks would have shown nothing. Those that prepare the stage while there is one server
/// did not, nor did some of those whose neighbours keep servers.
fn rotated(pooler: &Pooler) {
    let log = pooler.log();
    assert!(!log.contains("got the server it had last"), "a session was not given another server: {log}");
    let journeys = log.lines().filter_map(|line| line.split_once("chaos_rotate: ")?.1.split_once(" servers by "));
    let journeys = journeys.filter_map(|(journey, _)| journey.split_once(" transactions on "));
    let journeys: Vec<(u32, u32)> =
        journeys.filter_map(|(links, servers)| Some((links.parse().ok()?, servers.parse().ok()?))).collect();
    let long: Vec<_> = journeys.into_iter().filter(|(links, _)| *links >= 8).collect();
    let around = long.iter().filter(|(_, servers)| *servers > 1).count();
    let all = long.iter().filter(|(_, servers)| *servers == 3).count();
    println!(
        "{} sessions of 8 transactions or more: {around} got around, {all} of them to all three servers",
        long.len()
    );
    assert!(around >= 12 && around * 2 >= long.len(), "sessions do not get around: {long:?}");
}

/// What SHOW PINS shows while `work` is done, and how often it was asked.
fn pins_during(stage: &Stage, work: impl FnOnce()) -> (Vec<Vec<Option<String>>>, u32) {
    let address = stage.pooler.address();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut console = Client::login(address, "postgres", "pgbouncer").expect("the console lets us in");
            let (mut seen, mut asked) = (Vec::new(), 0);
            while !over.load(Ordering::Relaxed) {
                seen.extend(console.query("show pins").expect("the console answers").rows);
                asked += 1;
                std::thread::sleep(Duration::from_millis(2));
            }
            (seen, asked)
        });
        work();
        over.store(true, Ordering::Relaxed);
        watch.join().expect("it only asks")
    })
}

#[test]
fn sessions_that_only_set_and_prepare_keep_no_server() {
    let settings = [
        "settings",
        "settings_of_a_transaction",
        "settings_and_errors",
        "set_config",
        "set_config_of_any_name",
        "row_security",
        "roles",
        "time_zone",
        "characteristics",
    ];
    let stage = rotating();
    let run = |script, checks| {
        let said = Program::python(script).run(&stage.url(), Checks::Only(checks));
        said.unwrap_or_else(|wrote| panic!("through the pooler: {wrote}"));
    };
    let (pins, asked) = pins_during(&stage, || run("psycopg_settings.py", &settings));
    assert!(pins.is_empty() && asked > 0, "asked {asked} times: {pins:?}");
    // Whoever has a temporary table is seen, or the list would show nothing.
    let mut keeper = stage.client();
    keeper.query("create temporary table kept (n int)").expect("a table");
    keeper.query("drop table if exists other").expect("there is none");
    let console = || Client::login(stage.pooler.address(), "postgres", "pgbouncer").expect("the console lets us in");
    eventually("a temporary table keeps its server", || {
        let rows = console().query("show pins").expect("the console answers").rows;
        rows.iter().flatten().flatten().any(|shown| shown == "create temporary table kept (n int)") && rows.len() == 1
    });
    drop(keeper);
}

#[test]
#[ignore = "test-full: it shows that the checks are true of PostgreSQL, which changes with them alone; in the gate: psycopg_settings_pooled"]
fn psycopg_settings_directly() {
    directly(&Program::python("psycopg_settings.py"));
}

#[test]
fn psycopg_settings_pooled() {
    pooled(&Program::python("psycopg_settings.py"));
}

#[test]
#[ignore = "test-full: it shows that the checks are true of PostgreSQL, which changes with them alone; in the gate: psycopg_objects_pooled"]
fn psycopg_objects_directly() {
    directly(&Program::python("psycopg_objects.py"));
}

#[test]
fn psycopg_objects_pooled() {
    pooled(&Program::python("psycopg_objects.py"));
}

#[test]
#[ignore = "test-full: it shows that the checks are true of PostgreSQL, which changes with them alone; in the gate: asyncpg_pooled"]
fn asyncpg_directly() {
    directly(&Program::python("asyncpg_sessions.py"));
}

#[test]
fn asyncpg_pooled() {
    pooled(&Program::python("asyncpg_sessions.py"));
}

#[test]
#[ignore = "test-full: it shows that the checks are true of PostgreSQL, which changes with them alone; in the gate: psycopg_settings_pooled"]
fn sqlalchemy_directly() {
    directly(&Program::python("sqlalchemy_sessions.py"));
}

#[test]
#[ignore = "test-full: a layer over psycopg; in the gate: psycopg_settings_pooled, psycopg_objects_pooled"]
fn sqlalchemy_pooled() {
    pooled(&Program::python("sqlalchemy_sessions.py"));
}

#[test]
#[ignore = "test-full: it shows that the checks are true of PostgreSQL, which changes with them alone; in the gate: psycopg_settings_pooled"]
fn django_directly() {
    directly(&Program::python("django_sessions.py"));
}

#[test]
#[ignore = "test-full: a layer over psycopg; in the gate: psycopg_settings_pooled, psycopg_objects_pooled"]
fn django_pooled() {
    pooled(&Program::python("django_sessions.py"));
}

#[test]
#[ignore = "test-full: it shows that the checks are true of PostgreSQL, which changes with them alone; in the gate: pgx_pooled"]
fn pgx_directly() {
    if let Some(program) = Program::built_by("pgx") {
        directly(&program);
    }
}

#[test]
fn pgx_pooled() {
    if let Some(program) = Program::built_by("pgx") {
        pooled(&program);
    }
}

#[test]
#[ignore = "test-full: it shows that the checks are true of PostgreSQL, which changes with them alone; in the gate: pgjdbc_pooled"]
fn pgjdbc_directly() {
    if let Some(program) = Program::built_by("pgjdbc") {
        directly(&program);
    }
}

#[test]
fn pgjdbc_pooled() {
    if let Some(program) = Program::built_by("pgjdbc") {
        pooled(&program);
    }
}

/// The scripts of `pgbench/`, and whether pgbench can execute them without names for its statements.
const SCRIPTS: [(&str, bool); 5] =
    [("settings", true), ("prepared", false), ("statements", true), ("objects", true), ("sequences", true)];

/// Twelve clients, thirty times each, by the protocols that the script is for. pgbench's threads wait for the answer to a
/// PREPARE, so each client has one of its own.
fn bench(stage: &Stage, url: &str, (script, also_simple): (&str, bool)) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("pgbench").join(format!("{script}.sql"));
    let file = file.display().to_string();
    for mode in if also_simple { &["prepared", "simple"][..] } else { &["prepared"] } {
        let arguments = ["-M", mode, "-c", "12", "-j", "12", "-t", "30", "-D", "started=0", "-f", &file];
        let run = Pgbench::run_at(stage, url, &arguments).unwrap_or_else(|wrote| panic!("{script}, {mode}: {wrote}"));
        assert!(run.transactions == 360 && run.failed == 0 && run.complaints.is_empty(), "{script}, {mode}: {run:?}");
        println!("same {script} by {mode}: {:.0} tps", run.tps);
    }
}

/// What the scripts need.
const STAGE_SQL: &str = include_str!("../../pgbench/stage.sql");

#[test]
#[ignore = "test-full: it shows that the checks are true of PostgreSQL, which changes with them alone; in the gate: pgbench_pooled"]
fn pgbench_directly() {
    let stage = Stage::set(&Wishes::default());
    let _nothing = stage.direct(STAGE_SQL);
    SCRIPTS.iter().for_each(|script| bench(&stage, &stage.cluster.url("postgres"), *script));
    assert_eq!(stage.direct("select n from counted"), "720", "rounds counted under the lock");
}

#[test]
fn pgbench_pooled() {
    let mut stage = rotating();
    // Not past the pooler, which would see within half a minute what was made.
    let mut first = stage.client();
    let made = first.query(STAGE_SQL).expect("an answer");
    assert!(made.errors.is_empty(), "{:?}", made.errors);
    // The first who asks for it under this name teaches the pooler that it matters.
    first.query("set application_name = 'pgbench'").expect("a name");
    let undefined = first.query("select lastval()").expect("an answer");
    assert_eq!(undefined.errors.first().map(|error| error.sqlstate.as_str()), Some("55000"));
    SCRIPTS.iter().for_each(|script| bench(&stage, &stage.url(), *script));
    finish(&mut stage);
}
