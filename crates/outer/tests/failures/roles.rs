//! A primary and its standby, both real, behind one pooler: `target_session_attrs` decides which of them a database's servers are at, also after a
//! promotion.

use std::thread;

use demo::Shutdown;
use outer::standby::{PRIMARY, STANDBY, pair};
use outer::{Client, Pooler, Stage, eventually};

/// A pooler in front of both. Each database wants another role; the standby comes first in the list.
fn pooler(stage: &Stage) -> Pooler {
    let (port, password) = (stage.cluster.port(), stage.cluster.password());
    let mut ini = "[databases]\n".to_owned();
    for (name, attrs) in [("writes", "read-write"), ("reads", "standby"), ("rather", "prefer-standby"), ("all", "any")]
    {
        ini += &format!("{name} = host={STANDBY},{PRIMARY} port={port} user=postgres password={password} ");
        ini += &format!("dbname=postgres target_session_attrs={attrs}\n");
    }
    ini += "[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n";
    ini += "pool_mode = transaction\ndefault_pool_size = 4\nobserve_interval = 0\nadmin_users = postgres\n";
    Pooler::start_with(&ini, &[])
}

fn client(pooler: &Pooler, database: &str) -> Client {
    Client::login(pooler.address(), "postgres", database).unwrap_or_else(|gone| panic!("{gone}: {}", pooler.log()))
}

/// Whether the server that answers is in hot standby.
fn is_standby(client: &mut Client) -> bool {
    let answer = client.query("select pg_is_in_recovery()").unwrap_or_else(|gone| panic!("{gone}"));
    match answer.value() {
        Some("t") => true,
        Some("f") => false,
        _ => panic!("{answer:?}"),
    }
}

/// Begins `count` transactions at the same time. The result is the number of those at a standby.
fn at_standby(pooler: &Pooler, database: &str, count: usize) -> usize {
    let mut clients: Vec<Client> = (0..count).map(|_| client(pooler, database)).collect();
    clients.iter_mut().for_each(|client| _ = client.query("begin").expect("a server"));
    clients.iter_mut().filter_map(|client| is_standby(client).then_some(())).count()
}

fn role(pooler: &Pooler, host: &str) -> Option<String> {
    let answer = client(pooler, "pgbouncer").query("show hosts").expect("the console answers");
    let row = answer.rows.into_iter().find(|row| row[0].as_deref() == Some(host)).expect("a host of several");
    row[5].clone()
}

#[test]
fn each_database_has_the_role_that_it_wants() {
    let (stage, _standby) = pair();
    let pooler = pooler(&stage);
    for (database, expected) in [("writes", 0), ("reads", 4), ("rather", 4)] {
        assert_eq!(at_standby(&pooler, database, 4), expected, "{database}: {}", pooler.log());
    }
    assert_eq!(at_standby(&pooler, "all", 4), 2, "in turn");
    assert_eq!([STANDBY, PRIMARY].map(|host| role(&pooler, host)), [Some("standby".into()), Some("primary".into())]);
    // Nobody may have known the standby when the first server was opened, and all know it from then on.
    assert!(pooler.log().matches("target_session_attrs is read-write").count() <= 1, "{}", pooler.log());
}

#[test]
fn clients_that_wait_for_a_primary_are_served_by_the_one_that_is_promoted() {
    let (mut stage, standby) = pair();
    let pooler = pooler(&stage);
    let mut clients: Vec<Client> = (0..8).map(|_| client(&pooler, "writes")).collect();
    let _ = clients[0].query("create table t (i int)").expect("a primary");
    eventually("the standby has it", || {
        standby.psql("postgres", "select to_regclass('t')").is_ok_and(|name| name == "t")
    });
    stage.cluster.halt(Shutdown::Immediate).expect("it ends");
    let waiting: Vec<_> = clients
        .into_iter()
        .map(|mut client| {
            thread::spawn(move || client.query("insert into t values (1)").map(|answer| (client, answer)))
        })
        .collect();
    eventually("all wait", || {
        let answer = client(&pooler, "pgbouncer").query("show pools").expect("the console answers");
        let (database, waits) = (0, 3);
        let row = answer.rows.iter().find(|row| row[database].as_deref() == Some("writes")).expect("a pool");
        row[waits].as_deref() == Some("8")
    });
    assert_eq!(standby.psql("postgres", "select pg_promote()").expect("it is promoted"), "t");
    for client in waiting {
        let (mut client, answer) = client.join().expect("no panic").unwrap_or_else(|gone| panic!("{gone}"));
        assert!(answer.errors.is_empty(), "{answer:?}");
        assert!(!is_standby(&mut client));
    }
    assert_eq!(standby.psql("postgres", "select count(*) from t").expect("it answers"), "8");
    assert_eq!(role(&pooler, STANDBY).as_deref(), Some("primary"));
    assert_eq!(at_standby(&pooler, "rather", 2), 0, "there is no standby");
}
