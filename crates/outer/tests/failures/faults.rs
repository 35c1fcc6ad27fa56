//! Servers and clients that die at the worst moment: the errors that are promised, and nobody else's business.
//!
//! Promised: a client with a request or transaction at a lost server gets 40001, 57P01, 57P02, 57P03, 08006 or 08007 once, and stays connected; all
//! others wait and are served. After 08007 the outcome of a change is unknown; every other answer is true.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use outer::{Client, Gone, Pgbench, Stage, Wishes, eventually, frontend};

/// What a client may be told when its server is lost under it.
const LOST: [&str; 6] = ["40001", "57P01", "57P02", "57P03", "08006", "08007"];

/// The SQLSTATE that ended a conversation, or was told in it.
fn told(outcome: &Result<outer::Answer, Gone>) -> String {
    match outcome {
        Ok(answer) => answer.errors.first().map(|error| error.sqlstate.clone()).unwrap_or_default(),
        Err(gone) => {
            gone.error.as_ref().map(|error| error.sqlstate.clone()).unwrap_or_else(|| format!("silence: {gone}"))
        }
    }
}

fn backend_pid(client: &mut Client) -> String {
    let answer = client.query("select pg_backend_pid()").expect("served");
    answer.value().expect("a pid").to_owned()
}

#[test]
fn a_terminated_backend_ends_one_transaction_only() {
    let mut stage = Stage::set(&Wishes { pool: 2, ..Wishes::default() });
    let mut bystander = stage.client();
    let mut victim = stage.client();
    victim.query("begin").expect("served");
    let pid = backend_pid(&mut victim);
    assert_eq!(stage.direct(&format!("select pg_terminate_backend({pid})")), "t");
    let outcome = victim.query("select 1");
    let code = told(&outcome);
    assert!(LOST.contains(&code.as_str()), "{code}");
    let begun = Instant::now();
    for number in 0..20 {
        let answer = bystander.query(&format!("select {number}")).expect("nobody else notices");
        assert_eq!(answer.value(), Some(number.to_string().as_str()));
    }
    println!("terminated in a transaction: {code}; the bystander's next 20 queries took {:?}", begun.elapsed());
    stage.assert_healthy();
}

#[test]
fn an_idle_backend_that_is_terminated_is_noticed_by_nobody() {
    let mut stage = Stage::set(&Wishes { pool: 1, ..Wishes::default() });
    let mut client = stage.client();
    for round in 0..20 {
        let pid = backend_pid(&mut client);
        assert_eq!(stage.direct(&format!("select pg_terminate_backend({pid}, 60000)")), "t");
        let answer = client.query("select 'served'").unwrap_or_else(|gone| panic!("round {round}: {gone}"));
        assert_eq!(answer.value(), Some("served"), "round {round}: {answer:?}");
    }
    println!("20 idle servers terminated under one client: no error");
    stage.assert_healthy();
}

#[test]
fn a_query_cut_short_by_termination_is_told_once() {
    let mut stage = Stage::set(&Wishes { pool: 1, ..Wishes::default() });
    let mut victim = stage.client();
    victim.send(&frontend::query("select pg_sleep(600)")).expect("connected");
    let sleeping = "select count(*) from pg_stat_activity where query = 'select pg_sleep(600)' and state = 'active'";
    eventually("the query runs", || stage.direct(sleeping) == "1");
    let kill = "select pg_terminate_backend(pid) from pg_stat_activity where query = 'select pg_sleep(600)'";
    assert_eq!(stage.direct(kill), "t");
    let begun = Instant::now();
    let code = told(&victim.answer());
    assert!(LOST.contains(&code.as_str()), "{code}");
    let mut next = stage.client();
    assert_eq!(next.query("select 'next'").expect("served").value(), Some("next"));
    println!("terminated in a query: {code}; the next client is served {:?} later", begun.elapsed());
    stage.assert_healthy();
}

/// Clients that increment counters of their own and know how often they were told that it worked.
struct Crowd {
    stop: AtomicBool,
    committed: AtomicU64,
    lost: AtomicU64,
    /// Those of them whose commit is unknown.
    unknown: AtomicU64,
    surprises: std::sync::Mutex<Vec<String>>,
    /// When the last commit was, in microseconds since `begun`; for measuring a blackout.
    last_commit_us: AtomicU64,
    longest_gap_us: AtomicU64,
    begun: Instant,
}

