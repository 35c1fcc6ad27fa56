//! A cancel reaches only the query it is meant for (I4): not the client that has the server next.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use outer::{Client, Stage, Wishes, eventually, frontend};

const SLEEP: &str = "select pg_sleep(600)";

fn sleepers(stage: &Stage) -> String {
    stage.direct("select count(*) from pg_stat_activity where state = 'active' and query = 'select pg_sleep(600)'")
}

#[test]
fn a_hundred_cancels_on_one_server_reach_only_their_queries() {
    let mut stage = Stage::set(&Wishes { pool: 1, ..Wishes::default() });
    let mut sleeper = stage.client();
    let mut bystander = stage.client();
    let mut longest = Duration::ZERO;
    for round in 0..100 {
        sleeper.send(&frontend::query(SLEEP)).expect("connected");
        eventually("the query runs", || sleepers(&stage) == "1");
        // The bystander waits for the only server all the while.
        let token = format!("token {round}");
        bystander.send(&frontend::query(&format!("select '{token}'"))).expect("connected");
        let begun = Instant::now();
        sleeper.cancel().expect("the pooler listens");
        let answer = sleeper.answer().expect("a cancelled query is no reason to be disconnected");
        longest = longest.max(begun.elapsed());
        assert_eq!(
            answer.errors.first().map(|error| error.sqlstate.as_str()),
            Some("57014"),
            "round {round}: {answer:?}"
        );
        let other = bystander.answer().expect("nobody else is disconnected");
        assert_eq!(other.value(), Some(token.as_str()), "round {round}: {other:?}");
    }
    println!("100 cancels on one server: each its own query, the slowest after {longest:?}");
    stage.assert_healthy();
}

#[test]
fn cancels_that_come_late_reach_nobody() {
    let mut stage = Stage::set(&Wishes { pool: 1, ..Wishes::default() });
    let stop = AtomicBool::new(false);
    let (sent, served) = (AtomicU64::new(0), AtomicU64::new(0));
    let mut hasty = stage.client();
    let address = stage.pooler.address();
    thread::scope(|scope| {
        for thread in 0..8 {
            let (stop, served) = (&stop, &served);
            scope.spawn(move || {
                let mut client = outer::Client::login(address, "postgres", "postgres").expect("let in");
                let mut number = 0_u64;
                while !stop.load(Ordering::Relaxed) {
                    let token = format!("{thread}-{number}");
                    let answer = client.query(&format!("select '{token}' from pg_sleep(0.0005)")).expect("connected");
                    assert_eq!(answer.value(), Some(token.as_str()), "{answer:?}");
                    number += 1;
                }
                served.fetch_add(number, Ordering::Relaxed);
            });
        }
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for round in 0..300_u32 {
                // By now the query is often over, and the server somebody else's.
                hasty.send(&frontend::query("select 'hasty'")).expect("connected");
                let early = round % 3 == 0;
                let answer = if early { None } else { Some(hasty.answer().expect("connected")) };
                hasty.cancel().expect("the pooler listens");
                sent.fetch_add(1, Ordering::Relaxed);
                let answer = answer.unwrap_or_else(|| hasty.answer().expect("connected"));
                let cancelled = answer.errors.first().is_some_and(|error| error.sqlstate == "57014");
                assert!(answer.value() == Some("hasty") || (early && cancelled), "round {round}: {answer:?}");
            }
        }));
        stop.store(true, Ordering::Relaxed);
        outcome.expect("what the hasty client saw");
    });
    println!("{sent:?} cancels, mostly late: {served:?} queries of 8 others untouched");
    stage.assert_healthy();
}

#[test]
fn a_waiting_query_can_be_cancelled() {
    let mut stage = Stage::set(&Wishes { pool: 1, ..Wishes::default() });
    let mut holder = stage.client();
    holder.query("begin").expect("served");
    let mut waiter = stage.client();
    waiter.send(&frontend::query("select 'never'")).expect("connected");
    let mut console = Client::login(stage.pooler.address(), "postgres", "pgbouncer").expect("an administrator");
    eventually("it waits for the only server", || {
        console.query("show clients").expect("the console answers").lines().iter().any(|row| row.contains("|waiting|"))
    });
    waiter.cancel().expect("the pooler listens");
    // The query never ran. PostgreSQL would answer 57014; PgBouncer closes a client that has waited.
    let outcome = waiter.answer();
    let code = match &outcome {
        Ok(answer) => answer.errors.first().map(|error| error.sqlstate.clone()),
        Err(gone) => gone.error.as_ref().map(|error| error.sqlstate.clone()),
    };
    println!("a waiter that cancels is told {code:?}, and is then connected: {}", outcome.is_ok());
    assert_eq!(code.as_deref(), Some("57014"));
    let answer = holder.query("select 'mine'").expect("the holder is not touched");
    assert_eq!((answer.value(), answer.status), (Some("mine"), b'T'));
    holder.query("commit").expect("served");
    stage.assert_healthy();
}

