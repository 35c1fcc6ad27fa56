//! SHOW QUERIES beside pg_stat_statements of the PostgreSQL behind it: calls, rows and errors, for pgbench in its three
//! protocols and for a driver.

use std::collections::BTreeMap;

use outer::{Client, Pgbench, Program, Stage, Wishes, eventually};

/// Calls without errors, rows, and errors.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
struct Counted {
    calls: i64,
    rows: i64,
    errors: i64,
}

/// A text as both sides may write it: PostgreSQL numbers the literals that it leaves out and takes a sign for part of a number.
fn alike(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text.trim().trim_end_matches(';').trim().chars().peekable();
    while let Some(char) = rest.next() {
        match char {
            '$' => {
                while rest.next_if(char::is_ascii_digit).is_some() {}
                out.push('?');
            }
            char if char.is_whitespace() => {}
            char => out.push(char),
        }
    }
    out.replace("-?", "?").to_lowercase()
}

fn sum(counts: impl Iterator<Item = (String, Counted)>) -> BTreeMap<String, Counted> {
    let mut sums: BTreeMap<String, Counted> = BTreeMap::new();
    for (text, counted) in counts {
        let sum = sums.entry(alike(&text)).or_default();
        sum.calls += counted.calls;
        sum.rows += counted.rows;
        sum.errors += counted.errors;
    }
    sums
}

fn of_the_pooler(stage: &Stage) -> BTreeMap<String, Counted> {
    let mut console =
        Client::login(stage.pooler.address(), "postgres", "pgbouncer").unwrap_or_else(|gone| panic!("{gone}"));
    let answer = console.query("show queries").expect("answered");
    let place = |name: &str| answer.names.iter().position(|own| own == name).expect("it has the column");
    let (calls, rows, errors) = (place("calls"), place("rows"), place("errors"));
    let (database, statement) = (place("database"), place("statement"));
    let counted = answer.rows.iter().filter(|row| row[database].as_deref() == Some("postgres")).map(|row| {
        let number = |at: usize| row[at].as_deref().and_then(|text| text.parse::<i64>().ok()).expect("a number");
        let counted = Counted { calls: number(calls) - number(errors), rows: number(rows), errors: number(errors) };
        (row[statement].clone().expect("an administrator sees it"), counted)
    });
    sum(counted)
}

fn of_postgresql(stage: &Stage) -> BTreeMap<String, Counted> {
    let texts = stage.direct(
        "select string_agg(calls || ' ' || rows || ' ' || translate(query, E'\\n', ' '), E'\\n') from pg_stat_statements \
         where dbid = (select oid from pg_database where datname = 'postgres')",
    );
    let counted = texts.lines().map(|line| {
        let mut parts = line.splitn(3, ' ');
        let mut number = || parts.next().and_then(|text| text.parse::<i64>().ok()).expect("a number");
        let (calls, rows) = (number(), number());
        (parts.next().expect("a text").to_owned(), Counted { calls, rows, errors: 0 })
    });
    sum(counted)
}

fn stage() -> Stage {
    let postgres = vec![("shared_preload_libraries", "pg_stat_statements"), ("pg_stat_statements.max", "10000")];
    let settings = vec![("pool_mode", "transaction".to_owned())];
    let stage = Stage::set(&Wishes { pool: 3, settings, postgres, ..Wishes::default() });
    let _ = stage.direct("create extension pg_stat_statements");
    stage
}

/// Everything that clients have run is counted alike on both sides; `others`: statements that nobody could read.
fn assert_alike(stage: &Stage, least: usize) {
    // The pooler's own statements are PostgreSQL's alone.
    let mut last = (BTreeMap::new(), BTreeMap::new());
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(55);
    eventually("both sides have counted the last answer", || {
        let is_late = std::time::Instant::now() > deadline;
        let theirs = of_postgresql(stage);
        let mut ours = of_the_pooler(stage);
        // Rows of a cursor that stops early are known to PostgreSQL alone.
        ours.retain(|text, _| !is_left_out(text) && !is_counted_otherwise(text));
        let of_theirs = ours.keys().map(|text| (text.clone(), theirs.get(text).copied().unwrap_or_default())).collect();
        let without_errors = |counted: &Counted| Counted { errors: 0, ..*counted };
        last = (ours.iter().map(|(text, counted)| (text.clone(), without_errors(counted))).collect(), of_theirs);
        assert!(!is_late, "{last:?}");
        last.0 == last.1
    });
    assert!(last.0.len() >= least, "{:?}", last.0.keys());
    let theirs = of_postgresql(stage);
    let missed: Vec<_> = theirs.keys().filter(|text| text.contains("pgbench_") || text.contains("counted")).collect();
    let is_compared = |text: &str| !is_left_out(text) && !is_counted_otherwise(text);
    let missed: Vec<_> = missed.into_iter().filter(|text| !last.0.contains_key(*text) && is_compared(text)).collect();
    assert!(missed.is_empty(), "{missed:?}");
}

/// PostgreSQL 15 does not count the begin and the end of a transaction that are prepared, never sees what the pooler answers itself, and writes GROUP BY
/// with its numbers.
fn is_counted_otherwise(text: &str) -> bool {
    ["begin", "end", "deallocate"].iter().any(|word| text.starts_with(word)) || text.contains("pg_catalog")
}

fn is_left_out(text: &str) -> bool {
    text.starts_with("declare") || text.starts_with("fetch")
}

#[test]
fn pgbench_is_counted_as_postgresql_counts_it_in_each_protocol() {
    let stage = stage();
    Pgbench::prepare(&stage, 1);
    let _ = stage.direct("select pg_stat_statements_reset()");
    // A thread of pgbench waits for the answer to a Prepare, so each client has one.
    for protocol in ["simple", "extended", "prepared"] {
        let outcome = Pgbench::run(&stage, &["-M", protocol, "-c", "6", "-j", "6", "-t", "50"]).expect("served");
        assert_eq!(outcome.transactions, 300);
        let outcome = Pgbench::run(&stage, &["-M", protocol, "-S", "-c", "6", "-j", "6", "-t", "50"]).expect("served");
        assert_eq!(outcome.transactions, 300);
    }
    // Five statements, the SELECT of both scripts being one, and what pgbench asks at its start.
    assert_alike(&stage, 6);
    let ours = of_the_pooler(&stage);
    let calls = |text: &str| ours.get(&alike(text)).map(|counted| (counted.calls, counted.rows, counted.errors));
    assert_eq!(calls("SELECT abalance FROM pgbench_accounts WHERE aid = $1"), Some((1800, 1800, 0)));
    assert_eq!(calls("END"), Some((900, 0, 0)));
}

#[test]
fn a_drivers_statements_are_counted_as_postgresql_counts_them() {
    let stage = stage();
    let _ = stage.direct("select pg_stat_statements_reset()");
    let output = Program::python("queries.py").command().arg(stage.url()).output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_alike(&stage, 15);
    let ours = of_the_pooler(&stage);
    let failed = ours.get(&alike("select id / (id - id) from counted where id <> $1")).copied();
    assert_eq!(failed, Some(Counted { calls: 0, rows: 0, errors: 2 }));
    assert_eq!(ours.values().map(|counted| counted.errors).sum::<i64>(), 2, "{ours:?}");
}
