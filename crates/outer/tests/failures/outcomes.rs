//! Commits of which the outcome is unknown: the pooler acknowledges none too early, and reports none as failed.

use std::time::{Duration, Instant};

use outer::frontend::query;
use outer::{Answer, Gone, Stage, Wishes, eventually};

fn stage(more: &[(&'static str, &str)]) -> Stage {
    let settings = more.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    let stage = Stage::set(&Wishes { pool: 2, settings, ..Wishes::default() });
    let _ = stage.direct("create table t (n int)");
    stage
}

/// A synchronous standby that never comes: each commit waits for it.
fn wait_for_standby(stage: &Stage) {
    let _ = stage.direct("alter system set synchronous_standby_names = 'nobody'");
    let _ = stage.direct("select pg_reload_conf()");
    eventually("it is so", || stage.direct("show synchronous_standby_names") == "nobody");
}

fn code(answer: Result<Answer, Gone>) -> String {
    match answer {
        Ok(answer) => answer.errors.first().map(|error| error.sqlstate.to_string()).unwrap_or_default(),
        Err(gone) => gone.to_string(),
    }
}

#[test]
fn a_commit_that_waits_for_its_standby_is_not_cancelled_by_a_timeout() {
    let stage = stage(&[("query_timeout", "1")]);
    wait_for_standby(&stage);
    let mut client = stage.client();
    client.query("begin").expect("served");
    client.query("insert into t values (1)").expect("served");
    let told = code(client.query("commit"));
    assert!(told.contains("08007"), "{told}");
    let mut client = stage.client();
    assert_eq!(code(client.query("insert into t values (2)")), "08007", "a lone statement commits, too");
    assert_eq!(code(client.extended("", "insert into t values (3)", &[])), "08007", "and so does a batch");
    assert_eq!(code(client.query("select pg_sleep(600)")), "57014", "what only reads is cancelled");
    assert_eq!(client.query("select 'on'").expect("it goes on").value(), Some("on"));
    assert!(!stage.pooler.log().contains("committed locally"), "{}", stage.pooler.log());
    eventually("all three wait still", || {
        stage.direct("select count(*) from pg_stat_activity where wait_event = 'SyncRep'") == "3"
    });
    assert_eq!(stage.direct("select count(*) from t"), "0", "nobody sees what its standby has not");
}

/// A client that vanishes within a pipeline: its server is worth nothing to it any more.
#[test]
fn a_vanished_clients_pipeline_does_not_run() {
    let stage = stage(&[]);
    // It keeps one of the two servers.
    let mut holder = stage.client();
    holder.query("select pg_advisory_lock(7)").expect("it is free");
    let mut client = stage.client();
    let insert = query("insert into t select 1 from (select pg_advisory_xact_lock(7)) held");
    client.send(&insert.repeat(15)).expect("sent");
    let waits = "select count(*) from pg_locks where locktype = 'advisory' and not granted";
    eventually("the first statement runs", || stage.direct(waits) == "1");
    client.vanish();
    let begun = Instant::now();
    let mut next = stage.client();
    assert_eq!(next.query("select 'served'").expect("there is a place").value(), Some("served"));
    let waited = begun.elapsed();
    println!("the next client was served after {:.3} s", waited.as_secs_f64());
    // It is 0.1 s on a machine that is not busy. Whatever waits for the statements themselves takes longer than this: they do not end.
    assert!(waited < Duration::from_secs(60), "{waited:?}");
    assert_eq!(stage.direct(waits), "1", "the statement that ran when its client vanished runs still");
    holder.query("select pg_advisory_unlock(7)").expect("it has it");
    eventually("its backend has ended", || {
        stage.direct("select count(*) from pg_stat_activity where query like 'insert into t%'") == "0"
    });
    let rows: u32 = stage.direct("select count(*) from t").parse().expect("a number");
    assert!(rows <= 2, "{rows} statements were run for nobody");
}

/// Within a transaction nothing is committed: a cancel ends it, and its server is used again.
#[test]
fn a_vanished_clients_transaction_is_cancelled_and_its_server_goes_on() {
    let stage = stage(&[]);
    // It keeps one of the two servers.
    let mut holder = stage.client();
    holder.query("select pg_advisory_lock(7)").expect("it is free");
    let mut client = stage.client();
    let pid = client.query("select pg_backend_pid()").expect("served").value().map(str::to_owned);
    client.query("begin").expect("served");
    client.send(&query("insert into t select 1 from (select pg_advisory_xact_lock(7)) held").repeat(3)).expect("sent");
    let waits = "select count(*) from pg_locks where locktype = 'advisory' and not granted";
    eventually("it runs", || stage.direct(waits) == "1");
    client.vanish();
    let mut next = stage.client();
    let other = next.query("select pg_backend_pid()").expect("there is a place").value().map(str::to_owned);
    assert_eq!((stage.direct(waits), stage.direct("select count(*) from t")), ("0".to_owned(), "0".to_owned()));
    println!("backend {pid:?}, then {other:?}");
}
