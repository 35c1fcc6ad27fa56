//! Drivers with their defaults, in twelve sessions that keep state on purpose.
//!
//! Each program runs twice: straight against PostgreSQL, which proves that its checks are right, and through the pooler in
//! transaction mode, where three servers take turns and a session gets another one whenever one is idle. What it checks is
//! told by the program: `python/*.py`, `pgx/*.go`, `pgjdbc/*.java`; pgbench has scripts, `pgbench/*.sql`.

use std::path::Path;

use outer::{Pgbench, Pooler, Program, Stage, Wishes};

/// What is right is right without a pooler.
fn directly(program: &Program) {
    let stage = Stage::set(&Wishes::default());
    match program.run(&stage.cluster.url("postgres"), &[]) {
        Ok(said) => println!("{said}"),
        Err(wrote) => panic!("straight against PostgreSQL: {wrote}"),
    }
}

/// All checks but those of state that the pooler does not keep yet.
fn pooled(program: &Program, not_kept: &[&str]) {
    let mut stage = rotating();
    match program.run(&stage.url(), not_kept) {
        Ok(said) => println!("{said}"),
        Err(wrote) => panic!("through the pooler: {wrote}"),
    }
    finish(&mut stage, not_kept);
}

/// Three servers that take turns.
fn rotating() -> Stage {
    let settings = [("min_pool_size", "3"), ("chaos_rotate", "1"), ("query_wait_timeout", "15")];
    let settings = settings.map(|(name, value)| (name, value.to_owned())).to_vec();
    Stage::set(&Wishes { pool: 3, settings, ..Wishes::default() })
}

fn finish(stage: &mut Stage, not_kept: &[&str]) {
    if !not_kept.is_empty() {
        println!("not kept yet: {}", not_kept.join(", "));
    }
    rotated(&stage.pooler);
    assert!(stage.backends() <= 3, "{} backends for a pool of 3", stage.backends());
    stage.assert_healthy();
}

/// That sessions got around, or the checks would have shown nothing. Those that prepare the stage while there is one server
/// did not.
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
    assert!(around >= 12 && around * 4 >= long.len() * 3, "sessions do not get around: {long:?}");
}

#[test]
fn psycopg_settings_directly() {
    directly(&Program::python("psycopg_settings.py"));
}

#[test]
fn psycopg_settings_pooled() {
    let not_kept = [
        "settings",
        "settings_of_a_transaction",
        "settings_and_errors",
        "set_config",
        "row_security",
        "roles",
        "search_path",
        "characteristics",
        "startup_options",
    ];
    pooled(&Program::python("psycopg_settings.py"), &not_kept);
}

#[test]
fn psycopg_objects_directly() {
    directly(&Program::python("psycopg_objects.py"));
}

#[test]
fn psycopg_objects_pooled() {
    let not_kept = [
        "sql_prepare",
        "type_made_again",
        "temporary_tables",
        "held_cursors",
        "advisory_locks",
        "listen",
        "listen_to_oneself",
        "current_values",
        "copying",
        "hidden_in_functions",
        "discard_all",
        "left_behind",
    ];
    pooled(&Program::python("psycopg_objects.py"), &not_kept);
}

#[test]
fn asyncpg_directly() {
    directly(&Program::python("asyncpg_sessions.py"));
}

#[test]
fn asyncpg_pooled() {
    let not_kept = [
        "settings",
        "server_settings",
        "tenants",
        "types",
        "prepared_and_at_rest",
        "changed_table",
        "sql_prepare",
        "temporary_tables",
        "held_cursors",
        "advisory_locks",
        "listen",
        "current_values",
        "pool_reset",
        "timeouts",
    ];
    pooled(&Program::python("asyncpg_sessions.py"), &not_kept);
}

#[test]
fn sqlalchemy_directly() {
    directly(&Program::python("sqlalchemy_sessions.py"));
}

#[test]
fn sqlalchemy_pooled() {
    let not_kept =
        ["settings_of_a_connection", "tenants", "temporary_tables", "sequences", "advisory_locks", "discarding"];
    pooled(&Program::python("sqlalchemy_sessions.py"), &not_kept);
}

#[test]
fn django_directly() {
    directly(&Program::python("django_sessions.py"));
}

#[test]
fn django_pooled() {
    let not_kept = [
        "persistent_settings",
        "assumed_role",
        "iterators",
        "a_schema_a_checkout",
        "locks_and_temporary_tables",
        "last_values",
    ];
    pooled(&Program::python("django_sessions.py"), &not_kept);
}

#[test]
fn pgx_directly() {
    if let Some(program) = Program::built_by("pgx") {
        directly(&program);
    }
}

#[test]
fn pgx_pooled() {
    let not_kept = [
        "settings",
        "modes",
        "tenants",
        "startup",
        "changed_table",
        "sql_prepare",
        "batches",
        "copying",
        "temporary_tables",
        "held_cursors",
        "advisory_locks",
        "listen",
        "current_values",
        "discarding_pool",
        "cancelled",
    ];
    if let Some(program) = Program::built_by("pgx") {
        pooled(&program, &not_kept);
    }
}

#[test]
fn pgjdbc_directly() {
    if let Some(program) = Program::built_by("pgjdbc") {
        directly(&program);
    }
}

#[test]
fn pgjdbc_pooled() {
    let not_kept = [
        "settings",
        "savepoints",
        "tenants",
        "schemas",
        "isolation",
        "startup",
        "changed_table",
        "sql_prepare",
        "discarding",
        "held_results",
        "copying",
        "temporary_tables",
        "advisory_locks",
        "listen",
        "current_values",
    ];
    if let Some(program) = Program::built_by("pgjdbc") {
        pooled(&program, &not_kept);
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
fn prepare_for_pgbench(stage: &Stage) {
    let _nothing = stage.direct(include_str!("../pgbench/stage.sql"));
}

#[test]
fn pgbench_directly() {
    let stage = Stage::set(&Wishes::default());
    prepare_for_pgbench(&stage);
    SCRIPTS.iter().for_each(|script| bench(&stage, &stage.cluster.url("postgres"), *script));
    assert_eq!(stage.direct("select n from counted"), "720", "rounds counted under the lock");
}

#[test]
fn pgbench_pooled() {
    let not_kept = ["settings", "statements", "objects", "sequences"];
    let mut stage = rotating();
    prepare_for_pgbench(&stage);
    let kept = SCRIPTS.iter().filter(|(script, _)| !not_kept.contains(script));
    kept.for_each(|script| bench(&stage, &stage.url(), *script));
    finish(&mut stage, &not_kept);
}
