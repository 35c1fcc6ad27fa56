//! What wants a database without anybody in it is not hindered by servers that are idle.

use outer::{Stage, Wishes};

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