#[test]
fn a_flood_of_cancels_with_invented_keys_harms_nobody() {
    let mut stage = Stage::set(&Wishes { pool: 1, ..Wishes::default() });
    let mut sleeper = stage.client();
    sleeper.send(&frontend::query(SLEEP)).expect("connected");
    eventually("the query runs", || sleepers(&stage) == "1");
    let (address, (pid, key)) = (stage.pooler.address(), sleeper.cancel_key());
    let before = stage.pooler.cpu();
    let begun = Instant::now();
    for number in 1..=2000_u32 {
        let mut liar = outer::Client::connect(address).expect("the pooler listens");
        liar.send(&frontend::cancel(pid, key.wrapping_add(number))).expect("connected");
        assert_eq!(liar.last_words(), None, "a cancel is never answered");
    }
    let cpu = stage.pooler.cpu().saturating_sub(before);
    println!("2,000 invented cancels in {:?}, {cpu:?} of processor time", begun.elapsed());
    assert!(stage.backends() <= 1, "an invented key opens no connection to PostgreSQL");
    // All the while there was a query to be cancelled, and its own key does it.
    assert_eq!(sleepers(&stage), "1");
    sleeper.cancel().expect("the pooler listens");
    let answer = sleeper.answer().expect("connected");
    assert_eq!(answer.errors.first().map(|error| error.sqlstate.as_str()), Some("57014"), "{answer:?}");
    stage.assert_healthy();
}

/// Statements of a millisecond that are cancelled when they are nearly or just over, each followed by one that is not cancelled: as a driver
/// does with a time-out. The end of a cancel's connection is to the driver the end of the cancel.
fn the_next_statement_is_spared(client: &mut Client, kind: &str) {
    let mut struck = 0;
    for round in 0..60_u64 {
        client.send(&frontend::query("select pg_sleep(0.001)")).expect("connected");
        thread::sleep(Duration::from_micros(round * 50));
        client.cancel().expect("the pooler listens");
        let first = client.answer().expect("connected");
        struck += u32::from(!first.errors.is_empty());
        let next = client.query("select pg_sleep(0.01)").expect("connected");
        assert!(next.errors.is_empty(), "{kind}, round {round}: {next:?}");
    }
    println!("{kind}: {struck} of 60 cancels came in time, none too late");
}

#[test]
fn a_cancel_that_is_over_spares_the_next_statement() {
    for (mode, fidelity) in [("transaction", "transparent"), ("transaction", "classic"), ("session", "classic")] {
        let settings = vec![("pool_mode", mode.to_owned()), ("pool_fidelity", fidelity.to_owned())];
        let mut stage = Stage::set(&Wishes { pool: 2, settings, ..Wishes::default() });
        let kind = |what: &str| format!("{mode} mode, {fidelity}, {what}");
        the_next_statement_is_spared(&mut stage.client(), &kind("ordinary"));
        let mut client = stage.client();
        client.query("create temporary table kept (id int)").expect("connected");
        the_next_statement_is_spared(&mut client, &kind("with a temporary table"));
        stage.assert_healthy();
    }
}

#[test]
fn a_cancel_that_is_over_spares_the_next_statement_of_a_block() {
    let stage = Stage::set(&Wishes { pool: 1, ..Wishes::default() });
    let mut client = stage.client();
    for round in 0..60_u64 {
        client.query("begin; savepoint here").expect("connected");
        client.send(&frontend::query("select pg_sleep(0.001)")).expect("connected");
        thread::sleep(Duration::from_micros(round * 50));
        client.cancel().expect("the pooler listens");
        let first = client.answer().expect("connected");
        let back = if first.errors.is_empty() { "select 1" } else { "rollback to here" };
        client.query(back).expect("connected");
        let next = client.query("select pg_sleep(0.01)").expect("connected");
        assert!(next.errors.is_empty(), "round {round}: {next:?}");
        client.query("commit").expect("connected");
    }
}