impl Crowd {
    fn new() -> Self {
        Self {
            stop: AtomicBool::new(false),
            committed: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            unknown: AtomicU64::new(0),
            surprises: std::sync::Mutex::default(),
            last_commit_us: AtomicU64::new(0),
            longest_gap_us: AtomicU64::new(0),
            begun: Instant::now(),
        }
    }

    fn noted(&self) {
        self.committed.fetch_add(1, Ordering::Relaxed);
        let now = u64::try_from(self.begun.elapsed().as_micros()).expect("a test is short");
        let before = self.last_commit_us.swap(now, Ordering::Relaxed);
        self.longest_gap_us.fetch_max(now.saturating_sub(before), Ordering::Relaxed);
    }
}

/// Increments this client's counter in a transaction of three statements; else the SQLSTATE, and whether the client is
/// still connected.
fn transaction(client: &mut Client, number: usize) -> Result<(), (String, bool)> {
    for sql in ["begin", &format!("update counters set n = n + 1 where id = {number} returning id"), "commit"] {
        let outcome = client.query(sql);
        let code = told(&outcome);
        if !code.is_empty() {
            let usable = outcome.is_ok_and(|answer| answer.status == b'I' || client.query("rollback").is_ok());
            return Err((code, usable));
        }
    }
    Ok(())
}

/// Runs 60 clients on 10 servers while `strike` does its worst three times, then compares what the clients were told with
/// what is in the table.
fn crowd_survives(name: &str, strike: impl Fn(&mut Stage)) {
    const CLIENTS: usize = 60;
    let mut stage = Stage::set(&Wishes { pool: 10, ..Wishes::default() });
    let _ = stage.direct(&format!("create table counters as select id, 0 as n from generate_series(0, {CLIENTS}) id"));
    let crowd = Crowd::new();
    // The clients look at the stage while the strike changes the cluster: they only need the pooler's address.
    let address = stage.pooler.address();
    let login = || Client::login(address, "postgres", "postgres");
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let crowd = &crowd;
            let login = &login;
            scope.spawn(move || live(crowd, login, number));
        }
        for _ in 0..3 {
            settle(&crowd);
            strike(&mut stage);
        }
        settle(&crowd);
        crowd.stop.store(true, Ordering::Relaxed);
    });
    let surprises = crowd.surprises.into_inner().expect("nobody panics holding it");
    let [committed, lost, unknown] =
        [&crowd.committed, &crowd.lost, &crowd.unknown].map(|count| count.load(Ordering::Relaxed));
    let stored: u64 = stage.direct("select sum(n) from counters").parse().expect("a sum");
    let gap = Duration::from_micros(crowd.longest_gap_us.load(Ordering::Relaxed));
    println!(
        "{name}, 3 times: {committed} commits told, {stored} stored, {lost} clients told of a loss, {unknown} of \
         them in a commit, longest gap {gap:?}"
    );
    assert!(surprises.is_empty(), "told what is not promised: {surprises:?}");
    // A commit whose answer was lost is stored but not told; nothing told may be missing.
    assert!(
        (committed..=committed + unknown).contains(&stored),
        "{committed} told, {unknown} unknown, but {stored} stored"
    );
    assert!(lost <= 3 * 2 * 10, "at most the transactions that were open are lost, not {lost}");
    stage.assert_healthy();
}

fn live(crowd: &Crowd, login: &impl Fn() -> Result<Client, Gone>, number: usize) {
    let fresh = || {
        login()
            .map_err(|gone| crowd.surprises.lock().expect("nobody panics holding it").push(format!("login: {gone}")))
            .ok()
    };
    let Some(mut client) = fresh() else { return };
    while !crowd.stop.load(Ordering::Relaxed) {
        let Err((code, usable)) = transaction(&mut client, number) else {
            crowd.noted();
            continue;
        };
        crowd.lost.fetch_add(1, Ordering::Relaxed);
        crowd.unknown.fetch_add(u64::from(code == "08007"), Ordering::Relaxed);
        if !LOST.contains(&code.as_str()) {
            crowd.surprises.lock().expect("nobody panics holding it").push(code.clone());
        }
        if !usable {
            crowd.surprises.lock().expect("nobody panics holding it").push(format!("{code}, and closed"));
            let Some(again) = fresh() else { return };
            client = again;
        }
    }
}

