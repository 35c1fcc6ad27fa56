//! No herd: a release wakes one waiter and nobody else, and a storm of logins does not starve those who are at work.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use outer::{Client, Stage, Wishes, frontend};

/// Clients at work, and clients who come at once.
const BUSY: usize = 20;
const STORM: usize = 2_000;

/// By so much may the 99th percentile of those at work grow while the others log in. All of it, the clients too, shares
/// two cores, and a login is more work than a query.
const FACTOR: u32 = 10;

/// A percentile of a quiet moment is taken to be this at least: below it, it is the machine's noise.
const NOISE: Duration = Duration::from_millis(2);

fn busy(stage: &Stage, done: &AtomicBool) -> Vec<(Instant, Duration)> {
    let mut client = stage.client();
    let mut took = Vec::new();
    while !done.load(Ordering::Relaxed) {
        let begun = Instant::now();
        client.query("select 1").expect("it is answered");
        took.push((begun, begun.elapsed()));
        thread::sleep(Duration::from_millis(2));
    }
    took
}

fn percentile_99(took: &[(Instant, Duration)], from: Instant, until: Instant) -> Duration {
    let mut within: Vec<Duration> =
        took.iter().filter(|(at, _)| (from..until).contains(at)).map(|(_, took)| *took).collect();
    within.sort_unstable();
    within[within.len() * 99 / 100]
}

/// All startup packets are sent before the first answer is read.
fn storm(stage: &Stage) -> Duration {
    let begun = Instant::now();
    let mut clients: Vec<Client> = (0..STORM)
        .map(|_| {
            let mut client = Client::connect(stage.pooler.address()).expect("it listens");
            let startup = frontend::startup(&[("user", "postgres"), ("database", "postgres")]);
            client.send(&startup).expect("it can be sent");
            client
        })
        .collect();
    for client in &mut clients {
        client.answer().expect("it is let in");
    }
    begun.elapsed()
}

#[test]
fn a_storm_of_logins_starves_nobody() {
    let stage = Stage::set(&Wishes { pool: 8, workers: 1, ..Wishes::default() });
    let done = AtomicBool::new(false);
    let (mut took, mut marks) = (Vec::new(), Vec::new());
    thread::scope(|scope| {
        let at_work: Vec<_> = (0..BUSY).map(|_| scope.spawn(|| busy(&stage, &done))).collect();
        thread::sleep(Duration::from_secs(1));
        marks.push(Instant::now());
        thread::sleep(Duration::from_secs(3));
        marks.push(Instant::now());
        let lasted: Vec<Duration> = (0..3).map(|_| storm(&stage)).collect();
        marks.push(Instant::now());
        done.store(true, Ordering::Relaxed);
        for worker in at_work {
            took.extend(worker.join().expect("it measures"));
        }
        println!("{STORM} logins at once took {lasted:?}");
    });
    let (quiet, stormy) = (percentile_99(&took, marks[0], marks[1]), percentile_99(&took, marks[1], marks[2]));
    println!("99 % of queries took at most {quiet:?} before, {stormy:?} meanwhile");
    assert!(stormy <= quiet.max(NOISE) * FACTOR, "{stormy:?} beside {quiet:?}");
}

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
