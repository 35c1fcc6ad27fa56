//! The real machines in the real engine, between clients and a fake PostgreSQL: checks that the parts fit, and counts
//! the system calls of a transaction. Tests from outside use a real PostgreSQL.

mod postgres;

use std::io::Write;
use std::time::Instant;

use engine::{Counters, Engine};
use machine::{Look, Snapshot, Stop};
use postgres::{PATIENCE, ask, log_in, message, settings, start};

fn sum(engine: &Engine) -> Counters {
    let mut sum = Counters::default();
    for thread in engine.handle().counters(PATIENCE) {
        sum.add(&thread.counters);
    }
    sum
}

fn transactions(snapshots: &[Snapshot]) -> u64 {
    snapshots.iter().flat_map(|snapshot| &snapshot.pools).map(|pool| pool.totals.transactions).sum()
}

#[test]
fn a_transaction_is_two_reads_and_two_writes_and_no_more() {
    let (engine, address) = start(settings(1, 1));
    let mut stream = log_in(address);
    ask(&mut stream, "select 0");
    let begun = Instant::now();
    let before = sum(&engine);
    for _ in 0..1000 {
        ask(&mut stream, "select 1");
    }
    let after = sum(&engine);
    assert_eq!((after.recvs - before.recvs, after.sends - before.sends), (2000, 2000));
    assert_eq!(after.epoll_ctls, before.epoll_ctls, "no epoll_ctl in the steady state");
    assert_eq!(after.rounds, after.clock_reads, "one clock read a round");
    // Besides these, the coordinator has a round for its maintenance three times a second.
    let others = 2 + begun.elapsed().as_secs() * 10;
    assert!(after.rounds - before.rounds <= 2000 + others, "{before:?} {after:?}");
    assert_eq!(transactions(&engine.handle().look(Look::Connections, PATIENCE)), 1001);
}

#[test]
fn many_clients_share_few_servers_on_one_worker_and_on_three() {
    for workers in [1, 3] {
        let (engine, address) = start(settings(workers, 16));
        let clients: Vec<_> = (0..32)
            .map(|client| {
                std::thread::spawn(move || {
                    let mut stream = log_in(address);
                    for turn in 0..100 {
                        ask(&mut stream, &format!("select {client} {turn}"));
                    }
                })
            })
            .collect();
        for client in clients {
            client.join().expect("every answer was its own");
        }
        let snapshots = engine.handle().look(Look::Connections, PATIENCE);
        assert_eq!(snapshots.len(), usize::from(workers));
        assert_eq!(transactions(&snapshots), 3200);
        let servers: usize = snapshots.iter().map(|snapshot| snapshot.servers.len()).sum();
        assert!(servers <= 16, "{servers} servers");
    }
}

#[test]
fn it_ends_when_the_last_client_has_left() {
    let (engine, address) = start(settings(2, 4));
    let mut stream = log_in(address);
    engine.handle().stop(Stop::WaitForClients);
    ask(&mut stream, "still served");
    stream.write_all(&message(b'X', b"")).expect("it reads");
    drop(stream);
    engine.wait();
}
