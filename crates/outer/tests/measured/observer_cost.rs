//! What it costs to look once a second: the pooler's own processor time, and PostgreSQL's for the connection that it asks by.

use std::thread;
use std::time::Duration;

use measure::process::usage;
use outer::{Client, Stage, Wishes, eventually, frontend};

/// Clients that say nothing, and backends with a transaction.
const IDLE: usize = 10_000;
const BACKENDS: usize = 100;

/// What is measured, with the observer and without, by turns.
const SLICE: Duration = Duration::from_secs(8);
const ROUNDS: usize = 3;

/// Of one core.
const SHARE_AT_MOST: f64 = 0.01;

/// Beside it, PostgreSQL's part.
fn share_of(pids: &[u32]) -> Vec<f64> {
    let used = || pids.iter().map(|pid| usage(*pid).expect("it runs").cpu_ns).collect::<Vec<_>>();
    let before = used();
    thread::sleep(SLICE);
    used().iter().zip(before).map(|(after, before)| (after - before) as f64 / SLICE.as_nanos() as f64).collect()
}

fn set(console: &mut Client, interval: u32) {
    let answer = console.query(&format!("SET observe_interval = {interval}")).expect("an answer");
    assert!(answer.errors.is_empty(), "{:?}", answer.errors);
}

#[test]
#[ignore = "test-full: a minute alone for measuring processor time; in the gate: watching observer::, which shows how often it asks and by how many connections"]
fn a_look_a_second_costs_less_than_a_hundredth_of_a_core() {
    let settings = vec![
        ("observe_interval", "1".to_owned()),
        ("max_client_conn", "11000".to_owned()),
        ("log_connections", "0".to_owned()),
        ("log_disconnections", "0".to_owned()),
    ];
    let (pool, max_connections) = (u32::try_from(BACKENDS).expect("few"), 150);
    let stage = Stage::set(&Wishes { pool, max_connections, settings, alone: true, ..Wishes::default() });
    let _holders: Vec<Client> = (0..BACKENDS)
        .map(|number| {
            let mut client = stage.client();
            client.query(&format!("begin; select {number} /*controller:c{}*/", number % 10)).expect("connected");
            client
        })
        .collect();
    let startup = frontend::startup(&[("user", "postgres"), ("database", "postgres")]);
    let mut idle: Vec<Client> = Vec::with_capacity(IDLE);
    for _ in 0..IDLE / 100 {
        let mut some: Vec<Client> =
            (0..100).map(|_| Client::connect(stage.pooler.address()).expect("it listens")).collect();
        some.iter_mut().for_each(|client| client.send(&startup).expect("it can be sent"));
        some.iter_mut().for_each(|client| drop(client.answer().expect("it is let in")));
        idle.append(&mut some);
    }
    let mut console = Client::login(stage.pooler.address(), "postgres", "pgbouncer").expect("an administrator");
    let pid = stage.pooler.pid();
    let own = "select coalesce(max(pid), 0) from pg_stat_activity where application_name = 'pgweir observer'";
    let (mut with, mut without, mut at_postgresql) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        set(&mut console, 1);
        eventually("it looks", || stage.direct(own) != "0");
        let observer: u32 = stage.direct(own).parse().expect("a pid");
        // Its first questions fill caches.
        thread::sleep(Duration::from_secs(2));
        let shares = share_of(&[pid, observer]);
        with.push(shares[0]);
        at_postgresql.push(shares[1]);
        set(&mut console, 0);
        eventually("it has gone", || stage.direct(own) == "0");
        without.extend(share_of(&[pid]));
    }
    let median = |shares: &mut Vec<f64>| {
        shares.sort_by(f64::total_cmp);
        shares[shares.len() / 2]
    };
    let [with, without, at_postgresql] = [&mut with, &mut without, &mut at_postgresql].map(median);
    let percent = |share: f64| format!("{:.2} %", share * 100.0);
    println!(
        "{IDLE} clients, {BACKENDS} backends, a look a second: of a core {} with it and {} without, PostgreSQL {}",
        percent(with),
        percent(without),
        percent(at_postgresql)
    );
    assert!(with - without < SHARE_AT_MOST, "{with} with it, {without} without");
}
