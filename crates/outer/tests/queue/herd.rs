//! No herd: a release gives its server to one waiter, and thousands who come or go at once do not starve those at work.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use outer::{Client, Stage, Wishes, frontend};

/// Clients at work, and clients who come and go at once.
const BUSY: usize = 20;
const STORM: usize = 2_000;

/// By so much may the 99th percentile of those at work grow meanwhile. All of it, the clients too, may share two cores, and a
/// login is more work than a query.
const FACTOR: u32 = 10;

/// What counts is the middle one: within one, a few moments in which the machine was elsewhere are a percentile.
const STORMS: usize = 3;

/// A percentile of a quiet moment is taken to be this at least: below it, it is the machine's noise.
const NOISE: Duration = Duration::from_millis(2);

/// How long each query took, and when it began.
type Took = Vec<(Instant, Duration)>;

fn busy(stage: &Stage, done: &AtomicBool) -> Took {
    let mut client = stage.client();
    let mut took = Took::new();
    while !done.load(Ordering::Relaxed) {
        let begun = Instant::now();
        client.query("select 1").expect("it is answered");
        took.push((begun, begun.elapsed()));
        thread::sleep(Duration::from_millis(2));
    }
    took
}

fn percentile_99(took: &Took, (from, until): (Instant, Instant)) -> Duration {
    let mut within: Vec<Duration> =
        took.iter().filter(|(at, _)| (from..until).contains(at)).map(|(_, took)| *took).collect();
    within.sort_unstable();
    within[within.len() * 99 / 100]
}

fn connect(stage: &Stage) -> Client {
    Client::connect(stage.pooler.address()).expect("it listens")
}

fn log_in(clients: &mut [Client]) {
    let startup = frontend::startup(&[("user", "postgres"), ("database", "postgres")]);
    clients.iter_mut().for_each(|client| client.send(&startup).expect("it can be sent"));
    clients.iter_mut().for_each(|client| drop(client.answer().expect("it is let in")));
}

fn span<T>(does: impl FnOnce() -> T) -> (T, (Instant, Instant)) {
    let begun = Instant::now();
    (does(), (begun, Instant::now()))
}

/// Thousands connect and log in, leave, connect without a word, and then say all at once who they are.
#[test]
#[ignore = "test-full: measures the 99th percentile of queries beside storms of logins; that logins take turns is proven by the transcripts login/turns*"]
fn those_at_work_hardly_notice_a_storm_of_logins() {
    let stage = Stage::set(&Wishes { pool: 8, workers: 1, alone: true, ..Wishes::default() });
    let done = AtomicBool::new(false);
    let queued = || (0..STORM).map(|_| connect(&stage)).collect::<Vec<_>>();
    let (mut took, mut quiet, mut spans) =
        (Took::new(), None, [("coming", vec![]), ("leaving", vec![]), ("logging in", vec![])]);
    thread::scope(|scope| {
        let at_work: Vec<_> = (0..BUSY).map(|_| scope.spawn(|| busy(&stage, &done))).collect();
        thread::sleep(Duration::from_secs(1));
        quiet = Some(span(|| thread::sleep(Duration::from_secs(2))).1);
        for _ in 0..STORMS {
            let (mut clients, coming) = span(|| {
                let mut clients = queued();
                log_in(&mut clients);
                clients
            });
            // The last of them have gone when somebody who comes after them is served.
            let leave = |clients: Vec<Client>| {
                drop(clients);
                stage.client().query("select 1").expect("it is answered");
            };
            let ((), leaving) = span(|| leave(clients));
            clients = queued();
            let ((), saying) = span(|| log_in(&mut clients));
            leave(clients);
            spans.iter_mut().zip([coming, leaving, saying]).for_each(|((_, spans), span)| spans.push(span));
        }
        done.store(true, Ordering::Relaxed);
        at_work.into_iter().for_each(|worker| took.extend(worker.join().expect("it measures")));
    });
    let quiet = percentile_99(&took, quiet.expect("it was waited for"));
    println!("99 % of queries took at most {quiet:?}");
    for (what, spans) in spans {
        let mut stormy: Vec<Duration> = spans.iter().map(|span| percentile_99(&took, *span)).collect();
        println!("while thousands were {what}: {stormy:?}");
        stormy.sort_unstable();
        let middle = stormy[STORMS / 2];
        assert!(middle <= quiet.max(NOISE) * FACTOR, "{what}: {middle:?} beside {quiet:?}");
    }
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
