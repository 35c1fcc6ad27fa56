//! Drivers with their defaults, in twelve sessions that keep state on purpose.
//!
//! Each program runs twice: straight against PostgreSQL, which proves that its checks are right, and through the pooler in
//! transaction mode, where three servers take turns and a session gets another one whenever one is idle. What it checks is
//! told by the program: `python/*_*.py`.

use outer::{Pooler, Program, Stage, Wishes};

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
    let settings = [("min_pool_size", "3"), ("chaos_rotate", "1"), ("query_wait_timeout", "15")];
    let settings = settings.map(|(name, value)| (name, value.to_owned())).to_vec();
    let mut stage = Stage::set(&Wishes { pool: 3, settings, ..Wishes::default() });
    match program.run(&stage.url(), not_kept) {
        Ok(said) => println!("{said}"),
        Err(wrote) => panic!("through the pooler: {wrote}"),
    }
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