/// Waits until the crowd has committed 1,000 more transactions: it is in full swing (again).
fn settle(crowd: &Crowd) {
    let before = crowd.committed.load(Ordering::Relaxed);
    eventually("the crowd commits", || crowd.committed.load(Ordering::Relaxed) >= before + 1000);
}

#[test]
fn kill_9_of_a_backend_under_load() {
    crowd_survives("kill -9 of a backend", |stage| {
        let busy = "select pid from pg_stat_activity where state <> 'idle' and query like 'update%' limit 1";
        let mut pid = String::new();
        eventually("somebody is in a transaction", || {
            pid = stage.direct(busy);
            !pid.is_empty()
        });
        let victim = rustix::process::Pid::from_raw(pid.parse().expect("a pid")).expect("not zero");
        rustix::process::kill_process(victim, rustix::process::Signal::KILL)
            .expect("root may, and so may its own user");
        // A backend that is killed cannot take its entry away: it is gone when the postmaster has begun afresh.
        let entry = format!("select count(*) from pg_stat_activity where pid = {pid}");
        eventually("PostgreSQL has recovered", || {
            stage.cluster.psql("postgres", &entry).is_ok_and(|count| count == "0")
        });
    });
}

#[test]
fn fast_restart_of_postgresql_under_load() {
    crowd_survives("fast restart", |stage| stage.cluster.restart(demo::Shutdown::Fast).expect("it restarts"));
}

#[test]
fn immediate_restart_of_postgresql_under_load() {
    crowd_survives("immediate restart", |stage| stage.cluster.restart(demo::Shutdown::Immediate).expect("it restarts"));
}

#[test]
fn while_postgresql_is_down_clients_wait() {
    let mut stage = Stage::set(&Wishes::default());
    let mut client = stage.client();
    client.query("select 1").expect("served");
    // What the first statement of a pool may have left is asked for behind its answer; till then the server is its client's.
    let busy = "select count(*) from pg_stat_activity where state <> 'idle' and pid <> pg_backend_pid()";
    eventually("its server is its own no more", || {
        stage.cluster.psql("postgres", busy).is_ok_and(|count| count == "0")
    });
    stage.cluster.halt(demo::Shutdown::Fast).expect("it stops");
    client.send(&frontend::query("select 'patience'")).expect("connected");
    let tries = || stage.pooler.log().matches("connect failed").count();
    let before = tries();
    eventually("a server is looked for again and again", || tries() >= before + 2);
    client.set_patience(Duration::from_millis(1));
    assert!(client.receive().is_err(), "there is nobody to answer, and no reason to give up yet");
    client.set_patience(Duration::from_secs(60));
    let begun = Instant::now();
    stage.cluster.resume().expect("it starts");
    let up = begun.elapsed();
    assert_eq!(client.answer().expect("served").value(), Some("patience"));
    println!("answered {:?} after PostgreSQL was up (server_login_retry = 1)", begun.elapsed().saturating_sub(up));
    stage.assert_healthy();
}

#[test]
fn a_client_killed_in_a_transaction_leaves_nothing_of_it() {
    let mut stage = Stage::set(&Wishes { pool: 1, ..Wishes::default() });
    let _ = stage.direct("create table t (a int)");
    let begun = Instant::now();
    for round in 0..50 {
        let mut victim = stage.client();
        victim.query("begin; insert into t values (1); set local work_mem = '99MB'").expect("served");
        if round % 2 == 0 {
            victim.send(&frontend::query("insert into t select 2 from pg_sleep(0.01)")).expect("connected");
        }
        victim.vanish();
        let mut next = stage.client();
        let answer = next.query("select current_setting('work_mem'), count(*) from t").expect("served");
        assert_eq!(answer.rows, [[Some("4MB".to_owned()), Some("0".to_owned())]], "round {round}");
        assert_eq!(answer.status, b'I', "round {round}: the next client is outside of any transaction");
    }
    println!(
        "50 clients vanished in a transaction, the next one was served {:?} later on average",
        begun.elapsed() / 50
    );
    stage.assert_healthy();
}

