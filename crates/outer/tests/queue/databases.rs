//! What wants a database without anybody in it is not hindered by servers that are idle.

use std::collections::BTreeSet;

use outer::{Client, Pooler, Stage, Wishes};

/// PostgreSQL waits five seconds for others to leave, and then fails with 55006.
#[test]
fn idle_servers_leave_a_database_that_is_to_be_empty() {
    let stage = Stage::set(&Wishes { pool: 3, ..Wishes::default() });
    let mut clients = [stage.client(), stage.client(), stage.client()];
    for text in ["begin", "commit"] {
        for client in &mut clients {
            client.query(text).expect("each has a server, and leaves it idle");
        }
    }
    assert_eq!(stage.backends(), 3);
    for (client, text) in clients.iter_mut().zip(["create database copied template postgres", "drop database copied"]) {
        let answer = client.query(text).expect("an answer");
        assert!(answer.errors.is_empty(), "{text}: {answer:?}");
    }
    for client in &mut clients {
        client.query("select 1").expect("everybody goes on");
    }
}

/// A pooler for any database of a cluster.
fn pooler(stage: &Stage) -> Pooler {
    let (host, port, password) = (stage.cluster.host(), stage.cluster.port(), stage.cluster.password());
    let ini = format!(
        "[databases]\n* = host={host} port={port} user=postgres password={password}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
         listen_port = {{port}}\nunix_socket_dir =\nauth_type = trust\nauth_file = {{dir}}/users.txt\npool_mode = transaction\n\
         default_pool_size = 4\nserver_login_retry = 1\n"
    );
    Pooler::start(&ini, &format!("\"postgres\" \"{password}\"\n"), None)
}

#[test]
fn a_database_is_dropped_right_after_its_clients_have_left() {
    let stage = Stage::set(&Wishes::default());
    let pooler = pooler(&stage);
    let login = |database: &str| Client::login(pooler.address(), "postgres", database);
    let mut admin = login("postgres").expect("it is there");
    for round in 0..10 {
        let made = admin.query("create database gone").expect("an answer");
        assert!(made.errors.is_empty(), "round {round}: {made:?}");
        let mut clients: Vec<Client> = (0..4).map(|_| login("gone").expect("it is there")).collect();
        for client in &mut clients {
            client.query("begin; create temporary table mine (a int); select pg_advisory_lock(7)").expect("an answer");
            client
                .query("rollback; select pg_advisory_unlock_all(); create temporary table kept (a int)")
                .expect("an answer");
        }
        drop(clients);
        let dropped = admin.query("drop database gone").expect("an answer");
        assert!(dropped.errors.is_empty(), "round {round}: {dropped:?}");
        let refused = login("gone").map(|_| ()).expect_err("there is no such database");
        assert_eq!(refused.error.as_ref().map(|error| &*error.sqlstate), Some("3D000"), "round {round}: {refused}");
    }
}

#[test]
fn process_ids_are_not_used_again_at_once() {
    let stage = Stage::set(&Wishes::default());
    let pids: BTreeSet<u32> = (0..32).map(|_| stage.client().cancel_key().0).collect();
    assert_eq!(pids.len(), 32, "{pids:?}");
}
