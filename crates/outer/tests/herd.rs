//! No herd: a release gives its server to one waiter.

use std::thread;

use outer::{Client, Stage, Wishes};

/// Every transaction is one assignment of a server, with fifty waiters as with none: nobody is woken in vain.
#[test]
fn a_release_is_one_assignment() {
    const CLIENTS: usize = 50;
    const EACH: usize = 40;
    let stage = Stage::set(&Wishes { pool: 2, workers: 1, ..Wishes::default() });
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut client = stage.client();
                for _ in 0..EACH {
                    client.query("select 1").expect("it is answered");
                }
            });
        }
    });
    let mut console = Client::login(stage.pooler.address(), "postgres", "pgbouncer").expect("postgres is an admin");
    let answer = console.query("show stats_totals").expect("it is answered");
    let row = answer.rows.iter().find(|row| row[0].as_deref() == Some("postgres")).expect("the database has a row");
    let count = |name: &str| {
        let column = answer.names.iter().position(|other| other == name).expect(name);
        row[column].as_deref().expect("a count").parse::<usize>().expect("a number")
    };
    let (assigned, transactions) = (count("server_assignment_count"), count("xact_count"));
    println!("{transactions} transactions of {CLIENTS} clients on 2 servers: {assigned} assignments");
    assert_eq!((assigned, transactions), (CLIENTS * EACH, CLIENTS * EACH));
}