#[test]
fn a_client_killed_in_copy_leaves_nothing_of_it() {
    let mut stage = Stage::set(&Wishes { pool: 1, ..Wishes::default() });
    let _ = stage
        .direct("create table t (a int); create table big as select repeat('x', 1000) from generate_series(1, 50000)");
    let row = frontend::frame(b'd', b"1\n2\n3\n");
    for round in 0..20 {
        let mut victim = stage.client();
        victim.query("copy t from stdin").expect("it says that data may come");
        victim.send(&row.repeat(100)).expect("connected");
        // Some go in the middle of a message, which PostgreSQL must never see completed by somebody else.
        victim.send(&row[..round % row.len()]).expect("connected");
        victim.vanish();
        let mut reader = stage.client();
        reader.send(&frontend::query("copy big to stdout")).expect("connected");
        reader.receive().expect("it begins");
        reader.vanish();
        let answer = stage.client().query("select count(*) from t").expect("served");
        assert_eq!(answer.value(), Some("0"), "round {round}: {answer:?}");
    }
    println!("20 clients vanished in COPY IN and 20 in COPY OUT: the table is empty, the next client is served");
    stage.assert_healthy();
}

#[test]
fn a_message_torn_after_copy_reaches_nobody() {
    let mut stage = Stage::set(&Wishes { pool: 1, ..Wishes::default() });
    let _ = stage.direct("create table t (a int)");
    let whole = frontend::query("select 'torn'");
    for cut in 1..whole.len() {
        let mut victim = stage.client();
        victim.query("copy t from stdin").expect("it says that data may come");
        let bytes = [&frontend::frame(b'd', b"7\n")[..], &frontend::frame(b'c', b""), &whole[..cut]].concat();
        victim.send(&bytes).expect("connected");
        let copied = victim.answer().expect("the copy itself is complete");
        assert_eq!(copied.tags, ["COPY 1"], "cut at {cut}");
        let mut next = stage.client();
        let answer = next.query("select 'mine'").unwrap_or_else(|gone| panic!("cut at {cut}: the next client: {gone}"));
        assert_eq!(answer.value(), Some("mine"), "cut at {cut}");
        victim.send(&whole[cut..]).expect("connected");
        assert_eq!(victim.answer().expect("served").value(), Some("torn"), "cut at {cut}");
    }
    println!("a query cut at each of {} places behind a COPY", whole.len() - 1);
    stage.assert_healthy();
}

#[test]
fn pgbench_goes_on_when_its_idle_servers_are_terminated() {
    let mut stage = Stage::set(&Wishes { pool: 4, ..Wishes::default() });
    Pgbench::prepare(&stage, 1);
    let stop = AtomicBool::new(false);
    let kill = "select count(pg_terminate_backend(pid)) from pg_stat_activity where backend_type = 'client backend' \
                and pid <> pg_backend_pid() and state = 'idle'";
    let mut killed = 0_u64;
    // A run takes 5 s at least, and there are as many as it takes: a minute of them, so that a failure beside them ends the test.
    let wrote = thread::scope(|scope| {
        let run = scope.spawn(|| {
            let mut wrote = String::new();
            for _ in 0..12 {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let run =
                    Pgbench::run(&stage, &["-S", "-M", "prepared", "-R", "200", "-c", "8", "-j", "2", "-t", "125"]);
                wrote += &run.map_or_else(|wrote| wrote, |run| run.complaints);
            }
            wrote
        });
        eventually("enough are terminated", || {
            killed += stage.direct(kill).parse::<u64>().expect("a count");
            thread::sleep(Duration::from_millis(250));
            killed > 20
        });
        stop.store(true, Ordering::Relaxed);
        run.join().expect("it does not panic")
    });
    // A statement may reach a server in the very moment it is terminated: then its client is told, and pgbench gives up on
    // that client. Whatever else pgbench says is a defect.
    let errors: Vec<&str> = wrote.lines().filter(|line| line.contains("FATAL") || line.contains("ERROR")).collect();
    println!("{killed} servers terminated under pgbench, {} clients told", errors.len());
    let promised = ["terminating connection due to administrator command", "server conn"];
    let is_promised = |line: &str| promised.iter().any(|words| line.contains(words));
    // pgbench goes on when its Parse has failed, and then there is no such statement. It names a client only for its other errors.
    let failed_parses = errors.iter().filter(|line| !line.contains("client ") && is_promised(line)).count();
    let (missing, others): (Vec<&str>, Vec<&str>) =
        errors.into_iter().partition(|line| line.contains("does not exist"));
    assert!(others.iter().all(|line| is_promised(line)), "{others:?}");
    assert!(missing.len() <= failed_parses, "{missing:?} beside {others:?}");
    stage.assert_healthy();
}
