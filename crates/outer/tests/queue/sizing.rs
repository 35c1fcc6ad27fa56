//! `pool_size = auto` in front of PostgreSQL: it finds a size, and SHOW SIZING names the wait events of the pool's servers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use outer::{Client, Stage, Wishes, eventually};

const CLIENTS: usize = 24;

/// All clients update the same row, and each one keeps its lock for a while.
const TRANSACTION: [&str; 4] = ["begin", "update one set n = n + 1", "select pg_sleep(0.002)", "commit"];

#[test]
fn what_servers_wait_for_is_told() {
    let settings = vec![("default_pool_size", "auto".to_owned()), ("auto_pool_size_min", "6".to_owned())];
    let mut stage = Stage::set(&Wishes { settings, ..Wishes::default() });
    assert_eq!(stage.direct("create table one (n int)"), "");
    assert_eq!(stage.direct("insert into one values (0)"), "");
    let mut console = Client::login(stage.pooler.address(), "postgres", "pgbouncer").expect("an administrator");
    let is_done = AtomicBool::new(false);
    // The clients work until SHOW SIZING names their locks.
    let transactions: usize = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(|| work(stage.client(), &is_done))).collect();
        let end = End(&is_done);
        eventually("it tells of locks", || told(&mut console).contains(" wait for Lock t"));
        drop(end);
        clients.into_iter().map(|client| client.join().expect("no client has seen an error")).sum()
    });
    println!("{}; {transactions} transactions", told(&mut console));
    assert_eq!(stage.direct("select n from one"), transactions.to_string());
    stage.assert_healthy();
}

/// Ends the clients' work when it is dropped, also by a panic.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Returns how many transactions it has done.
fn work(mut client: Client, is_done: &AtomicBool) -> usize {
    let mut transactions = 0;
    while !is_done.load(Ordering::Relaxed) {
        for sql in TRANSACTION {
            let answer = client.query(sql).unwrap_or_else(|gone| panic!("{sql}: {gone}"));
            assert!(answer.errors.is_empty(), "{sql}: {answer:?}");
        }
        transactions += 1;
    }
    transactions
}

/// The column `waits` of the one pool whose size is found; empty: nothing.
fn told(console: &mut Client) -> String {
    let answer = console.query("show sizing").expect("an answer");
    let at = answer.names.iter().position(|name| name == "waits").expect("a column of its own");
    answer.rows.first().and_then(|row| row[at].clone()).unwrap_or_default()
}
