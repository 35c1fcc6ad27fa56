//! Clients that have sent only BEGIN when PostgreSQL is lost: their transactions begin again, and nobody gets an error.

use std::fs;
use std::thread;

use client::{Answer, Gone};
use demo::Shutdown;
use outer::{Client, Pooler, Stage, Wishes, eventually, psql_beside};

use outer::standby::{PRIMARY, STANDBY, pair};

/// Its last command tag and the status behind it; it brings no error.
fn is(answer: Result<Answer, Gone>, tag: &str, status: char) {
    let answer = answer.expect("the client stays connected");
    assert!(answer.errors.is_empty(), "{answer:?}");
    assert_eq!((answer.tags.last().map(String::as_str), char::from(answer.status)), (Some(tag), status));
}

#[test]
fn a_restart_is_noticed_by_nobody_who_has_only_begun() {
    let mut stage = Stage::set(&Wishes { pool: 4, ..Wishes::default() });
    let _ = stage.direct("create table t (n int)");
    for how in [Shutdown::Fast, Shutdown::Immediate] {
        let mut begun: Vec<Client> = (0..4).map(|_| stage.client()).collect();
        begun[..3]
            .iter_mut()
            .for_each(|client| is(client.query("begin isolation level repeatable read"), "BEGIN", 'T'));
        is(begun[3].extended("b", "start transaction", &[]), "START TRANSACTION", 'T');
        is(begun[3].query("commit"), "COMMIT", 'I');
        is(begun[3].prepared("b", &[]), "START TRANSACTION", 'T');
        stage.cluster.restart(how).expect("it restarts");
        is(begun[2].query("rollback"), "ROLLBACK", 'I');
        begun.remove(2);
        for client in &mut begun {
            is(client.query("insert into t values (1)"), "INSERT 0 1", 'T');
        }
        let isolation = begun[0].query("show transaction_isolation").expect("it goes on");
        assert_eq!(isolation.value(), Some("repeatable read"));
        begun.iter_mut().for_each(|client| is(client.query("commit"), "COMMIT", 'I'));
        assert_eq!(stage.direct("delete from t returning n").matches('1').count(), 3);
    }
    stage.assert_healthy();
}

#[test]
fn psql_goes_on_after_a_restart() {
    let mut stage = Stage::set(&Wishes { pool: 1, ..Wishes::default() });
    let _ = stage.direct("create table t (n int)");
    let [begun, restarted] = ["begun", "restarted"].map(|name| stage.pooler.dir().join(name));
    let waits = format!("\\! touch {}; while [ ! -e {} ]; do sleep 0.1; done", begun.display(), restarted.display());
    let commands = ["-c", "begin", "-c", &waits, "-c", "insert into t values (1)", "-c", "commit"];
    let run = psql_beside(&stage, &[&["-q", "-v", "ON_ERROR_STOP=1"], &commands[..]].concat());
    eventually("psql has begun", || begun.exists());
    stage.cluster.restart(Shutdown::Fast).expect("it restarts");
    fs::write(&restarted, "").expect("the folder is there");
    let (out, err) = run.join().expect("no panic").unwrap_or_else(|wrote| panic!("{wrote}"));
    assert_eq!((out.as_str(), err.as_str()), ("", ""));
    assert_eq!(stage.direct("select count(*) from t"), "1");
    stage.assert_healthy();
}

#[test]
fn so_is_a_failover_to_another_host() {
    let (mut stage, standby) = pair();
    let (port, password) = (stage.cluster.port(), stage.cluster.password());
    let ini = format!(
        "[databases]\nwrites = host={PRIMARY},{STANDBY} port={port} user=postgres password={password} dbname=postgres \
         target_session_attrs=primary\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {{port}}\nunix_socket_dir =\n\
         auth_type = any\npool_mode = transaction\ndefault_pool_size = 4\nadmin_users = postgres\n"
    );
    let pooler = Pooler::start_with(&ini, &[]);
    let login = || Client::login(pooler.address(), "postgres", "writes").unwrap_or_else(|gone| panic!("{gone}"));
    let mut clients: Vec<Client> = (0..4).map(|_| login()).collect();
    is(clients[0].query("create table t (i int)"), "CREATE TABLE", 'I');
    eventually("the standby has it", || {
        standby.psql("postgres", "select to_regclass('t')").is_ok_and(|name| name == "t")
    });
    clients.iter_mut().for_each(|client| is(client.query("begin"), "BEGIN", 'T'));
    stage.cluster.halt(Shutdown::Fast).expect("it stops");
    let insert = |mut client: Client| {
        thread::spawn(move || {
            is(client.query("insert into t values (1)"), "INSERT 0 1", 'T');
            is(client.query("commit"), "COMMIT", 'I');
        })
    };
    let inserting: Vec<_> = clients.into_iter().map(insert).collect();
    assert_eq!(standby.psql("postgres", "select pg_promote()").expect("it is promoted"), "t");
    inserting.into_iter().for_each(|client| client.join().expect("no error"));
    assert_eq!(standby.psql("postgres", "select count(*) from t").expect("it answers"), "4");
}
