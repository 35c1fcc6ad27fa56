//! A server that is lost within a transaction block: its client gets 40001, stays connected, and is answered as in a block that has failed until it
//! ends the block. Nothing of the block is in the table.

use client::{Answer, Gone};
use outer::{Client, Stage, Wishes, eventually, frontend};

fn stage() -> Stage {
    let stage = Stage::set(&Wishes { pool: 1, ..Wishes::default() });
    let _ = stage.direct("create table t (n int)");
    stage
}

/// Ends the backend of the transaction that is open, and waits until the pooler has noticed.
fn terminate(stage: &Stage) {
    let before = stage.pooler.log().matches("closing because: terminating connection").count();
    let open = "select pg_terminate_backend(pid, 60000) from pg_stat_activity where xact_start is not null and pid <> pg_backend_pid()";
    assert_eq!(stage.direct(open), "t");
    eventually("the pooler has noticed", || {
        stage.pooler.log().matches("closing because: terminating connection").count() > before
    });
}

/// The SQLSTATE of an answer's error, its last command tag, and the status behind it.
fn seen(answer: Result<Answer, Gone>) -> (String, String, char) {
    let answer = answer.expect("the client stays connected");
    let code = answer.errors.first().map(|error| error.sqlstate.clone()).unwrap_or_default();
    (code, answer.tags.last().cloned().unwrap_or_default(), char::from(answer.status))
}

fn is(answer: Result<Answer, Gone>, code: &str, tag: &str, status: char) {
    assert_eq!(seen(answer), (code.to_owned(), tag.to_owned(), status));
}

fn begin(client: &mut Client) {
    is(client.query("begin"), "", "BEGIN", 'T');
    is(client.query("insert into t values (1)"), "", "INSERT 0 1", 'T');
}

#[test]
fn a_block_that_is_lost_fails_until_it_is_ended() {
    let mut stage = stage();
    let mut client = stage.client();
    begin(&mut client);
    terminate(&stage);
    is(client.query("insert into t values (2)"), "40001", "", 'E');
    is(client.query("insert into t values (3)"), "25P02", "", 'E');
    is(client.query(""), "", "", 'E');
    is(client.query("rollback to savepoint a"), "3B001", "", 'E');
    is(client.query("commit"), "", "ROLLBACK", 'I');
    assert_eq!(client.query("select count(*) from t").expect("it goes on").value(), Some("0"));
    stage.assert_healthy();
}

#[test]
fn so_does_one_of_the_extended_protocol() {
    let mut stage = stage();
    let mut client = stage.client();
    is(client.extended("", "begin", &[]), "", "BEGIN", 'T');
    is(client.extended("more", "insert into t values ($1)", &["1"]), "", "INSERT 0 1", 'T');
    terminate(&stage);
    is(client.prepared("more", &["2"]), "40001", "", 'E');
    is(client.prepared("more", &["3"]), "25P02", "", 'E');
    is(client.extended("", "select 4", &[]), "25P02", "", 'E');
    is(client.extended("", "rollback", &[]), "", "ROLLBACK", 'I');
    is(client.prepared("more", &["5"]), "", "INSERT 0 1", 'I');
    assert_eq!(client.query("select array_agg(n) from t").expect("it goes on").value(), Some("{5}"));
    stage.assert_healthy();
}

#[test]
fn who_ends_a_lost_block_first_gets_an_error_for_a_commit_alone() {
    let mut stage = stage();
    let mut client = stage.client();
    begin(&mut client);
    terminate(&stage);
    is(client.query("rollback"), "", "ROLLBACK", 'I');
    begin(&mut client);
    terminate(&stage);
    is(client.query("commit"), "40001", "", 'I');
    begin(&mut client);
    terminate(&stage);
    is(client.query("rollback; insert into t values (7)"), "", "INSERT 0 1", 'I');
    assert_eq!(client.query("select array_agg(n) from t").expect("it goes on").value(), Some("{7}"));
    stage.assert_healthy();
}

#[test]
fn what_a_pipeline_has_sent_behind_a_lost_statement_is_not_executed() {
    let mut stage = stage();
    let mut client = stage.client();
    begin(&mut client);
    client.send(&frontend::query("select pg_sleep(600)")).expect("connected");
    eventually("it runs", || {
        stage.direct("select count(*) from pg_stat_activity where query = 'select pg_sleep(600)' and state = 'active'")
            == "1"
    });
    terminate(&stage);
    let rest = ["insert into t values (2)", "commit", "insert into t values (3)"];
    client.send(&rest.map(frontend::query).concat()).expect("connected");
    is(client.answer(), "40001", "", 'E');
    is(client.answer(), "25P02", "", 'E');
    is(client.answer(), "", "ROLLBACK", 'I');
    is(client.answer(), "", "INSERT 0 1", 'I');
    assert_eq!(client.query("select array_agg(n) from t").expect("it goes on").value(), Some("{3}"));
    stage.assert_healthy();
}

#[test]
fn a_restart_of_postgresql_is_noticed_by_those_in_a_block_alone() {
    let mut stage = Stage::set(&Wishes { pool: 4, ..Wishes::default() });
    let _ = stage.direct("create table t (n int)");
    let mut idle: Vec<Client> = (0..8).map(|_| stage.client()).collect();
    idle.iter_mut().for_each(|client| is(client.query("select 1"), "", "SELECT 1", 'I'));
    let mut within = stage.client();
    begin(&mut within);
    is(within.query("set local timezone = 'CET'"), "", "SET", 'T');
    stage.cluster.restart(demo::Shutdown::Fast).expect("it restarts");
    for client in &mut idle {
        is(client.query("insert into t values (2)"), "", "INSERT 0 1", 'I');
    }
    is(within.query("insert into t values (1)"), "40001", "", 'E');
    is(within.query("rollback"), "", "ROLLBACK", 'I');
    assert_eq!(within.query("select count(*) from t where n = 2").expect("it goes on").value(), Some("8"));
    assert_eq!(within.query("select count(*) from t where n = 1").expect("it goes on").value(), Some("0"));
    stage.assert_healthy();
}
